"""What a clip does with a generator that is used up, as AMP426 says it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import amplint

torch = pytest.importorskip("torch")


def _chained(model: Any) -> Iterator[Any]:
    return itertools.chain(model.parameters())


def _filtered(model: Any) -> Iterator[Any]:
    return filter(lambda each: each.requires_grad, model.parameters())


@pytest.mark.filterwarnings("ignore:`parameters` is an empty generator")
@pytest.mark.parametrize("made", [torch.nn.Module.parameters, _chained, _filtered])
def test_it_clips_nothing(made: Callable[[Any], Iterator[Any]]) -> None:
    model = torch.nn.Linear(4, 2)
    params = made(model)
    torch.optim.SGD(params, lr=0.1)
    model(torch.full((1, 4), 100.0)).sum().backward()
    before = model.weight.grad.clone()
    assert torch.nn.utils.clip_grad_norm_(params, max_norm=0.1) == 0
    assert torch.equal(model.weight.grad, before)
    assert torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=0.1) > 100
    assert model.weight.grad.norm() < 0.11


def test_a_clip_by_value_raises() -> None:
    model = torch.nn.Linear(4, 2)
    model(torch.ones(1, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="empty"):
        torch.nn.utils.clip_grad_value_(iter(()), 0.1)


OUTSIDE = """\
import torch
from torch.amp import GradScaler

model = torch.nn.Linear(4, 2)
params = model.parameters()
{before}


def train(batches):
    scaler = GradScaler("cuda")
    for x in batches:
        scaler.scale(model(x).sum()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


{after}
"""
MADE = "optimizer = torch.optim.SGD(params, lr=0.1)"
ON_LINE_6 = "line 6 has used up the generator `params`"
BY_ITSELF = "that iteration uses up the generator `params`"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (MADE, "train([])", ON_LINE_6),
        (f"if model.training:\n    {MADE}", "train([])", BY_ITSELF),
        ("pass", f"train([])\n{MADE}", BY_ITSELF),
    ],
)
def test_an_optimizer_made_as_the_file_is_loaded(before: str, after: str, said: str) -> None:
    (finding,) = [each for each in amplint.check(OUTSIDE.format(before=before, after=after)) if each.code == "AMP426"]
    assert said in finding.message
