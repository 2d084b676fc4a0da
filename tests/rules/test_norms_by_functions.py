"""AMP409 of a norm that a function of the file computes, however it takes the gradients."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch


HELPER


def train(config, model, data, optimizer, writer):
    scaler = torch.amp.GradScaler("cuda")
    for step, (x, y) in enumerate(data):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x, y)
        scaler.scale(loss).backward()
        if config.max_norm > 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_norm)
        norm = grad_norm(model.parameters())
        scaler.step(optimizer)
        scaler.update()
        writer.add_scalar("norm", norm, step)
"""
HEAD = "def grad_norm(parameters):\n    "
LOOPS = ["p.grad", "p.grad.detach()", "p.grad.detach().float()", "p.grad.data.detach().float().cpu().flatten()"]


def found(body: str) -> list[str]:
    return [each.code for each in check(PROGRAM.replace("HELPER", HEAD + body)) if each.code == "AMP409"]


@pytest.mark.parametrize("taken", LOOPS)
@pytest.mark.parametrize(
    "body",
    [
        "grads = [TAKEN for p in parameters if p.grad is not None]\n"
        "    return float(torch.norm(torch.stack([g.norm() for g in grads])))",
        "grads = [TAKEN for p in parameters if p.grad is not None]\n    if not grads:\n        return 0.0\n"
        "    return torch.norm(torch.stack([g.norm() for g in grads])).item()",
        "return torch.stack([TAKEN.norm() for p in parameters if p.grad is not None]).norm()",
        "total = 0.0\n    for p in parameters:\n        if p.grad is not None:\n"
        "            total += TAKEN.norm(2).item() ** 2\n    return total**0.5",
    ],
    ids=["list", "list that may be empty", "comprehension", "loop"],
)
def test_the_norm_of_scaled_gradients_is_found(taken: str, body: str) -> None:
    assert found(body.replace("TAKEN", taken)) == ["AMP409"]


@pytest.mark.parametrize(
    "body",
    [
        "return torch.stack([p.detach().norm() for p in parameters]).norm()",
        "return sum(p.grad is not None for p in parameters)",
        "return len([p.grad.detach().float() for p in parameters if p.grad is not None])",
    ],
)
def test_what_is_no_norm_of_gradients_is_not(body: str) -> None:
    assert not found(body)
