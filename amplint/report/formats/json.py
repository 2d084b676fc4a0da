"""Findings as JSON, with ruff's keys, and which version of these it is: what reads ruff's output reads this."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from amplint.base.about import SCHEMA_VERSION, rule_url
from amplint.base.findings import Edit
from amplint.base.paths import absolute
from amplint.report import Place, Report
from amplint.sources.comments import layout
from amplint.suppression.suppressions import UNSUPPRESSIBLE


def render(report: Report, _colour: bool = False) -> str:
    """A list of objects, one a finding."""
    return json.dumps([as_dict(place) for place in report.places()], indent=2, sort_keys=True) + "\n"


def as_dict(place: Place) -> dict[str, Any]:
    """One finding as ruff writes it: columns from 1 in characters, ends exclusive, the file's path absolute."""
    finding, fix = place.finding, place.finding.fix
    return {
        "cell": place.cell,
        "code": finding.code,
        "confidence": finding.confidence.value,
        "end_location": _location(place.end),
        "filename": file_path(place.filename),
        "fix": fix
        and {
            "applicability": fix.applicability.value,
            "edits": [_edit(edit, place) for edit in fix.edits],
            "message": fix.message,
        },
        "location": _location(place.start),
        "message": finding.message,
        "name": finding.name,
        "noqa_row": None if finding.code in UNSUPPRESSIBLE else _noqa_row(place),
        "schema_version": SCHEMA_VERSION,
        "severity": finding.severity.value,
        "unconfirmed": finding.unconfirmed,
        "url": rule_url(finding.code),
        "withheld": finding.withheld,
    }


def file_path(filename: str) -> str:
    """The absolute path of a file; standard input keeps its dash."""
    return filename if filename == "-" else absolute(filename)


def _location(place: Sequence[int]) -> dict[str, int]:
    return {"column": place[1], "row": place[0]}


def _edit(edit: Edit, place: Place) -> dict[str, Any]:
    cell, *_ = place.source.place(edit.start)
    where = {} if cell is None else {"cell": cell}  # a fix may change several
    return {
        **where,
        "content": edit.content,
        "end_location": _location(place.at(edit.end)),
        "location": _location(place.at(edit.start)),
    }


def _noqa_row(place: Place) -> int:
    """The line that takes a `# noqa`, as `--add-noqa` would put it."""
    row = place.source.row(place.finding.start)
    return place.start[0] + (layout(place.source.text).row_with_room(row) or row) - row
