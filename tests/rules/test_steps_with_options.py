"""A step with options of its own is one of a wrapper's, which may do anything (AMP402)."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


def train(model, schedule, loader, scaler):
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(schedule.optimizer)
        scaler.update()
        schedule.step(OPTIONS)
        schedule.zero_grad(set_to_none=True)
"""


@pytest.mark.parametrize(("options", "expected"), [("skip_optimizer=True", []), ("", ["AMP402"])])
def test_a_step_with_an_option(options: str, expected: list[str]) -> None:
    assert [each.code for each in check(TEXT.replace("OPTIONS", options))] == expected


def test_the_text_of_an_error_reports_no_loss() -> None:
    text = """\
import torch


def step(model, optimizer, scaler, x, y):
    with torch.autocast("cuda"):
        loss = (model(x) - y).square().mean()
    scaled_loss = scaler.scale(loss)
    if not isinstance(scaled_loss, torch.Tensor):
        raise TypeError(f"no tensor: {scaled_loss!r}")
    scaled_loss.backward()
    PRINTED
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
    assert [each.code for each in check(text.replace("PRINTED", "pass"))] == []
    assert [each.code for each in check(text.replace("PRINTED", 'print(f"{scaled_loss}")'))] == ["AMP417"]
