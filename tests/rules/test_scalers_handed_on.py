"""AMP210: a scaler that one function of a file makes and returns, and another one is given by another file."""

from __future__ import annotations

import pytest

import amplint
from amplint.base.findings import Confidence

TEXT = """\
import torch


def prepare(model, settings, state=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr)
    scaler = torch.cuda.amp.GradScaler(ENABLED)
    if state is not None:
        scaler = state
    return RETURNED


def run_epoch(model, loader, criterion, optimizer, scaler, settings):
    for inputs, targets in loader:
        with torch.cuda.amp.autocast(REGION):
            loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def found(
    enabled: str = "enabled=settings.half",
    region: str = "enabled=True",
    back: str = "optimizer, scaler",
    more: str = "",
) -> list[amplint.Finding]:
    text = TEXT.replace("ENABLED", enabled).replace("REGION", region).replace("RETURNED", back) + more
    return [each for each in amplint.check(text) if each.code == "AMP210"]


@pytest.mark.parametrize("region", ["", "enabled=True"])
def test_a_setting_enables_the_scaler_and_not_the_region(region: str) -> None:
    (finding,) = found(region=region)
    assert finding.confidence is Confidence.LIKELY
    assert "if `settings.half` is false" in finding.message
    assert "the scaler on line 6" in finding.message


OTHER = """

def other(model, loader, criterion, optimizer):
    run_epoch(model, loader, criterion, optimizer, torch.amp.GradScaler("cuda"), None)
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"region": "enabled=settings.half"},
        {"region": "enabled=settings.amp"},  # may be the same
        {"enabled": ""},
        {"back": "optimizer"},  # it goes nowhere
        {"more": OTHER},  # the call in sight says what it gives
    ],
)
def test_what_agrees_or_may(changes: dict[str, str]) -> None:
    assert found(**changes) == []
