"""Tests of amplint."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from itertools import cycle, product
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
S = TypeVar("S")

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
ROOT = Path(__file__).parents[1]


def in_turn(ones: Iterable[T], others: Iterable[S]) -> list[tuple[T, S]]:
    """Each of `ones` with the next of `others`, which are fewer; with all of them where AMPLINT_TEST_ALL is set."""
    if "AMPLINT_TEST_ALL" in os.environ:
        return list(product(ones, others))
    return list(zip(ones, cycle(others)))


def some(items: Iterable[T], most: int) -> list[T]:
    """At most so many of the items, in their order; all of them where AMPLINT_TEST_ALL is set.

    An item is chosen by its text, so that one more or less changes little; where the repository is doesn't matter.
    """
    everything = list(items)
    if "AMPLINT_TEST_ALL" in os.environ:
        return everything

    def key(number: int) -> int:
        return zlib.crc32(_ADDRESS.sub("", str(everything[number])).replace(str(ROOT), "").encode())

    return [everything[number] for number in sorted(sorted(range(len(everything)), key=key)[:most])]
