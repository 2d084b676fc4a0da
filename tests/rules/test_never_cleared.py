"""AMP411 where a function is given its optimizer, and nothing clears gradients."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding

TEXT = """\
import torch


def train(loader, model, criterion, optimizer, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        LAST
"""


def found(last: str) -> list[Finding]:
    return [each for each in check(TEXT.replace("LAST", last), "train.py") if each.code == "AMP411"]


def test_nothing_in_the_file_clears() -> None:
    (finding,) = found("print(loss)")
    assert finding.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "last",
    [
        "optimizer.zero_grad()",
        "for p in model.parameters(): p.grad = None",
        "finish(model, optimizer)",  # it may clear
    ],
)
def test_something_may_clear(last: str) -> None:
    assert not found(last)
