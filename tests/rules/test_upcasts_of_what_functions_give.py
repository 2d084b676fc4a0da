"""AMP503: a cast of what a function has computed in the region, before a product there."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.exact = torch.float32
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)
        self.sharpness = nn.Parameter(torch.ones([]))

    def encode(self, tower, x):
        return GIVEN

    def forward(self, x, y):
        one, other = self.encode(self.left, x), self.encode(self.right, y)
        other = CAST
        return self.sharpness.exp() * one @ other.t()


def train(loader, optimizer, scaler):
    pair = Pair().cuda()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            scores = pair(x, y)
            loss = F.cross_entropy(scores, torch.arange(8, device="cuda"))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
UNIT = "F.normalize(tower(x), dim=-1)"


def found(given: str, cast: str) -> list[str]:
    return [each.code for each in check(TEXT.replace("GIVEN", given).replace("CAST", cast)) if each.code == "AMP503"]


@pytest.mark.parametrize("cast", ["other.float()", "other.to(torch.float32)", "other.to(self.exact)"])
@pytest.mark.parametrize("given", [UNIT, "tower(x)"])
def test_the_product_casts_it_back(given: str, cast: str) -> None:
    assert found(given, cast) == ["AMP503"]


@pytest.mark.parametrize(("given", "cast"), [(UNIT, "other"), ("x", "other.float()"), (UNIT, "other.half()")])
def test_no_cast_or_none_of_what_is_computed(given: str, cast: str) -> None:
    assert found(given, cast) == []
