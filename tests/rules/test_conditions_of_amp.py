"""The condition that AMP207 and AMP210 name is one of AMP or of the device, where there is one."""

from __future__ import annotations

import pytest

from amplint import check

TWO_DEVICES = """\
import torch


def train(model, data, criterion, optimizer, scaler, device, use_mixed_precision):
    for x, y in data:
        optimizer.zero_grad()
        if use_mixed_precision:
            if device.type == "cuda" and scaler is not None:
                with torch.autocast("cuda"):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            elif device.type == "mps":
                with torch.autocast("mps", dtype=torch.float16):
                    loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
        else:
            criterion(model(x), y).backward()
            optimizer.step()


def main(model, dataset, criterion, optimizer, device, use_mixed_precision):
    if len(dataset) == 0:
        return
    scaler = torch.amp.GradScaler("cuda") if device.type == "cuda" else None
    train(model, dataset, criterion, optimizer, scaler, device, use_mixed_precision)
"""
SCRIPT = """\
import torch


def main(model, data, criterion, optimizer):
    for x, y in data:
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*build())
"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (TWO_DEVICES, "AMP210", "if `use_mixed_precision` is true and on mps, autocast runs"),
        (SCRIPT, "AMP207", "on cuda, the loss from"),
    ],
    ids=["AMP210", "AMP207"],
)
def test_what_is_not_about_amp_is_not_said(text: str, code: str, said: str) -> None:
    (finding,) = (each for each in check(text) if each.code == code)
    assert finding.message.startswith(said)
