"""Schedulers that are none of torch's classes by name: functions of other libraries that make a LambdaLR."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.rules import all_rules
from amplint.settings import Settings

PROGRAM = """
import torch
from transformers import {imported}


def train(model, loader, epochs):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    scheduler = {made}
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(**batch).loss
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scheduler.step()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("imported", "made", "found"),
    [
        ("get_linear_schedule_with_warmup", "get_linear_schedule_with_warmup(optimizer, 10, 100)", 1),
        ("get_cosine_schedule_with_warmup as cosine", "cosine(optimizer, 10, 100)", 1),
        ("get_constant_schedule", "get_constant_schedule(optimizer)", 1),
        # Not the optimizer comes first.
        ("get_scheduler", "get_scheduler('linear', optimizer)", 0),
        ("get_scheduler", "get_scheduler(optimizer)", 0),
    ],
)
def test_a_schedule_of_transformers_is_the_optimizers(imported: str, made: str, found: int) -> None:
    text = PROGRAM.format(imported=imported, made=made)
    findings = check(text, "train.py", Settings(frozenset({"AMP424"}), isolated=True))
    assert [text.count("\n", 0, each.start) + 1 for each in findings] == [15] * found


def test_a_step_and_a_scheduler_of_two_functions() -> None:
    """What decides about the one says nothing about the other: no error, whatever is found."""
    text = (Path(__file__).parents[1] / "fixtures/AMP418_scaler_before_scale").joinpath(
        "step_of_a_helper_before_the_training", "bad.py"
    )
    found = check(text.read_text(), settings=Settings(frozenset(all_rules()), isolated=True))
    assert "AMP000" not in {each.code for each in found}
