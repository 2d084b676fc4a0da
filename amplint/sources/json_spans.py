"""JSON read with the places of some of its strings, so that these can be replaced and all else stays as it is."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\n\r]*")
# What stands for one character in a string.
_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)
_ESCAPED = re.compile(r"\\u(?!00[0-7])")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_value = json.JSONDecoder().raw_decode


class Strings(NamedTuple):
    """A text in a document: a string, or a list of strings that are joined. The spans of the strings have no quotes."""

    start: int
    end: int
    spans: tuple[tuple[int, int], ...]
    texts: tuple[str, ...]
    listed: bool

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.texts)


def value(document: str, at: int) -> tuple[Any, int]:
    """The value that starts at an offset, and where it ends.

    Raises:
        JSONDecodeError: there is none.
    """
    try:
        return _value(document, at)
    except StopIteration as error:
        raise JSONDecodeError("Expecting value", document, error.value) from None


def space(document: str, at: int) -> int:
    """Where white space that starts at an offset ends."""
    found = _SPACE.match(document, at)
    return found.end() if found else at


def read_object(document: str, at: int, member: Callable[[str, int], int]) -> int:
    """Where the object that starts at an offset ends. `member` takes each key and where its value starts, and reads it.

    Raises:
        JSONDecodeError: it is none.
    """

    def pair(at: int) -> int:
        if document[at : at + 1] != '"':
            raise JSONDecodeError("Expecting property name enclosed in double quotes", document, at)
        key, at = scanstring(document, at + 1, True)
        return member(key, space(document, _expect(document, space(document, at), ":")))

    return _read_all(document, at, "}", pair)


def read_array(document: str, at: int, element: Callable[[int], int]) -> int:
    """Where the array that starts at an offset ends. `element` takes where each element starts, and reads it.

    Raises:
        JSONDecodeError: it is none.
    """
    return _read_all(document, at, "]", element)


def _read_all(document: str, at: int, end: str, read: Callable[[int], int]) -> int:
    """Where what starts at an offset is closed by `end`; `read` reads what commas part."""
    at = space(document, at + 1)
    if document[at : at + 1] == end:
        return at + 1
    while True:
        at = space(document, read(at))
        if document[at : at + 1] == end:
            return at + 1
        at = space(document, _expect(document, at, ","))


def read_strings(document: str, at: int) -> tuple[Strings | None, int]:
    """The text that starts at an offset, None where it is neither a string nor a list of strings; and its end.

    Raises:
        JSONDecodeError: no value is there.
    """
    start, spans, texts = at, [], []
    listed = document[at : at + 1] == "["

    def string(at: int) -> int:
        if document[at : at + 1] != '"':
            return value(document, at)[1]
        text, end = scanstring(document, at + 1, True)
        spans.append((at + 1, end - 1))
        texts.append(text)
        return int(end)

    count = 0

    def element(at: int) -> int:
        nonlocal count
        count += 1
        return string(at)

    end = read_array(document, at, element) if listed else string(at)
    strange = len(spans) != (count if listed else 1)
    return None if strange else Strings(start, end, tuple(spans), tuple(texts), listed), end


def position(document: str, strings: Strings, offset: int) -> int:
    """Where in a document a character of a text stands, or where the text ends."""
    for (start, end), text in zip(strings.spans, strings.texts, strict=True):
        if offset < len(text):
            return next(islice(_CHARACTER.finditer(document, start, end), offset, None)).start()
        offset -= len(text)
    return strings.spans[-1][1] if strings.spans else strings.start


def _expect(document: str, at: int, what: str) -> int:
    if document[at : at + 1] != what:
        raise JSONDecodeError(f"Expecting '{what}' delimiter", document, at)
    return at + 1


class Writer:
    """Replaces texts of a document, each in its own layout and the document's way to write characters."""

    def __init__(self, document: str, strings: list[Strings]) -> None:
        self._document = document
        self._ascii = document.isascii() and _ESCAPED.search(document) is not None
        self._separators = [found for each in strings if (found := self._separator(each)) is not None]

    def changed(self, old: Strings, text: str) -> str:
        """What stands from `old.start` to `old.end` when `text` is in place of the old one.

        Lines that are the same stay as they are written.
        """
        # Empty strings are part of what stands between others.
        full = [(span, each) for span, each in zip(old.spans, old.texts, strict=True) if each or not old.listed]
        old = old._replace(spans=tuple(span for span, _ in full), texts=tuple(each for _, each in full))
        if not old.listed:
            return f'"{"".join(raw for raw, _ in self._pieces(old, text))}"'
        written = self._strings(old, text)
        head, tail = ("[", "]")
        if old.spans:
            head = self._document[old.start : old.spans[0][0] - 1]
            tail = self._document[old.spans[-1][1] + 1 : old.end]
        return f"{head}{written}{tail}" if written else "[]"

    def _strings(self, old: Strings, text: str) -> str:
        """The strings of a list for the new text, with what separates them."""
        usual = self._own_separator(old)
        written = current = before = ""
        for raw, separator in [*self._pieces(old, text), ("", "")]:
            current += raw
            if separator is not None:
                if current:
                    written += f'{before}"{current}"'
                    before = separator or usual
                current = ""
        return written

    def _pieces(self, old: Strings, text: str) -> Iterator[tuple[str, str | None]]:
        """The new text as it is to be written, in pieces; behind each what separates it from the next string.

        None: nothing does; empty: what usually does.
        """
        was, lines = _LINE.findall(old.text), _LINE.findall(text)
        starts = [0]
        for line in was:
            starts.append(starts[-1] + len(line))
        places = self._places(old)
        ends: dict[int, str] = {}
        total = 0
        for at, (each, span) in enumerate(zip(old.texts, old.spans, strict=True)):
            total += len(each)
            following = old.spans[at + 1][0] - 1 if at + 1 < len(old.spans) else None
            ends[total] = "" if following is None else self._document[span[1] + 1 : following]
        for kind, first, last, new, behind in difflib.SequenceMatcher(None, was, lines, False).get_opcodes():
            if kind == "equal":
                start = starts[first]
                for end in [*(each for each in sorted(ends) if start < each <= starts[last]), starts[last]]:
                    raw = self._document[places[start][0] : places[end - 1][1]] if start < end else ""
                    yield raw, ends.get(end)
                    start = end
            else:
                for line, end in zip_longest(lines[new:behind], starts[first + 1 : last + 1]):
                    if line is not None:
                        separator = ends.get(end) if end is not None else "" if line.endswith("\n") else None
                        yield json.dumps(line, ensure_ascii=self._ascii)[1:-1], separator

    def _places(self, old: Strings) -> list[tuple[int, int]]:
        """Where each character of the text stands in the document."""
        return [found.span() for start, end in old.spans for found in _CHARACTER.finditer(self._document, start, end)]

    def _own_separator(self, old: Strings) -> str:
        if (found := self._separator(old)) is not None:
            return found
        lead = self._document[old.start + 1 : old.spans[0][0] - 1] if old.spans else ""
        if "\n" in lead:
            return f",{lead}"
        return next(iter(self._separators), ", ")

    def _separator(self, old: Strings) -> str | None:
        """What stands between the first two strings."""
        return self._document[old.spans[0][1] + 1 : old.spans[1][0] - 1] if len(old.spans) > 1 else None
