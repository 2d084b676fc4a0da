"""Findings of scalers that a setting enables: each message says which, also where another file declares it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = """\
from dataclasses import dataclass


@dataclass
class TrainerConfig:
    use_amp: bool = {default}
    clip: float = 1.0
"""
TRAINER = """\
import torch
from torch.cuda.amp import GradScaler, autocast

from config import TrainerConfig


class Trainer:
    def __init__(self, model, config: TrainerConfig):
        self.config = config
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.scaler = GradScaler(enabled=self.config.use_amp)

    def train(self, loader):
        for x, y in loader:
            with autocast(enabled=self.config.use_amp):
                loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


@pytest.mark.parametrize(("default", "named"), [("False", True), ("True", False)])
def test_a_setting_that_another_file_declares(
    default: str, named: bool, project: Callable[[dict[str, str | bytes]], Path]
) -> None:
    root = project({"config.py": SETTINGS.format(default=default), "trainer.py": TRAINER, "setup.cfg": ""})
    (finding,) = check(TRAINER, str(root / "trainer.py"), Settings(frozenset({"AMP401"}), isolated=True))
    assert finding.message.startswith("if `self.config.use_amp` is true, ") is named


STEP = """\
import math

import torch


class Trainer:
    def __init__(self, model, scaler):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.scaler = {scaler}

    def step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        {unscale}
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        if math.isnan(norm) or math.isinf(norm):
            raise ValueError(norm)
        {step}
        self.scaler.update()
        self.optimizer.zero_grad()
"""
ALWAYS = ("self.scaler.unscale_(self.optimizer)", "self.scaler.step(self.optimizer)")
IF_ON = (
    "if self.scaler.is_enabled():\n            self.scaler.unscale_(self.optimizer)",
    "if self.scaler.is_enabled():\n            self.scaler.step(self.optimizer)\n"
    "        else:\n            self.optimizer.step()",
)


@pytest.mark.parametrize(
    ("scaler", "calls", "named"),
    [
        ('torch.amp.GradScaler("cuda")', ALWAYS, False),
        ('torch.amp.GradScaler("cuda")', IF_ON, True),
        ('torch.amp.GradScaler("cuda") if HALF else torch.amp.GradScaler("cuda", enabled=False)', ALWAYS, True),
    ],
)
def test_a_check_that_only_an_enabled_scaler_makes_wrong(scaler: str, calls: tuple[str, str], named: bool) -> None:
    text = STEP.format(scaler=scaler, unscale=calls[0], step=calls[1])
    (finding,) = check(text, settings=Settings(frozenset({"AMP509"}), isolated=True))
    assert finding.message.startswith("if the scaler is enabled, ") is named
    assert ("skip the check then" in finding.message) is named
