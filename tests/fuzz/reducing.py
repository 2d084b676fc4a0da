"""A smaller text that fails in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def reduce(data: bytes, fails: Callable[[bytes], bool], seconds: float = 30) -> bytes:
    """Leave out lines as long as what is left still fails: halves first, single lines last."""
    lines: list[bytes] = _LINE.findall(data)
    size, until = len(lines) // 2, time.monotonic() + seconds
    while size and time.monotonic() < until:
        at, fewer = 0, False
        while at < len(lines) and time.monotonic() < until:
            left = lines[:at] + lines[at + size :]
            if fails(b"".join(left)):
                lines, fewer = left, True
            else:
                at += size
        size = size if fewer and size == 1 else size // 2
    return b"".join(lines)
