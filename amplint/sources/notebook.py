"""Jupyter notebooks: the code cells as one program, in their order, and back into a file that is otherwise the same.

Between two cells stands a line that no fix may touch, so that it stays clear what belongs to which; a fix may add lines
before it, to the one cell, and behind it, to the other.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from json import JSONDecodeError
from typing import Any, NamedTuple

from amplint.sources.ipython import Code, Mask, as_program, places, restored
from amplint.sources.json_spans import Strings, Writer, position, read_array, read_object, read_strings, space, value
from amplint.sources.parsing import with_room
from amplint.sources.source import LINE_END, MARK, Source, SourceError

_BETWEEN = re.compile(rf"(?:\A|(?<=[\r\n]))#{MARK}\r?\n")


class Cell(NamedTuple):
    """A code cell: its number among all cells, from 1, its code as it stands in the file, and as a program."""

    number: int
    strings: Strings
    code: Code


class Notebook(Source):
    """A notebook as the program that its cells make one after the other."""

    def __init__(self, filename: str, text: str, document: str, cells: tuple[Cell, ...], bom: bool) -> None:
        super().__init__(filename, text, "utf-8", bom)
        self._document = document
        self._cells = cells
        self._masks: tuple[Mask, ...] = tuple(mask for cell in cells for mask in cell.code.masks)

    @classmethod
    def from_bytes(cls, data: bytes, filename: str) -> Notebook:
        """Read a notebook's file; one for another language than Python has no cells.

        Raises:
            SourceError: it is none.
        """
        document = _decoded(data)
        written = _read(document)
        codes = with_room(lambda: [as_program(strings.text) for _, strings in written])
        cells = tuple(Cell(number, strings, code) for (number, strings), code in zip(written, codes, strict=True))
        found = next((end.group() for cell in cells for end in LINE_END.finditer(cell.code.text)), "\n")
        newline = "\n" if found == "\r" else found
        return cls(
            filename,
            f"{newline}#{MARK}{newline}".join(cell.code.text for cell in cells),
            document,
            cells,
            bom=data.startswith(codecs.BOM_UTF8),
        )

    def like(self, text: str) -> Notebook:
        """The same notebook with another text in its cells."""
        return Notebook(self.filename, text, self._document, self._cells, self.bom)

    def encode(self, text: str) -> bytes:
        """The file with `text` in its cells; what doesn't change is not written anew.

        Raises:
            SourceError: the cells can't be told apart any more.
        """
        changed = self._changed(text)
        parts = []
        done = 0
        writer = Writer(self._document, [cell.strings for cell in self._cells]) if changed else None
        for strings, code in changed:
            parts.append(self._document[done : strings.start])
            parts.append(writer.changed(strings, code) if writer else "")
            done = strings.end
        parts.append(self._document[done:])
        return (codecs.BOM_UTF8 if self.bom else b"") + "".join(parts).encode()

    def _changed(self, text: str) -> list[tuple[Strings, str]]:
        """The cells whose code is another one in `text`."""
        whole = restored(text, self._masks)
        codes = list(_cut(whole)) if whole is not None else []
        if len(codes) != len(self._cells) and self._cells:
            raise SourceError("the cells of the notebook can no longer be distinguished")
        pairs = zip(self._cells, codes, strict=False)
        found = [(cell.strings, code) for cell, code in pairs if code != cell.strings.text]
        return sorted(found, key=lambda each: each[0].start)

    @cached_property
    def original(self) -> str:
        """The program as it is written, with IPython's commands; its lines are those of `text`."""
        return restored(self.text, self._masks) or self.text

    @cached_property
    def _masked(self) -> list[int]:
        """Where what stands for something else starts and ends, in turn."""
        return [offset for place in places(self.text, self._masks) for offset in place]

    def replaced(self, offset: int) -> bool:
        """Whether a character stands for what is no Python."""
        return bisect_right(self._masked, offset) % 2 == 1

    @cached_property
    def _starts(self) -> list[int]:
        """Where the cells start."""
        return [0, *(found.end() for found in _BETWEEN.finditer(self.text))]

    def _cell(self, offset: int) -> tuple[int | None, int]:
        """The number of the cell that holds an offset, and the line of the program with which it starts."""
        at = bisect_right(self._starts, offset) - 1
        number = self._cells[at].number if at < len(self._cells) else None
        return number, self.row(self._starts[at])

    def place(self, offset: int) -> tuple[int | None, int, int]:
        """Cell, row in it and column of a character."""
        row, column = self.location(offset)
        number, first = self._cell(offset)
        return number, row - first + 1, column

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Where each cell starts, and its number."""
        return [(self.row(start), cell.number) for start, cell in zip(self._starts, self._cells, strict=False)]

    def shown(self, row: int) -> str:
        """A line as it is written."""
        return Source(self.filename, self.original).line(row) if self._masks else self.line(row)

    def in_file(self, offset: int) -> tuple[int, int]:
        """Row and column of a character in the notebook's JSON; of the old one, where a fix has changed the code."""
        row, column = self.location(offset)
        at = min(bisect_right(self._starts, offset), len(self._cells)) - 1
        if at < 0:
            return 1, 1
        strings = self._cells[at].strings
        code = Source(self.filename, strings.text)
        row = min(row - self.row(self._starts[at]) + 1, len(code.line_starts))
        inside = min(code.offset(row, 1) + min(column - 1, len(code.line(row))), len(code.text))
        return self._json.location(position(self._document, strings, inside))

    @cached_property
    def _json(self) -> Source:
        return Source(self.filename, self._document)

    def written(self, row: int) -> str:
        """A line of the notebook's JSON."""
        return self._json.line(row)

    def refused(self) -> Iterator[tuple[int, int, str]]:
        """The cells that are no program, each with the place that shows it and why."""
        for start, cell in zip(self._starts, self._cells, strict=False):
            if cell.code.refusal is not None:
                written = Source(self.filename, cell.strings.text)
                places = []
                for offset in (cell.code.refusal.start, cell.code.refusal.end):
                    row, column = written.location(offset)
                    places.append(self.offset(self.row(start) + row - 1, column))
                yield places[0], places[1], cell.code.refusal.message

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The cells, each with a name for a diff."""
        for cell, code in zip(self._cells, _cut(self.original), strict=False):
            # Jupyter writes no line end behind a cell's last line.
            end = "" if code.endswith(("\n", "\r")) or not code else "\n"
            yield f"{self.filename}:cell {cell.number}", f"{code}{end}".encode("utf-8", "surrogatepass")


def _cut(text: str) -> Iterator[str]:
    """The cells of a program."""
    start = 0
    for found in _BETWEEN.finditer(text):
        code = text[start : found.start()].removesuffix("\n")
        yield code.removesuffix("\r") if found[0].endswith("\r\n") else code
        start = found.end()
    yield text[start:]


def code_of(data: bytes) -> bytes:
    """The code in a notebook's file; all of the file where it can't be read."""
    try:
        return "\n".join(strings.text for _, strings in _read(_decoded(data))).encode("utf-8", "replace")
    except SourceError:
        return data


def _decoded(data: bytes) -> str:
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        row = body.count(b"\n", 0, error.start) + 1
        raise SourceError(f"not valid utf-8: {error.reason} at byte {error.start}", row) from None


def _read(document: str) -> list[tuple[int, Strings]]:
    """The code cells of Python: their numbers and their code.

    Raises:
        SourceError: the document is no notebook.
    """
    reader = _Reader(document)
    try:
        reader.read()
    except (ValueError, RecursionError) as error:
        at = error.pos if isinstance(error, JSONDecodeError) else 0
        what = error.msg if isinstance(error, JSONDecodeError) else str(error)
        row = document.count("\n", 0, at) + 1
        column = at - document.rfind("\n", 0, at)
        raise SourceError(f"not a notebook: not valid JSON: {what}", row, column) from None
    if not reader.has_cells:
        raise SourceError("not a notebook: there is no list of cells")
    return reader.cells if _is_python(reader.metadata) else []


class _Reader:
    """Goes through a notebook's file; what is none of its code is passed over by Python's own reader."""

    def __init__(self, document: str) -> None:
        self._document = document
        self.metadata: Any = {}
        self.cells: list[tuple[int, Strings]] = []
        self.has_cells = False
        self._number = 0

    def read(self) -> None:
        document = self._document
        at = space(document, 0)
        end = read_object(document, at, self._top) if document[at : at + 1] == "{" else value(document, at)[1]
        if (rest := space(document, end)) != len(document):
            raise JSONDecodeError("Extra data", document, rest)

    def _top(self, key: str, at: int) -> int:
        if key == "metadata":
            self.metadata, at = value(self._document, at)
            return at
        if key in ("cells", "worksheets") and self._document[at : at + 1] == "[":
            self.has_cells, self.cells, self._number = True, [], 0  # of two lists of cells the last one counts
            return read_array(self._document, at, self._cell if key == "cells" else self._worksheet)
        return value(self._document, at)[1]

    def _worksheet(self, at: int) -> int:
        """A part of a notebook of nbformat 3."""

        def member(key: str, at: int) -> int:
            if key == "cells" and self._document[at : at + 1] == "[":
                return read_array(self._document, at, self._cell)
            return value(self._document, at)[1]

        return self._object(at, member)

    def _object(self, at: int, member: Any) -> int:
        if self._document[at : at + 1] != "{":
            return value(self._document, at)[1]
        return read_object(self._document, at, member)

    def _cell(self, at: int) -> int:
        known: dict[str, Any] = {}
        strings: list[Strings | None] = []

        def member(key: str, at: int) -> int:
            if key in ("source", "input"):
                found, at = read_strings(self._document, at)
                strings.append(found)
            elif key in ("cell_type", "language", "metadata"):
                known[key], at = value(self._document, at)
            else:
                at = value(self._document, at)[1]
            return at

        self._number += 1
        at = self._object(at, member)
        code = strings[-1] if strings else None
        if code is not None and known.get("cell_type") == "code" and _is_python_cell(known):
            self.cells.append((self._number, code))
        return at


def _is_python(metadata: Any) -> bool:
    """Whether the kernel runs Python; where the metadata don't say, it does."""
    language = _at(metadata, "language_info", "name") or _at(metadata, "kernelspec", "language") or "python"
    return _means_python(language)


def _is_python_cell(known: dict[str, Any]) -> bool:
    language = known.get("language") or _at(known, "metadata", "vscode", "languageId") or "python"
    return _means_python(language)


def _means_python(language: Any) -> bool:
    return not isinstance(language, str) or language.lower().startswith(("python", "ipython", "sage"))


def _at(found: Any, *keys: str) -> Any:
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
