"""A file that takes too long is given up function by function; the clock is the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplint.base import patience
from amplint.cli import main
from amplint.config.selection import enabled_codes
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes
from amplint.engine.result import Result
from amplint.model.flow import eval_expressions
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]
UNCHECKED = "the order of the scaler's calls in it is not checked"
BRANCHES = "".join(f"        if data.a{number}:\n            scaler.scale(loss).backward()\n" for number in range(12))
MANY_PATHS = f"""\
def long(model, optimizer, scaler, data):
    for loss in data:
{BRANCHES}        scaler.step(optimizer)
        scaler.update()


"""
SHORT = """\
import torch

scaler = torch.amp.GradScaler("cuda")


def short(model, optimizer, data):
    for x in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


"""


class Clock:
    """Time goes by where something is begun, and nowhere else: what it `costs`, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.costs: dict[str, float] = {}

    def __call__(self) -> float:
        return self.now

    def tell(self, step: patience.Step) -> None:
        self.now += self.costs.get(step.what, 0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    own = Clock()
    monkeypatch.setattr(eval_expressions, "_UNTIMED", 1)
    before = patience._hooks.clock
    patience.measure(own)
    patience.listen(own.tell)
    yield own
    patience.measure(before)
    patience.listen(None)


def found(text: str) -> Result:
    return check_bytes(text.encode(), "train.py", Settings(enabled_codes([]), isolated=True))


def test_a_function_is_given_up_and_others_are_not(clock: Clock) -> None:
    text = SHORT + MANY_PATHS
    assert [(each.code, each.fix is not None) for each in found(text).findings] == [("AMP401", True), ("AMP410", False)]
    clock.costs["long"] = 12.0
    result = found(text)
    # A fix that can't be tried is not offered.
    assert [(each.code, each.fix) for each in result.findings] == [("AMP401", None)]
    assert result.findings[0].withheld == "the file takes too long for the fix to be tried"
    assert result.given_up == (f"line 17: long takes too long to follow: {UNCHECKED}",)
    assert result.too_long


@pytest.mark.parametrize(("more", "codes"), [(patience.SHARE / 2, ["AMP401"]), (patience.SHARE * 2, [])])
def test_each_function_has_its_share(clock: Clock, more: float, codes: list[str]) -> None:
    """The first takes all the time; what comes after it is looked at, as long as it takes less than its share."""
    clock.costs |= {"long": 12.0, "short": more}
    head, short = SHORT.split("def ")
    assert [each.code for each in found(f"{head}{MANY_PATHS}def {short}").findings] == codes


def test_in_the_end_no_rule_is_asked(clock: Clock) -> None:
    clock.costs["AMP401"] = 1000.0
    result = found(SHORT)
    assert result.too_long
    assert "AMP402 was not begun" in result.given_up


def test_it_is_said(clock: Clock, project: Write, amplint: Run) -> None:
    root = project({"pyproject.toml": "", "train.py": SHORT + MANY_PATHS})
    clock.costs["long"] = 12.0
    said = f"amplint: train.py: line 17: long takes too long to follow: {UNCHECKED}\n"
    first = amplint("--output-format", "concise")
    assert first.err == said
    assert first.out.startswith("train.py:12:9: AMP401 ")
    # Another time there may be more of it.
    assert amplint().err == said
    assert not list((root / ".amplint_cache").glob("*/*.json"))
    clock.costs.clear()
    assert amplint().err == ""


def test_time_is_the_threads_own() -> None:
    assert patience._hooks.clock.__name__ == "thread_time"
    assert main(["--version"]) == 0
