"""AMP207 about steps without an optimizer, with gradients of an unscaled float16 loss from `torch.autograd.grad`."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Severity
from amplint.config.settings import Settings

ONLY = Settings(frozenset({"AMP207"}), isolated=True)
PROGRAM = """\
import torch
from torch.func import functional_call
from torch.nn.functional import mse_loss


def adapt(model, data, target, lr):
    weights = {weights}
    for _ in range(5):
        with torch.autocast("cuda", dtype={dtype}):
            loss = {loss}
        {grads}
        {step}
    return weights


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for data, target in loader:
        optimizer.zero_grad()
        weights = adapt(model, data, target, 0.1)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = mse_loss(functional_call(model, weights, data), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save(model.state_dict(), "model.pt")
"""
USUAL = {
    "weights": "dict(model.named_parameters())",
    "dtype": "torch.float16",
    "loss": "mse_loss(functional_call(model, weights, data), target)",
    "grads": "grads = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)",
    "step": "weights = {n: w - lr * g for (n, w), g in zip(weights.items(), grads)}",
}
LIST = {"weights": "list(model.parameters())", "grads": "grads = torch.autograd.grad(loss, weights)"}


def found_with(**changes: str) -> list[str]:
    found = check(PROGRAM.format(**USUAL | changes), "train.py", ONLY)
    assert all((each.severity is Severity.ERROR) is (each.confidence is Confidence.CERTAIN) for each in found)
    return [each.confidence.value for each in found]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"grads": "grads = list(torch.autograd.grad(loss, weights.values(), allow_unused=True))"},
        {"step": "weights = dict((n, w if g is None else w - lr * g) for (n, w), g in zip(weights.items(), grads))"},
        {"step": "grads = [g.clamp(-1, 1) for g in grads]\n        " + USUAL["step"]},
        LIST | {"step": "weights = [w - lr * g for w, g in zip(weights, grads)]"},
        LIST | {"step": "weights = list(map(lambda pair: pair[1] - lr * pair[0], zip(grads, weights)))"},
        LIST | {"step": "for w, g in zip(weights, grads):\n            w.data -= lr * g"},
        LIST | {"step": "for w, g in zip(weights, grads):\n            w.data.sub_(lr * g)"},
        LIST | {"step": "for w, g in zip(weights, grads):\n            w.data.add_(g, alpha=-lr)"},
        LIST | {"step": "for i, w in enumerate(weights):\n            weights[i] = w - lr * grads[i]"},
        LIST
        | {
            "grads": "pass",
            "step": "weights = [w - lr * g for w, g in zip(weights, torch.autograd.grad(loss, weights))]",
        },
        # A weight of the loss is no scale.
        {"loss": "0.5 * mse_loss(functional_call(model, weights, data), target)"},
    ],
)
def test_a_step_by_hand(changes: dict[str, str]) -> None:
    assert found_with(**changes) == ["certain"]


@pytest.mark.parametrize("weights", ["copied(model)", "model.weights"])
def test_weights_that_may_be_something_else(weights: str) -> None:
    assert found_with(weights=weights) == ["likely"]


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "torch.bfloat16"},
        {"step": "penalty = sum(g.pow(2).sum() for g in grads)"},
        {"step": "norms = [1 - g.norm() for g in other]"},
        {"step": "weights = {n: w - lr * g.sign() for (n, w), g in zip(weights.items(), grads)}"},
        # scaled, and unscaled
        {"grads": "grads = torch.autograd.grad(scaler.scale(loss), tuple(weights.values()))"},
        {"grads": "grads = torch.autograd.grad(loss, tuple(weights.values()), torch.tensor(1024.0))"},
        {"step": "weights = {n: w - lr * g * inv_scale for (n, w), g in zip(weights.items(), grads)}"},
        {
            "loss": "1024 * mse_loss(functional_call(model, weights, data), target)",
            "step": "weights = {n: w - lr * g / 1024 for (n, w), g in zip(weights.items(), grads)}",
        },
        {
            "loss": "1024 * mse_loss(functional_call(model, weights, data), target)",
            "step": "grads = [g.div(1024) for g in grads]\n        " + USUAL["step"],
        },
        # of an input
        {"grads": "g = torch.autograd.grad(loss, data)[0]", "step": "data = data - lr * g"},
        {"grads": "(g,) = torch.autograd.grad(loss, [data])", "step": "data = data - lr * g"},
    ],
)
def test_what_is_right_or_no_step(changes: dict[str, str]) -> None:
    assert found_with(**changes) == []
