"""Configuration files: `[tool.amplint]` in pyproject.toml, or an amplint.toml."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from amplint import __version__
from amplint.base.paths import shown
from amplint.config.keys import problem
from amplint.config.selection import SettingsError
from amplint.config.toml_lines import Place, lines_of, parse_toml

_TABLE = ("tool", "amplint")


class Config:
    """What one configuration file says, by key. `base` is the one that it extends."""

    def __init__(self, path: str, said: dict[str, Any], text: str, above: Place) -> None:
        self.path = path
        self.said = said
        self.base: Config | None = None
        self._text = text
        self._above = above

    @property
    def directory(self) -> str:
        """The folder that its patterns and folders are relative to."""
        return os.path.dirname(self.path)

    @property
    def chain(self) -> Iterator[Config]:
        """The file itself, the one that it extends, the one that this extends, and so on."""
        yield self
        if self.base is not None:
            yield from self.base.chain

    @cached_property
    def _lines(self) -> dict[Place, int]:
        return lines_of(self._text)

    def place(self, *below: str | int) -> str:
        """`pyproject.toml:3`: where a key, or something below it, is set; without a line where that can't be told."""
        for end in range(len(below), -1, -1):
            line = self._lines.get((*self._above, *below[:end]))
            if line is not None:
                return f"{shown(self.path)}:{line}"
        return shown(self.path)


def parse(path: str, data: bytes) -> Config | None:
    """The configuration in the bytes of the file at `path`; None where a pyproject.toml has none.

    Raises:
        SettingsError: the file is broken, or has a key or value that amplint doesn't know.
    """
    try:
        text = data.decode("utf-8-sig")
        document = parse_toml(text)
    except ValueError as error:
        raise SettingsError(f"{shown(path)}: not valid TOML: {error}") from None
    if os.path.basename(path) != "pyproject.toml":
        return _valid(Config(path, document, text, ()))
    tool = document.get("tool")
    if not isinstance(tool, dict) or "amplint" not in tool:
        return None
    return _valid(Config(path, tool["amplint"], text, _TABLE))


def inline(given: Sequence[str]) -> dict[str, Any]:
    """The keys in several `KEY = VALUE`, each of them TOML; a later one replaces an earlier one, tables are joined.

    Raises:
        SettingsError: one isn't TOML, or has a key or value that amplint doesn't know.
    """
    found: dict[str, Any] = {}
    for each in given:
        try:
            said = parse_toml(each)
        except ValueError:
            key, _, value = (part.strip() for part in each.partition("="))
            hint = f"; a string needs quotes: '{key} = \"{value}\"'" if value and value[0] not in "[{\"'" else ""
            raise SettingsError(f"--config: {each!r} is neither a file nor TOML{hint}") from None
        if "extend" in said:
            raise SettingsError("--config: 'extend' works only in a file; `--config FILE` names one")
        _check_version(said, "--config")
        if wrong := problem(said):
            raise SettingsError(f"--config: {wrong[1]}")
        for key, value in said.items():
            found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
    return found


def _check_version(said: dict[str, Any], place: str) -> None:
    """See that this release is one that a configuration is for. The check of the key sees to what is not a specifier.

    Raises:
        SettingsError: it isn't.
    """
    wanted = said.get("required-version")
    if isinstance(wanted, str):
        from amplint.config.specifiers import admits  # noqa: PLC0415 - few configurations say it

        with suppress(ValueError):
            if not admits(wanted, __version__):
                raise SettingsError(f"{place}: this configuration requires amplint {wanted}; this is {__version__}")


def _valid(config: Config) -> Config:
    if not isinstance(config.said, dict):
        raise SettingsError(f"{config.place()}: tool.amplint must be a table")
    # First of all: what is unknown here may be known to the release that is wanted.
    _check_version(config.said, config.place("required-version"))
    found = problem(config.said)
    if found is None:
        return config
    place, message = found
    if place == ("tool",):
        message = "in an amplint.toml the keys go at the top level, not into a table"
    raise SettingsError(f"{config.place(*place)}: {message}")
