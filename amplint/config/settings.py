"""What holds for a file: rules, excludes, fixes, target, from flags and from the nearest configuration file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint.base.paths import LARGEST_CONFIG, absolute, contents, parents, shown
from amplint.base.project_root import Project, Start, project_of, top_of
from amplint.config.defaults import DEFAULT_EXCLUDE, DEFAULT_SRC, ENVIRONMENT
from amplint.config.formats import SEVERITIES
from amplint.config.selection import Selection, SettingsError, codes_of, enabled_codes, fixable_codes, notices
from amplint.registry import all_rules

if TYPE_CHECKING:
    from amplint.base.target import Target
    from amplint.config.file import Config

# The lists of rules.
_RULES = ("select", "extend-select", "ignore", "fixable", "unfixable")
# Of two in one folder the first holds.
_FILES = ("amplint.toml", "pyproject.toml")


class Settings(NamedTuple):
    """Everything that decides what is found in a file, apart from its text."""

    codes: frozenset[str]
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    force_exclude: bool = False
    target_torch: str | None = None
    target_origin: str = "--target-torch"
    isolated: bool = False
    targets: tuple[tuple[str, str], ...] = ()  # of frameworks
    unsafe_fixes: bool = False
    unfixable: frozenset[str] = frozenset()  # codes
    device: str | None = None
    src: tuple[str, ...] | None = None  # absolute; None: the default, in the file's project
    output_format: str = "full"
    fix: bool = False
    show_fixes: bool = False
    exit_on: str = SEVERITIES[-1]
    docs: bool = False
    suspicions: bool = False
    start: Start = Start()
    cache_dir: str | None = None  # absolute; None: in the project's folder
    baseline: str | None = None  # absolute

    def project(self, filename: str) -> Project:
        """The project of a file, which need not exist."""
        return project_of(os.path.dirname(absolute(filename)), self.start)

    def target(self, filename: str, package: str = "torch") -> Target:
        """The releases of torch, or of a framework, that the project of `filename` admits."""
        from pathlib import Path  # noqa: PLC0415 - only a file that is parsed has a target

        from amplint.base.target import nothing_declared  # noqa: PLC0415
        from amplint.config.declared_target import declared, from_option  # noqa: PLC0415

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
    """What the command line says: by key, as a file would, and which files are read.

    `inline` is what `--config KEY=VALUE` says, which other flags prevail over. `base` is the selection that all change.
    `directory` is what paths and patterns are relative to; None: the current one. `folders` are those that are linted
    (see `amplint.base.project_root`).
    """

    said: Mapping[str, Any] = MappingProxyType({})
    isolated: bool = False
    config: str | None = None
    inline: Mapping[str, Any] = MappingProxyType({})
    base: Selection = Selection()
    directory: str | None = None
    folders: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The absolute path of `directory`."""
        return absolute(self.directory or os.curdir)

    @property
    def start(self) -> Start:
        """What the project can be where nothing marks one."""
        return Start(tuple(absolute(os.path.join(self.place, each)) for each in self.folders), self.place)


class Layer(NamedTuple):
    """What one place says, by key, and what its patterns are relative to: a file, `--config KEY=VALUE`, or flags."""

    said: Mapping[str, Any]
    directory: str
    config: Config | None = None
    is_inline: bool = False

    def origin(self, key: str, *below: str | int) -> str:
        """Where a key, or something below it, is said: `pyproject.toml:3`, `--select`."""
        if self.config is not None:
            return self.config.place(key, *below)
        return "--config" if self.is_inline else f"--{'no-' * (self.said[key] is False)}{key}"


class Ignores(NamedTuple):
    """Codes that are ignored in the files that a pattern names; in all others, where a `!` stands in front of it."""

    written: str
    pattern: str  # a path from the root, or a name
    directory: str
    codes: frozenset[str]

    def apply(self, path: str) -> bool:
        """Whether a file (absolute) is one of them, by its name or by a folder's that it is in."""
        names, paths = _patterns((self.pattern,))
        path = path.replace(os.sep, "/")
        above = self.directory if path.startswith(self.directory) else path[: path.rfind("/") + 1]
        parts = path.removeprefix(above).split("/")
        found = any(
            names.match(part) or paths.match(above + "/".join(parts[: at + 1])) for at, part in enumerate(parts)
        )
        return found != self.written.startswith("!")


class _Known(NamedTuple):
    """What holds in a directory."""

    settings: Settings
    ignores: tuple[Ignores, ...]


