"""Flags that are items of a dictionary: `cfg["train"]["amp"]` is called amp, as `cfg.train.amp` is."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch
from torch.nn import functional as F


def run_epoch(model, loader, optimizer, scaler, train=True):
    for x, y in loader:
        with torch.amp.autocast("cuda", enabled=scaler is not None):
            loss = F.cross_entropy(model(x), y)
        if train:
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


def main(cfg, model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=FLAG)
    for epoch in range(3):
        run_epoch(model, loader, optimizer, scaler, train=True)
        run_epoch(model, loader, optimizer, scaler, train=False)
"""


@pytest.mark.parametrize("flag", ["cfg.amp", 'cfg["amp"]', 'cfg["train"]["amp"]', 'bool(cfg["train"]["use_fp16"])'])
def test_the_scaler_follows_the_flag_and_the_region_does_not(flag: str) -> None:
    (finding,) = (each for each in check(TEXT.replace("FLAG", flag), "train.py") if each.code == "AMP210")
    assert finding.message.startswith(f"if `{flag.removeprefix('bool(').removesuffix(')')}` is false, autocast runs")


def test_a_call_that_may_be_the_one_for_float32() -> None:
    text = TEXT.replace("FLAG", 'cfg["amp"]').replace("train=", "half=").replace("if train", "if half")
    assert not [each for each in check(text, "train.py") if each.code == "AMP210"]
