"""Paths from the command line to the files to lint, in one order that never changes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.paths import DOCUMENTS, NOTEBOOK, absolute, parents, shown
from amplint.config.defaults import ENVIRONMENT
from amplint.config.settings import Resolver

if TYPE_CHECKING:
    from amplint.files.gitignore import Layers
    from amplint.files.tracked import Tracked

SUFFIXES = (".py", ".pyi", NOTEBOOK)


class Found(NamedTuple):
    """The files to lint, sorted, as paths to show; what could not be read; directories that hold no Python.

    `outside` are those of the files that a link in a directory leads to, away from all that the user named; `refused`
    are the paths that the user named and `force-exclude` leaves out.
    """

    files: list[str]
    errors: list[str]
    empty: list[str]
    outside: frozenset[str] = frozenset()
    refused: tuple[str, ...] = ()


def discover(paths: Iterable[str], resolver: Resolver) -> Found:
    """The Python files at and below `paths`.

    A file that is named is taken as it is, unless `force-exclude` holds for it; a directory is walked without what git
    or the settings leave out, and without virtual environments. Git leaves out what a .gitignore matches and the
    repository doesn't track. A file that several paths lead to comes once.
    """
    walk = _Walk(resolver)
    empty = []
    refused = []
    for path in paths:
        if path and os.path.exists(path) and resolver.refuses(absolute(path)):
            refused.append(path)
        elif os.path.isdir(path):
            before = walk.seen
            walk.directory(absolute(path))
            if walk.seen == before:
                empty.append(path)
        elif os.path.exists(path):
            walk.named.append(os.path.realpath(path))
            walk.take(walk.named[-1], absolute(path), os.path.islink(path))
        else:
            walk.errors.append(f"{path}: no such file or directory" if path else "an empty path")
    return Found(sorted(map(shown, walk.files.values())), walk.errors, empty, walk.outside(), tuple(refused))


class _Walk:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.files: dict[str, str] = {}  # where the file really is -> the path to report
        self.named: list[str] = []  # where the paths that the user gave really are
        self.errors: list[str] = []
        self.seen = 0
        self._tracked: dict[str, Tracked | None] = {}  # by folder, what the repository around it tracks

    def take(self, place: str, path: str, is_link: bool) -> None:
        """Have a file that is really at `place` linted, under the path that isn't a link's if there is one."""
        known = self.files.setdefault(place, path)
        if not is_link and known != path and os.path.islink(known):
            self.files[place] = path

    def outside(self) -> frozenset[str]:
        """The files that are none of, and below none of, the paths that the user named: links led to them."""
        given = set(self.named)
        below = tuple(path.rstrip(os.sep) + os.sep for path in given)
        return frozenset(
            shown(path) for place, path in self.files.items() if not place.startswith(below) and place not in given
        )

    def _tracks(self, path: str, is_directory: bool) -> bool:
        """Whether the repository around an ignored path tracks it."""
        around = self._tracked_around(os.path.dirname(path))
        return around is not None and around.has(path, is_directory)

    def _tracked_around(self, folder: str) -> Tracked | None:
        if folder not in self._tracked:
            above = os.path.dirname(folder)
            if os.path.exists(f"{folder}/.git"):
                from amplint.files.tracked import tracked  # noqa: PLC0415 - only where git ignores something

                self._tracked[folder] = tracked(folder)
            else:
                self._tracked[folder] = self._tracked_around(above) if above != folder else None
        return self._tracked[folder]

    def directory(self, root: str) -> None:
        """Collect what is below `root`."""
        # A plain file below is found at its real place by the root's, without a look at each parent.
        real = os.path.realpath(root)
        self.named.append(real)
        # (a directory, what git ignores there, whether it is ignored itself but for what git tracks)
        stack: list[tuple[str, Layers | None, bool]] = [(root, None, False)]
        while stack:
            path, layers, left_out = stack.pop()
            try:
                with os.scandir(path) as scan:
                    entries = sorted(scan, key=lambda entry: entry.name)
            except OSError as error:
                self.errors.append(f"{shown(path)}: {error.strerror or error}")
                continue
            names = {entry.name for entry in entries}
            if ENVIRONMENT in names and path != root:
                continue
            layers = _layers(path, layers, names)
            settings = self.resolver.walking(path)
            suffixes = (*SUFFIXES, *DOCUMENTS) if settings.docs else SUFFIXES
            for entry in entries:
                # Links to directories aren't followed: they may lead back, or to what is walked anyway.
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory and not (entry.name.endswith(suffixes) and os.path.isfile(entry.path)):
                    continue
                if settings.excludes(entry.path, entry.name):
                    continue
                ignored = left_out or bool(layers and _ignored(entry, is_directory, layers))
                if ignored and not self._tracks(entry.path, is_directory):
                    continue
                if is_directory:
                    stack.append((entry.path, layers, ignored))
                else:
                    self.seen += 1
                    is_link = entry.is_symlink()
                    place = os.path.realpath(entry.path) if is_link else real + entry.path[len(root) :]
                    self.take(place, entry.path, is_link)


def _layers(path: str, layers: Layers | None, names: set[str]) -> Layers:
    """What git ignores in `path`: known for its parent, or looked for from the start (None)."""
    if layers is None and not any(map(_may_ignore, (path, *parents(path)))):
        return ()
    if layers is None or ".gitignore" in names or ".git" in names:
        from pathlib import Path  # noqa: PLC0415

        from amplint.files.gitignore import above, inside  # noqa: PLC0415 - pathspec, only where git ignores something

        directory = Path(path)
        return inside(directory, above(directory) if layers is None else layers)
    return layers


def _may_ignore(directory: str) -> bool:
    return os.path.exists(f"{directory}/.gitignore") or os.path.exists(f"{directory}/.git/info/exclude")


def _ignored(entry: os.DirEntry[str], is_directory: bool, layers: Layers) -> bool:
    from amplint.files.gitignore import ignored  # noqa: PLC0415 - see above

    return ignored(entry.path + os.sep if is_directory else entry.path, layers)
