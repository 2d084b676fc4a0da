"""A clip before the Accelerator's backward is not one on each micro step (AMP601)."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch
from accelerate import Accelerator


def main(args, model, critic, loader):
    accelerator = Accelerator(gradient_accumulation_steps=args.steps, mixed_precision="fp16")
    other = Accelerator(gradient_accumulation_steps=args.steps, mixed_precision="fp16")
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer_c = torch.optim.AdamW(critic.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    critic, optimizer_c = other.prepare(critic, optimizer_c)
    for x, y in loader:
        with other.accumulate(critic):
            other.backward(critic(x).mean())
            optimizer_c.step()
            optimizer_c.zero_grad()
        with accelerator.accumulate(model):
            loss = (model(x) - y).square().mean()
            FIRST
            SECOND
            optimizer.step()
            optimizer.zero_grad()
"""
CLIP, BACKWARD = "accelerator.clip_grad_norm_(model.parameters(), 1.0)", "accelerator.backward(loss)"


@pytest.mark.parametrize(("first", "second", "is_said"), [(BACKWARD, CLIP, True), (CLIP, BACKWARD, False)])
def test_order(first: str, second: str, is_said: bool) -> None:
    found = check(TEXT.replace("FIRST", first).replace("SECOND", second))
    assert any("runs on each micro step" in each.message for each in found) is is_said
