"""AMP301: a model that runs again in a region in which its weights were changed by hand uses the copies from before."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
import torch.nn.functional as F


def train(model, optimizer, loader):
    for x, y in loader:
        with torch.autocast("cuda"{cache}):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            for p in {of}.parameters():
                {change}
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def said(change: str, of: str = "model", cache: str = "") -> str:
    (message,) = (
        each.message for each in check(PROGRAM.format(change=change, of=of, cache=cache)) if each.code == "AMP301"
    )
    return message


@pytest.mark.parametrize(
    "change",
    [
        "p.data += 0.05 * p.grad",
        "p.data = p.data + p.grad",
        "p.data.add_(p.grad, alpha=0.05)",
        "p.add_(p.grad)",
        "p.copy_(p + p.grad)",
    ],
)
def test_the_copies_from_before_the_change_are_used(change: str) -> None:
    assert "`model` on line 12 still uses the weights from before the change on line 11" in said(change)


@pytest.mark.parametrize(
    ("change", "of", "cache"),
    [
        ("p.grad.add_(1)", "model", ""),
        ("p.grad = None", "model", ""),
        ("norm = p.data.norm()", "model", ""),
        ("p.data += 1", "other", ""),
        ("p.data += 1", "model", ", cache_enabled=False"),
    ],
)
def test_nothing_is_changed_or_kept(change: str, of: str, cache: str) -> None:
    assert "from before" not in said(change, of, cache)
