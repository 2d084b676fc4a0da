"""What a finding says of the setting without which it doesn't hold: one that is off by default is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding, Severity

ENGINE = """\
import torch


class Engine:
    def __init__(self, model):
        self.model = model
        self.use_amp = INIT
        self.scaler = torch.amp.GradScaler("cuda")
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def configure(self, on=DEFAULT):
        self.use_amp = bool(on) and torch.cuda.is_available()

    def train(self, loader):
        for epoch in range(3):
            for x, y in loader:
                self.optimizer.zero_grad()
                if self.use_amp:
                    with torch.autocast("cuda"):
                        loss = torch.nn.functional.cross_entropy(self.model(x), y)
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                else:
                    loss = torch.nn.functional.cross_entropy(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, "last.pt")

    def restore(self):
        state = torch.load("last.pt")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
"""
REGION = """\
import argparse
import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()


def train(model, optimizer, loader, precision=PRECISION):
    accelerator = Accelerator(mixed_precision=precision)
    for x, y in loader:
        optimizer.zero_grad()
        with CONTEXT:
            loss = model(x, y)
            BACKWARD
        optimizer.step()


train(model, optimizer, loader)
"""


def only(text: str, code: str) -> Finding:
    (found,) = (each for each in check(text) if each.code == code)
    return found


@pytest.mark.parametrize(
    ("init", "default", "named"),
    [("False", "False", True), ("True", "True", False), ("False", "True", False)],
)
def test_the_flag_of_an_engine(init: str, default: str, named: bool) -> None:
    found = only(ENGINE.replace("INIT", init).replace("DEFAULT", default), "AMP413")
    assert ("if `self.use_amp` is true" in found.message) is named
    assert (found.confidence is Confidence.LIKELY) is named


@pytest.mark.parametrize(
    ("context", "backward", "precision", "named"),
    [
        ('torch.autocast("cuda", enabled=args.amp)', "loss.backward()", "None", "if `args.amp` is true, "),
        ('torch.autocast("cuda")', "loss.backward()", "None", ""),
        ("accelerator.autocast()", "accelerator.backward(loss)", "None", "with mixed precision, "),
        ("accelerator.autocast()", "accelerator.backward(loss)", '"no"', None),
        ("accelerator.autocast()", "accelerator.backward(loss)", '"fp16"', ""),
    ],
)
def test_the_setting_of_a_region(context: str, backward: str, precision: str, named: str | None) -> None:
    text = REGION.replace("CONTEXT", context).replace("BACKWARD", backward).replace("PRECISION", precision)
    found = [each.message for each in check(text) if each.code == "AMP301"]
    assert (found == []) if named is None else found[0].startswith((f"{named}backward", f"{named}`accelerator"))


LOSSES = """\
import torch
from torch import nn


class Losses:
    def __init__(self, kind):
        self.kind = kind
        self.bce = nn.BCELoss()

    def of(self, output, target):
        TEST
            return self.bce(output, target)
        return (output - target).abs().mean()
"""
TRAINS = """\
import torch
from losses import Losses

losses = Losses(KIND)


def step(model, optimizer, x, y):
    with torch.autocast("cuda"):
        loss = losses.of(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "kind", "named"),
    [
        ('if self.kind == "bce":', "read()", ' (if `self.kind == "bce"`)'),
        ('if self.kind == "bce":', '"bce"', ""),
        ("if output.ndim:", "read()", ""),
    ],
)
def test_the_setting_of_a_line_in_another_file(tmp_path: Path, test: str, kind: str, named: str) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "losses.py").write_text(LOSSES.replace("TEST", test))
    train = tmp_path / "train.py"
    train.write_text(TRAINS.replace("KIND", kind))
    (found,) = (each for each in check(train.read_text(), str(train)) if each.code == "AMP304")
    assert f"of losses.py{named}, where" in found.message
    assert (found.confidence is Confidence.LIKELY) is bool(named)
    assert found.severity is (Severity.WARNING if named else Severity.ERROR)


CLIPPED = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("-fp16", type=OPTION)
args = parser.parse_args()


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.fp16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(("option", "only"), [("int, default=0", "if `args.fp16` is true, "), ("int, default=1", "")])
def test_a_scaler_that_is_off_by_default(option: str, only: str) -> None:
    (finding,) = (each for each in check(CLIPPED.replace("OPTION", option)) if each.code == "AMP401")
    assert finding.message.startswith(f"{only}gradients are clipped while still multiplied")


WITHOUT_DEVICE = """\
import torch


class Wrapper:
    def loss(self, model, x, amp=DEFAULT):
        if amp:
            with torch.amp.autocast(dtype=torch.float16):
                return model(x)
        return model(x)
"""


@pytest.mark.parametrize(("default", "only"), [("False", "if `amp` is true, "), ("True", "")])
def test_a_place_that_a_setting_has_to_lead_to(default: str, only: str) -> None:
    (finding,) = (each for each in check(WITHOUT_DEVICE.replace("DEFAULT", default)) if each.code == "AMP202")
    assert finding.message.startswith(f"{only}`torch.autocast` without `device_type`")


def test_what_is_not_given_is_no_setting() -> None:
    text = WITHOUT_DEVICE.replace("amp=DEFAULT", "amp=None").replace("if amp:", "if amp is not None:")
    (finding,) = (each for each in check(text) if each.code == "AMP202")
    assert not finding.message.startswith("if ")


BY_WORD = """\
import argparse

import torch


def truth(text):
    return text.lower() in ("true", "yes", "1")


parser = argparse.ArgumentParser()
parser.add_argument("--fp16", type={made}, default={default!r})
args = parser.parse_args()


def main(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
    for x, y in loader:
        with torch.autocast("cuda", enabled=args.fp16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("made", "default", "named"),
    [("truth", "False", True), ("truth", "no", True), ("truth", "True", False), ("bool", "False", False)],
)
def test_a_default_that_is_a_word(made: str, default: str, named: bool) -> None:
    found = [each for each in check(BY_WORD.format(made=made, default=default)) if each.code == "AMP401"]
    assert [each.message.startswith("if `args.fp16` is true, ") for each in found] == [named]


def test_a_device_is_always_named() -> None:
    text = """\
import torch


def train(config, model, loader, optimizer, device):
    use = config.get("bf16", False) or config.get("fp16", False)
    dtype = torch.bfloat16 if config.get("bf16", False) else torch.float16
    scaler = torch.amp.GradScaler("cuda", enabled=use and device.type == "cuda" and dtype == torch.float16)
    for x, y in loader:
        with torch.autocast(device.type, enabled=use, dtype=dtype):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
    (finding,) = (each for each in check(text) if each.code == "AMP210")
    assert "on devices other than cuda" in finding.message
