"""Many files in several processes: the same result as in one, whatever happens to a process."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.engine.file import check_bytes
from amplint.files import pool
from amplint.runner import MANY
from tests import ROOT
from tests.conftest import LEGACY, MODERN, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

PARENT = os.getpid()
FILES: dict[str, str | bytes] = {f"f{i:02}.py": LEGACY if i % 2 else MODERN for i in range(MANY + 3)}


def slow_at_first(number: int) -> tuple[int, bool]:
    time.sleep(0.2 if number == 0 else 0)
    return number, os.getpid() != PARENT


def deadly(number: int) -> int:
    if number in (5, 31) and os.getpid() != PARENT:
        os._exit(1)
    return number


def lost(number: int) -> int:
    return -number


def unfinished(number: int) -> int:
    raise AssertionError(number)  # nobody has interrupted it


def dies_once(job: tuple[int, Path]) -> int:
    number, died = job
    if number == 5 and os.getpid() != PARENT and not died.exists():
        died.touch()
        os._exit(1)
    return number


def test_outcomes_come_in_order_and_from_other_processes() -> None:
    assert list(pool.in_processes(slow_at_first, range(40), 3, lost, unfinished)) == [
        (number, True) for number in range(40)
    ]


def test_no_process_is_left_behind() -> None:
    # One that goes on while Python shuts down makes it complain on stderr now and then.
    list(pool.in_processes(slow_at_first, range(40), 3, lost, unfinished))
    assert not multiprocessing.active_children()


def test_a_job_that_ends_its_process_costs_no_other() -> None:
    done = [number if number not in (5, 31) else -number for number in range(40)]
    assert list(pool.in_processes(deadly, range(40), 3, lost, unfinished)) == done
    assert list(pool.in_processes(deadly, range(4, 7), 1, lost, unfinished)) == [4, -5, 6]


def test_a_process_that_dies_by_itself_costs_none(tmp_path: Path) -> None:
    jobs = [(number, tmp_path / "died") for number in range(40)]
    assert list(pool.in_processes(dies_once, jobs, 3, dies_once, unfinished)) == list(range(40))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's children")
def test_no_process_outlives_the_first_one(tmp_path: Path) -> None:
    code = "from amplint.files import pool; import time; list(pool.in_processes(time.sleep, [60] * 9, 3, print, print))"
    first = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    while len(others := children.read_text().split()) < 3:
        time.sleep(0.05)
    first.kill()
    first.wait()
    end = time.monotonic() + 300  # only if it fails
    while any(Path(f"/proc/{other}").exists() for other in others):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_file_at_which_the_process_dies_is_named(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(data: bytes, filename: str, *_: object) -> object:
        if filename == "f05.py":
            os._exit(1)
        return check_bytes(data, filename, *_)  # type: ignore[arg-type]

    monkeypatch.setattr("amplint.engine.file.check_bytes", check)
    project(FILES)
    ran = amplint("-j2", "-q", "--output-format=concise")
    assert (ran.code, ran.err) == (2, "amplint: error: f05.py: the process that read this file died\n")
    assert ran.out.count("AMP101") == len(FILES) // 2 - 1


@pytest.mark.parametrize("error", [OSError, ImportError, NotImplementedError])
def test_where_there_can_be_no_processes_one_does_it(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pool, "ProcessPoolExecutor", refuse)
    assert list(pool.in_processes(slow_at_first, range(3), 2, lost, unfinished)) == [
        (number, False) for number in range(3)
    ]


@pytest.mark.parametrize("mode", [[], ["--diff"], ["--fix"], ["--output-format=json"], ["--statistics"]])
def test_output_is_the_same(project: Write, amplint: Run, mode: list[str]) -> None:
    broken = {
        "broken.py": "def f(:\n    autocast\n",
        "sub/pyproject.toml": "[tool.amplint]\nx = 1\n",
        "sub/a.py": LEGACY,
    }
    root = project({**FILES, **broken})
    runs = []
    for processes in ("1", "3"):
        ran = amplint("--jobs", processes, *mode, ".")
        runs.append((ran, {path.name: path.read_bytes() for path in root.glob("*.py")}))
        project({**FILES, **broken})
    assert runs[0] == runs[1]
    assert runs[0][0].code == 2
    assert "sub/pyproject.toml:2: unknown key 'x'" in runs[0][0].err


def test_processes_are_for_many_files_only(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def counting(work: Callable[[object], object], jobs: list[object], processes: int, *_: object) -> object:
        counts.append((len(jobs), processes))
        return map(work, jobs)

    monkeypatch.setattr(pool, "in_processes", counting)
    project({**FILES, **{f"clean{i}.py": "x = 1\n" for i in range(MANY)}})
    few = list(FILES)[: MANY - 1]
    assert amplint("-j", "2", *few).code == 1
    assert amplint("-j", "1", ".").code == 1
    assert counts == []
    assert amplint("-j2", ".").out.endswith(
        f"Found {len(FILES) // 2} warnings.\n[*] {len(FILES) // 2} fixable with `--fix`.\n"
    )
    assert counts == [(len(FILES), 2)]


@pytest.mark.parametrize("count", ["0", "-1", "x", "1.5", ""])
def test_a_number_of_processes_is_one_or_more(project: Write, amplint: Run, count: str) -> None:
    project({})
    ran = amplint(f"--jobs={count}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"amplint: error: argument -j/--jobs: {count!r} is not a number of processes\n"
