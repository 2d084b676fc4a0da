"""AMP206: a scaler of its own for bfloat16, beside that of float16."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import enum

import torch


class Mode(enum.Enum):
    OFF = "off"
    FP16 = "fp16"
    BF16 = "bf16"


class Trainer:
    def __init__(self, model, config):
        self.model = model
        self.config = config
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        MAKE

    def make(self):
        if self.config.mode == HALF:
            return torch.amp.GradScaler("cuda")
        elif self.config.mode == BRAIN:
            OTHER
        return None

    def dtype(self):
        if self.config.mode == BRAIN:
            return THERE
        if self.config.mode == HALF:
            return torch.float16
        return torch.float32

    def step(self, x, y):
        with torch.autocast("cuda", enabled=self.scaler is not None, dtype=self.dtype()):
            loss = self.model(x, y)
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
        self.optimizer.zero_grad()
"""
RETURNED = "self.scaler = self.make()"
CHOSEN = (
    'self.scaler = torch.amp.GradScaler("cuda") if config.mode == HALF else (OTHER if config.mode == BRAIN else None)'
)
BY_ARMS = """\
self.scaler = None
        if config.mode == HALF:
            self.scaler = torch.amp.GradScaler("cuda")
        elif config.mode == BRAIN:
            self.scaler = OTHER"""
ON = 'torch.amp.GradScaler("cuda")'
SUPPORTED = 'torch.amp.GradScaler("cuda", enabled=torch.cuda.is_bf16_supported())'
OFF = 'torch.amp.GradScaler("cuda", enabled=False)'
NAMES = [('"fp16"', '"bf16"'), ("Mode.FP16", "Mode.BF16")]


def codes(make: str, other: str, names: tuple[str, str], there: str = "torch.bfloat16") -> list[str]:
    text = PROGRAM.replace("MAKE", make).replace("            OTHER\n", f"            return {other}\n")
    text = text.replace("OTHER", other).replace("THERE", there)
    for old, new in zip(("HALF", "BRAIN"), names, strict=True):
        text = text.replace(old, new)
    return [each.code for each in amplint.check(text) if each.code in ("AMP206", "AMP210")]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("other", [ON, SUPPORTED])
@pytest.mark.parametrize("make", [RETURNED, CHOSEN, BY_ARMS])
def test_the_scaler_of_bfloat16_is_on(make: str, other: str, names: tuple[str, str]) -> None:
    assert codes(make, other, names) == ["AMP206"]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("other", [OFF, "None"])
@pytest.mark.parametrize("make", [RETURNED, CHOSEN, BY_ARMS])
def test_bfloat16_has_no_scaler_that_is_on(make: str, other: str, names: tuple[str, str]) -> None:
    assert codes(make, other, names) == []


@pytest.mark.parametrize("make", [RETURNED, CHOSEN, BY_ARMS])
def test_both_are_float16(make: str) -> None:
    assert codes(make, ON, NAMES[0], there="torch.float16") == []
