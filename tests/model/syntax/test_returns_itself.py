"""Functions that return what they return themselves: a name that leads in a circle ends."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch

RETURNS


class Stitcher(torch.nn.Module):
    def forward(self, *images):
        return self.pair(*images).get()

    def pair(self, left, right):
        return self.pair(right, left).get()


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = (lazy(x).name() - model(x).pair(y)).square().mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "returns",
    [
        "def lazy(x):\n    return lazy(x).name(x)",
        "def lazy(x):\n    return other(x).name(x)\n\n\ndef other(x):\n    return lazy(x)(x)",
        "lazy = lambda x: lazy(x).name(x)",
    ],
)
def test_a_circle_ends(returns: str) -> None:
    assert {each.code for each in check(TEXT.replace("RETURNS", returns))} == {"AMP401"}
