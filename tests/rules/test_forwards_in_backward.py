"""AMP301 where a Function of the program runs its forward again in backward: outside the region that would raise."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.inputs = run, inputs
        with torch.no_grad():
            return run(*inputs)

    @staticmethod
    def backward(ctx, *grads):
        BACKWARD


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(Again.apply(model, x), y)
            loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("backward", "again"),
    [
        ("return None, *torch.autograd.grad(ctx.run(*ctx.inputs), ctx.inputs, grads)", True),
        ("ctx.mark_non_differentiable()\n        return None, *(each * 2 for each in grads)", False),
    ],
)
def test_the_function_is_to_keep_its_region(backward: str, again: bool) -> None:
    (found,) = (
        each for each in amplint.check(PROGRAM.replace("BACKWARD", backward), "train.py") if each.code == "AMP301"
    )
    assert ("add `custom_fwd` and `custom_bwd` to `Again`, then end the region" in found.message) is again
    assert ("may multiply tensors of two dtypes outside the region" in (found.withheld or "")) is again
