"""A few mutants of the fixtures, and that what judges them notices what is wrong."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amplint.base.edits import apply
from amplint.engine.result import Result
from amplint.sources.source import Source
from tests.fuzz import judging
from tests.fuzz.__main__ import FIXED, FOLDED, judge_input, main
from tests.fuzz.apart import Death, apart
from tests.fuzz.corpus import programs
from tests.fuzz.judging import AMP, Outcome, Problem, judge
from tests.fuzz.mutate import in_two, made
from tests.fuzz.reducing import reduce

MUTANTS = 80
LEGACY = b"import torch  # AMP\r\n\r\nscaler = torch.cuda.amp.GradScaler()  # made once\r\n"


def kinds(data: bytes) -> list[str]:
    return [each.kind for each in judge(data, "file.py").problems]


def test_mutants_of_the_fixtures() -> None:
    known = programs()
    outcomes = []
    for number in range(MUTANTS):
        each = made(known, 1, number)
        outcomes.append(judge_input(each, number % FOLDED == 0, number % FIXED == 0))
        assert outcomes[-1].problems == (), each
    # They are worth something: neither all broken nor all without a finding.
    assert sum(each.parsed for each in outcomes) > MUTANTS / 4
    assert sum(each.found > 0 for each in outcomes) > MUTANTS / 4
    assert any(each.fixed for each in outcomes)


def test_some_are_programs_in_two_files() -> None:
    two = [each for each in (made(programs(), 1, number) for number in range(0, 64, 8)) if each.helper]
    assert len(two) > 3
    assert sum(b"helper" in each.data for each in two) > len(two) / 2  # a mutant may lose the import
    text = "def f():\n    pass\n\n\nclass G:\n    pass\n\n\nf()\nG()\n"
    assert {in_two(Random(seed), text) for seed in range(300)} >= {
        ("from helper import f, G\n\n\n\n\nf()\nG()\n", text),
        ("def f():\n    pass\n\n\nimport helper\n\n\nf()\nhelper.G()\n", text),
    }


def test_the_same_seed_makes_the_same_mutants() -> None:
    known = programs()
    assert [made(known, 7, number) for number in range(20)] == [made(known, 7, number) for number in range(20)]
    assert made(known, 7, 1) != made(known, 8, 1)


def test_what_is_right_has_no_problem() -> None:
    assert judge(LEGACY, "file.py")[:3] == (True, 1, True)
    assert kinds(LEGACY) == kinds(b"x = [" + AMP) == kinds(b"x = 1" + AMP) == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda text: text + " ", "something changed outside of the edits"),
        (lambda text: text.replace("\r\n", "\n"), "something changed outside of the edits"),
        (lambda text: text.replace("  # AMP", ""), "a comment is lost"),
        (lambda text: text.replace('("cuda")', '("cuda"\n)'), "a line end that the file does not have"),
    ],
)
def test_a_fix_that_loses_something_is_noticed(monkeypatch: pytest.MonkeyPatch, change: Any, kind: str) -> None:
    def careless(text: str, fixes: Any) -> Any:
        new, done = apply(text, fixes)
        return (change(new), done) if done else (new, done)

    monkeypatch.setattr(judging, "apply", careless)
    assert kind in kinds(LEGACY)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"code": "AMP000", "message": "it failed (please report it)"}, "it failed"),
        ({"end": 1000}, "AMP102 is outside of the text"),
        ({"start": 24}, "AMP102 starts or ends within a token"),
        ({"end": 50}, "AMP102 starts or ends within a token"),
        ({"start": 1, "end": 1}, "AMP102 is empty"),
        ({"code": "AMP001"}, "AMP001 for what Python parses"),
        ({"message": "two\nlines"}, "a message is not one line"),
    ],
)
def test_a_finding_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], kind: str) -> None:
    right = judging.check_bytes

    def wrong(*args: Any) -> Result:
        result = right(*args)
        return result._replace(findings=tuple(each._replace(**values) for each in result.findings))

    monkeypatch.setattr(judging, "check_bytes", wrong)
    assert kind in kinds(LEGACY)


def test_what_is_not_found_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        judging, "check_bytes", lambda data, *_: Result("file.py", Source("file.py", data.decode()), ())
    )
    assert kinds(b"x = [") == ["no AMP001 for what Python refuses"]
    assert kinds(b"x = 1" + AMP) == ["AMP at the end is not found"]


def test_an_exception_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "check_bytes", lambda *_: {}["missing"])
    assert [each.split(" at ")[0] for each in kinds(LEGACY)] == ["KeyError"]


def dies(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 4:
        time.sleep(600)
    return -number


def test_what_dies_or_hangs_is_one_input() -> None:
    told = dict(apart(dies, range(6), patience=5))
    assert told == {0: 0, 1: -1, 2: Death("ended by signal 9"), 3: -3, 4: Death("not done after 5 s"), 5: -5}


def test_a_reproducer_is_small() -> None:
    data = b"".join(b"line %d\r\n" % number for number in range(100))
    assert reduce(data, lambda text: b"line 7\r\n" in text and b"line 93\r\n" in text) == b"line 7\r\nline 93\r\n"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.py").write_bytes(LEGACY)
    (tmp_path / "broken.py").write_bytes(b"x = [")
    (tmp_path / "other.txt").write_bytes(LEGACY)
    assert main(["--lint", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "4 inputs" in said
    assert "2 that Python parses" in said
    assert main(["--inputs", "3", "--seed", "5"]) == 0
    assert "3 inputs" in capsys.readouterr().out
    monkeypatch.setattr("tests.fuzz.__main__.judge", lambda *_, **__: Outcome(problems=(Problem("it fails"),)))
    assert main(["--lint", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "4 x it fails" in said
    assert repr(LEGACY) in said
