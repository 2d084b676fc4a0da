"""AMP210 and flags of the command line that can't be switched off: `store_true` with the default True."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP210"}), isolated=True, target_torch="2.4")
PROGRAM = """
import argparse

import torch


def train(args, model, data, optimizer):
    scaler = {1}
    for x in data:
        with torch.autocast("cuda"):
            loss = model(x)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument({0})
args = parser.parse_args()
train(args, *make(args))
"""
SCALERS = (
    'torch.amp.GradScaler("cuda", enabled=args.amp)',
    'torch.amp.GradScaler("cuda") if args.amp else None',
    'None if not args.amp else torch.amp.GradScaler("cuda")',
)


def found(option: str, scaler: str, more: str = "") -> list[str]:
    text = PROGRAM.format(option, scaler).replace("args = parser", f"{more}args = parser")
    return [each.code for each in check(text, "a.py", SETTINGS)]


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_flag_that_cannot_be_off(scaler: str) -> None:
    assert found('"--amp", action="store_true", default=True', scaler) == []


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize(
    ("option", "more"),
    [
        ('"--amp", action="store_true"', ""),
        ('"--amp", action="store_false", default=True', ""),
        ('"--amp", action=argparse.BooleanOptionalAction, default=True', ""),
        (
            '"--amp", action="store_true", default=True',
            'parser.add_argument("--no-amp", dest="amp", action="store_false")\n',
        ),
        ('"--amp", action="store_true", default=True', "parser.set_defaults(amp=config.amp)\n"),
    ],
)
def test_a_flag_that_can_be_off(option: str, more: str, scaler: str) -> None:
    assert found(option, scaler, more) == ["AMP210"]
