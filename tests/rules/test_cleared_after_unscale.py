"""AMP407: gradients that are cleared after `unscale_`, which has looked for inf: nothing raises."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP407"}), isolated=True, target_torch="2.4")
TRAIN = """
import torch


def train(model, optimizer, loader, config):
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x)
        scaler.scale(loss).backward()
{0}
"""
LINES = """scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
{0}
scaler.step(optimizer)
scaler.update()"""


def said(lines: str) -> list[str]:
    text = TRAIN.format("\n".join(f"        {line}" for line in lines.splitlines()))
    return [each.message for each in check(text, "a.py", SETTINGS)]


@pytest.mark.parametrize(
    "clear",
    [
        "if norm > config.limit:\n    optimizer.zero_grad()",
        "if norm > config.limit:\n    for p in model.parameters():\n        p.grad = None",
        "if norm > 9:\n    if config.skip:\n        optimizer.zero_grad()\n        scaler.step(optimizer)\n"
        "        scaler.update()\n        continue",
        "if is_spike(loss):\n    model.zero_grad(set_to_none=False)",
    ],
)
def test_a_clear_with_a_condition_of_its_own_skips_the_update(clear: str) -> None:
    assert said(LINES.format(clear)) == []


def test_a_clear_without_one_leaves_nothing() -> None:
    for lines in (
        LINES.format("optimizer.zero_grad()"),
        "if i % 4 == 3:\n"
        + LINES.format("optimizer.zero_grad()")
        .replace("\n", "\n    ")
        .replace("scaler.unscale_", "    scaler.unscale_", 1),
    ):
        assert ["changes nothing" in each for each in said(lines)] == [True]


def test_a_clear_that_no_unscale_precedes_raises() -> None:
    lines = LINES.format("if config.skip:\n    optimizer.zero_grad()").replace("scaler.unscale_(optimizer)\n", "")
    assert ["raises" in each for each in said(lines)] == [True]
