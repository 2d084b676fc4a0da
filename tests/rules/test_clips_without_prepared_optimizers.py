"""AMP601: the Accelerator's own clip where no optimizer is prepared. It unscales nothing, and each micro step steps."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
from accelerate import Accelerator

optimizer = torch.optim.AdamW(make().parameters(), lr=1e-4)


def train(model, optimizer, loader, steps):
    accelerator = Accelerator(PRECISIONgradient_accumulation_steps=steps)
    PREPARED
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = model(x, y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 4.0)
            CLIPPED
            optimizer.step()
        optimizer.zero_grad()


train(make(), optimizer, load(), 4)
"""
ALONE = "model, loader = accelerator.prepare(model, loader)"
WHOLE = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
TWICE = "accelerator.clip_grad_norm_(model.parameters(), 2.0)"


def messages(prepared: str, precision: str = "", clipped: str = "pass") -> list[str]:
    text = PROGRAM.replace("PREPARED", prepared).replace("PRECISION", precision).replace("CLIPPED", clipped)
    return [f"{each.code} {each.message}" for each in check(text) if each.code in ("AMP402", "AMP601")]


@pytest.mark.parametrize("clipped", ["pass", TWICE])
def test_no_optimizer_is_prepared(clipped: str) -> None:
    found = messages(ALONE, clipped=clipped)
    assert len(found) >= 1
    for message in found:
        assert message.startswith('AMP601 if accelerate is configured for "fp16", `accelerator.clip_grad_norm_` clips')
        assert "no optimizer is passed to `prepare()`" in message


def test_where_the_step_is_reported() -> None:
    (message,) = messages(ALONE, 'mixed_precision="fp16", ')
    assert message.startswith("AMP402")
    assert messages(ALONE, 'mixed_precision="no", ') == []


def test_a_prepared_optimizer() -> None:
    (message,) = messages(WHOLE)
    assert "partly accumulated gradients" in message
    assert any("unscales again" in each for each in messages(WHOLE, 'mixed_precision="fp16", ', TWICE))
    assert any("runs on each micro step" in each for each in messages("accelerator.prepare(*parts)"))
