"""A file's bytes and its text: encoding, byte order mark, line ends, positions.

Everything downstream counts characters of `Source.text`; `Source.encode` turns a new text back into bytes that differ
from the old ones only where the text does.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate

from amplint.base.paths import is_document

# Stands in the text of a notebook where a cell ends, or in place of what is no Python; no fix touches it.
MARK = "\x02"
# Only these three end a line in Python (and in libcst); str.splitlines knows many more.
LINE_END = re.compile(r"\r\n|\r|\n")
_LONE_BACKSLASH = re.compile(r"(?:\A|[\r\n])[ \t\f]*\\[\r\n]")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_BYTES_LINE_END = re.compile(rb"\r\n|\r|\n")
# Python takes what stands behind these for an editor's line ends: utf-8-unix.
_SUFFIXED = re.compile(r"(utf-8|latin-1|iso-8859-1|iso-latin-1)-.*")


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    return LINE_END.split(text) if "\r" in text else text.split("\n")


def starts_of_lines(text: str | bytes) -> list[int]:
    """The offset at which each line starts; the last may be the end of the text, or the bytes."""
    lines: list[str] | list[bytes]
    if isinstance(text, str):
        if "\r" in text:
            return [0, *(end.end() for end in LINE_END.finditer(text))]
        lines = text.split("\n")
    else:
        if b"\r" in text:
            return [0, *(end.end() for end in _BYTES_LINE_END.finditer(text))]
        lines = text.split(b"\n")
    return [*accumulate((len(line) + 1 for line in lines[:-1]), initial=0)]


def has_lone_backslash(text: str) -> bool:
    """Whether a line has nothing but a backslash: libcst keeps nothing of it, and what is behind it is misplaced."""
    return ("\\\n" in text or "\\\r" in text) and _LONE_BACKSLASH.search(text) is not None


class SourceError(Exception):
    """The bytes can't be made a text; `row` (from 1), and `column` where it is known, is the place that shows it."""

    def __init__(self, message: str, row: int = 1, column: int | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


def declared_encoding(data: bytes) -> str:
    """The encoding that PEP 263 gives the bytes: from a byte order mark, a cookie in the first two lines, or UTF-8.

    Raises:
        SourceError: the cookie names no encoding that Python knows, or one that contradicts the byte order mark.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    for number, line in enumerate(_BYTES_LINE_END.split(data[3 if bom else 0 :], 2)[:2], 1):
        if cookie := _COOKIE.match(line):
            name = cookie.group(1).decode("ascii", "replace")
            usual = name.lower().replace("_", "-")
            if suffixed := _SUFFIXED.fullmatch(usual):
                name = usual = suffixed.group(1)
            try:
                found = codecs.lookup(name)
            except LookupError:
                raise SourceError(f"unknown encoding {name!r}", number) from None
            # In UTF-16 or UTF-32 the line could not be read as it was.
            if not found._is_text_encoding or found.name.startswith(("utf-16", "utf-32")):
                raise SourceError(f"{name!r} can't be the encoding of source code", number)
            if bom and usual != "utf-8":  # nor "utf8": Python goes by the name
                raise SourceError(f"encoding {name!r} contradicts the UTF-8 byte order mark", number)
            return found.name
        if not _BLANK.match(line):
            break
    return "utf-8"


def encoded(text: str) -> bytes:
    """The bytes that a host has read `text` from, but for a byte order mark and line ends.

    Raises:
        SourceError: it declares an encoding that there is not.
        UnicodeEncodeError: the encoding lacks one of the characters.
    """
    return text.encode(declared_encoding(text[:1000].encode("utf-8", "replace")))


def _row(data: bytes, offset: int) -> int:
    """The line, from 1, that holds the byte at `offset`."""
    return sum(1 for _ in _BYTES_LINE_END.finditer(data, 0, offset)) + 1


class Source:
    """A decoded file."""

    def __init__(self, filename: str, text: str, encoding: str = "utf-8", bom: bool = False) -> None:
        self.filename = filename
        self.text = text
        self.encoding = encoding
        self.bom = bom

    @classmethod
    def from_bytes(cls, data: bytes, filename: str) -> Source:
        """Decode the text of a file as Python would.

        Raises:
            SourceError: the bytes are not in the encoding they declare, or hold a NUL.
        """
        encoding = "utf-8" if is_document(filename) else declared_encoding(data)
        bom = data.startswith(codecs.BOM_UTF8)
        body = data[3:] if bom else data
        if (nul := body.find(b"\0")) >= 0:
            raise SourceError("source code cannot contain null bytes", _row(body, nul))
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError as error:
            row = _row(body, error.start)
            raise SourceError(f"not valid {encoding}: {error.reason} at byte {error.start}", row) from None
        except ValueError as error:  # codecs that are made for other things than files: idna, punycode
            raise SourceError(f"not valid {encoding}: {error}") from None
        return cls(filename, text, encoding, bom)

    @classmethod
    def from_text(cls, text: str, filename: str) -> Source:
        """A program's text, whatever encoding it declares; with its byte order mark, if it has one."""
        return cls(filename, text.removeprefix("\ufeff"), bom=text.startswith("\ufeff"))

    def encode(self, text: str) -> bytes:
        """`text` in this file's encoding, with its byte order mark.

        Raises:
            SourceError: the encoding lacks one of the characters.
        """
        try:
            return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(f"{self.encoding} can't write {text[error.start]!r}") from None

    def like(self, text: str) -> Source:
        """The same file with another text."""
        return Source(self.filename, text, self.encoding, self.bom)

    def place(self, offset: int) -> tuple[int | None, int, int]:
        """The cell of a notebook (else None), row and column of a character, as people count them."""
        return None, *self.location(offset)

    def named(self, offset: int) -> str:
        """The line of a character as messages say it: `line 12`, `line 2 of cell 3`."""
        cell, row, _ = self.place(offset)
        return f"line {row}" if cell is None else f"line {row} of cell {cell}"

    @property
    def cells(self) -> list[tuple[int, int]]:
        """The cells of a notebook: the line of the text with which each starts, and its number."""
        return []

    @property
    def original(self) -> str:
        """The text as it is written, where the program has something else in place of what is no Python."""
        return self.text

    def shown(self, row: int) -> str:
        """The text of line `row` as it stands in the file."""
        return self.line(row)

    def replaced(self, offset: int) -> bool:
        """Whether the file has something else where a character stands in the text."""
        return False

    def in_file(self, offset: int) -> tuple[int, int]:
        """Row and column of a character in the file as it lies on the disk."""
        return self.location(offset)

    def written(self, row: int) -> str:
        """The text of a line of the file as it lies on the disk."""
        return self.line(row)

    def refused(self) -> Iterator[tuple[int, int, str]]:
        """The parts of the file that are no program, while others are: where, and why."""
        return iter(())

    def files(self) -> Iterator[tuple[str, bytes]]:
        """What a diff of the file compares: names and contents."""
        yield self.filename, self.encode(self.text)

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line starts; the last may be the end of the text."""
        return starts_of_lines(self.text)

    def row(self, offset: int) -> int:
        """The line, from 1, that holds the character at `offset`."""
        return bisect_right(self.line_starts, offset)

    def location(self, offset: int) -> tuple[int, int]:
        """Row and column of the character at `offset`, both from 1, the column in characters."""
        row = self.row(offset)
        return row, offset - self.line_starts[row - 1] + 1

    def offset(self, row: int, column: int) -> int:
        """The offset of the character at `row` and `column`, both from 1."""
        return self.line_starts[row - 1] + column - 1

    def line(self, row: int) -> str:
        """The text of line `row`, without its line end."""
        starts = self.line_starts
        end = starts[row] if row < len(starts) else len(self.text)
        return self.text[starts[row - 1] : end].rstrip("\r\n")

    @cached_property
    def newline(self) -> str:
        """The line end that the file uses first, for lines that a fix adds."""
        found = LINE_END.search(self.text)
        return found.group() if found else "\n"


class Joined(Source):
    """A file's text and, behind a line end, that of another one: lines of the one never run into the other's."""

    def __init__(self, first: Source, second: Source) -> None:
        super().__init__(first.filename, f"{first.text}\n{second.text}", first.encoding, first.bom)
        self._parts = first, second

    @cached_property
    def line_starts(self) -> list[int]:
        """As in each by itself; the line end between them is a line of its own."""
        first, second = self._parts
        end = len(first.text)
        between = [] if first.line_starts[-1] == end else [end]
        return [*first.line_starts, *between, *(end + 1 + start for start in second.line_starts)]

    def place(self, offset: int) -> tuple[int | None, int, int]:
        """As in the file's own text."""
        return self._parts[0].place(offset)

    def replaced(self, offset: int) -> bool:
        """As in the file's own text."""
        return self._parts[0].replaced(offset)


_SHOWN = 4


def lines(source: Source, offsets: Iterable[int]) -> str:
    """The lines of some places: `line 3`, `lines 3, 5 and 9`, `lines 3, 5, 9, 12 and 4 more`."""
    names = list(dict.fromkeys(source.named(each) for each in sorted(offsets)))
    if len(names) == 1:
        return names[0]
    rows = [each.removeprefix("line ") for each in names]
    more = len(rows) - _SHOWN
    if more > 1:
        return f"lines {', '.join(rows[:_SHOWN])} and {more} more"
    return f"lines {', '.join(rows[:-1])} and {rows[-1]}"
