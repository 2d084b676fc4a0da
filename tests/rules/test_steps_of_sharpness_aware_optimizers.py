"""The first half of a step of SAM and its like uses gradients of its own, and clears them (AMP403)."""

from __future__ import annotations

import pytest

from amplint import check

STEP = """\
import torch


def train(model, optimizer, loader, criterion, sharp):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        if sharp:
            criterion(model(x), y).backward()
            METHOD
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("method", "codes"),
    [
        ("optimizer.first_step(zero_grad=True)", []),
        ("optimizer.ascent_step()", []),
        ("optimizer.zero_grad()", []),
        ("optimizer.state_dict()", ["AMP403"]),
        ("pass", ["AMP403"]),
    ],
)
def test_what_clears_in_between(method: str, codes: list[str]) -> None:
    found = [each.code for each in check(STEP.replace("METHOD", method)) if each.code == "AMP403"]
    assert found == codes
