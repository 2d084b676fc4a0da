"""A loss whose name says that it is scaled: AMP403 believes what it is computed from, if all of that is in sight."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


def train(loader, model, criterion, optimizer, accumulation, factor, helper):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaled_loss = MADE
        scaled_loss.backward()
        if (i + 1) % accumulation == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    scaler.scale(loss)
"""


def codes(made: str) -> list[str]:
    return [each.code for each in check(TEXT.replace("MADE", made), "train.py")]


@pytest.mark.parametrize("made", ["loss / accumulation", "(loss + 0.1 * loss) / 4"])
def test_a_mean_over_micro_steps_has_no_loss_scale(made: str) -> None:
    assert "AMP403" in codes(made)


@pytest.mark.parametrize("made", ["loss * scaler.get_scale()", "helper.prepare(loss)", "loss * factor.loss_scale"])
def test_the_loss_may_have_its_scale(made: str) -> None:
    assert "AMP403" not in codes(made)
