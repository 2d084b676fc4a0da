"""Loops over generators of the file: what these do to gradients is out of sight, what else they store is not."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch


class Meter:
    def __init__(self):
        self.count = 0
        self.total = 0.0

    def update(self, value):
        self.count += 1
        self.total += value

    @property
    def average(self):
        return self.total / self.count


class Progress:
    def __init__(self, optimizer=None):
        self.optimizer = optimizer
        self.number = 0

    def every(self, loader):
        meter = Meter()
        for number, each in enumerate(loader):
            {before}
            yield each
            meter.update(number)
            print(meter.average)


def train(model, loader, optimizer, k):
    scaler = torch.amp.GradScaler("cuda")
    progress = Progress(optimizer)
    for epoch in range(10):
        optimizer.zero_grad()
        for x, y in progress.every(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x, y).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            {after}
"""


def found(before: str = "pass", after: str = "pass") -> bool:
    return any(each.code == "AMP411" for each in check(PROGRAM.format(before=before, after=after), "train.py"))


def test_a_generator_that_only_counts() -> None:
    assert found()
    assert not found(after="optimizer.zero_grad()")


def test_a_generator_that_counts_for_itself() -> None:
    assert found(before="self.number = (self.number + 1) % 10")


@pytest.mark.parametrize("before", ["self.optimizer.zero_grad()", "for p in self.model.parameters(): p.grad = None"])
def test_a_generator_that_clears(before: str) -> None:
    assert not found(before=before)


def test_a_generator_that_says_when_to_clear() -> None:
    after = "if progress.number == 0: optimizer.zero_grad()"
    assert not found(before="self.number = (self.number + 1) % k", after=after)
