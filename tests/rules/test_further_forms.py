"""Forms of misuses in classes: contexts and scalers kept as attributes, flags of checks, optimizers of the callers."""

from __future__ import annotations

import pytest

import amplint

JOINED = """\
from contextlib import nullcontext

import torch


class Trainer:
    def __init__(self, amp):
        if amp:
            self.context = {amp}
        else:
            self.context = nullcontext()

    def train(self, loader):
        for inputs in loader:
            with self.context and torch.set_grad_enabled(True):
                loss = self.model(inputs).sum()
"""
CLIPPED = """\
import torch


class Trainer:
    def __init__(self, model, limit, amp):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.limit = limit
        self.scaler = torch.amp.GradScaler("cuda") if amp else None

    def train(self, loader):
        for inputs in loader:
            self.optimizer.zero_grad()
            if self.scaler:
                with torch.autocast("cuda"):
                    loss = self.model(inputs)[0].mean()
                self.scaler.scale(loss).backward(){clip}
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                output = self.model(inputs)
                loss = output.mean()
                loss.backward()
                if self.limit > 0:
                    torch.nn.utils.clip_grad_value_(self.model.parameters(), self.limit)
                self.optimizer.step()
"""
UNSCALED_CLIP = """
                self.scaler.unscale_(self.optimizer)
                torch.nn.utils.clip_grad_value_(self.model.parameters(), self.limit)"""
CHECKED = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, inputs):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(inputs).mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        usable = True
        for parameter in self.model.parameters():
            if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                usable = False
                break
        if not usable:
            self.optimizer.zero_grad(){update}
            return None
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss.item()
"""
OF_THE_CALLER = """\
import torch

scaler = torch.amp.GradScaler("cuda")


def train_epoch(model, optimizer, loader, criterion):
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def train(model, optimizer, loader, criterion, path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for _ in range(10):
        train_epoch(model, {given}, loader, criterion)
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""


def found(text: str) -> list[tuple[str, str]]:
    return [(each.code, each.confidence.value) for each in amplint.check(text, "train.py")]


@pytest.mark.parametrize(
    ("amp", "expected"),
    [('torch.autocast("cuda")', [("AMP305", "certain")]), ("torch.enable_grad()", []), ("make_context()", [])],
)
def test_a_region_that_is_an_attribute_is_joined_by_and(amp: str, expected: list[tuple[str, str]]) -> None:
    assert found(JOINED.format(amp=amp)) == expected


@pytest.mark.parametrize(("clip", "expected"), [("", [("AMP420", "likely")]), (UNSCALED_CLIP, [])])
def test_only_the_branch_without_the_scaler_clips(clip: str, expected: list[tuple[str, str]]) -> None:
    assert found(CLIPPED.format(clip=clip)) == expected


@pytest.mark.parametrize(
    ("update", "expected"), [("", [("AMP404", "certain")]), ("\n            self.scaler.update()", [])]
)
def test_a_flag_of_a_check_returns_before_the_update(update: str, expected: list[tuple[str, str]]) -> None:
    assert found(CHECKED.format(update=update)) == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("optimizer", [("AMP413", "certain")]), ("torch.optim.SGD(model.parameters())", [])]
)
def test_a_function_steps_the_optimizer_of_its_caller(given: str, expected: list[tuple[str, str]]) -> None:
    assert found(OF_THE_CALLER.format(given=given)) == expected
