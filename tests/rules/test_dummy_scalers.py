"""AMP210 and AMP206 where a class of the project takes the place of the scaler."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

PROGRAM = """\
import torch

class DummyScaler:
    def scale(self, loss):
        return {scaled}
    def step(self, optimizer):
        optimizer.step()
    def update(self):
        pass

class Trainer:
    def __init__(self, args, model, optimizer):
        self.args, self.model, self.optimizer = args, model, optimizer
        if args.scale:
            self.scaler = torch.amp.GradScaler("cuda")
        else:
            self.scaler = DummyScaler()
    def step(self, data):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype={dtype}, enabled=self.args.{flag}):
            loss = self.model(data).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["AMP210"]),
        ({"flag": "scale"}, []),
        ({"scaled": "loss * 1024"}, []),
        ({"dtype": "torch.bfloat16"}, ["AMP206"]),
        ({"dtype": "torch.bfloat16", "scaled": "loss * 1024"}, []),
    ],
)
def test_it_does_not_scale_if_it_gives_the_loss_back(changes: dict[str, str], expected: list[str]) -> None:
    text = PROGRAM.format(**{"scaled": "loss", "dtype": "torch.float16", "flag": "amp"} | changes)
    found = check(text, "train.py", Settings(frozenset({"AMP206", "AMP210"}), isolated=True))
    assert [each.code for each in found] == expected
