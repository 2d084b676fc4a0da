"""Loops that count in an attribute, which the methods that they call ask for."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, config):
        self.model, self.optimizer, self.config = model, optimizer, config
        self.scaler = torch.amp.GradScaler("cuda")
        self.done = 0

    def step(self, x):
        every = EVERY
        if self.done % every == 0:
            self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(x).mean()
        self.scaler.scale(loss / every).backward()
        if (self.done + 1) % every == 0LAST:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def train(self, loader):
LOOP
"""
ONE = """\
        for x in loader:
            self.step(x)
            self.done += 1
"""
LIMITED = """\
        while self.done < self.config.steps:
            for x in loader:
                if self.done >= self.config.steps:
                    break
                self.step(x)
                self.done += 1
"""
EPOCHS = """\
        for _ in range(self.config.epochs):
            for x in loader:
                self.step(x)
                self.done += 1
"""
LASTING = "max(1, int(self.config.every))"


def found(loop: str = ONE, every: str = LASTING, last: str = "") -> list[str]:
    """The codes of what is found."""
    return [each.code for each in check(TEXT.replace("EVERY", every).replace("LAST", last).replace("LOOP", loop))]


@pytest.mark.parametrize("loop", [ONE, EPOCHS, LIMITED])
@pytest.mark.parametrize("every", ["4", "self.config.every", LASTING])
def test_gradients_are_cleared_after_the_step(loop: str, every: str) -> None:
    assert found(loop, every) == []


@pytest.mark.parametrize("last", [" or self.done + 1 >= self.config.steps", " or self.done + 1 == self.config.steps"])
def test_the_last_step_needs_no_clear(last: str) -> None:
    assert found(LIMITED, last=last) == []
    assert found(EPOCHS, last=last) == ["AMP411"]  # other steps follow


@pytest.mark.parametrize(
    ("loop", "every"),
    [
        (ONE.replace("+= 1", "+= 2"), "4"),
        (ONE.replace("self.done += 1", "self.done = 1"), "4"),
        # It is another number in the next call.
        (ONE, "self.done // 2 + 1"),
        (ONE + "            self.config.every = 3\n", LASTING),
    ],
)
def test_gradients_that_are_cleared_at_another_time(loop: str, every: str) -> None:
    assert found(loop, every) == ["AMP411"]


def test_where_the_scaler_may_be_none() -> None:
    """More paths are kept apart then."""
    text = TEXT.replace("EVERY", "4").replace("LAST", " or self.done + 1 >= self.config.steps").replace("LOOP", LIMITED)
    for line in ("self.scaler.scale(loss / every).backward()", "self.scaler.step(self.optimizer)"):
        indent = text.split(line)[0].rpartition("\n")[2]
        text = text.replace(f"{indent}{line}", f"{indent}if self.scaler:\n{indent}    {line}")
    assert not check(text.replace("            self.scaler.update()", "                self.scaler.update()"))
