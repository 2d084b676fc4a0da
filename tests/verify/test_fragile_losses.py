"""A loss of the program's own, for which a run has a stand-in: what is right says so, where float16 may break an op."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint

STEP = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = nn.LogSoftmax(dim=-1)
        self.bce = nn.BCELoss()

    def forward(self, pred, target):
        return BODY

def helper(pred, target):
    return F.binary_cross_entropy(pred, target)

def train(model, optimizer, loader, criterion, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            pred = model(x)
            INSIDE
        OUTSIDE
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader):
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, Loss().cuda(), torch.amp.GradScaler("cuda"))
"""
CALL = "loss = criterion(pred, y)"
CAST = "loss = criterion(pred.float(), y)"
FRAGILE = {
    "a log": "-torch.log(torch.sigmoid(pred).clamp_min(1e-8)).mean()",
    "a method": "-(pred.sigmoid() + 1e-8).log().mean()",
    "a function": "F.binary_cross_entropy(pred, target) + 1",
    "a module": "self.bce(pred, target)",
    "in a helper": "helper(pred, target) * 0.5",
}
SAFE = {
    "torch's own": "F.cross_entropy(pred, target) * 0.5",
    "with logits": "F.binary_cross_entropy_with_logits(pred, target)",
    "an attribute that is called like an op": "-self.log(pred.float()).gather(-1, target).mean()",
}


def reason(body: str, inside: str = CALL, outside: str = "pass") -> str:
    text = STEP.replace("BODY", body).replace("INSIDE", inside).replace("OUTSIDE", outside)
    (found,) = (each for each in amplint.verify(text) if each.name == "train")
    assert found.verdict == "clean", found
    return found.reason


@pytest.mark.parametrize("name", FRAGILE)
def test_an_op_that_float16_may_break_is_named(name: str) -> None:
    assert "amplint doesn't run criterion(pred, y), and can't see what float16 does to its " in reason(FRAGILE[name])


def test_a_cast_before_it_may_come_too_late() -> None:
    found = reason(FRAGILE["a function"], "pass", CAST)
    assert found == (
        "line 24: amplint doesn't run criterion(pred.float(), y), "
        "and can't see what float16 does to its binary_cross_entropy"
    )


@pytest.mark.parametrize("name", SAFE)
def test_what_float16_keeps_is_not_named(name: str) -> None:
    assert reason(SAFE[name]) == ""


def test_bfloat16_keeps_small_numbers() -> None:
    text = STEP.replace("BODY", FRAGILE["a log"]).replace("INSIDE", CALL).replace("OUTSIDE", "pass")
    (found,) = amplint.verify(text.replace('autocast("cuda"', 'autocast("cuda", dtype=torch.bfloat16'))
    assert (found.verdict, found.reason) == ("clean", "")
