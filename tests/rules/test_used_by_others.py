"""What a class leaves to the files that use its objects: `trainer.scaler.update()` after its methods have stepped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran

Amplint = Callable[..., Ran]
TRAINER = """
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(self.model(inputs), targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
"""
LOOP = """
from trainer import Trainer


def main(model, batches):
    trainer = Trainer(model)
    for inputs, targets in batches:
        trainer.step(inputs, targets)
        LAST
"""
SUBCLASS = """
from trainer import Trainer


class Updating(Trainer):
    def end(self):
        self.scaler.update()
"""
OTHER_CLASS = """
class Game:
    def tick(self):
        self.scaler.update()
"""


def _codes(amplint: Amplint, folder: Path, **files: str) -> str:
    (folder / "pyproject.toml").write_text("")
    (folder / "trainer.py").write_text(TRAINER)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return amplint("--select", "AMP404", "--output-format", "concise", folder / "trainer.py").out


@pytest.mark.parametrize("text", [LOOP.replace("LAST", "trainer.scaler.update()"), SUBCLASS])
def test_an_update_in_a_file_that_uses_the_object_is_an_update(amplint: Amplint, tmp_path: Path, text: str) -> None:
    assert "AMP404" not in _codes(amplint, tmp_path, main=text)


@pytest.mark.parametrize("text", [LOOP.replace("LAST", "trainer.meter.update()"), OTHER_CLASS])
def test_an_update_of_something_else_is_none(amplint: Amplint, tmp_path: Path, text: str) -> None:
    assert "AMP404" in _codes(amplint, tmp_path, main=text)
