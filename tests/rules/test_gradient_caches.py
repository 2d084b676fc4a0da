"""AMP403: a plain backward pass that ends at detached outputs, whose gradients a scaled pass then takes on."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch


def train(encoder, loader, head, adversarial):
    optimizer = torch.optim.AdamW(encoder.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
            cached = encoder(x)
        cached = CACHED
        loss = torch.nn.functional.cross_entropy(LOGITS, y)
        loss.backward()
        grad = GRAD
        with torch.autocast("cuda", dtype=torch.float16):
            surrogate = (encoder(x).float() * grad).sum()
        scaler.scale(surrogate).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
LEAF = "cached.float().detach().requires_grad_()"


@pytest.mark.parametrize(
    ("cached", "logits", "grad", "count"),
    [
        (LEAF, "cached @ cached.T", "cached.grad", 0),
        (LEAF, "similarity(cached, y)", "cached.grad.detach()", 0),
        (LEAF, "encoder(cached)", "cached.grad", 1),
        ("cached.float()", "encoder(x) @ cached.T", "x.grad", 1),
    ],
)
def test_gradients_of_cached_outputs(cached: str, logits: str, grad: str, count: int) -> None:
    text = PROGRAM.replace("CACHED", cached).replace("LOGITS", logits).replace("GRAD", grad)
    assert len([each for each in amplint.check(text, "train.py") if each.code == "AMP403"]) == count
