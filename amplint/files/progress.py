"""How far a long run has come: the last line of a terminal, gone before anything else is printed."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from amplint.base.paths import visible
from amplint.base.patience import Step

T = TypeVar("T")
# Seconds before a run counts as long, and between two looks of the line.
_LONG, _PAUSE = 1.0, 0.1
_BAR = 24  # characters


def say(text: str) -> None:
    """Put a text in the place of the last one; an empty one clears the line. Only a terminal sees any of it."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{visible(text)[:width]}", end="", file=sys.stderr, flush=True)


class Steps:
    """How far a file has come that takes long, as the line of it says."""

    def __init__(self) -> None:
        self._filename = ""
        self._next = 0.0
        self.is_shown = False

    def tell(self, step: Step) -> None:
        """Say what is looked at, if it is time."""
        now = time.monotonic()
        if step.filename != self._filename:
            self._filename, self._next = step.filename, now + _LONG
        elif now >= self._next:
            say(f"{step.filename}: {step.what}")
            self._next, self.is_shown = now + _PAUSE, True

    def clear(self) -> None:
        """Take the line away, if there is one."""
        if self.is_shown:
            say("")
            self.is_shown = False


def counted(outcomes: Iterable[T], total: int) -> Iterator[T]:
    """What comes of `total` files, with a bar while that takes long."""
    first = shown = time.monotonic() + _LONG - _PAUSE
    try:
        for done, outcome in enumerate(outcomes, 1):
            yield outcome
            now = time.monotonic()
            if now - shown >= _PAUSE:
                full = done * _BAR // total
                say(f"[{'#' * full}{' ' * (_BAR - full)}] {done}/{total} files")
                shown = now
    finally:
        if shown != first:
            say("")
