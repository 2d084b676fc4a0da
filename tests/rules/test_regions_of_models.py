"""AMP207: regions in the `forward` of a model, and optimizers that are known by their use."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

{forward}


def train(model, loader, optimizer):
    for x, y in loader:
        {call}
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(loader):
    {made}
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
"""
DECORATED = """\
    @torch.autocast("cuda")
    def forward(self, x):
        return self.layer(x)
"""
INSIDE = """\
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            out = self.layer(x)
        return out.float()
"""
BFLOAT16 = INSIDE.replace("float16", "bfloat16")
OTHER = DECORATED.replace("forward", "predict") + "\n    def forward(self, x):\n        return self.layer(x)\n"


def codes(forward: str, call: str, made: str) -> list[str]:
    text = PROGRAM.format(forward=forward, call=call, made=made)
    return [each.code for each in amplint.check(text, "train.py")]


@pytest.mark.parametrize("forward", [DECORATED, INSIDE], ids=["decorated", "inside"])
@pytest.mark.parametrize("call", ["out = model(x)", "out = model(x.cuda()).contiguous()"])
@pytest.mark.parametrize("made", ["model = Net().cuda()", "model = Net()\n    model.to('cuda')"])
def test_is_found(forward: str, call: str, made: str) -> None:
    assert "AMP207" in codes(forward, call, made)


@pytest.mark.parametrize("forward", [BFLOAT16, OTHER], ids=["bfloat16", "another method"])
def test_is_silent(forward: str) -> None:
    assert "AMP207" not in codes(forward, "out = model(x)", "model = Net().cuda()")


@pytest.mark.parametrize(
    ("steps", "codes_"),
    [
        ("for o in made:\n            o.step()\n            o.zero_grad()", ["AMP207"]),
        ("for o in made:\n            o.step()\n        for o in made:\n            o.zero_grad()", ["AMP207"]),
        ("for name, o in made.items():\n            o.step()\n            o.zero_grad()", ["AMP207"]),
        ("for o in made:\n            o.step()", []),
        ("for o in made:\n            o.step()\n            o.zero_grad()\n            o.render()", []),
    ],
)
def test_what_a_loop_steps_and_clears_is_an_optimizer(steps: str, codes_: list[str]) -> None:
    text = f"""\
import torch


def train(net, loader, make):
    made = make(net)
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).sum()
        loss.backward()
        {steps}
"""
    assert [each.code for each in amplint.check(text, "train.py")] == codes_
