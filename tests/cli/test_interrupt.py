"""Ctrl-C ends a run at once: what was found until then is printed, and that there is more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from amplint import runner
from amplint.engine import file as engine_file
from amplint.engine.result import Outcome
from amplint.files import pool
from amplint.runner import MANY, Job
from tests import ROOT
from tests.conftest import LEGACY, MODERN, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]
FILES: dict[str, str | bytes] = {"a.py": LEGACY, "b.py": LEGACY.replace("x)", "x)  # b"), "c.py": LEGACY}
LEFT = "amplint: error: interrupted: {} of {} files were not linted\n"


def _interrupted_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    process = runner.process

    def work(data: bytes, job: Job) -> Outcome:
        if job.path == name:
            raise KeyboardInterrupt
        return process(data, job)

    monkeypatch.setattr(runner, "process", work)


def test_what_was_found_is_printed(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(FILES)
    _interrupted_at(monkeypatch, "b.py")
    ran = amplint("--output-format", "concise")
    assert ran.code == 130
    assert [line.partition(":")[0] for line in ran.out.splitlines()] == [
        "a.py",
        "Found 1 warning.",
        "[*] 1 fixable with `--fix`.",
    ]
    assert ran.err == LEFT.format(2, 3)


def test_an_interrupt_inside_a_class_that_is_made(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python before 3.12 raises a RuntimeError from it."""
    project(FILES)

    def seen(*_: object) -> object:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr(engine_file, "check_bytes", seen)
    assert amplint("--no-cache") == Ran(130, "", LEFT.format(3, 3))


def test_nothing_found_is_not_all_well(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project({"a.py": MODERN, "b.py": LEGACY})
    _interrupted_at(monkeypatch, "b.py")
    assert amplint() == Ran(130, "", LEFT.format(1, 2))


def test_while_files_are_searched(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(FILES)
    contents = runner.contents

    def read(path: str) -> bytes:
        if path == "c.py":
            raise KeyboardInterrupt
        return contents(path)

    monkeypatch.setattr(runner, "contents", read)
    assert amplint() == Ran(130, "", LEFT.format(3, 3))


def test_what_was_fixed_is_printed(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(FILES)
    _interrupted_at(monkeypatch, "b.py")
    assert amplint("--fix") == Ran(130, "Found 1 warning (1 fixed, 0 remaining).\n", LEFT.format(2, 3))
    assert (root / "a.py").read_text() == MODERN
    assert (root / "b.py").read_text() == FILES["b.py"]


def test_a_baseline_is_not_written(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(FILES)
    _interrupted_at(monkeypatch, "b.py")
    assert amplint("--baseline", "known.json", "--write-baseline") == Ran(130, "", "amplint: interrupted\n")
    assert not (root / "known.json").exists()


def test_a_baseline_lists_what_was_not_linted(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(FILES)
    amplint("--baseline", "known.json", "--write-baseline")
    _interrupted_at(monkeypatch, "b.py")
    assert "no longer occurs" not in amplint("--baseline", "known.json", "--verbose").err


def _at_once_or_never(job: tuple[int, Path]) -> int:
    number, folder = job
    (folder / str(number)).touch()
    if number == 0:
        time.sleep(600)
    return number


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_processes_at_work_are_not_waited_for(tmp_path: Path) -> None:
    """What others have done counts, though the first job is not done."""
    jobs = [(number, tmp_path) for number in range(40)]

    def interrupt() -> None:
        while len(list(tmp_path.iterdir())) < len(jobs):
            time.sleep(0.01)
        time.sleep(0.2)  # for the last to come back
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    threads = set(threading.enumerate())
    found = list(pool.in_processes(_at_once_or_never, jobs, 2, lambda _: -1, lambda _: -2))
    left = set(threading.enumerate()) - threads
    thread.join()
    assert found == [-2, *range(1, 40)]
    # A thread of the pool that is still at work when Python ends prints a traceback.
    assert not left


# A process of its own: the thread that pytest's worker talks with would take the signal.
STARTING = """\
import os
import signal

from amplint.files import pool


class Interrupted(pool.ProcessPoolExecutor):
    def submit(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return super().submit(*args, **kwargs)


pool.ProcessPoolExecutor = Interrupted
print(list(pool.in_processes(abs, range(4), 2, lambda _: -1, lambda _: -2)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_an_interrupt_while_processes_are_started() -> None:
    """It waits until they are there, and can be ended."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", STARTING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 4
    assert -2 in found


def _long(name: str) -> str:
    """A program that takes longer than anybody waits."""
    calls = "\n".join(f"        {name}{number}(scaler, optimizer)" for number in range(40))
    helpers = "\n\n".join(
        f"def {name}{number}(scaler, optimizer):\n    if scaler.a{number}:\n        scaler.unscale_(optimizer)\n"
        f"    with torch.cuda.amp.autocast():\n        pass"
        for number in range(40)
    )
    return (
        f"import torch\n\n\n{helpers}\n\n\ndef train(optimizer, data):\n    scaler = torch.amp.GradScaler('cuda')\n"
        f"    for x in data:\n        scaler.scale(x).backward()\n{calls}\n        scaler.step(optimizer)\n"
    )


def _wait_for_work(process: subprocess.Popen[bytes], jobs: int) -> None:
    """Wait until it is at its files: with several jobs it has as many children, with one a thread in which it reads."""
    tasks = Path(f"/proc/{process.pid}/task")
    while process.poll() is None:
        with suppress(FileNotFoundError):
            threads = [each.name for each in tasks.iterdir()]
            if len(threads if jobs == 1 else (tasks / str(process.pid) / "children").read_text().split()) > 1:
                return
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's children")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_ends_and_leaves_nothing(project: Write, jobs: int) -> None:
    """No traceback, no process; what is printed is whole."""
    project({f"{number:03}.py": LEGACY + _long(f"f{number}") for number in range(MANY * 20)})
    command = [sys.executable, "-m", "amplint", "--no-cache", "--output-format", "json", "--jobs", str(jobs)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=env
    ) as process:
        _wait_for_work(process, jobs)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert err.startswith(b"amplint: ")
    assert out == b"" or json.loads(out) is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


WHILE_TEXT_IS_EXECUTED = """\
import sys
from amplint import cli
from amplint.cli import commands

commands.dispatch = lambda arguments: exec("raise KeyboardInterrupt")
sys.exit(cli.main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_the_code_is_the_same_while_a_text_is_executed(tmp_path: Path) -> None:
    """What `python -m` runs would end by a signal."""
    (tmp_path / "as_module.py").write_text(WHILE_TEXT_IS_EXECUTED)
    command, env = [sys.executable, "-m", "as_module"], {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "amplint: interrupted\n")
