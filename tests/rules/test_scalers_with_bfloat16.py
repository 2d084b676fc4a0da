"""AMP206 where the way from the region to the scaled loss is long, and where conditions decide what runs."""

from __future__ import annotations

import pytest

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


OF_SETTINGS = """\
from dataclasses import dataclass

import torch
import yaml


@dataclass
class Training:
    dtype: torch.dtype
    wide: bool


def train(settings: Training, model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda", enabled=ENABLED)
    for inputs, target in batches:
        with torch.amp.autocast("cuda", dtype=settings.dtype):
            loss = torch.nn.functional.mse_loss(model(inputs), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


config = yaml.safe_load(open("train.yaml"))["training"]
narrow = config["narrow"]
settings = Training(dtype=torch.bfloat16 if narrow else torch.float16, wide=not narrow)
AFTER
model = torch.nn.Linear(3, 3)
train(settings, model, torch.optim.SGD(model.parameters(), 0.1), [])
"""


@pytest.mark.parametrize(
    ("enabled", "after", "found"),
    [
        ("settings.wide", "pass", []),
        ("not settings.wide", "pass", ["AMP210"]),
        ("True", "pass", ["AMP206"]),
        # Then the field is no longer what the object was made with.
        ("settings.wide", "settings.wide = True", ["AMP206"]),
    ],
)
def test_fields_that_hang_on_one_option(enabled: str, after: str, found: list[str]) -> None:
    """The switch of the scaler and the dtype of the region are fields of an object, and come from one value."""
    text = OF_SETTINGS.replace("ENABLED", enabled).replace("AFTER", after)
    assert [
        each.code for each in check(text, "train.py", Settings(frozenset({"AMP206", "AMP210"}), isolated=True))
    ] == found
