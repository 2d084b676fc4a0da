"""AMP302: a step in a region of what autocast never casts, so that no old copy of it is kept."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP302"}), isolated=True, target_torch="2.4")
PROGRAM = """
import torch


class Field(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.points = torch.nn.Parameter(torch.zeros(size))
        {0}

    def forward(self, x):
        {1}
        return x + torch.nn.functional.interpolate(self.points, x.shape[-2:], mode="bicubic")


class Noise(torch.nn.Module):
    def __init__(self, size, given):
        super().__init__()
        self.field = Field(size)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        {2}

    def forward(self, x, attack):
        if attack:
            self.optimizer.step()
            self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            {3}
            return torch.clamp(self.field.forward(x), 0, 1)


def attack(size, given, x):
    noise = Noise(size, given)
    with torch.autocast("cuda"):
        return noise.forward(x, True)
"""
NOTHING = ("pass", "pass", "pass", "pass")
CASTS = {
    "a layer": ("self.layer = torch.nn.Linear(4, 4)", "x = self.layer(x)", "pass", "pass"),
    "a product": ("pass", "x = x @ self.points", "pass", "pass"),
    "a product's method": ("pass", "x = x.matmul(self.points)", "pass", "pass"),
    "a product's function": ("pass", "x = torch.nn.functional.linear(x, self.points)", "pass", "pass"),
    "a part that is given": ("pass", "pass", "self.given = given", "x = self.given(x)"),
    "a method of a part that is given": ("pass", "pass", "self.given = given", "x = self.given.encode(x)"),
    "a function of another file": ("pass", "from own import mix\n        x = mix(x, self.points)", "pass", "pass"),
}


def found(parts: tuple[str, ...]) -> list[str]:
    return [each.code for each in check(PROGRAM.format(*parts), "a.py", SETTINGS)]


def test_nothing_is_cast() -> None:
    assert found(NOTHING) == []


@pytest.mark.parametrize("parts", CASTS.values(), ids=CASTS)
def test_something_may_be_cast(parts: tuple[str, ...]) -> None:
    assert found(parts) == ["AMP302"]
