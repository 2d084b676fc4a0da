"""TOML documents: what they say, and, which Python's parser doesn't tell, on which line."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from contextlib import suppress
from importlib import import_module
from typing import Any

# The names and indices that lead to a value: ("tool", "amplint", "ignore", 0).
Place = tuple[str | int, ...]
_DEEPEST = 8  # parts of a place that is told

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_LINE = re.compile(r"[^\n]*")
_STRING = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*\'''',
    re.DOTALL,
)
_ENDLESS = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){100}""")
_BARE = re.compile(r"[^\s.=\[\]{}#,\"']+")
_PLAIN = re.compile(r"[^,\[\]{}\n#]*")  # numbers, dates, true and false


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document as a dict.

    Raises:
        ValueError: the text is not TOML.
    """
    # Python 3.10 has no tomllib; tomli is the same code.
    if _ENDLESS.search(text):
        raise ValueError("a key has more than a hundred parts")  # the time it takes goes with their square
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document: dict[str, Any] = toml.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return document


def lines_of(text: str) -> dict[Place, int]:
    """The line, from 1, on which each key and each element of an array in a valid document starts.

    What is set in several places has the first; what this fails to read has none.
    """
    scan = _Scan(text)
    with suppress(RecursionError, _LostError):  # a number in a message is not worth more
        scan.document()
    ends = [match.start() for match in re.finditer("\n", text)]
    return {place: bisect_left(ends, at) + 1 for place, at in reversed(scan.found)}


class _LostError(Exception):
    """The text is not what was expected."""


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[tuple[Place, int]] = []

    def document(self) -> None:
        table: Place = ()
        counts: dict[Place, int] = {}  # of the tables of arrays
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self._take("["):
                start, several = self.at - 1, self._take("[")
                table = _indexed(self._key(), counts)
                if several:
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                for end in range(1, len(table) + 1):
                    self._tell(table[:end], start)
            else:
                self._pair(table)
            self._skip(_LINE)
            self._skip(_BLANK)

    def _pair(self, table: Place) -> None:
        start = self.at
        key = self._key()
        if not self._take("="):
            raise _LostError
        for end in range(1, min(len(key), _DEEPEST) + 1):
            self._tell((*table, *key[:end]), start)
        self._skip(_SPACE)
        self._value((*table, *key))

    def _tell(self, place: Place, at: int) -> None:
        if len(place) <= _DEEPEST:
            self.found.append((place, at))

    def _key(self) -> Place:
        """A key, dotted or not, with the space behind it."""
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            quoted = self.text[self.at : self.at + 1] in ("'", '"')
            part = self._skip(_STRING if quoted else _BARE)
            if not part:
                raise _LostError
            parts.append(parse_toml(f"x = {part}")["x"] if quoted else part)
            self._skip(_SPACE)
            if not self._take("."):
                return tuple(parts)

    def _value(self, place: Place) -> None:
        if self._take("["):
            self._skip(_BLANK)
            index = 0
            while not self._take("]"):
                self._tell((*place, index), self.at)
                self._value((*place, index) if len(place) < _DEEPEST else place)
                self._between()
                index += 1
        elif self._take("{"):
            self._skip(_BLANK)
            while not self._take("}"):
                self._pair(place)
                self._between()
        elif self.text[self.at : self.at + 1] in ("'", '"'):
            if not self._skip(_STRING):
                raise _LostError
        else:
            self._skip(_PLAIN)

    def _between(self) -> None:
        """What stands behind an element."""
        self._skip(_BLANK)
        if self._take(","):
            self._skip(_BLANK)
        elif self.text[self.at : self.at + 1] not in ("]", "}"):
            raise _LostError

    def _take(self, mark: str) -> bool:
        taken = self.text.startswith(mark, self.at)
        self.at += taken
        return taken

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match.group() if match else ""


def _indexed(key: Place, counts: dict[Place, int]) -> Place:
    """The place of a table whose header may lead through arrays of tables."""
    place: Place = ()
    for at, part in enumerate(key):
        place = (*place, part)
        if place in counts and at < len(key) - 1:
            place = (*place, counts[place])
    return place
