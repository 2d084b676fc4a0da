"""A plain step of an optimizer that a scaler steps as well: an overflow has to come where that step would apply it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT
from tests.interpreting import Ran, interpret

STEP = """
import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer, scaler):
        self.model, self.optimizer, self.scaler = model, optimizer, scaler

    def train(self, loader):
        for data, target in loader:
            FIRST
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(data), target)
            BEFORE
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            AFTER
        END
"""
PLACES = ("FIRST", "BEFORE", "AFTER", "END")
PLAIN, CLEAR = "self.optimizer.step()", "self.optimizer.zero_grad()"


def ran(text: str = STEP, **at: str) -> Ran:
    for each in PLACES:
        text = text.replace(each, at.get(each, "pass"))
    (found,) = interpret(text)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_a_step_whose_gradients_nobody_clears_applies_an_overflow(place: str) -> None:
    assert ran(**{place: PLAIN}).shown == {"skips"}


@pytest.mark.parametrize("place", ["AFTER", "END"])
def test_a_step_before_the_gradients_are_cleared_applies_an_overflow(place: str) -> None:
    assert ran(**{place: PLAIN, "FIRST": CLEAR}).shown == {"skips"}


def test_a_step_every_second_batch_applies_an_overflow_of_its_batch() -> None:
    text = STEP.replace("for data, target in loader", "for i, (data, target) in enumerate(loader)")
    found = ran(text, FIRST=CLEAR, AFTER=f"if (i + 1) % 2 == 0: {PLAIN}")
    assert found.shown == {"skips"}


@pytest.mark.parametrize(
    "at",
    [
        {},
        {"FIRST": CLEAR, "BEFORE": PLAIN},
        {"FIRST": PLAIN, "AFTER": CLEAR},
        {"FIRST": CLEAR, "END": f"{CLEAR}; {PLAIN}"},
    ],
)
def test_a_step_after_the_gradients_are_cleared_applies_nothing(at: dict[str, str]) -> None:
    assert ran(**at).judged.state == RIGHT


def test_who_calls_a_step_of_one_batch_clears_after_the_call() -> None:
    text = """
import torch
from torch import nn


def step(model, optimizer, scaler, data, target):
    optimizer.step()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(data), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    (found,) = interpret(text)
    assert found.judged.state == RIGHT
