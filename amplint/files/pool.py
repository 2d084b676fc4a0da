"""Many files at once: each process takes the next file, and what comes back is in the order of the files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

from amplint.base.patience import listen

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# Windows can't wait for more.
MOST = 61


def in_processes(
    work: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    processes: int,
    lost: Callable[[Job], Outcome],
    unfinished: Callable[[Job], Outcome],
) -> Iterator[Outcome]:
    """`work` done on each of `jobs`; in this process where others can't be had.

    What a job comes to that ends the process that does it, `lost` says; the others are done. When the user ends it,
    what is done counts, and of the others `unfinished` says what they come to.
    """
    rest = jobs
    while rest:
        try:
            before = multiprocessing.active_children()
            pool, outcomes = _started(work, rest, processes)
        except (OSError, ImportError, NotImplementedError):  # no semaphores, as in some containers, or no memory
            yield from map(work, rest)
            return
        done = 0
        try:
            _hold_back_interrupts(False)
            for future in outcomes:
                outcome = future.result()
                done += 1
                yield outcome
        except KeyboardInterrupt:
            # Nobody waits for what they are at; what they write is written in one step.
            for process in multiprocessing.active_children():
                if process not in before:
                    process.kill()
            # One may have been killed at half of a message, and the pool's thread would wait for the rest: with the
            # last end for writing closed, it sees that there is none.
            pool._result_queue._writer.close()  # type: ignore[attr-defined]
            # Its thread has nothing to wait for, and must not be at work on closed pipes when Python ends.
            pool.shutdown(cancel_futures=True)
            finished = [future.done() and not future.cancelled() and future.exception() is None for future in outcomes]
            for job, future, is_done in [*zip(rest, outcomes, finished, strict=True)][done:]:
                yield future.result() if is_done else unfinished(job)
            return
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


def _started(
    work: Callable[[Job], Outcome], jobs: Sequence[Job], processes: int
) -> tuple[ProcessPoolExecutor, list[Future[Outcome]]]:
    """Processes that do the jobs. Ctrl-C is held back, so that none is interrupted before it can ignore that."""
    _hold_back_interrupts(True)
    try:
        # What a process forked from this one then need not import itself.
        for module in ("amplint.engine.file", "amplint.model.module"):
            import_module(module)
        with _nothing_from_here() as home:
            pool = ProcessPoolExecutor(min(processes, len(jobs), MOST), initializer=_begin, initargs=(home,))
            return pool, [pool.submit(work, job) for job in jobs]
    except BaseException:
        _hold_back_interrupts(False)
        raise


def _hold_back_interrupts(held: bool) -> None:
    """Let SIGINT wait, in this process and in those that it starts, or let it come."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _nothing_from_here() -> Iterator[str | None]:
    """Where processes aren't forked Python starts them in the current directory, and would import what lies there.

    Where Python can't be told (before 3.11), they start in its own directory; where they belong is what this gives.
    """
    if sys.version_info < (3, 11):
        home = os.getcwd()
        os.chdir(os.path.dirname(os.__file__))
        try:
            yield home
        finally:
            os.chdir(home)
        return
    if "PYTHONSAFEPATH" in os.environ:
        yield None
        return
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield None
    finally:
        del os.environ["PYTHONSAFEPATH"]


def _begin(home: str | None) -> None:
    if home is not None:
        os.chdir(home)
    listen(None)
    # Ctrl-C reaches all processes; the first ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_first, daemon=True).start()


def _end_with_the_first() -> None:
    """End this process where the first one was killed: nobody would give it work, or the word to end."""
    if first := multiprocessing.parent_process():
        first.join()
        os._exit(1)
