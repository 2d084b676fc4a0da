"""The options of `amplint run`, and where its report goes. tests/doctor has what the program sees of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint.cli import run
from amplint.doctor.findings import Cause, Evidence, Finding, Place, Report
from amplint.doctor.options import Options
from amplint.doctor.start import CannotWatch, Program
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

REPORT = Report((Finding(Cause.MATH, Evidence.COMPUTED, "log of 0", Place("train.py", 2)),), steps=9)


class Started:
    """What would have been run, instead of which there is a report."""

    program: Program
    options: Options
    hello: str


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    seen = Started()

    def stand_in(program: Program, options: Options, voice: Any, tell: Any, hello: str) -> int:
        seen.program, seen.options, seen.hello = program, options, hello
        tell(REPORT)
        return 7

    monkeypatch.setattr(run, "run", stand_in)
    for each in ("RANK", "WORLD_SIZE", "FORCE_COLOR"):
        monkeypatch.delenv(each, raising=False)
    return seen


@pytest.mark.parametrize(
    ("arguments", "program", "options"),
    [
        (["train.py"], Program("train.py"), Options()),
        (["--stop", "train.py", "--stop"], Program("train.py", ("--stop",)), Options(stop=True)),
        (["--careful", "--no-replay", "a.py"], Program("a.py"), Options(careful=True, replay=False)),
        (["a.py", "-m", "b", "--", "-h", "--help"], Program("a.py", ("-m", "b", "--", "-h", "--help")), Options()),
        (["--", "-a.py", "--", "x"], Program("-a.py", ("--", "x")), Options()),
        (["-m", "pack.mod", "--stop"], Program("pack.mod", ("--stop",), True), Options()),
        (["--stop", "-m", "mod", "-m", "x"], Program("mod", ("-m", "x"), True), Options(stop=True)),
        (["--report", "r.json", "train.py", "r"], Program("train.py", ("r",)), Options()),
        (["--report=r.json", "-o", "a", "--output-file=b", "train.py"], Program("train.py"), Options()),
        (["--output-format", "json", "-o", "r.json", "train.py"], Program("train.py"), Options()),
        (["run"], Program("run"), Options()),
    ],
)
def test_arguments(
    project: Write, amplint: Run, started: Started, arguments: list[str], program: Program, options: Options
) -> None:
    project({})
    assert amplint("run", *arguments).code == 7
    assert (started.program, started.options) == (program, options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a script, or a module with -m"),
        (["--stop"], "name a script, or a module with -m"),
        (["--"], "name a script, or a module with -m"),
        (["-m"], "name a module after -m"),
        (["--sotp", "train.py"], "unknown option --sotp; did you mean --stop?"),
        (["--sotp"], "unknown option --sotp; did you mean --stop?"),
        (["--report"], "argument --report: expected one argument"),
        (["--report", "", "train.py"], "--report: '' is not a file in an existing directory"),
        (["--report", "folder", "train.py"], "--report: 'folder' is not a file in an existing directory"),
        (
            ["-o", "no/such/r.json", "train.py"],
            "--output-file: 'no/such/r.json' is not a file in an existing directory",
        ),
        (["--output-format", "xml", "train.py"], "argument --output-format: invalid choice: 'xml'"),
        (["--output-format=json", "train.py"], "--output-format json needs --output-file: stdout belongs to the"),
    ],
)
def test_mistakes(project: Write, amplint: Run, started: Started, arguments: list[str], message: str) -> None:
    project({"folder/train.py": ""})
    ran = amplint("run", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"amplint: error: {message}")
    assert ran.err.count("\n") == 1
    assert not hasattr(started, "program")


def test_help(project: Write, amplint: Run) -> None:
    project({})
    ran = amplint("run", "--stop", "--help", "train.py")
    assert (ran.code, ran.err) == (0, "")
    words = " ".join(ran.out.split())
    for each in ("amplint executes your program", "3 with --stop", "stdout", "-m MODULE", "torchrun", "torch 2.4"):
        assert each in words
    assert "  run         run a program" in amplint("--help").out


def test_where_the_report_goes(project: Write, amplint: Run, started: Started) -> None:
    project({"train.py": "import math\nmath.log(0)\n"})
    ran = amplint("run", "--report", "a.json", "--output-format", "sarif", "-o", "b.sarif", "train.py")
    assert ran == (7, "", "amplint run: 1 problem, 9 steps, none skipped\n\nmath train.py:2  log of 0 [computed]\n")
    assert json.loads(Path("a.json").read_text("utf-8"))["findings"][0]["line"] == 2
    assert json.loads(Path("b.sarif").read_text("utf-8"))["runs"][0]["results"][0]["ruleId"] == "run-math"
    assert amplint("run", "-o", "c.txt", "train.py").err == Path("c.txt").read_text("utf-8") == ran.err
    amplint("run", "--output-format", "json", "-o", "d.json", "train.py")
    assert Path("d.json").read_bytes() == Path("a.json").read_bytes()


def test_a_file_that_cannot_be_written(project: Write, amplint: Run, started: Started) -> None:
    project({})
    if Path("/dev/full").exists():
        ran = amplint("run", "--report", "/dev/full", "train.py")
        assert ran.code == 7
        assert ran.err.endswith("\namplint: error: /dev/full: No space left on device\n")


def test_ranks(project: Write, amplint: Run, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({})
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank in ("0", "3"):
        monkeypatch.setenv("RANK", rank)
        ran = amplint("run", "--report", "a.b.json", "-o", "plain", "train.py")
        assert all(line.startswith(f"[rank {rank}] ") for line in ran.err.splitlines())
        assert ran.err.startswith(f"[rank {rank}] amplint run: 1 problem")
        assert bool(started.hello) == (rank == "0")
    assert {each.name for each in root.iterdir()} == {"a.b.rank0.json", "a.b.rank3.json", "plain.rank0", "plain.rank3"}
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert amplint("run", "train.py").err.startswith("amplint run: 1 problem")


def test_colour(project: Write, amplint: Run, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    project({})
    assert "\033" not in amplint("run", "train.py").err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[1;31mmath\033[0m train.py:2" in amplint("run", "-o", "plain", "train.py").err
    assert "\033" not in Path("plain").read_text("utf-8")


def test_nothing_is_run(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project({})

    def refuse(*_: object) -> int:
        raise CannotWatch("torch is not installed")

    monkeypatch.setattr(run, "run", refuse)
    ran = amplint("run", "train.py")
    assert ran == (
        2,
        "",
        "amplint: error: torch is not installed\n",
    )


def test_a_path_called_run_is_linted_by_its_command(project: Write, amplint: Run) -> None:
    project({"run/old.py": "import torch\n\ntorch.cuda.amp.autocast()\n"})
    assert "run/old.py" in amplint("check", "run", "--output-format=concise").out
    assert amplint("run/").code == 1
