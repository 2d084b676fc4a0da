"""AMP304 in the region that an Accelerator opens."""

from __future__ import annotations

import pytest

import amplint

TEXT = """\
import torch.nn.functional as F
from accelerate import Accelerator


def heat_loss(heat, target):
    return F.binary_cross_entropy(heat.float().clamp(1e-6, 1 - 1e-6), target)


def train(settings, model, optimizer, loader):
    accelerator = Accelerator(GIVEN)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch, target in loader:
        with accelerator.autocast():
            heat = model(batch)
            INSIDE
        loss = OUTSIDE
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


def found(given: str, inside: str, outside: str) -> list[str]:
    text = TEXT.replace("GIVEN", given).replace("INSIDE", inside).replace("OUTSIDE", outside)
    return [each.code for each in amplint.check(text) if each.code == "AMP304"]


@pytest.mark.parametrize("given", ['mixed_precision="fp16"', 'mixed_precision="fp16" if settings.half else "no"'])
def test_float16_is_for_gpus(given: str) -> None:
    assert found(given, "loss = heat_loss(heat, target)", "loss.mean()") == ["AMP304"]


@pytest.mark.parametrize(
    ("given", "inside"),
    [
        ('mixed_precision="no"', "loss = heat_loss(heat, target)"),
        ("", "loss = heat_loss(heat, target)"),  # accelerate's configuration says it
        ('mixed_precision="fp16", cpu=True', "loss = heat_loss(heat, target)"),
        ('mixed_precision="fp16"', "pass"),
    ],
)
def test_what_opens_no_such_region_round_it(given: str, inside: str) -> None:
    assert found(given, inside, "heat_loss(heat, target)" if inside == "pass" else "loss.mean()") == []
