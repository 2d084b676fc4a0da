"""Models that are frozen by their parameters' `requires_grad`: they get no gradients, so none that stay scaled."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import interpret

STEP = """
import torch
from torch import nn

def set_requires_grad(module, flag):
    for p in module.parameters():
        p.requires_grad = flag

def main(cfg, loader):
    model = nn.Linear(4, 4)
    head = nn.Linear(4, 4)
    if cfg.freeze > 0:
        set_requires_grad(model, FLAG)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(head(model(x)), y)
        scaler.scale(loss).backward()
        UNSCALE
        nn.utils.clip_grad_norm_(list(model.parameters()) + list(head.parameters()), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("flag", "unscale", "state"),
    [
        ("False", "scaler.unscale_(optimizer)", RIGHT),
        ("True", "scaler.unscale_(optimizer)", WRONG),
        ("False", "pass", WRONG),
    ],
)
def test_a_frozen_model_has_no_gradients_to_clip(flag: str, unscale: str, state: str) -> None:
    (found,) = interpret(STEP.replace("FLAG", flag).replace("UNSCALE", unscale))
    assert found.judged.state == state
