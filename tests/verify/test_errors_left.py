"""A step in which the linter finds an error that no run can show is not called right."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.verify import StepRow

STEP = """
import torch

def train(model, optimizer, loader, args):
    scaler = SCALER
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
BARE = """
import torch

def train(model, optimizer, loader):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def row(text: str) -> StepRow:
    (found,) = amplint.verify(text)
    return found


def test_float16_without_a_scaler_is_not_clean() -> None:
    found = row(BARE)
    assert [each.code for each in found.findings] == ["AMP207"]
    assert found.verdict == "not checkable"
    assert "AMP207 is left, and the run can't show it: it depends on how small your gradients are" in found.reason
    assert row(BARE.replace("float16", "bfloat16")).verdict == "clean"


def test_a_scaler_that_is_none_raises_in_the_run() -> None:
    found = row(STEP.replace("SCALER", 'torch.amp.GradScaler("cuda") if args.amp else None'))
    (finding,) = found.findings
    assert (finding.code, finding.shown, found.verdict) == ("AMP210", True, "misbehaves")
    assert "'NoneType' object has no attribute 'scale' where not (args.amp)" in found.reason
    assert row(STEP.replace("SCALER", 'torch.amp.GradScaler("cuda")')).verdict == "clean"
