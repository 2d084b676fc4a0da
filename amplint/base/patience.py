"""How long one file may take, by the processor's time, and who is shown how far it has come.

The clock is the thread's own, which the work of others doesn't move. After the limit each function gets a last, short
share: what is given up is a function, and what was found in others stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

# Seconds for a file, and for each function once they are used up.
LIMIT, SHARE = 10.0, 0.5


# How many times the limit may be used up before nothing more is begun.
_LAST = 3


class Step(NamedTuple):
    """What is looked at in a file now: the rule that asks, or the function."""

    filename: str
    what: str


class _Hooks:
    """The clock, and who listens."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = time.thread_time
        self.tell: Callable[[Step], object] | None = None


_hooks = _Hooks()
_now: list[Patience] = []


class Patience:
    """The time of one file."""

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._began = self._step = _hooks.clock()
        self.has_given_up = False
        self.left: list[str] = []  # what was not begun any more

    def start(self, what: str) -> None:
        """Something else is looked at."""
        self._step = _hooks.clock()
        if _hooks.tell is not None:
            _hooks.tell(Step(self._filename, what))

    @property
    def is_used_up(self) -> bool:
        """Whether the file has taken what it may take."""
        return _hooks.clock() - self._began > LIMIT

    def ends(self) -> bool:
        """Whether what is looked at is to be given up, which is remembered."""
        now = _hooks.clock()
        ended = now - self._began > LIMIT and now - self._step > SHARE
        self.has_given_up = self.has_given_up or ended
        return ended

    def leaves(self, what: str) -> bool:
        """Whether something is not to be begun any more, which is remembered."""
        lost = _hooks.clock() - self._began > _LAST * LIMIT
        if lost:
            self.has_given_up = True
            self.left.append(what)
        return lost


@contextmanager
def patience(filename: str) -> Iterator[Patience]:
    """The time of a file starts; what is read for it on the way is a part of that."""
    _now.append(_now[-1] if _now else Patience(filename))
    try:
        yield _now[-1]
    finally:
        _now.pop()


def of_file() -> Patience | None:
    """The time of the file that is looked at, if there is a limit."""
    return _now[-1] if _now else None


def measure(clock: Callable[[], float]) -> None:
    """Take the time from another clock."""
    _hooks.clock = clock


def listen(tell: Callable[[Step], object] | None) -> None:
    """Have a function called with each step, or none."""
    _hooks.tell = tell
