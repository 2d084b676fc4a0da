"""Verifying fixtures: the parent of the process that runs them."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from packaging.version import Version

from amplint.verify.fixtures import CPU, Fixture, find_fixtures
from amplint.verify.proof import NOT_EXECUTED, Observed, prove

TIMEOUT, MEMORY = 60.0, 2048  # seconds and MiB that a half may take
_STARTING = 300.0  # seconds that the import of torch may take
_OLDEST = Version("2.4")
# The worker limits its own address space, but not where CUDA needs that; and a program can lift it. So its resident
# memory is watched too, where the platform tells it: so often (seconds), with room for CUDA's own (MiB).
_WATCH, _ROOM = 0.1, 4096
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from amplint.verify.child import main; main(sys.argv[2])"
)
# Of the environment a program sees no more than what it takes to start Python and to find libraries and devices.
_PASSED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


class CannotRun(Exception):
    """Programs can't be run here; the message, a line, says why."""


class Lost(Exception):
    """The worker was lost over a job: it took too long, or died."""

    def __init__(self, end: str, detail: str, seconds: float = 0.0) -> None:
        super().__init__(f"{end}: {detail}")
        self.end = end
        self.detail = detail
        self.seconds = seconds


@dataclass(frozen=True)
class Row:
    """A fixture's verdict: `confirmed`, `refuted` or `not executed`, and what it rests on."""

    fixture: Fixture
    device: str | None
    verdict: str
    before: str
    after: str
    reason: str
    bad: Observed | None = None
    fixed: Observed | None = None

    @property
    def seconds(self) -> float:
        """What both halves took, with all their runs."""
        return sum(each.seconds for each in (self.bad, self.fixed) if each)

    @property
    def simulated(self) -> bool:
        """Whether the device was simulated."""
        return any(each.simulated for each in (self.bad, self.fixed) if each)


def verify(
    paths: Sequence[str | os.PathLike[str]],
    *,
    device: str | None = None,
    timeout: float = TIMEOUT,
    memory: int = MEMORY,
    progress: Callable[[int, int, Fixture], None] | None = None,
) -> list[Row]:
    """Run the fixtures of `paths` under the real torch.amp and say of each whether it shows what it claims.

    `device` ("cuda", "xpu" or "mps") is for fixtures that name none. `timeout` is in seconds, `memory` in MiB, each
    for one half. `progress` is called before each fixture that is executed, with the number done, that of all, and it.

    Raises:
        NotAFixture: a path holds something else; nothing was executed.
        CannotRun: torch is missing or too old, or doesn't start.
    """
    fixtures = find_fixtures([os.fspath(path) for path in paths])
    runnable = [each for each in fixtures if each.shows != "none"]
    if runnable:
        need_torch()
    done = 0
    rows = []
    with TemporaryDirectory(prefix="amplint-", ignore_cleanup_errors=True) as folder, Runner(folder) as runner:
        for each in fixtures:
            if each.shows != "none":
                if progress:
                    progress(done, len(runnable), each)
                done += 1
            rows.append(row_of(each, runner, device=device, timeout=timeout, memory=memory))
    return rows


def row_of(
    fixture: Fixture, runner: Runner, *, device: str | None = None, timeout: float = TIMEOUT, memory: int = MEMORY
) -> Row:
    """The verdict on one fixture, executed by `runner`; the rest is as for `verify`.

    Raises:
        CannotRun: torch doesn't start.
    """
    on = None if fixture.device == CPU else fixture.device or device
    if fixture.shows == "none":
        reason = f"`amplint rule {fixture.rule}` says why" if fixture.rule else "shows=none"
        return Row(fixture, on, NOT_EXECUTED, "", "", reason)
    job = {"shows": fixture.shows, "device": on, "timeout": timeout, "memory": memory}
    bad = runner.run({**job, "path": str(fixture.bad)})
    fixed = runner.run({**job, "path": str(fixture.fixed), "right": True})
    return Row(fixture, on, *prove(fixture.shows, bad, fixed), bad, fixed)


