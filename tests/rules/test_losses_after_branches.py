"""AMP303: outputs of a region that stands in one of several branches, and criteria after all of them."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch


def train(opt, model, loader, optimizer, scaler):
    criterion = torch.nn.CrossEntropyLoss()
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        BEFORE
        if opt.fp16:
            with torch.autocast("cuda", dtype=torch.float16):
                if opt.views == 2:
                    first, second = model(x)
                elif opt.views == 3:
                    first, second, third = model(x)
        else:
            if opt.views == 2:
                first, second = model(x)
            elif opt.views == 3:
                first, second, third = model(x)
        if opt.views == 2:
            loss = criterion(first, y) + criterion(second, y)
        else:
            loss = criterion(first, y) + criterion(second, y) + criterion(third, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("before", "count"),
    [
        ("pass", 1),  # one cause, one finding
        ("first = second = third = torch.zeros(8, 8)", 0),
    ],
)
def test_an_output_that_only_some_of_the_branches_set(before: str, count: int) -> None:
    found = [each for each in amplint.check(PROGRAM.replace("BEFORE", before), "train.py") if each.code == "AMP303"]
    assert [each.location.row for each in found] == [22] * count


def test_a_parameter_is_set_before() -> None:
    text = PROGRAM.replace("scaler):", "scaler, first, second, third):").replace("BEFORE", "pass")
    assert not [each for each in amplint.check(text, "train.py") if each.code == "AMP303"]
