"""Findings for people: with the source line and a caret."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.base.paths import visible
from amplint.report import Place, Report
from amplint.report.text import BLUE, CYAN, SEVERITY_COLOUR, advice, header, paint

_TAB = " " * 4
# What a terminal shows of a line: generated code has lines of megabytes.
_LONGEST, _LEAD = 200, 80


def render(report: Report, colour: bool = False) -> str:
    """Each finding with its source line, what to do about it, and an empty line."""
    return "".join(line + "\n" for place in report.places() for line in _full(place, colour))


def _full(place: Place, colour: bool) -> Iterator[str]:
    row, column = place.start
    margin = " " * len(str(row))
    bar = paint("|", BLUE, colour)
    yield header(place, colour)
    yield f"{margin}{paint('-->', BLUE, colour)} {visible(place.filename)}:{place.where}"
    if line := place.line:
        end = place.end[1] if place.end[0] == row else len(line) + 1
        shown, before, width = _excerpt(line, column - 1, end - 1)
        caret = paint("^" * max(width, 1), SEVERITY_COLOUR[place.finding.severity], colour)
        yield f"{margin} {bar}"
        yield f"{paint(str(row), BLUE, colour)} {bar} {shown}"
        yield f"{margin} {bar} {' ' * before}{caret}"
        yield f"{margin} {bar}"
    for label, text in advice(place):
        yield f"{paint(label, CYAN, colour)}: {visible(text)}"
    yield ""


def _excerpt(line: str, start: int, end: int) -> tuple[str, int, int]:
    """A line as it can be shown, with the terminal columns before its characters `start` to `end`, and theirs."""
    lead = ""
    if len(line) > _LONGEST:
        cut = max(0, start - _LEAD)
        lead = "…" if cut else ""
        line, start, end = line[cut : cut + _LONGEST], start - cut, min(end - cut, _LONGEST)
    if line.isascii() and line.isprintable():
        return lead + line, len(lead) + start, end - start
    cells = [_cell(character) for character in line]
    before = len(lead) + sum(width for _, width in cells[:start])
    return lead + "".join(text for text, _ in cells), before, sum(width for _, width in cells[start:end])


def _cell(character: str) -> tuple[str, int]:
    """What stands for a character on a terminal, and how many columns it takes."""
    if character == "\t":
        return _TAB, len(_TAB)
    from unicodedata import category, combining, east_asian_width  # noqa: PLC0415 - a large table, rarely needed

    # Controls, bidirectional ones among them, and separators act on the terminal; lone surrogates can't be written.
    if category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "\N{REPLACEMENT CHARACTER}", 1
    if combining(character):
        return character, 0
    return character, 2 if east_asian_width(character) in "WF" else 1
