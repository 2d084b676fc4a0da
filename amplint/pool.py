"""Many files at once: each process takes the next file, and what comes back is in the order of the files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from typing import TypeVar

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# Windows can't wait for more.
MOST = 61


def in_processes(work: Callable[[Job], Outcome], jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    """`work` done on each of `jobs`; in this process where others can't be had, or die."""
    # What a process forked from this one then need not import itself.
    for module in ("amplint.engine", "amplint.model.module"):
        import_module(module)
    try:
        pool = ProcessPoolExecutor(min(processes, len(jobs), MOST), initializer=_leave_interrupts)
        outcomes = pool.map(work, jobs)
    except (OSError, ImportError, NotImplementedError):  # no semaphores, as in some containers, or no memory
        yield from map(work, jobs)
        return
    done = 0
    try:
        for outcome in outcomes:
            done += 1
            yield outcome
    except BrokenProcessPool:
        # One has died, for want of memory or of a bug in what it runs; at which file can't be told.
        yield from map(work, jobs[done:])
    finally:
        # Processes that are at work on what nobody waits for any more are not waited for either.
        pool.shutdown(wait=done == len(jobs), cancel_futures=True)


def _leave_interrupts() -> None:
    """Ctrl-C reaches all processes; the first ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
