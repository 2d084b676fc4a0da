"""AMP420: a scaler that is None without CUDA, in code that asks only for the flag of AMP."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

TEXT = """\
import argparse

import torch


def train_epoch(model, loader, optimizer, use_amp, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        if {asked}:
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


def main(args, model, loader):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = torch.optim.Adam(model.to(device).parameters())
    scaler = None
    if args.amp and device.type == "cuda":
        scaler = torch.amp.GradScaler("cuda")
    for epoch in range(3):
        train_epoch(model, loader, optimizer, {given}, scaler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    main(parser.parse_args(), torch.nn.Linear(2, 2), [])
"""


@pytest.mark.parametrize(
    ("asked", "given", "count"),
    [
        ("use_amp", "args.amp", 1),
        ("use_amp and scaler is not None", "args.amp", 0),
        ("scaler is not None", "args.amp", 0),
        ('use_amp and x.device.type == "cuda"', "args.amp", 0),
    ],
)
def test_a_scaler_that_only_cuda_has(asked: str, given: str, count: int) -> None:
    text = TEXT.format(asked=asked, given=given)
    found = check(text, settings=Settings(frozenset({"AMP420"}), isolated=True))
    assert [each.confidence for each in found] == [Confidence.LIKELY] * count
