"""AMP602: a Fabric that a function is given, and that clips by torch's function."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import lightning as L
import torch

config = {{"clip": 1.0, "precision": {precision!r}}}


def train(fabric: L.Fabric, model, optimizer, loader, clip):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        fabric.backward(loss)
        {clip}
        optimizer.step()
        optimizer.zero_grad()


def main(model, optimizer, loader, other):
    fabric = L.Fabric(accelerator="cuda", precision=config["precision"])
    fabric.launch()
    model, optimizer = fabric.setup(model, optimizer)
    train(fabric={given}, model=model, optimizer=optimizer, loader=loader, clip=config["clip"])
"""
OWN = "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=clip)"
FABRICS = "fabric.clip_gradients(model, optimizer, max_norm=clip)"


@pytest.mark.parametrize(
    ("precision", "clip", "given", "count"),
    [
        ("16-mixed", OWN, "fabric", 1),
        ("bf16-mixed", OWN, "fabric", 0),
        ("16-mixed", FABRICS, "fabric", 0),
        ("16-mixed", OWN, "other", 0),
    ],
)
def test_a_clip_of_scaled_gradients(precision: str, clip: str, given: str, count: int) -> None:
    text = TEXT.format(precision=precision, clip=clip, given=given)
    assert len(check(text, settings=Settings(frozenset({"AMP602"}), isolated=True))) == count
