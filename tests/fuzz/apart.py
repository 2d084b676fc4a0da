"""Work in a process of its own, which may die or never end."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

T = TypeVar("T")
# Seconds for one piece of work; pieces that a process does before another one takes its place.
PATIENCE = 120
_LIFE = 500
_CONTEXT = multiprocessing.get_context("fork")


class Death(NamedTuple):
    """How a process ended over a piece of work."""

    how: str


def apart(
    work: Callable[[int], T], numbers: Sequence[int], patience: float = PATIENCE
) -> Iterator[tuple[int, T | Death]]:
    """What `work` makes of each number."""
    at = 0
    while at < len(numbers):
        chunk = numbers[at : at + _LIFE]
        receiving, sending = _CONTEXT.Pipe(duplex=False)
        child = _CONTEXT.Process(target=_serve, args=(work, chunk, sending))
        child.start()
        sending.close()
        try:
            for number in chunk:
                answer = _receive(receiving, patience)
                at += 1
                if answer is None:
                    child.join()
                    yield number, Death(f"ended by signal {-(child.exitcode or 0)}")
                    break
                if isinstance(answer, Death):
                    yield number, answer
                    break
                yield number, answer[0]
        finally:
            child.kill()
            child.join()
            receiving.close()


def _receive(receiving: Connection, patience: float) -> tuple[T] | Death | None:
    """The next answer; None from a process that has ended."""
    if not receiving.poll(patience):
        return Death(f"not done after {patience:g} s")
    try:
        answer: tuple[T] = receiving.recv()
    except EOFError:
        return None
    return answer


def _serve(work: Callable[[int], T], numbers: Sequence[int], sending: Connection) -> None:
    for number in numbers:
        sending.send((work(number),))
