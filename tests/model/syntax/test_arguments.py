"""Which argument is which parameter, however a call writes them."""

from __future__ import annotations

import pytest

from amplint import check

HEAD = """import torch
from torch.nn.utils import clip_grad_norm_
model, optimizer = torch.nn.Linear(2, 2), None
optimizer = torch.optim.SGD({params}, lr=0.1)
scaler = torch.amp.GradScaler("cuda"{made})
"""
STEP = """for x in range(9):
    optimizer.zero_grad({zero})
    with torch.autocast("cuda"):
        loss = model(x).sum()
    scaler.scale({scale}).backward()
    {clip}
    scaler.step({step})
    scaler.update()
"""
PLAIN = {
    "params": "model.parameters()",
    "made": "",
    "zero": "",
    "scale": "loss",
    "clip": "clip_grad_norm_(model.parameters(), 1.0)",
    "step": "optimizer",
}


def codes(**changes: str) -> list[str]:
    return [each.code for each in check((HEAD + STEP).format(**(PLAIN | changes)))]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"params": "params=model.parameters()"},
        {"scale": "outputs=loss"},
        {"step": "optimizer=optimizer"},
        {"clip": "clip_grad_norm_(max_norm=1.0, parameters=model.parameters())"},
        {"clip": "clip_grad_norm_(norm_type=float('inf'), max_norm=1.0, parameters=model.parameters())"},
        {"clip": "clip_grad_norm_(model.parameters(), norm_type=float('inf'), max_norm=1.0)"},
    ],
)
def test_a_clip_of_scaled_gradients(changes: dict[str, str]) -> None:
    assert codes(**changes) == ["AMP401"]


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": "clip_grad_norm_(model.parameters(), float('inf'))"},
        {"clip": "clip_grad_norm_(max_norm=float('inf'), parameters=model.parameters())"},
        {"clip": "clip_grad_norm_(model.parameters(), norm_type=2.0, max_norm=float('inf'))"},
        {"made": ", 65536.0, 2.0, 0.5, 2000, False"},
        {"made": ", enabled=False"},
    ],
)
def test_a_clip_that_only_measures_or_a_scaler_that_is_off(changes: dict[str, str]) -> None:
    assert "AMP401" not in codes(**changes)


@pytest.mark.parametrize("step", ["optimizer", "optimizer=optimizer"])
@pytest.mark.parametrize("unscale", ["optimizer", "optimizer=optimizer"])
def test_unscaled_before(step: str, unscale: str) -> None:
    clip = f"scaler.unscale_({unscale}); clip_grad_norm_(max_norm=1.0, parameters=model.parameters())"
    assert codes(step=step, clip=clip) == []
