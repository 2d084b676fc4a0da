"""Gradients that are clamped one by one."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import interpret

STEP = """
import torch

def clip_grad_value_(parameters, most):
    most = float(most)
    for p in parameters:
        p.grad.data.clamp_(WITHIN)

def train(loader, net, config):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        UNSCALE
        clip_grad_value_(net.parameters(), config.most)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize("within", ["min=-most, max=most", "-most, most"])
@pytest.mark.parametrize(("unscale", "state"), [("scaler.unscale_(optimizer)", RIGHT), ("pass", WRONG)])
def test_gradients_that_are_clamped_to_what_is_out_of_sight(within: str, unscale: str, state: str) -> None:
    (found,) = interpret(STEP.replace("WITHIN", within).replace("UNSCALE", unscale))
    assert found.judged.state == state
