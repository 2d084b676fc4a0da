"""The process that runs programs: one after the other, each for itself, and a line of JSON for each."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib
import json
import os
import runpy
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from amplint.sources.parsing import with_room
from amplint.verify.bench.bench import (
    is_there,
    on_device,
    reset,
    runs_out_of_memory,
    switched_off,
    without_accelerators,
)
from amplint.verify.bench.instrument import Listener, watched
from amplint.verify.bench.recorder import Recorder
from amplint.verify.bench.simulated_devices import simulated
from amplint.verify.fixtures.find import CPU
from amplint.verify.fixtures.proof import BARE, FREE, LOCK_STEP, OVERFLOW, Observed, said
from amplint.verify.steps.answers import Answers

_LIBRARIES = "_libraries"  # a folder beside a fixture's: modules that stand in for libraries it imports
_OUTPUT = 2000  # characters of what a program printed that are kept
_FILE = 64 << 20  # bytes that a program may write to a file, its output included


class Job(NamedTuple):
    """A program to run: its path, and the observable that it is run for."""

    path: str
    shows: str
    device: str | None  # "cpu": no other is seen
    timeout: float  # seconds
    memory: int  # MiB beyond what torch itself takes
    right: bool = False  # it is to be right: where a reference can be run, it is compared with that in any case


def main(folder: str) -> None:
    """Run the jobs that come in on standard input, with `folder` for temporary files, until there are no more."""
    _die_with_the_parent()
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    output = os.open(os.path.join(folder, "output"), os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    torch.set_num_threads(1)
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    answers_of = Answers()
    gc.collect()
    gc.freeze()  # what torch has loaded stays, and need not be looked through again and again
    for line in jobs:
        os.ftruncate(output, 0)
        asked = json.loads(line)
        if "ask" in asked:
            print(json.dumps(_answer(answers_of, asked)), file=answers, flush=True)
            continue
        observed = _run(Job(**asked), folder, output)
        closed = sys.stdout.closed or sys.stderr.closed
        # A thread that goes on would be heard in the next program, and that would miss a closed stream.
        last = closed or threading.active_count() > 1
        print(json.dumps({"observed": dataclasses.asdict(observed), "last": last}), file=answers, flush=True)
        if last:
            break
    os._exit(0)


def _answer(answers: Answers, asked: dict[str, Any]) -> dict[str, Any]:
    """What is asked of a program that isn't run but interpreted."""
    _limit(asked["timeout"], asked["memory"], real_cuda=torch.cuda.is_available())
    try:
        return with_room(lambda: answers.answer(asked))
    except Exception as error:
        return {"failed": f"an error of amplint's own, not of the program: {said(error)}"}
    finally:
        reset()


def _die_with_the_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


def _run(job: Job, folder: str, output: int) -> Observed:
    started = time.perf_counter()
    is_asked = job.device not in (None, CPU)
    there = is_asked and is_there(str(job.device))
    _limit(job.timeout, job.memory, real_cuda=job.device == "cuda" and there)
    observed = _observe(job, there, folder)
    observed.output = _end_of(output)
    if job.right and observed.end == "finished" and job.shows not in LOCK_STEP:
        beside = _observe(job._replace(shows=LOCK_STEP[0]), there, folder)
        if beside.end == "finished":
            observed.take_comparisons(beside)
    observed.simulated = is_asked and not there
    observed.seconds = round(time.perf_counter() - started, 3)
    return observed


def _end_of(output: int) -> str:
    """The end of what was printed into a file, by its descriptor."""
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    end = os.lseek(output, 0, os.SEEK_END)
    os.lseek(output, max(0, end - _OUTPUT), os.SEEK_SET)
    return os.read(output, _OUTPUT).decode("utf-8", "replace")


