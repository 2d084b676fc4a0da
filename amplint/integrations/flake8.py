"""The flake8 plugin: the same findings at the same places.

What flake8 selects, and its own `# noqa` and `per-file-ignores` leave, is shown, unless amplint's configuration leaves
it out: both have to agree. A rule that is off by default is on where either names it. What flake8 has no say in, such
as the target, comes from there alone.
"""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from amplint import __version__
from amplint.base.paths import TooLargeError, absolute
from amplint.config.selection import Selection, SettingsError
from amplint.config.settings import Overrides, Resolver
from amplint.engine.file import check_bytes
from amplint.registry import all_rules, known
from amplint.runner import describe
from amplint.sources.source import SourceError, encoded

if TYPE_CHECKING:
    from amplint.adoption.baseline import Baseline

Violation = tuple[int, int, str, type["Plugin"]]


class Plugin:
    """What flake8 makes for each file."""

    name = "amplint"
    version = __version__
    _config: str | None = None
    _named: tuple[str, ...] = ()  # rules that are off by default
    _suspicions = False
    _folders: tuple[str, ...] = ()  # that flake8 was given

    # flake8 passes what the parameters' names ask for; `tree` is what makes this a plugin for whole files.
    def __init__(self, tree: ast.AST, filename: str, lines: list[str]) -> None:
        self.filename = filename
        self.lines = lines

    @classmethod
    def add_options(cls, manager: Any) -> None:
        """Let flake8 report the rules of plugins too.

        flake8 knows the codes that start with the name under which it found us, AMP.
        """
        manager.extend_default_select(list(known().prefixes))
        manager.add_option(
            "--amplint-config",
            metavar="FILE",
            parse_from_config=True,
            normalize_paths=True,
            help="amplint's configuration file for all files, instead of the nearest one for each file",
        )
        manager.add_option(
            "--amplint-suspicions",
            action="store_true",
            default=False,
            parse_from_config=True,
            help="also show suspicions: patterns to check when a model doesn't learn",
        )

    @classmethod
    def parse_options(cls, options: Any) -> None:
        """Take flake8's options, in each of its processes."""
        cls._config = options.amplint_config
        cls._suspicions = options.amplint_suspicions
        # The three letters alone stand for the plugin. flake8's default ignores wouldn't do for what is off by default:
        # any `ignore` or `select` of the user's voids them.
        named = tuple(each for each in (*(options.select or ()), *(options.extend_select or ())) if len(each) > 3)
        cls._named = tuple(code for code, rule in all_rules().items() if not rule.default and code.startswith(named))
        cls._folders = tuple(each for each in options.filenames or [os.curdir] if os.path.isdir(each))
        _resolver.cache_clear()
        _baseline.cache_clear()

    def run(self) -> Iterator[Violation]:
        """All findings, with columns from 0, as flake8 wants them."""
        for message in known().errors:
            yield 1, 0, f"AMP000 {message}", type(self)
        try:
            resolver = _resolver(self._config, self._named, self._folders, self._suspicions)
            if resolver.refuses(absolute(self.filename)):
                return
            settings = resolver.for_file(self.filename)
            held = _baseline(settings.baseline).known(self.filename) if settings.baseline is not None else None
        except SettingsError as error:
            yield 1, 0, f"AMP000 {error}", type(self)
            return
        try:
            data = encoded("".join(self.lines))
        except (SourceError, UnicodeError):
            return  # flake8 says so itself
        try:
            result = check_bytes(data, self.filename, settings, noqa=False)
        except TooLargeError as error:
            yield 1, 0, f"AMP000 {error}", type(self)
            return
        except Exception as error:  # which would end flake8's run over the other files
            yield 1, 0, f"AMP000 {describe(error)}", type(self)
            return
        source = result.source
        if source is not None:
            _freeze()
        findings = held.new(source, result.findings) if held and source is not None else result.findings
        for finding in findings:
            # flake8 has E999 and E902 for what AMP001 says.
            if source is not None and finding.code != "AMP001":
                row, column = source.location(finding.start)
                yield row, column - 1, f"{finding.code} {finding.said}", type(self)


@cache
def _freeze() -> None:
    """Spare flake8's other files that the garbage collector looks at what was imported for the first one with AMP."""
    gc.collect()
    gc.freeze()


@cache
def _baseline(path: str) -> Baseline:
    from amplint.adoption.baseline import Baseline  # noqa: PLC0415 - only where there is one

    return Baseline(path)


@lru_cache(maxsize=1)
def _resolver(config: str | None, named: tuple[str, ...], folders: tuple[str, ...], suspicions: bool) -> Resolver:
    said = {"suspicions": True} if suspicions else {}
    return Resolver(Overrides(said, config=config, base=Selection(extend_select=named), folders=folders))
