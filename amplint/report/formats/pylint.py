"""Findings as pylint prints them in its parseable form, for what reads that: Jenkins, editors."""

from __future__ import annotations

from amplint.base.paths import visible
from amplint.report import Report
from amplint.report.text import shown_name


def render(report: Report, _colour: bool = False) -> str:
    """`path:line: [AMP401] message`, a line each."""
    return "".join(
        f"{shown_name(place)}:{place.in_file[0][0]}: [{place.finding.code}] {visible(place.finding.said)}\n"
        for place in report.places()
    )
