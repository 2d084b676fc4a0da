"""Configuration files: `[tool.amplint]` in pyproject.toml, or an amplint.toml."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

from amplint.base.paths import shown
from amplint.config.keys import problem
from amplint.config.selection import SettingsError
from amplint.config.toml_lines import Place, lines_of, parse_toml

_TABLE = ("tool", "amplint")


class Config:
    """What one configuration file says, by key."""

    def __init__(self, path: str, said: dict[str, Any], text: str, above: Place) -> None:
        self.path = path
        self.said = said
        self._text = text
        self._above = above

    @property
    def directory(self) -> str:
        """The folder that its patterns and folders are relative to."""
        return os.path.dirname(self.path)

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


def _valid(config: Config) -> Config:
    if not isinstance(config.said, dict):
        raise SettingsError(f"{config.place()}: tool.amplint must be a table")
    found = problem(config.said)
    if found is None:
        return config
    place, message = found
    if place == ("tool",):
        message = "in an amplint.toml the keys go at the top level, not into a table"
    raise SettingsError(f"{config.place(*place)}: {message}")