def _observe(job: Job, there: bool, folder: str) -> Observed:
    """Run the program as often as what it is to show needs."""
    if job.shows in BARE:
        return _execute(job, there, folder, None)
    if job.shows in OVERFLOW:
        return _execute(job, there, folder, Recorder(overflow=True))
    if job.shows not in (*LOCK_STEP, *FREE):
        return _execute(job, there, folder, Recorder())
    reference = Recorder(leave_out=True)
    right = _execute(job, there, folder, reference, off=True)
    if right.end != "finished":
        return dataclasses.replace(right, detail=f"{right.detail} (with AMP disabled)")
    if job.shows in LOCK_STEP:
        return _execute(job, there, folder, Recorder(reference))
    return dataclasses.replace(_execute(job, there, folder, Recorder()), reference_losses=right.losses)


def _execute(job: Job, there: bool, folder: str, recorder: Recorder | None, *, off: bool = False) -> Observed:
    """Run the program once, as `python file.py` would, and leave nothing of it behind."""
    own, process = os.path.dirname(job.path), os.getpid()
    folders = [own, *_libraries(own)]
    work = tempfile.mkdtemp(dir=folder)
    kept = list(sys.path), list(sys.argv), dict(os.environ), set(sys.modules), (sys.stdout, sys.stderr)
    os.chdir(work)
    sys.path[:0] = folders
    sys.argv[:] = [job.path]
    importlib.invalidate_caches()
    reset()
    end, detail = "finished", ""
    try:
        with ExitStack() as conditions:
            caught = conditions.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            conditions.enter_context(_device(job.device, there))
            if off:
                conditions.enter_context(switched_off())
            if recorder:
                conditions.enter_context(_watch(recorder, own))
            runpy.run_path(job.path, run_name="__main__")
    except SystemExit as stop:
        end, detail = "exited", f"status {stop.code or 0}"
    except BaseException as error:
        end, detail = _end(error)
    finally:
        if os.getpid() != process:
            os._exit(0)  # what the program forked has come back here, and would answer too
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        reset()
        torch.set_num_threads(1)
        os.chdir(folder)
        shutil.rmtree(work, ignore_errors=True)
        sys.path[:], sys.argv[:] = kept[0], kept[1]
        os.environ.clear()
        os.environ.update(kept[2])
        sys.stdout, sys.stderr = kept[4]
        for name in set(sys.modules) - kept[3]:
            if any(_within(getattr(sys.modules[name], "__file__", None), each) for each in folders):
                del sys.modules[name]
    observed = recorder.close() if recorder else Observed()
    observed.end, observed.detail = end, detail
    observed.warnings = [f"{each.category.__name__}: {each.message}" for each in caught]
    return observed


def _libraries(own: str) -> list[str]:
    """The folders with what stands in for libraries, of the rule that a fixture's folder belongs to."""
    found = (os.path.join(os.path.dirname(each), _LIBRARIES) for each in (own, os.path.dirname(own)))
    return [each for each in found if os.path.isdir(each)]


def _device(device: str | None, there: bool) -> AbstractContextManager[None]:
    if device is None:
        return nullcontext()
    if device == CPU:
        return without_accelerators()
    return on_device(device) if there else simulated(device)


def _watch(listener: Listener, own: str) -> AbstractContextManager[None]:
    return watched(listener, lambda filename: _within(filename, own))


@lru_cache(maxsize=1024)  # every read of a gradient asks who reads
def _within(filename: str | None, folder: str) -> bool:
    return filename is not None and Path(folder) in Path(filename).parents


def _end(error: BaseException) -> tuple[str, str]:
    return ("out of memory" if runs_out_of_memory(error) else "exception"), said(error)


def _limit(timeout: float, memory: int, *, real_cuda: bool) -> None:
    """Limit what the next program may use, where the platform can; the parent's clock is there in any case."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return

    used = time.process_time()
    limits = {"CPU": int(used + timeout) + 2, "FSIZE": _FILE, "CORE": 0}
    if real_cuda:  # it maps far more than it uses
        limits["AS"] = resource.RLIM_INFINITY  # a program on the CPU may have run before
    else:
        try:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        except OSError:
            pages = 0
        if pages:
            limits["AS"] = pages * resource.getpagesize() + (memory << 20)
    for name, soft in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            within = min(
                (each for each in (soft, hard) if each != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY
            )
            try:
                resource.setrlimit(kind, (within, hard))
            except (ValueError, OSError):  # macOS refuses some
                continue
