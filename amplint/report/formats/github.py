"""Findings as annotations of a GitHub workflow."""

from __future__ import annotations

from amplint.base.findings import Severity
from amplint.base.paths import visible
from amplint.report import Report
from amplint.report.formats.json import file_path
from amplint.report.text import advice

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, _colour: bool = False) -> str:
    """A workflow command a line, one a finding."""
    text = ""
    for place in report.places():
        finding, ((row, column), (end_row, end_column)) = place.finding, place.in_file
        properties = {
            "title": f"amplint ({finding.code})",
            "file": file_path(place.filename),
            "line": row,
            "col": column,
            "endLine": end_row,
            "endColumn": end_column,
        }
        listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
        shown = f"{place.filename}:{place.where}: {finding.code} {finding.said}"
        shown += "".join(f"\n  {label}: {text}" for label, text in advice(place))
        text += f"::{_LEVEL[finding.severity]} {listed}::{_data(shown)}\n"
    return text


def _data(text: str) -> str:
    """A text in which nothing ends the command, or acts on the log."""
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
