"""Paths on which what is None is used: they raise, so nothing is said of them."""

from __future__ import annotations

import pytest

from amplint import check

LOOP = """
import torch


class Trainer:
    def __init__(self, optimizer):
        self.model = None
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self, loader):
        for inputs, targets in loader:
            if {test}:
                for parameter in self.model.parameters():
                    parameter.grad = None
            with torch.autocast("cuda"):
                loss = self.step(inputs, targets)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_({parameters}, 12)
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


def _codes(test: str, parameters: str = "self.model.parameters()") -> list[str]:
    return [each.code for each in check(LOOP.format(test=test, parameters=parameters), "train.py")]


def test_a_path_that_reads_an_attribute_of_none_is_none() -> None:
    assert "AMP411" not in _codes("self.model is not None")


@pytest.mark.parametrize(
    ("test", "parameters"),
    [
        ("self.clears", "self.model.parameters()"),
        ("self.model is not None", "self.own()"),
        ("self.model is not None", "self.model.parameters() if self.model is not None else []"),
    ],
)
def test_a_path_that_goes_on_is_one(test: str, parameters: str) -> None:
    assert "AMP411" in _codes(test, parameters)
