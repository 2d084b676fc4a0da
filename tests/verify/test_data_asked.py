"""Conditions about the numbers of a batch: the bench has others than training, so both outcomes are tried."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests import in_turn
from tests.interpreting import Ran, interpret

HEAD = """
import math
import numpy as np
import torch
from torch import nn
from torch.nn.functional import mse_loss

def is_bad(loss):
    return torch.isnan(loss).any() or torch.isinf(loss).any()

def is_bad_number(value):
    if math.isnan(value):
        return True
    return False

def is_bad_either(value):
    if math.isnan(value):
        return True
    else:
        return False
"""
LOOP = """
def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = LOSS
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ASKED
        scaler.step(optimizer)
        scaler.update()
"""
CALLED = """
class Trainer:
    def train_step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = LOSS
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        ASKED
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
ONE = "mse_loss(model(x), y)"
UPDATE = "scaler.update()\n"


def ran(asked: str, loss: str = ONE, step: str = LOOP) -> Ran:
    text = HEAD + step.replace("LOSS", loss).replace("ASKED", asked.replace("\n", "\n        "))
    (found,) = interpret(text)
    return found


def skipped(test: str, first: str = "") -> str:
    return f"if {test}:\n    {first}continue"


LOSSES = (ONE, f"{ONE} + 0.1 * {ONE}", f"{ONE} / 2")
TESTS = (
    "torch.isnan(loss)",
    "torch.isnan(loss).any()",
    "torch.any(torch.isnan(loss.detach()))",
    "not torch.isfinite(loss)",
    "not torch.isfinite(loss).all().item()",
    "~torch.isfinite(loss)",
    "torch.isfinite(loss) == False",
    "torch.isnan(loss).sum() > 0",
    "torch.isnan(loss) | torch.isinf(loss)",
    "torch.isnan(loss) or torch.isinf(loss)",
    "loss.isnan()",
    "bool(loss.isnan())",
    "any(torch.isnan(each) for each in [loss])",
    "math.isnan(loss.item())",
    "not math.isfinite(float(loss))",
    "np.isnan(loss.item())",
    "np.isnan(loss.detach().cpu().numpy()).any()",
    "is_bad(loss)",
    "is_bad_number(loss.item())",
    "is_bad_either(loss.item())",
    "loss != loss",
    "loss == 0",
    "loss.item() in (float('inf'), float('nan'))",
    "abs(loss.item()) > 1e4",
    "(loss.detach() > 1e4).any()",
    "max(loss.item(), 0.0) > 1e4",
    "torch.allclose(loss, torch.zeros_like(loss))",
    "math.isnan(norm.item())",
)


@pytest.mark.parametrize(("test", "loss"), in_turn(TESTS, LOSSES))
@pytest.mark.sampled(9)
def test_a_skipped_update_shows_however_the_loss_is_asked(test: str, loss: str) -> None:
    found = ran(skipped(test), loss)
    assert "unscale_() has already been called" in found.judged.faults[0].text
    assert ran(skipped(test, UPDATE + "    "), loss).judged.state == RIGHT


@pytest.mark.parametrize(
    "asked",
    [
        "bad = torch.isnan(loss)\nif bad:\n    continue",
        "bad = False\nif torch.isnan(loss):\n    bad = True\nif bad:\n    continue",
        "count = 0\nif torch.isnan(loss):\n    count += 1\nif count > 0:\n    continue",
        "fine = True if torch.isfinite(loss) else False\nif not fine:\n    continue",
        "match bool(torch.isnan(loss)):\n    case True:\n        continue\n    case _:\n        pass",
        "try:\n    assert torch.isfinite(loss)\nexcept AssertionError:\n    continue",
        "try:\n    if torch.isnan(loss):\n        raise ValueError('nan')\nexcept ValueError:\n    continue",
        "if math.isnan(value := loss.item()):\n    continue",
        "value = loss.item()\nvalue += 1\nif math.isnan(value / 2):\n    continue",
    ],
)
def test_what_is_asked_decides_later(asked: str) -> None:
    assert ran(asked).shown == {"exception"}
    assert ran(asked.replace("continue", "print('nan')")).judged.state == RIGHT


@pytest.mark.parametrize("test", ["torch.isnan(loss)", "loss > 10", "math.isnan(loss.item())"])
def test_a_step_without_a_loop_returns_early(test: str) -> None:
    own = ONE.replace("model", "self.model")
    bad = ran(f"if {test}:\n    return None", own, CALLED)
    assert (bad.judged.state, bad.shown) == (WRONG, {"exception"})
    assert ran(f"if {test}:\n    self.{UPDATE}    return None", own, CALLED).judged.state == RIGHT


@pytest.mark.parametrize("test", ["torch.isnan(loss)", "loss.item() > 1e4"])
def test_what_hangs_on_data_is_only_said_or_ends_the_training(test: str) -> None:
    for arm in ("print(loss)", "raise SystemExit(1)", "break"):
        assert ran(f"if {test}:\n    {arm}").judged.state == RIGHT


def test_only_some_batches_are_not_finite() -> None:
    """Unscaled gradients that are kept meet scaled ones in the next iteration, which has a step."""
    kept = LOOP.replace("        optimizer.zero_grad()\n", "").replace(
        "        scaler.step(optimizer)\n        scaler.update()",
        "        scaler.step(optimizer)\n        scaler.update()\n        optimizer.zero_grad()",
    )
    assert "gradient" in ran(skipped("torch.isnan(loss)", UPDATE + "    "), step=kept).shown
    cleared = f"optimizer.zero_grad()\n    {UPDATE}    "
    assert ran(skipped("torch.isnan(loss)", cleared), step=kept).judged.state == RIGHT


def test_gradients_that_are_not_finite_are_those_of_an_overflow() -> None:
    """A norm is no choice beside finite gradients: the run with an overflow has it."""
    kept = "if torch.isfinite(norm):\n    scaler.step(optimizer)\n    optimizer.zero_grad()\nscaler.update()\ncontinue"
    found = ran(kept, step=LOOP.replace("        optimizer.zero_grad()\n", ""))
    assert found.shown == {"skips"}
    assert ran("if torch.isfinite(norm):\n    scaler.step(optimizer)\nscaler.update()\ncontinue").judged.state == RIGHT


@pytest.mark.parametrize("unscale", ["scaler.unscale_(optimizer)", "pass"])
def test_a_clip_by_hand_asks_for_the_norm_that_it_has(unscale: str) -> None:
    by_hand = """total = torch.norm(torch.stack([p.grad.norm() for p in model.parameters()]))
        rate = 10.0 / (total + 1e-6)
        if rate < 1:
            for p in model.parameters():
                p.grad.mul_(rate)"""
    step = LOOP.replace("norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)", by_hand)
    found = ran("pass", step=step.replace("scaler.unscale_(optimizer)", unscale))
    assert found.judged.state == (RIGHT if unscale != "pass" else WRONG)


def test_the_conditions_are_said_as_they_are() -> None:
    assert ran(skipped("math.isnan(loss.item())")).judged.faults[0].path == "loss is not finite"
    assert ran(skipped("loss.item() > 1e4")).judged.faults[0].path == "loss.item() > 1e4"
    assert ran(skipped("loss.item() > 1e4 or args.skip")).judged.faults[0].path == "args.skip"
