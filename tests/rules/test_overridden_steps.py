"""A trainer whose step a subclass overrides: its objects never run the method of the base class."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

BASE = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, loader, use_amp):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.use_amp = use_amp
        self.scaler = torch.amp.GradScaler("cuda") if use_amp else None

    def fit(self, epochs):
        for _ in range(epochs):
            self.run_epoch()

    def run_epoch(self):
        for batch in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.use_amp):
                loss = self.loss_of(batch)
            if self.use_amp:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
"""
OWN = """\
import torch

from base import Trainer


class PairTrainer(Trainer):
    def run_epoch(self):
        for first, second in self.loader:
            CLEAR
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.use_amp):
                loss = (self.model(first) - self.model(second)).pow(2).mean()
            if self.use_amp:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                UPDATE
            else:
                loss.backward()
                self.optimizer.step()
"""


def codes(folder: Path, **lines: str) -> list[str]:
    (folder / "pyproject.toml").touch()
    (folder / "base.py").write_text(BASE)
    text = OWN
    given = {"CLEAR": "self.optimizer.zero_grad()", "UPDATE": "self.scaler.update()", **lines}
    for word, line in given.items():
        text = text.replace(word, line)
    path = folder / "pairs.py"
    path.write_text(text)
    return [each.code for each in amplint.check(text, path, amplint.settings_for(path))]


def test_the_step_of_a_subclass_is_right(tmp_path: Path) -> None:
    assert codes(tmp_path) == []


@pytest.mark.parametrize(("lines", "code"), [({"UPDATE": "pass"}, "AMP404"), ({"CLEAR": "pass"}, "AMP411")])
def test_the_method_that_is_overridden_helps_no_object_of_the_subclass(
    tmp_path: Path, lines: dict[str, str], code: str
) -> None:
    assert codes(tmp_path, **lines) == [code]
