"""Findings for people: one line each, or with the source line and a caret."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Applicability, Severity
from amplint.paths import visible
from amplint.report import Place, Report

_BOLD, _RED, _YELLOW, _CYAN, _BLUE = "1", "1;31", "1;33", "36", "1;34"
_SEVERITY_COLOUR = {Severity.ERROR: _RED, Severity.WARNING: _YELLOW, Severity.NOTE: _CYAN}
_TAB = " " * 4
# What a terminal shows of a line: generated code has lines of megabytes.
_LONGEST, _LEAD = 200, 80


def concise(report: Report, colour: bool = False) -> str:
    """`path:line:col: AMP401 [*] message`, a line each."""
    return "".join(
        f"{_paint(_name(place), _BOLD, colour)}:{place.start[0]}:{place.start[1]}: {_header(place, colour)}\n"
        for place in report.places()
    )


def full(report: Report, colour: bool = False) -> str:
    """Each finding with its source line, what to do about it, and an empty line."""
    return "".join(line + "\n" for place in report.places() for line in _full(place, colour))


def _full(place: Place, colour: bool) -> Iterator[str]:
    row, column = place.start
    margin = " " * len(str(row))
    bar = _paint("|", _BLUE, colour)
    yield _header(place, colour)
    yield f"{margin}{_paint('-->', _BLUE, colour)} {visible(place.filename)}:{row}:{column}"
    if line := place.source.line(row):
        end = place.end[1] if place.end[0] == row else len(line) + 1
        shown, before, width = _excerpt(line, column - 1, end - 1)
        caret = _paint("^" * max(width, 1), _SEVERITY_COLOUR[place.finding.severity], colour)
        yield f"{margin} {bar}"
        yield f"{_paint(str(row), _BLUE, colour)} {bar} {shown}"
        yield f"{margin} {bar} {' ' * before}{caret}"
        yield f"{margin} {bar}"
    for label, text in _advice(place):
        yield f"{_paint(label, _CYAN, colour)}: {visible(text)}"
    yield ""


def _name(place: Place) -> str:
    """The name of a file at the start of a line, where GitHub would take one that starts with `::` for a command."""
    return f"{'./' * place.filename.startswith('::')}{visible(place.filename)}"


def _header(place: Place, colour: bool) -> str:
    finding = place.finding
    mark = f"[{_paint('*', _CYAN, colour)}] " if place.fixable else ""
    return f"{_paint(finding.code, _SEVERITY_COLOUR[finding.severity], colour)} {mark}{visible(finding.message)}"


def _advice(place: Place) -> Iterator[tuple[str, str]]:
    finding = place.finding
    if finding.fix:
        yield "help", finding.fix.message
        if finding.fix.edits and finding.fix.applicability is Applicability.UNSAFE:
            unsafe = "this fix is unsafe: it may change what the program does"
            yield "note", f"{unsafe}; `--unsafe-fixes` applies it" if place.hidden else unsafe
        elif finding.fix.applicability is Applicability.DISPLAY and finding.fix.edits:
            yield "note", "this fix is only shown, never applied"
    if finding.withheld:
        yield "help", f"no fix offered: {finding.withheld}"


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\033[{code}m{text}\033[0m" if colour else text


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
