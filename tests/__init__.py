"""Tests of amplint."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
ROOT = Path(__file__).parents[1]


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
