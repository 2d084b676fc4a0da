"""AMP401: a clip before the last backward pass of an accumulation, which AMP419 doesn't report a second time."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import torch


def train(model, loader, optimizer, scaler, accumulation, bound):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y) / accumulation
        if (i + 1) % accumulation != 0:
            scaler.scale(loss).backward()
        else:
            {before}
            scaler.scale(loss).backward()
            {after}
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), bound)"


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        (CLIP, "pass", ["AMP401"]),
        ("pass", CLIP, ["AMP401"]),
        ("pass", f"scaler.unscale_(optimizer)\n            {CLIP}", []),
    ],
)
def test_one_finding_says_where_the_clip_belongs(before: str, after: str, codes: list[str]) -> None:
    text = TEXT.format(before=before, after=after)
    found = check(text, settings=Settings(frozenset({"AMP401", "AMP419"}), isolated=True))
    assert [each.code for each in found] == codes
    assert all(("misses the last micro step" in each.message) is (before == CLIP) for each in found)
