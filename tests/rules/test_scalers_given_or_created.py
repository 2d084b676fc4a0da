"""A scaler that a caller gives, or else the function creates: `if scaler is None: scaler = GradScaler()`."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import torch


def train(model, loader, optimizer, scaler=None):
    if scaler is None:
        scaler = torch.amp.GradScaler("cuda"{own})
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main(model, loader, found):
    optimizer = torch.optim.Adam(model.parameters())
    {call}
"""
OFF = ", enabled=False"
GIVEN = 'train(model, loader, optimizer, torch.amp.GradScaler("cuda"))'
UNKNOWN = "train(model, loader, optimizer, found.scaler)"
NOT_GIVEN = "train(model, loader, optimizer)"


@pytest.mark.parametrize(
    ("own", "call", "lines"),
    [
        (OFF, GIVEN, [18]),
        ("", NOT_GIVEN, [6]),
        (OFF, NOT_GIVEN, []),
        ("", UNKNOWN, []),
    ],
)
def test_which_scaler_is_used(own: str, call: str, lines: list[int]) -> None:
    text = TEXT.format(own=own, call=call)
    found = check(text, settings=Settings(frozenset({"AMP206"}), isolated=True))
    assert [text.count("\n", 0, each.start) + 1 for each in found] == lines
