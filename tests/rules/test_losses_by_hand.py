"""AMP303 about losses that are written out after the region: which terms are half, and would be float32 inside."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
import torch.nn.functional as F

def divergence(mean, log_variance):
    return -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())

def train(model, images, target, scaler, weight: float):
    model.train()
    with torch.autocast({region}):
        first, second = model(images)
    {after}
    scaler.scale(loss).backward()
"""
FLOAT16 = "'cuda', dtype=torch.float16"
INF = "at the initial scale its gradient is inf"


def found(after: str, region: str = FLOAT16) -> list[str]:
    return messages(PROGRAM.format(region=region, after=after))


def messages(text: str) -> list[str]:
    return [each.message for each in check(text, "train.py") if each.code == "AMP303"]


@pytest.mark.parametrize(
    "after",
    [
        "loss = (first - second).square().mean()",
        "loss = ((first - second) ** 2).mean()",
        "loss = torch.mean(torch.where(first > second, first, second) ** 2)",
        "loss = -F.log_softmax(first, 1)[:, 0].mean()",
        "loss = -first.softmax(1).log().sum(1).mean()",
        "loss = F.softplus(second - first).sum()",
        "loss = first.pow(2).mean() + F.mse_loss(second, target)",
        "error = first - second\n    error = error.abs()\n    loss = error.exp().mean()",
    ],
)
def test_a_term_that_is_half(after: str) -> None:
    (message,) = found(after)
    assert INF in message


@pytest.mark.parametrize(
    "after",
    [
        "loss = weight * (first - second).square().mean()",
        "loss = (first - second).square().mean() / 4",
        "loss = (first - second).square().mean()\n    loss /= 4",
        "loss = F.mse_loss(images, target) + divergence(first, second)",
    ],
)
def test_the_scale_is_named_only_where_it_is_the_gradient(after: str) -> None:
    (message,) = found(after)
    assert "the loss and its gradient are rounded" in message
    assert INF not in message


@pytest.mark.parametrize(
    "after",
    [
        "loss = (first - target).square().mean()",
        "loss = (first.float() - second).square().mean()",
        "loss = (first - second).float().square().mean()",
        "loss = F.relu(1 - first).mean() + F.relu(1 + second).mean()",  # half inside as well
        "loss = (first - second).abs().mean()",
        "loss = first.mean() + 0.1 * second.mean()",  # what the model gives may be its losses
        "loss = first.sum()",
        "loss = first.mean()\n    loss = (loss - weight).abs() + weight",
        "loss = F.mse_loss(images, target)\n    print(first.square().mean())",
        "loss = F.mse_loss(images, first.square().mean(1))",
        "loss = F.mse_loss(images, target) + first.square().mean().detach()",
    ],
)
def test_what_is_no_term_that_is_half(after: str) -> None:
    assert found(after) == []


def test_on_cpu_only_some_ops_are_computed_in_float32() -> None:
    cpu = "'cpu', dtype=torch.bfloat16"
    assert found("loss = (first - second).square().mean()", cpu) == []
    assert len(found("loss = (first - second).square().prod(1).mean()", cpu)) == 1


def test_outputs_of_two_regions() -> None:
    text = """\
import torch
from torch import nn

def train(images, texts, pairs):
    to_images, to_texts = nn.Linear(4, 4), nn.Linear(4, 4)
    with torch.autocast("cuda", dtype=torch.float16):
        first = to_images(images)
    if pairs:
        with torch.autocast("cuda", dtype=torch.float16):
            second = to_texts(texts)
    else:
        with torch.autocast("cuda", dtype=torch.float16):
            second = to_images(texts)
    loss = (first - second).square().mean()
    loss.backward()
"""
    (message,) = messages(text)
    assert "line 12" in message


@pytest.mark.parametrize(("given", "half"), [("0.5", True), ("settings.reward", True), ("batch[9]", False)])
def test_a_caller_knows_better_than_an_annotation(given: str, half: bool) -> None:
    text = f"""\
import torch

def train(model, optimizer, batch, settings):
    model.train()
    step(model, batch, {given})
    optimizer.step()

def step(model, batch, reward: float):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        first = model(*batch)
    loss = (reward - first).square().mean()
    loss.backward()
"""
    assert len(messages(text)) == half
