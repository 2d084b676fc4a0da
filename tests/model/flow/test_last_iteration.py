"""What a loop does in its last iteration only, and what code after the loop knows of it."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


def train(model, batches, optimizer, scaler, most):
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y) / len(batches)
        FLAG
        scaler.scale(loss).backward()
        if TEST:
            scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), most)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def found(test: str, flag: str = "pass", loop: str = "i, (x, y) in enumerate(batches)") -> list[str]:
    text = TEXT.replace("FLAG", flag).replace("TEST", test).replace("i, (x, y) in enumerate(batches)", loop)
    return [each.code for each in check(text, "train.py")]


@pytest.mark.parametrize(
    "test",
    [
        "i == len(batches) - 1",
        "i + 1 == len(batches)",
        "not i < len(batches) - 1",
        "i + 1 >= len(batches)",
        "not i != len(batches) - 1",
    ],
)
def test_the_last_iteration_unscales(test: str) -> None:
    assert found(test) == []
    assert found("last", flag=f"last = {test}") == []


def test_the_end_of_a_range_with_a_step() -> None:
    text = "last = i == (len(batches) // most - 1) * most"
    assert found("last", flag=text, loop="i in range(0, len(batches), most)") == []


def test_another_iteration_unscales() -> None:
    assert "AMP411" in found("i == 0")
    assert "AMP405" in found("True")
    assert found("i == most") != []  # any of them
    assert found("i == len(batches) - 1", flag="batches = batches[1:]") != []  # the end is another one each time


TWO_STEPS = """\
import torch


def train(model, batches, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        optimizer.zero_grad()
        for stage in ("first", "second"):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(STEP)
            scaler.update()
"""


def test_a_step_with_arguments_of_its_own_may_clear_the_gradients() -> None:
    assert [each.code for each in check(TWO_STEPS.replace("STEP", "optimizer"), "train.py")] == ["AMP411"]
    assert not check(TWO_STEPS.replace("STEP", "optimizer, stage=stage"), "train.py")
