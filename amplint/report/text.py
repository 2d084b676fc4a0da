"""What the formats for people have in common."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.base.findings import Applicability, Confidence, Severity
from amplint.base.paths import visible
from amplint.report import Place

BOLD, CYAN, BLUE = "1", "36", "1;34"
SEVERITY_COLOUR = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: CYAN}


def shown_name(place: Place) -> str:
    """The name of a file at the start of a line, where GitHub would take one that starts with `::` for a command."""
    return f"{'./' * place.filename.startswith('::')}{visible(place.filename)}"


def header(place: Place, colour: bool) -> str:
    """`AMP401 [*] error: message`, the star where `--fix` with the flags given would fix it.

    How sure it is comes after the severity: `warning (likely)`.
    """
    finding = place.finding
    mark = f"[{paint('*', CYAN, colour)}] " if place.fixable else ""
    code, severity = (
        paint(each, SEVERITY_COLOUR[finding.severity], colour) for each in (finding.code, finding.severity.value)
    )
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    return f"{code} {mark}{severity}{sure}: {visible(finding.message)}"


def advice(place: Place) -> Iterator[tuple[str, str]]:
    """What to do about a finding, and what to know of its fix: lines with their labels."""
    finding = place.finding
    if finding.fix:
        yield "help", finding.fix.message
        if finding.fix.edits and finding.fix.applicability is Applicability.UNSAFE:
            unsafe = "this fix is unsafe: it may change what the program does"
            yield "note", f"{unsafe}; `--unsafe-fixes` applies it" if place.hidden else unsafe
        elif finding.fix.applicability is Applicability.DISPLAY and finding.fix.edits:
            yield "note", "this fix is only shown, never applied"
    if finding.withheld:
        yield "help", f"no fix: {finding.withheld}"


def paint(text: str, code: str, colour: bool) -> str:
    """A text in a terminal's colour, or as it is."""
    return f"\033[{code}m{text}\033[0m" if colour else text
