"""A setting that functions look up in a part of the configuration is one setting (AMP210)."""

from __future__ import annotations

import pytest

from amplint import check, make_settings

TEXT = """\
import torch


def train_one_epoch(model, loader, optimizer, scaler, device, config):
    cfg = INNER
    use_amp = cfg.get("use_amp", True) and device.type == "cuda"
    for x, y in loader:
        with torch.amp.autocast(device_type=device.type, enabled=use_amp):
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def train(config, model, loader, optimizer, device):
    cfg = OUTER
    use_amp = cfg.get("use_amp", True) and device.type == "cuda"
    scaler = torch.amp.GradScaler(device.type, enabled=use_amp)
    for epoch in range(cfg["epochs"]):
        train_one_epoch(model, loader, optimizer, scaler, device, config)
"""
SAME = ('config.get("training", {})', 'config["training"]')


def found(inner: str, outer: str) -> list[str]:
    text = TEXT.replace("INNER", inner).replace("OUTER", outer)
    return [each.code for each in check(text, settings=make_settings(suspicions=True))]


@pytest.mark.parametrize(("inner", "outer"), [(one, other) for one in SAME for other in SAME])
def test_one_setting(inner: str, outer: str) -> None:
    assert found(inner, outer) == []


@pytest.mark.parametrize("inner", ['config.get("evaluation", {})', 'config["evaluation"]'])
def test_another_setting(inner: str) -> None:
    assert found(inner, SAME[0]) == ["AMP210"]
