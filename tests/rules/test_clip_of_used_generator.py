"""What a clip does with a generator that is used up, as AMP426 says it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