class Resolver:
    """The settings of files, each from the nearest configuration file at or above it, and from flags.

    Raises:
        SettingsError: the configuration file that is named, or a flag, is broken.
    """

    def __init__(self, overrides: Overrides) -> None:
        self.overrides = overrides
        self._configs: dict[str, Config | SettingsError | None] = {}
        self._known: dict[Config | None, _Known] = {}
        # What users should know of what they have said, each once, with its place.
        self.notices: dict[str, str] = {}
        self.named: set[str] = set()  # configuration files that a flag or another one names (absolute)
        named = overrides.config
        self._named = (
            _read(absolute(os.path.join(overrides.place, named)), self.named, is_named=True)
            if named is not None
            else None
        )
        self._combined(self._named)

    def for_file(self, filename: str) -> Settings:
        """The settings for one file, which need not exist.

        Raises:
            SettingsError: the configuration file that holds for it is broken.
        """
        path = absolute(filename)
        settings, ignores = self._combined(self.config(os.path.dirname(path)))
        off = [each.codes for each in ignores if each.apply(path)]
        return settings._replace(codes=settings.codes.difference(*off)) if off else settings

    def settings(self, directory: str) -> Settings:
        """The settings for files in `directory` (absolute) that have no `per-file-ignores`.

        Raises:
            SettingsError: the configuration file that holds for it is broken.
        """
        return self._combined(self.config(directory)).settings

    def leaves_out(self, path: str, root: str) -> bool:
        """Whether a walk of the directory `root` leaves out a file or directory, or one that it is in (absolute)."""
        above = root.rstrip(os.sep) + os.sep
        walked = [each for each in (path, *parents(path)) if each.startswith(above) and each != above]
        return any(
            self.walking(os.path.dirname(each)).excludes(each, os.path.basename(each))
            or os.path.isfile(os.path.join(each, ENVIRONMENT))
            for each in walked
        )

    def refuses(self, path: str) -> bool:
        """Whether a file or directory (absolute) is left out though it is named: `force-exclude` says so.

        As a walk of the repository, or the project, from its top would leave it out.
        """
        directory = os.path.dirname(path)
        if not self.walking(directory).force_exclude:
            return False
        tops = [top_of(directory, self.overrides.start)]
        with suppress(SettingsError):
            if (config := self.config(directory)) is not None and path.startswith(config.directory + os.sep):
                tops.append(config.directory)
        return self.leaves_out(path, min(tops, key=len))

    def walking(self, directory: str) -> Settings:
        """The settings for a walk through `directory` (absolute)."""
        try:
            return self.settings(directory)
        except SettingsError:
            # The error is told once, where the files are linted; the walk needs no more than the usual excludes.
            return Settings(frozenset())

    def config(self, directory: str) -> Config | None:
        """The configuration file that holds in `directory` (absolute), if there is one.

        Raises:
            SettingsError: it is broken.
        """
        if self._named is not None or self.overrides.isolated:
            return self._named
        if directory not in self._configs:
            self._look(directory)
        found = self._configs[directory]
        if isinstance(found, SettingsError):
            raise found
        return found

    def _look(self, directory: str) -> None:
        """Find the nearest configuration file for a directory, and so for those above it on the way."""
        found: Config | SettingsError | None = None
        passed = []
        for each in (directory, *parents(directory)):
            if each in self._configs:
                found = self._configs[each]
                break
            passed.append(each)
            found = _in(each, self.named)
            if found is not None:
                break
        self._configs.update(dict.fromkeys(passed, found))

    def _combined(self, config: Config | None) -> _Known:
        if config not in self._known:
            self._known[config] = self._combine(config)
        return self._known[config]

    def layers(self, config: Config | None) -> list[Layer]:
        """All that is said where a configuration file holds; what comes later prevails."""
        files = [Layer(each.said, each.directory, each) for each in config.chain] if config else []
        given, place = self.overrides, self.overrides.place
        return [*reversed(files), Layer(given.inline, place, is_inline=True), Layer(given.said, place)]

    def _combine(self, config: Config | None) -> _Known:
        layers = self.layers(config)
        said = {key: (value, layer.directory) for layer in layers for key, value in layer.said.items()}

        def value(key: str) -> Any:
            return said.get(key, (None,))[0]

        src, folder = said.get("src", (None, ""))
        preview = bool(value("preview"))
        selections = [_selection(each.said, "select", "ignore") for each in layers]

        def path(key: str) -> str | None:
            name, above = said.get(key, (None, ""))
            return None if name is None else absolute(os.path.join(above, name))

        settings = Settings(
            codes=enabled_codes([self.overrides.base, *selections], preview=preview),
            exclude=_excludes(layers),
            force_exclude=bool(value("force-exclude")),
            target_torch=value("target-torch"),
            target_origin="--target-torch" if "target-torch" in self.overrides.said else "target-torch",
            isolated=self.overrides.isolated,
            targets=tuple((value("targets") or {}).items()),
            unsafe_fixes=bool(value("unsafe-fixes")),
            unfixable=_unfixable([_selection(each.said, "fixable", "unfixable") for each in layers]),
            device=value("device"),
            # Written out, the default is still that: the project's folders.
            src=None if src in (None, [*DEFAULT_SRC]) else tuple(absolute(os.path.join(folder, each)) for each in src),
            output_format=value("output-format") or "full",
            fix=bool(value("fix")),
            show_fixes=bool(value("show-fixes")),
            exit_on=value("exit-on") or SEVERITIES[-1],
            docs=bool(value("docs")),
            suspicions=bool(value("suspicions")),
            start=self.overrides.start,
            cache_dir=path("cache-dir"),
            baseline=path("baseline"),
        )
        self._note(layers, preview)
        return _Known(settings, tuple(ignores_of(layers)))

    def _note(self, layers: Iterable[Layer], preview: bool) -> None:
        """Keep what users should know of the rules that layers name."""
        for layer in layers:
            for key in _RULES:
                for at, selector in enumerate(layer.said.get(key, ())):
                    for text in notices(key, selector, preview=preview):
                        self.notices.setdefault(text, layer.origin(key, at))
            for pattern, rules in layer.said.get("per-file-ignores", {}).items():
                for at, selector in enumerate(rules):
                    for text in notices("per-file-ignores", selector, preview=preview):
                        self.notices.setdefault(text, layer.origin("per-file-ignores", pattern, at))


