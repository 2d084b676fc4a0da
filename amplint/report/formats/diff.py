"""Diffs for people: what goes and what comes, in a terminal's colours."""

from __future__ import annotations

import re

from amplint.report.text import BOLD, CYAN, paint

_STYLES = {b"---": BOLD, b"+++": BOLD, b"@@": CYAN, b"-": "31", b"+": "32"}
_LINE = re.compile(rb"^(--- |\+\+\+ |@@ |[-+])[^\r\n]*", re.MULTILINE)


def painted(diff: bytes) -> bytes:
    """A unified diff in colours."""
    return _LINE.sub(lambda line: _painted(line.group(), _STYLES[line[1].rstrip()]), diff)


def _painted(line: bytes, style: str) -> bytes:
    return paint(line.decode("latin-1"), style, colour=True).encode("latin-1")
