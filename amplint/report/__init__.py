"""What a run found, for people and for programs: one module a format."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from amplint.config.formats import FOR_PEOPLE
from amplint.engine.result import HeldBack

if TYPE_CHECKING:
    from amplint.base.findings import Finding, Kind
    from amplint.engine.result import Result
    from amplint.sources.source import Source

# Those that say nothing where nothing is found; the others write a document that is empty.
_LINES = (*FOR_PEOPLE, "json-lines", "github", "pylint")


class Place(NamedTuple):
    """A finding and where it stands; rows and columns count from 1, the end is exclusive.

    In a notebook rows count from the start of the `cell`, which has its number among all cells, from 1.
    """

    filename: str
    source: Source
    finding: Finding
    start: tuple[int, int]
    end: tuple[int, int]
    unsafe: bool  # unsafe fixes are asked for in its file
    cell: int | None = None

    @property
    def where(self) -> str:
        """Row and column, with the cell before them: `26:13`, `cell 3:2:5`."""
        return f"{self.in_cell}{self.start[0]}:{self.start[1]}"

    @property
    def in_cell(self) -> str:
        """What stands before row and column, of a notebook's findings only."""
        return "" if self.cell is None else f"cell {self.cell}:"

    @property
    def line(self) -> str:
        """The line in which the finding starts, without its end."""
        return self.source.shown(self.source.row(self.finding.start))

    def at(self, offset: int) -> tuple[int, int]:
        """Row and column of an offset in its file, counted as those of the finding are."""
        _, row, column = self.source.place(offset)
        return row, column

    @property
    def in_file(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Start and end in the file as it lies on the disk, for what shows that: of a notebook its JSON."""
        return self.source.in_file(self.finding.start), self.source.in_file(self.finding.end)

    @property
    def suggested(self) -> bool:
        """Whether its fix can be told as one of the file as it lies on the disk."""
        return self.fixable and self.cell is None

    @property
    def fixable(self) -> bool:
        """Whether `--fix`, with the settings given, would fix it."""
        given = _applicability(self.finding)
        return given == "safe" or (given == "unsafe" and self.unsafe)

    @property
    def hidden(self) -> bool:
        """Whether it has a fix that `--unsafe-fixes` would apply, which isn't asked for."""
        return _applicability(self.finding) == "unsafe" and not self.unsafe


class Fixed(NamedTuple):
    """How many findings of each kind were fixed in a file."""

    filename: str
    applied: tuple[tuple[Kind, int], ...]


class Report(NamedTuple):
    """The findings of a run that are left, and what was fixed in which files.

    `errors` are what kept the run from doing all its work, a line each; `code` is what it exits with. Where `comments`
    were added, so many to each of some files, those that are not left were not fixed but silenced. `verified`: only
    fixes were made that a run confirms.
    """

    results: tuple[Result, ...]
    made: tuple[Fixed, ...] = ()
    errors: tuple[str, ...] = ()
    code: int = 0
    comments: tuple[int, ...] = ()
    held: HeldBack | None = None
    verified: bool = False

    @property
    def fixed(self) -> int:
        """How many findings were fixed, or silenced."""
        return sum(times for each in self.made for _, times in each.applied)

    @property
    def findings(self) -> list[Finding]:
        """All findings, in the order of their files and places."""
        return [finding for result in self.results for finding in result.findings]

    def places(self) -> Iterator[Place]:
        """All findings with their places."""
        for result in self.results:
            filename, source = result.filename, result.source
            if source:
                for finding in result.findings:
                    (cell, *start), (_, *end) = source.place(finding.start), source.place(finding.end)
                    yield Place(filename, source, finding, (start[0], start[1]), (end[0], end[1]), result.unsafe, cell)


def _applicability(finding: Finding) -> str | None:
    return finding.fix.applicability.value if finding.fix and finding.fix.edits else None


def render(output_format: str, report: Report, colour: bool = False) -> str:
    """The findings in one of `FORMATS`, ready to be written."""
    if not report.results and output_format in _LINES:
        return ""
    module = import_module(f"{__name__}.formats.{output_format.replace('-', '_')}")
    text: str = module.render(report, colour)
    return text
