"""Findings as JSON, an object a line, for programs that read them one by one."""

from __future__ import annotations

import json

from amplint.report import Report
from amplint.report.formats.json import as_dict


def render(report: Report, _colour: bool = False) -> str:
    """The objects of the format `json`, a line each."""
    lines = (json.dumps(as_dict(place), sort_keys=True, separators=(",", ":")) for place in report.places())
    return "".join(f"{line}\n" for line in lines)
