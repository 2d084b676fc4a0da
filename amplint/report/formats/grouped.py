"""Findings for people: a line each, below the name of their file."""

from __future__ import annotations

from itertools import groupby

from amplint.report import Report
from amplint.report.text import BOLD, header, paint, shown_name


def render(report: Report, colour: bool = False) -> str:
    """A block for each file: its name, and `  line:col AMP401 [*] message`, the columns below each other."""
    text = ""
    for name, group in groupby(report.places(), shown_name):
        places = list(group)
        rows, columns = (max(len(str(place.start[at])) for place in places) for at in (0, 1))
        text += f"{paint(name, BOLD, colour)}:\n"
        for place in places:
            text += f"  {place.in_cell}{place.start[0]:>{rows}}:{place.start[1]:<{columns}} {header(place, colour)}\n"
        text += "\n"
    return text
