"""The other places of one cause, as the message of its one finding says them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.model import Module

_SHOWN = 4


def lines(module: Module, offsets: Iterable[int]) -> str:
    """The lines of some places: `line 3`, `lines 3, 5 and 9`, `lines 3, 5, 9, 12 and 4 more`."""
    names = list(dict.fromkeys(module.source.named(each) for each in sorted(offsets)))
    if len(names) == 1:
        return names[0]
    rows = [each.removeprefix("line ") for each in names]
    more = len(rows) - _SHOWN
    if more > 1:
        return f"lines {', '.join(rows[:_SHOWN])} and {more} more"
    return f"lines {', '.join(rows[:-1])} and {rows[-1]}"
