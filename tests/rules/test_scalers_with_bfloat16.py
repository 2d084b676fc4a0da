"""AMP206 where the way from the region to the scaled loss is long, and where conditions decide what runs."""

from __future__ import annotations

from amplint import check
from amplint.config.settings import Settings

PROGRAM = """\
import os
import torch

def losses(outputs, target):
    loss = torch.zeros(())
{terms}
    return loss + outputs.sub(target).square().mean()

def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, target in loader:
        with torch.autocast("cuda", dtype={dtype}):
            outputs = model(x)
        scaler.scale(losses(outputs, target)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

if {started}:
    train(model, loader, optimizer)
"""


def codes(dtype: str = "torch.bfloat16", started: str = "True", terms: int = 1) -> list[str]:
    added = "\n".join(f"    loss = loss + (target - {number}).abs().mean() / {number}" for number in range(terms))
    text = PROGRAM.format(dtype=dtype, started=started, terms=added)
    return [each.code for each in check(text, "train.py", Settings(frozenset({"AMP206"}), isolated=True))]


def test_a_loss_of_many_terms() -> None:
    assert codes(terms=60) == ["AMP206"]
    assert codes(terms=60, dtype="torch.float16") == []


def test_two_keys_of_one_dict_are_there() -> None:
    assert codes(started='"RANK" in os.environ and "WORLD_SIZE" in os.environ') == ["AMP206"]
