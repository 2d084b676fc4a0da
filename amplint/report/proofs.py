"""What `amplint verify` found: a table for people, a list of JSON objects for programs."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplint.verify.run import Row

_BETWEEN = "  "
_HEAD = ("", "shows", "before", "after", "verdict", "s")
_MOST = 4  # lines of a cell; what torch says can be long


def as_table(rows: Sequence[Row], width: int = 160) -> str:
    """A table for each rule, `width` characters wide where that leaves room for words, and a sum."""
    tables = [_table(folder, list(of), width) for folder, of in groupby(rows, lambda row: row.fixture.folder)]
    if any(row.simulated for row in rows):
        tables.append("* simulated on the CPU\n")
    return "\n".join([*tables, _sum(rows)]) + "\n"


def _table(folder: str, rows: Sequence[Row], width: int) -> str:
    cells = [
        (
            row.fixture.name,
            _shows(row),
            row.before,
            row.after or row.reason,
            row.verdict,
            f"{row.seconds:.2f}" if row.bad else "",
        )
        for row in rows
    ]
    most = [max(map(len, column)) for column in zip(_HEAD, *cells, strict=True)]
    left = max(width - most[0] - most[1] - most[4] - most[5] - len(_BETWEEN) * 5, 60)
    # What one of the two sentences doesn't need, the other one has.
    after = min(most[3], max(left // 2, left - most[2]))
    widths = [most[0], most[1], min(most[2], left - after), after, most[4], most[5]]
    lines = [folder.replace("_", " ", 1), *lines_of(_HEAD, widths)]
    for row, each in zip(rows, cells, strict=True):
        lines += lines_of(each, widths)
        if row.reason and row.bad:
            lines.append(f"  {row.verdict}: {row.reason}")
    return "\n".join(lines) + "\n"


def lines_of(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A row of a table, its cells wrapped to the widths of their columns."""
    wrapped = [
        textwrap.wrap(cell, width, max_lines=_MOST, placeholder=" ...") if len(cell) > width else [cell]
        for cell, width in zip(cells, widths, strict=True)
    ]
    return [
        _BETWEEN.join(
            (column[line] if line < len(column) else "").ljust(width)
            for column, width in zip(wrapped, widths, strict=True)
        ).rstrip()
        for line in range(max(map(len, wrapped)))
    ]


def _shows(row: Row) -> str:
    if row.device is None or not row.bad:
        return row.fixture.shows
    return f"{row.fixture.shows}, {row.device}{'*' if row.simulated else ''}"


def _sum(rows: Sequence[Row]) -> str:
    counts = {"confirmed": 0, "refuted": 0, "not executed": 0}
    for row in rows:
        counts[row.verdict] += 1
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{said}; {sum(row.seconds for row in rows):.1f} s"


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A list of objects, one a fixture.

    `rule` is a code or null, `variant` a name, `path` the file of the bad half. `shows` names the observable, `device`
    is null for none, `simulated` says whether it was there. `verdict` is "confirmed", "refuted" or "not executed",
    `reason` says why it is not confirmed, else null. `before` and `after` are the sentences of the table. `seconds` is
    what both halves took. `bad` and `fixed` hold the numbers: the fields of `amplint.verify.proof.Observed`, null if
    not executed. Numbers that are not finite are null.
    """
    return [finite(_object(row)) for row in rows]


def _object(row: Row) -> dict[str, Any]:
    return {
        "rule": row.fixture.rule or None,
        "variant": row.fixture.name,
        "path": str(row.fixture.bad),
        "shows": row.fixture.shows,
        "device": row.device,
        "simulated": row.simulated,
        "verdict": row.verdict,
        "reason": row.reason or None,
        "before": row.before,
        "after": row.after,
        "seconds": round(row.seconds, 3),
        "bad": dataclasses.asdict(row.bad) if row.bad else None,
        "fixed": dataclasses.asdict(row.fixed) if row.fixed else None,
    }


def finite(value: Any) -> Any:
    """A value for JSON, with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
