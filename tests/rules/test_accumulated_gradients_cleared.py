"""What an accumulation comes to that clears its gradients on each micro step, as AMP427 says it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

K = 4


def _accumulated(model: Any, inputs: Any, *, clear_each: bool) -> Any:
    """The gradient that a step after `K` micro steps gets."""
    model.zero_grad()
    for part in inputs.chunk(K):
        if clear_each:
            model.zero_grad()
        (model(part).square().mean() / K).backward()
    return model.weight.grad.clone()


def test_only_the_last_micro_step_counts() -> None:
    torch.manual_seed(0)
    model, inputs = torch.nn.Linear(8, 3), torch.randn(4 * K, 8)
    model.zero_grad()
    model(inputs).square().mean().backward()
    whole = model.weight.grad.clone()
    assert torch.allclose(_accumulated(model, inputs, clear_each=False), whole, atol=1e-6)
    model.zero_grad()
    (model(inputs.chunk(K)[-1]).square().mean() / K).backward()
    assert torch.equal(_accumulated(model, inputs, clear_each=True), model.weight.grad)
