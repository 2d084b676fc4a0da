"""Two scalers that unscale before either of them updates: an overflow of one is not the other's."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import interpret

PROGRAM = """
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.opt_a = torch.optim.AdamW(self.first.parameters())
        self.opt_b = torch.optim.AdamW(self.second.parameters())
        self.scaler_a, self.scaler_b = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")

    def train(self, loader):
        for x in loader:
            with torch.autocast("cuda"):
                loss_a = self.first(x).square().mean()
                loss_b = self.second(x).square().mean()
            self.scaler_a.scale(loss_a).backward()
            self.scaler_b.scale(loss_b).backward()
            self.scaler_a.unscale_(self.opt_a)
            self.scaler_b.unscale_(self.opt_b)
            self.scaler_a.step(self.opt_a)
            self.scaler_a.update()
            self.scaler_b.step(self.opt_b)
            self.scaler_b.update()
            CLEAR
"""
BOTH = "self.opt_a.zero_grad()\n            self.opt_b.zero_grad()"


@pytest.mark.parametrize(("clear", "state"), [(BOTH, RIGHT), ("self.opt_a.zero_grad()", WRONG)])
def test_an_overflow_counts_for_its_own_scaler(clear: str, state: str) -> None:
    (found,) = interpret(PROGRAM.replace("CLEAR", clear))
    assert found.judged.state == state
