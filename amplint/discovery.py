"""Paths from the command line to the files to lint, in one order that never changes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amplint.paths import absolute, shown
from amplint.selection import SettingsError
from amplint.settings import Resolver, Settings

if TYPE_CHECKING:
    from amplint.gitignore import Layers

SUFFIXES = (".py", ".pyi")


class Found(NamedTuple):
    """The files to lint, sorted, as paths to show; what could not be read; directories that hold no Python."""

    files: list[str]
    errors: list[str]
    empty: list[str]


def discover(paths: Iterable[str], resolver: Resolver) -> Found:
    """The Python files at and below `paths`.

    A file that is named is taken as it is; a directory is walked without what git or the settings leave out.
    A file that several paths lead to comes once.
    """
    walk = _Walk(resolver)
    empty = []
    for path in paths:
        given = Path(path)
        if not path:
            walk.errors.append("an empty path")  # which pathlib takes for the current directory
        elif given.is_dir():
            before = walk.seen
            walk.directory(absolute(path))
            if walk.seen == before:
                empty.append(path)
        elif given.exists():
            walk.files.setdefault(str(given.resolve()), str(absolute(path)))
        else:
            walk.errors.append(f"{path}: no such file or directory")
    return Found(sorted(map(shown, walk.files.values())), walk.errors, empty)


class _Walk:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.files: dict[str, str] = {}  # where the file really is -> the path to report
        self.errors: list[str] = []
        self.seen = 0

    def directory(self, root: Path) -> None:
        """Collect what is below `root`."""
        # A plain file below is found at its real place by the root's, without a look at each parent.
        real = os.fspath(root.resolve())
        stack: list[tuple[Path, Layers | None]] = [(root, None)]
        while stack:
            path, layers = stack.pop()
            try:
                with os.scandir(path) as scan:
                    entries = sorted(scan, key=lambda entry: entry.name)
            except OSError as error:
                self.errors.append(f"{shown(str(path))}: {error.strerror or error}")
                continue
            layers = _layers(path, layers, {entry.name for entry in entries})
            settings = self._settings(path)
            for entry in entries:
                # Links to directories aren't followed: they may lead back, or to what is walked anyway.
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory and not (entry.name.endswith(SUFFIXES) and Path(entry.path).is_file()):
                    continue
                if settings.excludes(entry.path, entry.name) or (layers and _ignored(entry, is_directory, layers)):
                    continue
                if is_directory:
                    stack.append((path / entry.name, layers))
                else:
                    self.seen += 1
                    link = entry.is_symlink()
                    place = str(Path(entry.path).resolve()) if link else real + entry.path[len(str(root)) :]
                    self.files.setdefault(place, entry.path)

    def _settings(self, path: Path) -> Settings:
        try:
            return self.resolver.settings(path)
        except SettingsError:
            # The error is told once, where the files are linted; the walk needs no more than the usual excludes.
            return Settings(frozenset())


def _layers(path: Path, layers: Layers | None, names: set[str]) -> Layers:
    """What git ignores in `path`: known for its parent, or looked for from the start (None)."""
    if layers is None and not any(map(_may_ignore, (path, *path.parents))):
        return ()
    if layers is None or ".gitignore" in names or ".git" in names:
        from amplint.gitignore import above, inside  # noqa: PLC0415 - pathspec, only where git ignores something

        return inside(path, above(path) if layers is None else layers)
    return layers


def _may_ignore(directory: Path) -> bool:
    return (directory / ".gitignore").exists() or (directory / ".git" / "info" / "exclude").exists()


def _ignored(entry: os.DirEntry[str], is_directory: bool, layers: Layers) -> bool:
    from amplint.gitignore import ignored  # noqa: PLC0415 - see above

    return ignored(entry.path + os.sep if is_directory else entry.path, layers)
