"""AMP303: a model that another file hands over is known by its name, where nothing else says that it is one."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

FUNCTION = """\
import torch
from torch import nn
{top}

def train({name}, optimizer, scaler, loader):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = {name}(x)
        loss = nn.functional.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
ATTRIBUTE = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, {name}, optimizer):
        self.{name}, self.optimizer = {name}, optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = self.{name}(x)
        loss = nn.CrossEntropyLoss()(out, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize("text", [FUNCTION, ATTRIBUTE])
@pytest.mark.parametrize(
    ("name", "found"), [("model", True), ("net", True), ("student_model", True), ("score", False), ("fn", False)]
)
def test_a_model_by_its_name(text: str, name: str, found: bool) -> None:
    said = [each for each in check(text.format(name=name, top="")) if each.code == "AMP303"]
    assert [each.confidence for each in said] == [Confidence.LIKELY] * found


def test_a_function_of_the_file_is_what_it_is() -> None:
    text = FUNCTION.format(name="model", top="") + "\n\ntrain(lambda x: x.float(), None, None, [])\n"
    assert [each for each in check(text) if each.code == "AMP303"] == []
