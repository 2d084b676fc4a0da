"""What holds for a file: rules, excludes and target, from flags and from the nearest configuration file."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from amplint.paths import LARGEST_CONFIG, absolute, contents, shown
from amplint.rules import all_rules
from amplint.selection import Selection, SettingsError, enabled_codes

if TYPE_CHECKING:
    from amplint.config import Config
    from amplint.target import Target

# What no project writes itself: version control, environments, caches, build products.
DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pypackages__",
    "_build",
    "buck-out",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


class Settings(NamedTuple):
    """Everything that decides what is found in a file, apart from its text."""

    codes: frozenset[str]
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    target_torch: str | None = None
    target_origin: str = "--target-torch"
    isolated: bool = False
    targets: tuple[tuple[str, str], ...] = ()  # of frameworks
    unsafe_fixes: bool = False

    def target(self, filename: str, package: str = "torch") -> Target:
        """The releases of torch, or of a framework, that the project of `filename` admits."""
        from pathlib import Path  # noqa: PLC0415 - only a file that is parsed has a target

        from amplint.target import declared, from_option, nothing_declared  # noqa: PLC0415

        stated = self.target_torch if package == "torch" else dict(self.targets).get(package)
        if stated is not None:
            origin = self.target_origin if package == "torch" else f"targets.{package}"
            return from_option(stated, origin, package)
        if self.isolated:
            return nothing_declared(package)
        return declared(Path(absolute(filename)).parent, package)

    def excludes(self, path: str, name: str) -> bool:
        """Whether the walk of a directory leaves out the file or directory `name` at `path` (absolute)."""
        names, paths = _patterns(self.exclude)
        return bool(names.match(name) or paths.match(path.replace(os.sep, "/")))


@lru_cache(maxsize=256)
def _patterns(exclude: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One expression for the patterns that name a file or directory anywhere, one for those that give a path."""
    # `a/**/b` means `a/b` too.
    paths = [form for each in exclude if "/" in each for form in (each, each.replace("/**/", "/"))]
    names = [each for each in exclude if "/" not in each]
    return _any_of(names), _any_of(paths)


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    import fnmatch  # noqa: PLC0415 - only walks of directories exclude

    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")


class Overrides(NamedTuple):
    """What the command line says."""

    selection: Selection = Selection()
    target_torch: str | None = None
    isolated: bool = False
    unsafe_fixes: bool | None = None


class Resolver:
    """The settings of directories, each from the nearest configuration file at or above it, and from flags."""

    def __init__(self, overrides: Overrides) -> None:
        self.overrides = overrides
        self._known: dict[str, Settings | SettingsError] = {}
        self._bare = self._combine(None)

    def for_file(self, filename: str) -> Settings:
        """The settings for one file, which need not exist.

        Raises:
            SettingsError: the configuration file that holds for it is broken.
        """
        return self.settings(os.path.dirname(absolute(filename)))

    def settings(self, directory: str) -> Settings:
        """The settings for files in `directory` (absolute).

        Raises:
            SettingsError: the configuration file that holds for it is broken.
        """
        found = self._known.get(directory)
        if found is None:
            try:
                found = self._resolve(directory)
            except SettingsError as error:
                found = error
            self._known[directory] = found
        if isinstance(found, SettingsError):
            raise found
        return found

    def _resolve(self, directory: str) -> Settings:
        if self.overrides.isolated:
            return self._bare
        for name in ("amplint.toml", "pyproject.toml"):
            if config := _read(directory, name):
                return self._combine(config)
        parent = os.path.dirname(directory)
        return self._bare if parent == directory else self.settings(parent)

    def _combine(self, config: Config | None) -> Settings:
        flags = self.overrides
        layers = [config.selection, flags.selection] if config else [flags.selection]
        target, origin = flags.target_torch, "--target-torch"
        if config and target is None:
            target, origin = config.target_torch, "target-torch"
        targets = config.targets if config else ()
        unsafe = bool(flags.unsafe_fixes)
        return Settings(enabled_codes(layers), _excludes(config), target, origin, flags.isolated, targets, unsafe)


def everything() -> Selection:
    """A selection of all rules, for a host that filters by itself."""
    return Selection(select=tuple(all_rules()))


def _excludes(config: Config | None) -> tuple[str, ...]:
    if config is None:
        return DEFAULT_EXCLUDE
    import glob  # noqa: PLC0415 - only a configuration file needs it

    written = config.exclude if config.exclude is not None else DEFAULT_EXCLUDE
    base = glob.escape(config.directory.replace(os.sep, "/")).rstrip("/")
    return tuple(_absolute(base, pattern.rstrip("/")) for pattern in (*written, *config.extend_exclude))


def _absolute(base: str, pattern: str) -> str:
    """A pattern with a slash is a path below the file that holds it; one without is a name anywhere."""
    return f"{base}/{pattern.removeprefix('./')}" if "/" in pattern.lstrip("/") else pattern


def _read(directory: str, name: str) -> Config | None:
    path = os.path.join(directory, name)
    try:
        data = contents(path, LARGEST_CONFIG)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{shown(path)}: {error.strerror or error}") from None
    # Most pyproject.toml files say nothing about amplint: those aren't parsed.
    if b"amplint" not in data and name == "pyproject.toml":
        return None
    from amplint.config import parse  # noqa: PLC0415 - the TOML parser costs more than the rest of a run

    return parse(path, data)
