"""AMP409 of the gradients that `wandb.watch` logs in the backward pass."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

TEXT = """\
import torch
import wandb


def train(args, model, loader, optimizer, scaler, criterion):
    run = wandb.init()
    wandb.watch(model)
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("watch(model)", 'watch(model, log="all")', 1),
        ("watch(model)", 'watch(model, criterion, "gradients")', 1),
        ("wandb.watch", "run.watch", 1),
        # No gradients are logged, they are not scaled, or another library watches.
        ("watch(model)", 'watch(model, log="parameters")', 0),
        ("watch(model)", "watch(model, log=None)", 0),
        ("watch(model)", "watch(model, log=args.log)", 0),
        ("torch.float16", "torch.bfloat16", 0),
        ("scaler.scale(loss).backward()", "loss.backward()", 0),
        ("wandb.watch", "folder.watch", 0),
    ],
)
def test_it_logs_scaled_gradients(old: str, new: str, count: int) -> None:
    assert old in TEXT
    told = check(TEXT.replace(old, new), "train.py", Settings(frozenset({"AMP409"}), isolated=True))
    assert [each.confidence for each in told] == [Confidence.LIKELY] * count
