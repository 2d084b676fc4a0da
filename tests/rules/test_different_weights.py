"""AMP420: branches with and without autocast whose losses differ in a constant factor."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
from torch import nn


def train(model, loader, optimizer, scaler, edge, char, config):
    for x, y in loader:
        if scaler is not None:
            with torch.autocast("cuda", dtype=torch.float16):
                WITH
        else:
            WITHOUT
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
"""
SUM = ("out = model(x)", "loss = char(out, y) + A * edge(out, y)")
LINES = ("out = model(x)", "loss = char(out, y)", "loss += edge(out, y) * A")
CHOICE = (
    "out = model(x)",
    "if config.enhanced:",
    "    loss = edge(out, y)",
    "else:",
    "    loss_edge = edge(out, y)",
    "    loss = char(out, y) + 0.1 * out.mean() + A * loss_edge",
)
LOOP = ("loss = 0", "for part in model(x):", "    loss = loss + A * char(part, y)")


def codes(lines: tuple[str, ...], one: str, other: str, twin: tuple[str, ...] | None = None) -> list[str]:
    text = PROGRAM.replace("WITHOUT", ("\n" + " " * 12).join(twin or lines).replace("A ", f"{other} ", 1))
    for letter, number in (("* A", f"* {other}"), ("A *", f"{other} *")):
        text = text.replace(letter, number)
    mine = ("\n" + " " * 16).join(lines)
    for letter, number in (("* A", f"* {one}"), ("A *", f"{one} *")):
        mine = mine.replace(letter, number)
    return [each.code for each in amplint.check(text.replace("WITH", mine)) if each.code == "AMP420"]


@pytest.mark.parametrize("lines", [SUM, LINES, CHOICE, LOOP])
def test_a_factor_differs(lines: tuple[str, ...]) -> None:
    assert codes(lines, "0.05", "0.01") == ["AMP420"]


@pytest.mark.parametrize("lines", [SUM, LINES, CHOICE, LOOP])
def test_the_factor_is_the_same(lines: tuple[str, ...]) -> None:
    assert codes(lines, "0.05", "0.05") == []
    assert codes(lines, "0.10", "0.1") == []


def test_something_else_differs_too() -> None:
    assert codes(SUM, "0.05", "0.01", ("out = model(x.float())", *SUM[1:])) == []
    assert codes(SUM, "0.05", "0.01", (*SUM, "loss = loss.mean()")) == []


def test_a_number_that_is_no_factor_of_a_loss() -> None:
    other = ("out = model(x) * A", "loss = char(out, y)")
    assert codes(other, "2", "3") == []
