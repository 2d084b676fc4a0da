"""Configuration files: `[tool.amplint]` in pyproject.toml, or an amplint.toml."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any, NamedTuple

from amplint.paths import shown
from amplint.selection import Selection, SettingsError, codes_of, nearest
from amplint.target import ASSUMED, from_option

_LISTS = ("select", "ignore", "extend-select", "exclude", "extend-exclude")
_KEYS = (*_LISTS, "target-torch", "targets")
_FRAMEWORKS = tuple(each for each in ASSUMED if each != "torch")


class Config(NamedTuple):
    """What one configuration file says. None: nothing."""

    directory: str
    selection: Selection
    exclude: tuple[str, ...] | None
    extend_exclude: tuple[str, ...]
    target_torch: str | None
    targets: tuple[tuple[str, str], ...] = ()


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document as a dict.

    Raises:
        ValueError: the text is not TOML.
    """
    # Python 3.10 has no tomllib; tomli is the same code.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document: dict[str, Any] = toml.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return document


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
    if os.path.basename(path) == "pyproject.toml":
        tool = document.get("tool")
        if not isinstance(tool, dict) or "amplint" not in tool:
            return None
        table, before = tool["amplint"], text.find("amplint")
    else:
        table, before = document, 0
    if not isinstance(table, dict):
        raise SettingsError(f"{shown(path)}: tool.amplint must be a table")
    key = ""
    try:
        for key, value in table.items():
            _validate(key, value)
    except SettingsError as error:
        raise SettingsError(f"{shown(path)}{_line_of(key, text, before)}: {error}") from None
    selection = Selection(_tuple(table, "select"), _tuple(table, "extend-select") or (), _tuple(table, "ignore") or ())
    exclude, extend_exclude = _tuple(table, "exclude"), _tuple(table, "extend-exclude") or ()
    targets = tuple(table.get("targets", {}).items())
    return Config(os.path.dirname(path), selection, exclude, extend_exclude, table.get("target-torch"), targets)


def _validate(key: str, value: object) -> None:
    if key not in _KEYS:
        near = nearest(key.replace("_", "-"), _KEYS)
        raise SettingsError(f"unknown key {key!r}" + (f"; did you mean {near!r}?" if near else ""))
    if key == "target-torch":
        _validate_target(key, value, "torch")
    elif key == "targets":
        if not isinstance(value, dict) or not value.keys() <= {*_FRAMEWORKS}:
            raise SettingsError(f"'targets' must be a table with some of {', '.join(_FRAMEWORKS)}")
        for package, release in value.items():
            _validate_target(f"targets.{package}", release, package)
    elif not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SettingsError(f"{key!r} must be a list of strings")
    elif "exclude" not in key:
        for selector in value:
            codes_of(selector)


def _validate_target(key: str, value: object, package: str) -> None:
    if not isinstance(value, str):
        raise SettingsError(f"'{key}' must be a string such as \"{ASSUMED[package]}\"")
    try:
        from_option(value, "", package)
    except ValueError as error:
        raise SettingsError(f"'{key}': {error}") from None


def _tuple(table: dict[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(table[key]) if key in table else None


def _line_of(key: str, text: str, before: int) -> str:
    """`:3` where `key` is set in line 3; nothing where it can't be told."""
    found = re.compile(rf"""^[ \t]*(?:[\w.]+\.)?["']?{re.escape(key)}["']?[ \t]*=""", re.MULTILINE).search(text, before)
    return f":{text.count(chr(10), 0, found.start()) + 1}" if found else ""
