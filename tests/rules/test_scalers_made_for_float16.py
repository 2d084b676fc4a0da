"""AMP206: a function that makes a scaler, and is called where a test asks for float16 alone."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make(device="cuda"):
    return torch.amp.GradScaler(device)


def region(name):
    return torch.autocast("cuda", dtype=TYPES.get(name.lower(), torch.float16))


def epoch(model, loader, optimizer, scaler, name):
    for x, y in loader:
        with region(name):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()


def train(model, loader, precision):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = None
    if TEST:
        scaler = make("cuda")
    epoch(model, loader, optimizer, scaler, precision)
"""


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ('precision.lower() in ("fp16", "float16")', 0),
        ('loader and precision == "fp16"', 0),
        ('precision in ("fp16", "bf16")', 1),
        ("loader", 1),
    ],
)
def test_what_the_caller_asks_for(test: str, count: int) -> None:
    found = amplint.check(PROGRAM.replace("TEST", test), "train.py")
    assert len([each for each in found if each.code == "AMP206"]) == count
