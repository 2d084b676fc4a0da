"""Many files at once: each process takes the next file, and what comes back is in the order of the files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# Windows can't wait for more.
MOST = 61


def in_processes(
    work: Callable[[Job], Outcome], jobs: Sequence[Job], processes: int, lost: Callable[[Job], Outcome]
) -> Iterator[Outcome]:
    """`work` done on each of `jobs`; in this process where others can't be had.

    What a job comes to that ends the process that does it, `lost` says; the others are done.
    """
    # What a process forked from this one then need not import itself.
    for module in ("amplint.engine", "amplint.model.module"):
        import_module(module)
    rest = jobs
    while rest:
        try:
            with _nothing_from_here():
                pool = ProcessPoolExecutor(min(processes, len(rest), MOST), initializer=_begin)
                outcomes = pool.map(work, rest)
        except (OSError, ImportError, NotImplementedError):  # no semaphores, as in some containers, or no memory
            yield from map(work, rest)
            return
        done = 0
        try:
            for outcome in outcomes:
                done += 1
                yield outcome
        except BrokenProcessPool:
            # One has died, for want of memory or of a bug in what it runs. At which job can't be told of several.
            if processes == 1:
                yield lost(rest[done])
                done += 1
            processes = 1
            pool.shutdown()  # its thread must not hold a lock while the next pool's processes are forked
        finally:
            # Processes that are at work on what nobody waits for any more are not waited for either.
            pool.shutdown(wait=done == len(rest), cancel_futures=True)
        rest = rest[done:]


@contextmanager
def _nothing_from_here() -> Iterator[None]:
    """Where processes aren't forked Python starts them in the current directory, and would import what lies there."""
    if "PYTHONSAFEPATH" in os.environ:
        yield
        return
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]


def _begin() -> None:
    # Ctrl-C reaches all processes; the first ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_first, daemon=True).start()


def _end_with_the_first() -> None:
    """End this process where the first one was killed: nobody would give it work, or the word to end."""
    if first := multiprocessing.parent_process():
        first.join()
        os._exit(1)
