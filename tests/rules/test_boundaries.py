"""Misuse that shows only where several micro steps make a step, and says so: AMP405 and AMP411."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TRAIN = """
import torch


def train(model, loader, optimizer, args):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = model(x).mean()
        {0}
"""
UNSCALES = """scaler.scale(loss).backward()
        {unscale}
        if {test}:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()"""
STEPS = """scaler.scale(loss).backward()
        {unscale}
        scaler.step(optimizer)
        scaler.update()
        if {test}:
            optimizer.zero_grad()"""
INNER = """for _ in range({test}):
            scaler.scale(loss).backward()
            {unscale}
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()"""


def _when(message: str) -> str:
    """The condition that a message begins with."""
    return message.removeprefix("when ").partition(", ")[0] if message.startswith("when ") else ""


def said(body: str, test: str, unscale: str = "scaler.unscale_(optimizer)") -> set[tuple[str, str]]:
    """The codes of what is found, each with the conditions that its message begins with."""
    text = TRAIN.format(body.format(test=test, unscale=unscale))
    found = check(text, "a.py", Settings(frozenset({"AMP405", "AMP411"}), isolated=True))
    return {(each.code, _when(each.message)) for each in found}


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("(i + 1) % args.accum == 0", "`args.accum > 1`"),
        ("not i % args.accum", "`args.accum > 1`"),
        ("(i + 1) % args.accum == 0 or i + 1 == len(loader)", "`args.accum > 1`"),
        # It is always so, or something else decides too.
        ("(i + 1) % 4 == 0", ""),
        ("args.accum > 1 and (i + 1) % args.accum == 0", ""),
    ],
)
@pytest.mark.parametrize(("body", "code"), [(UNSCALES, "AMP405"), (STEPS, "AMP411")])
def test_what_waits_for_a_period_waits_for_nothing_where_it_is_1(
    body: str, code: str, test: str, expected: str
) -> None:
    found = said(body, test)
    if found or " > " not in test:
        assert found == {(code, expected)}


@pytest.mark.parametrize(("count", "expected"), [("args.accum", "`args.accum > 1`"), ("4", "")])
def test_a_loop_of_micro_steps_may_have_one_round(count: str, expected: str) -> None:
    assert said(INNER, count) == {("AMP405", expected)}


def test_a_flag_and_a_period() -> None:
    clip = "if args.clip is not None:\n            scaler.unscale_(optimizer)"
    assert said(UNSCALES, "i % args.accum == 0", clip) == {("AMP405", "`args.accum > 1`")}
    assert said(STEPS, "i % args.accum == 0", clip) == {
        ("AMP411", "`args.accum > 1`"),
        ("AMP411", "`args.accum > 1` and `args.clip is None`"),
    }


BOUNDARY = """\
import torch

def train(model, optimizer, loader, every, total, ready):
    scaler = torch.amp.GradScaler("cuda")
    number = 0
    for x in loader:
        number += 1
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x) / every
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if {test}:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("test", "codes"),
    [
        ("number % every == 0", {"AMP405", "AMP411"}),
        ("number % every == 0 or number == total", {"AMP405", "AMP411"}),
        ("number == total or not number % every", {"AMP405", "AMP411"}),
    ],
)
def test_the_last_batch_is_a_boundary_too(test: str, codes: set[str]) -> None:
    found = {finding.code for finding in check(BOUNDARY.format(test=test), "train.py")}
    assert found <= codes
    assert ("AMP405" in found) is ("AMP405" in codes)


def test_a_variable_that_is_true_without_accumulation_is_a_boundary() -> None:
    steps = "        steps = number % every == 0\n        if every == 1:\n            steps = True\n"
    text = BOUNDARY.format(test="steps").replace("        scaler.unscale_", f"{steps}        scaler.unscale_")
    (finding,) = (each for each in check(text, "train.py") if each.code in ("AMP404", "AMP405", "AMP411"))
    assert finding.code == "AMP405"
    assert "on every micro step" in finding.message


KEPT = """\
import torch

class Trainer:
    def __init__(self, net, other):
        {kept}
        self.optimizer = torch.optim.Adam({made}.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader, steps):
        for x in loader:
            for _ in range(steps):
                with torch.autocast("cuda"):
                    loss = self.net(x).mean()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            self.optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("kept", "made", "count"),
    [
        ("self.net = net", "net", 1),
        ("self.net, self.other = net, other", "net", 1),
        ("(self.net, self.other) = net.cuda(), other", "net", 1),
        ("self.net, self.other = net, other", "self.net", 1),
    ],
)
def test_an_optimizer_of_what_a_constructor_keeps(kept: str, made: str, count: int) -> None:
    found = check(KEPT.format(kept=kept, made=made))
    assert [each.code for each in found].count("AMP411") == count
