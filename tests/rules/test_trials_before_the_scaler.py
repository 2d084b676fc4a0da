"""AMP403: plain backwards that come before the scaler's own losses, and have a step of their own or no scaler yet."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP403"}), isolated=True, target_torch="2.4")
PROGRAM = """
import torch


def scan(model, batches, optimizer):
    for batch in batches:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()


def train(batches, optimizer, model, make):
    {0}
    for batch in batches:
        with torch.autocast("cuda"):
            loss = model(batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
MADE = 'scaler = torch.amp.GradScaler("cuda")'
TRIALS = {
    "a scan before the scaler": f"scan(model, batches, optimizer)\n{MADE}",
    "a scan with the scaler there": f"{MADE}\nscan(model, batches, optimizer)",
    "a step of its own": f"{MADE}\nmodel(batches[0]).backward()\noptimizer.step()",
    "no scaler yet": f"model(batches[0]).sum().backward()\n{MADE}",
    "no scaler yet, from elsewhere": "model(batches[0]).sum().backward()\nscaler = make(enabled=True)",
}
LEFT = {
    "never stepped": f"{MADE}\nmodel(batches[0]).backward()",
    "stepped by the scaler": f"{MADE}\nmodel(batches[0]).backward()\nscaler.step(optimizer)",
    "made for it": f"model(batches[0]).backward()\n{MADE}\nscaler.step(optimizer)\nscaler.update()",
}


def found(first: str) -> list[str]:
    text = PROGRAM.format(first.replace("\n", "\n    "))
    return [each.code for each in check(text, "a.py", SETTINGS)]


@pytest.mark.parametrize("first", TRIALS.values(), ids=TRIALS)
def test_a_trial(first: str) -> None:
    assert found(first) == []


@pytest.mark.parametrize("first", LEFT.values(), ids=LEFT)
def test_gradients_that_the_scaler_meets(first: str) -> None:
    assert found(first) == ["AMP403"]
