"""A direct step of an optimizer inside of another one, `sam.base_optimizer`: both have the same gradients (AMP402)."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding

LOOP = """\
import torch
from sam import SAM


def train(model, loader, criterion, clip):
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        UNSCALED
        STEP
        scaler.update()
"""
UNSCALE = "scaler.unscale_(optimizer)"
CHOSEN = f"if clip != 0.0:\n            {UNSCALE}"
INNER, OUTER = "optimizer.base_optimizer.step()", "optimizer.step()"
SCALED, UNCHECKED = "gradients still multiplied", "steps without the scaler"


def found(unscaled: str, step: str) -> Finding:
    text = LOOP.replace("UNSCALED", unscaled).replace("STEP", step)
    (finding,) = (each for each in check(text) if each.code == "AMP402")
    return finding


@pytest.mark.parametrize("step", [INNER, OUTER])
def test_what_is_wrong_is_said_with_its_condition(step: str) -> None:
    assert found("pass", step).message.partition(" steps ")[0] == f"`{step.removesuffix('.step()')}`"
    assert SCALED in found("pass", step).message
    chosen = found(CHOSEN, step).message
    assert chosen.startswith("when `clip == 0.0`, `optimizer")
    assert SCALED in chosen
    assert UNCHECKED in found(UNSCALE, step).message


@pytest.mark.parametrize("unscaled", [CHOSEN, UNSCALE])
def test_the_fix_does_not_divide_twice(unscaled: str) -> None:
    inner, outer = found(unscaled, INNER), found(unscaled, OUTER)
    assert inner.fix is None
    assert "pass `optimizer.base_optimizer` to `unscale_()` on line 1" in inner.message
    assert "would divide again" in (inner.withheld or "")
    assert outer.fix is not None
    assert [each.content for each in outer.fix.edits] == ["scaler.step(optimizer)"]


def test_without_unscale_there_is_a_fix() -> None:
    fix = found("pass", INNER).fix
    assert fix is not None
    assert [each.content for each in fix.edits] == ["scaler.step(optimizer.base_optimizer)"]
