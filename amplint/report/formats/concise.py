"""Findings for people: a line each."""

from __future__ import annotations

from amplint.report import Report
from amplint.report.text import BOLD, header, paint, shown_name


def render(report: Report, colour: bool = False) -> str:
    """`path:line:col: AMP401 [*] message`, a line each."""
    return "".join(
        f"{paint(shown_name(place), BOLD, colour)}:{place.where}: {header(place, colour)}\n"
        for place in report.places()
    )
