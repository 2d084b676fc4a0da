"""A way out of long work for whose result nobody waits any more, as an editor's text that has changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_is_over: list[Callable[[], bool]] = []


class Interrupted(BaseException):
    """The result of the work is of no more use. No `except Exception` takes it for a failure."""


@contextmanager
def until(is_over: Callable[[], bool]) -> Iterator[None]:
    """A context in which work ends as soon as `is_over` says so.

    Raises:
        Interrupted: it did.
    """
    _is_over.append(is_over)
    try:
        yield
    finally:
        _is_over.pop()


def go_on() -> None:
    """Do nothing, unless the work is over; long work calls this again and again.

    Raises:
        Interrupted: it is.
    """
    if _is_over and _is_over[-1]():
        raise Interrupted
