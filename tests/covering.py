"""Of all combinations of some choices so few that any two or three choices still stand together in one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from random import Random
from typing import Any


def covering(*axes: Sequence[Any], together: int = 2) -> list[tuple[Any, ...]]:
    """Combinations with a choice from each axis, in which any `together` choices from different axes occur.

    What goes wrong with a combination goes wrong with two or three of its choices, whatever the others are.
    """
    order = list(product(*(range(len(axis)) for axis in axes)))
    Random(0).shuffle(order)
    covered: set[tuple[tuple[int, int], ...]] = set()
    chosen = []
    for places in order:
        met = set(combinations(enumerate(places), together))
        if met - covered:
            covered |= met
            chosen.append(places)
    return [tuple(axis[at] for axis, at in zip(axes, places, strict=True)) for places in sorted(chosen)]
