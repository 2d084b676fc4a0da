"""AMP206: what callers rule out, through copies of the settings, and regions that are on only where their scaler is."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP206"}), isolated=True, target_torch="2.4")
PROGRAM = """
import argparse

import torch


def run(args):
    {0}
    worker(args)


def worker(args):
    use_amp, use_bf16 = args["use_amp"], args["use_bf16"]
    dtype = torch.bfloat16 if args["use_bf16"] else torch.float16
    scaler = torch.amp.GradScaler("cuda") if args["use_amp"] else None
    model, data, optimizer = make(args)
    for x in data:
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


parser = argparse.ArgumentParser()
parser.add_argument("--use_amp", action="store_true")
parser.add_argument("--use_bf16", action="store_true")
settings = vars(parser.parse_args())
run(settings)
"""
EXCLUDED = 'if args["use_amp"] and args["use_bf16"]:\n        raise ValueError\n    '


def found(text: str) -> list[Finding]:
    return check(text, "a.py", SETTINGS)


@pytest.mark.parametrize("copy", ["args = dict(args)", 'args = dict(args)\n    args["more"] = 1', "args = args.copy()"])
def test_a_copy_of_the_settings_has_what_was_checked(copy: str) -> None:
    assert found(PROGRAM.format(EXCLUDED + copy)) == []
    assert len(found(PROGRAM.format(copy))) == 1


@pytest.mark.parametrize(
    "copy",
    [
        'args = dict(args)\n    args["use_bf16"] = True',
        "args = dict(args)\n    args.update(more())",
        "args = dict(args, use_bf16=True)",
        "args = dict(args)\n    args[name()] = True",
    ],
)
def test_a_copy_that_is_changed_is_another_thing(copy: str) -> None:
    assert len(found(PROGRAM.format(EXCLUDED + copy))) == 1


TRAIN = """
import torch


def train(model, data, optimizer, name):
    dtype = torch.bfloat16 if name == "bf16" else torch.float16
    scaler = torch.amp.GradScaler("cuda", enabled=dtype in (torch.float16, torch.bfloat16))
    on = {0}
    for x in data:
        with torch.autocast("cuda", dtype=dtype, enabled={1}):
            loss = model(x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(("on", "enabled"), [("True", "scaler.is_enabled()"), ("scaler.is_enabled()", "on")])
def test_a_region_that_asks_the_scaler_would_be_off_too(on: str, enabled: str) -> None:
    (finding,) = found(TRAIN.format(on, enabled))
    assert finding.fix is None
    assert "its own `enabled`" in finding.message


def test_a_region_that_asks_nothing_is_left_on() -> None:
    (finding,) = found(TRAIN.format("True", "True"))
    assert finding.fix is not None
    assert finding.message.endswith("; disable the scaler for bfloat16")
