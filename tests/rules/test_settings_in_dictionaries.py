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


ONE_SETTING = """\
import torch


def train(cfg, model, loader, criterion, optimizer):
    scaler = torch.amp.GradScaler("cuda", enabled=SCALER)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=cfg.train.amp, dtype=DTYPE):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def found(scaler: str, dtype: str = "torch.float16") -> list[str]:
    return [each.code for each in check(ONE_SETTING.replace("SCALER", scaler).replace("DTYPE", dtype), "train.py")]


def test_a_setting_is_the_same_as_an_attribute_and_as_an_item() -> None:
    for flag in ("cfg.train.amp", 'cfg["train"]["amp"]', 'cfg.train["amp"]', 'cfg.train.get("amp", False)'):
        assert not found(flag)
        chosen = f"torch.bfloat16 if {flag.replace('amp', 'bf16')} else torch.float16"
        assert not found(f"{flag} and not cfg.train.bf16", chosen)
    assert found('cfg["train"]["amp_scaler"]') == ["AMP210"]


def test_an_option_that_asks_for_a_scaler_in_bfloat16() -> None:
    dtype = "torch.bfloat16 if cfg.bf16 else torch.float16"
    assert found("cfg.train.amp", dtype) == ["AMP206"]
    assert not found('cfg.train.amp and (not cfg.bf16 or cfg.get("force_bf16_scaler", False))', dtype)
