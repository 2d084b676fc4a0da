"""What a call gives a step along with a scaler that hangs on it: no run has one of them without the other."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.interpreting import Ran, interpret, interpret_file, project

STEP = """
import torch

def train(model, loader, optimizer, scaler, use_amp):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=use_amp):
            loss = torch.nn.functional.mse_loss(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""
MAIN = """
def main(args, model, loader):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    MADE
    for epoch in range(args.epochs):
        train(model, loader, optimizer, GIVEN)
"""
ONE_OR_NONE = 'scaler = torch.amp.GradScaler("cuda") if args.amp and device.startswith("cuda") else None'
TIED = {
    "by place": (ONE_OR_NONE, "scaler, args.amp"),
    "by name": (ONE_OR_NONE, "use_amp=args.amp, scaler=scaler"),
    "None first": (
        'scaler = None\n    if args.amp:\n        scaler = torch.amp.GradScaler("cuda")',
        "scaler, args.amp",
    ),
    "None else": (
        'if args.amp:\n        scaler = torch.amp.GradScaler("cuda")\n    else:\n        scaler = None',
        "scaler, args.amp",
    ),
    "a variable": (
        'amp = args.amp\n    scaler = torch.amp.GradScaler("cuda") if amp else None', "scaler, amp",
    ),
    "turned round": ('scaler = None if args.fp32 else torch.amp.GradScaler("cuda")', "scaler, not args.fp32"),
    "its switch": ('scaler = torch.amp.GradScaler("cuda", enabled=args.amp)', "scaler, args.amp"),
}  # fmt: skip
CLASS = """
import torch

class NativeScaler:
    def __init__(self, fp32=False):
        self._scaler = torch.amp.GradScaler("cuda", enabled=not fp32)

    def __call__(self, loss, optimizer, parameters=None):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()
"""
ENGINE = """
import torch

def train(model, loader, optimizer, loss_scaler, args=None, fp32=False):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=not fp32):
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss_scaler(loss, optimizer, parameters=model.parameters())
"""
RUN = """
import torch
from scaling import NativeScaler
from engine import train

def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_scaler = NativeScaler(fp32=args.fp32)
    for epoch in range(args.epochs):
        train(model, loader, optimizer, loss_scaler=loss_scaler, args=args, fp32=GIVEN)
"""


def ran(made: str, given: str) -> Ran:
    (found,) = interpret(STEP + MAIN.replace("MADE", made).replace("GIVEN", given))
    return found


@pytest.mark.parametrize("name", TIED)
def test_a_scaler_is_there_where_its_setting_is_on(name: str) -> None:
    found = ran(*TIED[name])
    assert (found.judged.state, found.judged.reason, found.judged.unscaled) == ("right", "", "")


@pytest.mark.parametrize("given", ["scaler, args.half", "scaler, True"])
def test_another_setting_may_be_on_without_a_scaler(given: str) -> None:
    assert "runs in float16, and no scaler scales the loss" in ran(ONE_OR_NONE, given).judged.unscaled


@pytest.mark.parametrize(("given", "unscaled"), [("args.fp32", False), ("args.single", True)])
def test_a_class_with_a_scaler_in_another_file(tmp_path: Path, given: str, unscaled: bool) -> None:
    folder = project(tmp_path, scaling=CLASS, engine=ENGINE, run=RUN.replace("GIVEN", given))
    (found,) = interpret_file(folder / "engine.py")
    assert (found.judged.state, bool(found.judged.unscaled)) == ("right", unscaled), found.judged