def need_torch() -> None:
    """Raise CannotRun where torch is missing or too old."""
    how = "pip install 'amplint[verify]'"
    if importlib.util.find_spec("torch") is None:
        raise CannotRun(f"verify needs torch, which is not installed: {how}")
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return  # built in place, as torch's own developers have it
    if Version(version) < _OLDEST:
        raise CannotRun(f"verify needs torch {_OLDEST} or later, this is {version}: {how}")


class Runner:
    """Runs programs one by one in a worker process below `folder`, and starts another where one was lost."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._worker: _Worker | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker:
            self._worker.kill()

    def run(self, job: dict[str, Any]) -> Observed:
        """What a program showed; `job` has the fields of `amplint.verify.child.Job`.

        Raises:
            CannotRun: the worker doesn't start.
        """
        try:
            answer = self.ask(job)
            observed, last = Observed.of(answer["observed"]), bool(answer["last"])
        except Lost as lost:
            return Observed(end=lost.end, detail=lost.detail, seconds=lost.seconds)
        except (TypeError, KeyError):  # an answer, and none of ours
            observed, last = Observed(end="died", detail="it no longer answers"), True
        if last:
            self._drop()
        return observed

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """The worker's answer to a job, which has a `timeout`.

        Raises:
            CannotRun: the worker doesn't start.
            Lost: it was lost over the job; the next one gets another worker.
        """
        if self._worker is None:
            self._worker = _Worker(self._folder)
            self._worker.wait_until_ready()
        try:
            return self._worker.ask(job)
        except Lost:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._worker:
            self._worker.kill()
        self._worker = None


class _Worker:
    def __init__(self, parent: str) -> None:
        self._folder = TemporaryDirectory(dir=parent, ignore_cleanup_errors=True)
        path = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment |= dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP"), self._folder.name)
        environment |= {"USER": "amplint", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment |= {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, json.dumps(path), self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder.name,
            env=environment,
            start_new_session=True,  # its own children die with it
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._start(self._process.stdout, self._lines.put)
        self._errors: list[bytes] = []
        self._start(self._process.stderr, lambda line: self._errors.append(line or b""))

    @staticmethod
    def _start(stream: IO[bytes] | None, take: Callable[[bytes | None], None]) -> None:
        def read() -> None:
            for line in stream or ():
                take(line)
            take(None)

        threading.Thread(target=read, daemon=True).start()

    def wait_until_ready(self) -> None:
        try:
            line = self._lines.get(timeout=_STARTING)
        except queue.Empty:
            line = None
        if line is None:
            self.kill()
            said = b"".join(self._errors).decode("utf-8", "replace").strip().splitlines()
            raise CannotRun(f"the process that imports torch did not start: {said[-1] if said else 'it said nothing'}")

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        timeout = job["timeout"]
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            line = self._next_line(timeout, self._resident() + (job["memory"] + _ROOM << 20))
        except OSError:
            line = None
        try:
            answer: dict[str, Any] = json.loads(line or b"")
        except ValueError:  # no answer, or none of ours
            raise Lost("died", self._fate()) from None
        return answer

    def _next_line(self, timeout: float, most: int) -> bytes | None:
        """What the worker says next; `most` is in bytes of resident memory."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=min(_WATCH, left))
            if self._resident() > most:
                raise Lost("out of memory", f"more than {most >> 20} MiB", timeout - left)
        raise Lost("timed out", f"after {timeout:g} s", timeout)

    def _resident(self) -> int:
        """The worker's resident memory in bytes, as Linux tells it; 0 elsewhere."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _fate(self) -> str:
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it no longer answers"
        if status >= 0:
            return f"exit status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = str(-status)
        return "it took too much time of the processor" if name == "SIGXCPU" else f"signal {name}"

    def kill(self) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        self._folder.cleanup()
