"""AMP601: a clip behind the step that has used the gradients, where an Accelerator runs backward."""

from __future__ import annotations

import pytest

import amplint

TEXT = """\
import torch
from accelerate import Accelerator
from torch.nn.utils import clip_grad_norm_


def train(model, loader, every):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for number, batch in enumerate(loader):
        loss = model(batch).mean() / every
        accelerator.backward(loss)
        if (number + 1) % every == 0:
            STEPS
"""
CLIP, STEP, CLEAR = "clip_grad_norm_(model.parameters(), 1.0)", "optimizer.step()", "optimizer.zero_grad()"
OWN = "accelerator.clip_grad_norm_(model.parameters(), 1.0)"


def found(steps: list[str]) -> list[tuple[str, str]]:
    text = TEXT.replace("STEPS", "\n            ".join(steps))
    return [(each.code, each.message.partition(":")[0]) for each in amplint.check(text)]


@pytest.mark.parametrize("clip", [CLIP, OWN])
def test_the_step_has_used_them(clip: str) -> None:
    said = ("AMP601", "this clip has no effect")
    assert said in found([STEP, CLEAR, clip])
    assert said in found([STEP, clip, CLEAR])


def test_a_clip_in_time() -> None:
    assert found([OWN, STEP, CLEAR]) == []
    assert "this clip has no effect" not in [said for _, said in found([OWN, STEP, CLEAR, CLIP])]


def test_gradients_that_are_kept_reach_the_next_step() -> None:
    assert found([STEP, CLIP]) == []
