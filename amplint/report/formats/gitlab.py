"""Findings as a code quality report of GitLab, in the shape of ruff's."""

from __future__ import annotations

import json

from amplint.base.findings import Severity
from amplint.report import Report
from amplint.report.repository_paths import tracked

_SEVERITY = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(report: Report, _colour: bool = False) -> str:
    """A list of objects, one a finding; the fingerprint stays while lines move round it."""
    issues = [
        {
            "check_name": place.finding.code,
            "description": f"{place.finding.code}: {place.finding.said}",
            "severity": _SEVERITY[place.finding.severity],
            "fingerprint": fingerprint,
            "location": {"path": path, "positions": _positions(*place.in_file)},
        }
        for place, path, fingerprint in tracked(report)
    ]
    return json.dumps(issues, indent=2) + "\n"


def _positions(begin: tuple[int, int], end: tuple[int, int]) -> dict[str, dict[str, int]]:
    return {name: {"line": row, "column": column} for name, (row, column) in (("begin", begin), ("end", end))}
