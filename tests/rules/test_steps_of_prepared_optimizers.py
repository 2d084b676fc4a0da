"""The step of an optimizer that an Accelerator has prepared goes through its scaler (AMP402)."""

from __future__ import annotations

import pytest

from amplint import check

INHERITED = """\
import torch
from accelerate import Accelerator


class Scaling(Accelerator):
    def backward(self, loss, **kwargs):
        self.scaler.scale(loss).backward(**kwargs)


"""
COPIED = """\
import torch
from accelerate.optimizer import AcceleratedOptimizer


class Scaling:
    def __init__(self, mixed_precision):
        self.scaler = torch.amp.GradScaler("cuda")

    def backward(self, loss, **kwargs):
        self.scaler.scale(loss).backward(**kwargs)

    def prepare(self, *args):
        return tuple(AcceleratedOptimizer(each, scaler=self.scaler) for each in args)


"""
REPLACED = """\
import torch
from accelerate import Accelerator as Scaling


def backward(self, loss):
    self.scaler.scale(loss).backward()


Scaling.backward = backward


"""
PLAIN = COPIED.replace("AcceleratedOptimizer(each, scaler=self.scaler)", "each")
TRAIN = """\
def build(accelerator, *parts):
    return accelerator.prepare(*parts)


def train(model, loader, criterion):
    accelerator = Scaling(mixed_precision="fp16")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    PREPARED
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        BACKWARD
        optimizer.step()
"""
TRAINER = """\
class Trainer:
    def __init__(self, model):
        self.accelerator = Scaling(mixed_precision="fp16")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model, self.optimizer = PREPARED

    def train(self, loader, criterion):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = criterion(self.model(x), y)
            self.accelerator.backward(loss)
            self.optimizer.step()
"""
OF_ACCELERATE = (INHERITED, COPIED)
OWN, BY_HAND = "accelerator.backward(loss)", "accelerator.scaler.scale(loss).backward()"
PREPARES = [
    "model, optimizer = accelerator.prepare(model, optimizer)",
    "optimizer = accelerator.prepare(optimizer)",
    "model, optimizer = build(accelerator, model, optimizer)",
    "prepared = accelerator.prepare(model, optimizer)\n    model, optimizer = prepared",
]
LEAVES_IT = [
    "pass",
    "model = accelerator.prepare(model)",
    "model, optimizer = accelerator.prepare(model), optimizer",
    "accelerator.prepare(model, optimizer)",
]


def count(text: str) -> int:
    return sum(each.code == "AMP402" for each in check(text))


@pytest.mark.parametrize("head", OF_ACCELERATE)
@pytest.mark.parametrize("prepared", PREPARES)
@pytest.mark.parametrize("backward", [OWN, BY_HAND])
def test_a_prepared_optimizer_steps_through_the_scaler(head: str, prepared: str, backward: str) -> None:
    assert count(head + TRAIN.replace("PREPARED", prepared).replace("BACKWARD", backward)) == 0


@pytest.mark.parametrize("head", OF_ACCELERATE)
@pytest.mark.parametrize("prepared", LEAVES_IT)
def test_another_one_steps_past_it(head: str, prepared: str) -> None:
    assert count(head + TRAIN.replace("PREPARED", prepared).replace("BACKWARD", OWN)) == 1


def test_where_the_class_leaves_the_optimizer_as_it_is() -> None:
    assert count(PLAIN + TRAIN.replace("PREPARED", PREPARES[0]).replace("BACKWARD", OWN)) == 1


@pytest.mark.parametrize("backward", [OWN, BY_HAND])
def test_a_method_that_is_replaced(backward: str) -> None:
    _, train, body = TRAIN.replace("BACKWARD", backward).partition("def train")
    text = REPLACED + train + body
    assert count(text.replace("PREPARED", PREPARES[0])) == 0
    assert count(text.replace("PREPARED", "pass")) == 1


@pytest.mark.parametrize("head", OF_ACCELERATE)
def test_attributes(head: str) -> None:
    assert count(head + TRAINER.replace("PREPARED", "self.accelerator.prepare(model, optimizer)")) == 0
    assert count(head + TRAINER.replace("PREPARED", "model, optimizer")) == 1