def ignores_of(layers: Iterable[Layer]) -> Iterator[Ignores]:
    """What `per-file-ignores` says, in the last of the layers that has it."""
    key = "per-file-ignores"
    for layer in [each for each in layers if key in each.said][-1:]:
        for written, rules in layer.said[key].items():
            codes = frozenset(code for each in rules for code in codes_of(each)) - {"AMP000"}
            pattern = _absolute(layer.directory, written.removeprefix("!"))
            yield Ignores(written, pattern, layer.directory.replace(os.sep, "/").rstrip("/") + "/", codes)


def _selection(said: Mapping[str, Any], select: str, ignore: str) -> Selection:
    wanted = said.get(select)
    extended = tuple(said.get(f"extend-{select}", ()))
    return Selection(None if wanted is None else tuple(wanted), extended, tuple(said.get(ignore, ())))


def _unfixable(layers: list[Selection]) -> frozenset[str]:
    return frozenset(all_rules()) - fixable_codes(layers) if any(map(any, layers)) else frozenset()


def _excludes(layers: list[Layer]) -> tuple[str, ...]:
    keys = ("exclude", "extend-exclude")
    if not any(key in layer.said for layer in layers for key in keys):
        return DEFAULT_EXCLUDE
    exclude, extended = list(DEFAULT_EXCLUDE), []
    for layer in layers:
        said, more = ([_absolute(layer.directory, each) for each in layer.said.get(key, ())] for key in keys)
        exclude = said if "exclude" in layer.said else exclude
        extended += more
    return (*exclude, *extended)


def _absolute(directory: str, pattern: str) -> str:
    """A pattern with a slash, at the front too, is a path below the place that has it, unless it is one from the root
    that lies there; one without is a name anywhere.
    """
    import glob  # noqa: PLC0415 - only a pattern needs it
    import posixpath  # noqa: PLC0415 - see above

    pattern = pattern.rstrip("/")
    if "/" not in pattern:
        return pattern
    directory = directory.replace(os.sep, "/").rstrip("/")
    if f"{pattern}/".startswith(f"{directory}/"):
        pattern = pattern.removeprefix(directory)
    return posixpath.normpath(f"{glob.escape(directory)}/{pattern.lstrip('/')}")


def _in(directory: str, seen: set[str]) -> Config | SettingsError | None:
    """The configuration in a folder, or what is wrong with it."""
    try:
        return next(filter(None, (_read(os.path.join(directory, name), seen) for name in _FILES)), None)
    except SettingsError as error:
        return error


def _read(
    path: str, seen: set[str], *, is_named: bool = False, said_by: str = "", chain: tuple[str, ...] = ()
) -> Config | None:
    """The configuration in a file; None where there is none, unless the user has named it.

    That is `said_by` a line of a file that extends it; `chain` are the files on the way here. What is named is added to
    those that were `seen`.
    """
    if is_named:
        seen.add(path)
    try:
        data = contents(path, LARGEST_CONFIG)
    except OSError as error:
        if not is_named and isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
            return None
        raise SettingsError(f"{said_by}{shown(path)}: {error.strerror or error}") from None
    config = None
    # Most pyproject.toml files say nothing about amplint: those aren't parsed.
    if b"amplint" in data or os.path.basename(path) != "pyproject.toml":
        from amplint.config.file import parse  # noqa: PLC0415 - the TOML parser costs more than the rest of a run

        config = parse(path, data)
    if config is None and is_named:
        raise SettingsError(f"{said_by}{shown(path)}: has no table [tool.amplint]")
    if config is not None and "extend" in config.said:
        config.base = _extended(config, seen, (*chain, os.path.realpath(path)))
    return config


def _extended(config: Config, seen: set[str], chain: tuple[str, ...]) -> Config | None:
    """The configuration that one extends, which the files of `chain` lead to.

    Raises:
        SettingsError: it can't be read, or is one of those.
    """
    path = absolute(os.path.join(config.directory, os.path.expanduser(config.said["extend"])))
    said_by = f"{config.place('extend')}: 'extend': "
    if (real := os.path.realpath(path)) in chain:
        circle = " -> ".join(map(shown, (*chain[chain.index(real) :], real)))
        raise SettingsError(f"{said_by}the files extend each other: {circle}")
    return _read(path, seen, is_named=True, said_by=said_by, chain=chain)
