"""Findings in reviewdog's diagnostic format, with the fixes as suggestions."""

from __future__ import annotations

import json
from typing import Any

from amplint.base.about import rule_url
from amplint.base.findings import Severity
from amplint.report import Place, Report
from amplint.report.formats.json import file_path
from amplint.report.repository_paths import HOME

_SEVERITY = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "INFO"}
# Lines of a suggestion: reviewdog shows it where all of it is part of the change.
_MOST = 10


def render(report: Report, _colour: bool = False) -> str:
    """One object with all findings."""
    result = {
        "source": {"name": "amplint", "url": HOME},
        "severity": "WARNING",
        "diagnostics": [_diagnostic(place) for place in report.places()],
    }
    return json.dumps(result, indent=2) + "\n"


def _diagnostic(place: Place) -> dict[str, Any]:
    finding = place.finding
    url = rule_url(finding.code)
    found = {
        "message": finding.said,
        "location": {"path": file_path(place.filename), "range": _range(place, finding.start, finding.end)},
        "severity": _SEVERITY[finding.severity],
        "code": {"value": finding.code, **({"url": url} if url else {})},
    }
    suggestion = _suggestion(place) if place.suggested else None
    return {**found, "suggestions": [suggestion]} if suggestion else found


def _suggestion(place: Place) -> dict[str, Any] | None:
    """A fix as one replacement, as each of several would be offered by itself; None where it would take in too much."""
    assert place.finding.fix is not None
    edits = sorted(place.finding.fix.edits)
    start, end = edits[0].start, edits[-1].end
    if place.source.row(end) - place.source.row(start) >= _MOST:
        return None
    text, at = "", start
    for edit in edits:
        text += place.source.text[at : edit.start] + edit.content
        at = edit.end
    return {"range": _range(place, start, end), "text": text}


def _range(place: Place, start: int, end: int) -> dict[str, Any]:
    return {"start": _position(place, start), "end": _position(place, end)}


def _position(place: Place, offset: int) -> dict[str, int]:
    """A place whose column counts bytes of UTF-8."""
    row, column = place.source.in_file(offset)
    before = place.source.written(row)[: column - 1]
    return {"line": row, "column": len(before.encode("utf-8", "surrogatepass")) + 1}
