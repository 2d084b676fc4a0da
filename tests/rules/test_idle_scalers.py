"""AMP207: a scaler that scales nothing is none, though it is saved and loaded."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
from torch import nn
from torch.amp import GradScaler
IMPORTS

def train(model, loader, path):
    optimizer = torch.optim.AdamW(model.parameters())
    MADE
    for x, y in loader:
        with torch.autocast("cuda", dtype=DTYPE):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        STEP
        optimizer.step()
    END
"""
SAVED = 'torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, path)'
OF_A_CLASS = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.cuda.amp.GradScaler()

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def state_dict(self):
        return {"model": self.model.state_dict(), "scaler": self.scaler.state_dict()}
"""


def codes(made: str, step: str = "loss.backward()", end: str = "", imports: str = "", dtype: str = "") -> list[str]:
    text = PROGRAM.replace("MADE", made).replace("STEP", step).replace("END", end).replace("IMPORTS", imports)
    return found(text.replace("DTYPE", dtype or "torch.float16"))


def found(text: str) -> list[str]:
    return [each.code for each in amplint.check(text) if each.code == "AMP207"]


@pytest.mark.parametrize(
    ("made", "step", "end"),
    [
        ('scaler = GradScaler("cuda")', "loss.backward()", SAVED),
        ('scaler = GradScaler("cuda"); scaler.load_state_dict(torch.load(path)["scaler"])', "loss.backward()", SAVED),
        ('grad_scaler = torch.amp.GradScaler("cuda")', "loss.backward(); print(grad_scaler.get_scale())", ""),
    ],
)
def test_a_scaler_that_scales_nothing(made: str, step: str, end: str) -> None:
    assert codes(made, step, end) == ["AMP207"]
    assert codes(made, step, end, dtype="torch.bfloat16") == []


def test_of_a_class() -> None:
    assert found(OF_A_CLASS) == ["AMP207"]
    assert found(OF_A_CLASS.replace("loss.backward()", "self.backward(loss, self.scaler)")) == []


@pytest.mark.parametrize(
    ("made", "step", "imports"),
    [
        (
            'scaler = GradScaler("cuda")',
            "helper(loss, optimizer, scaler); loss.backward()",
            "from helpers import helper",
        ),
        (
            'scaler, loss_scaler = GradScaler("cuda"), NativeScaler()',
            "loss = loss_scaler.times(loss); loss.backward()",
            "from timm.utils import NativeScaler",
        ),
        ('scaler = GradScaler("cuda"); others = [scaler]', "loss.backward()", ""),
        (
            'scaler = GradScaler("cuda")',
            "loss = loss * loss_scaler(); loss.backward()",
            "from helpers import loss_scaler",
        ),
    ],
)
def test_what_may_scale(made: str, step: str, imports: str) -> None:
    assert codes(made, step, imports=imports) == []


@pytest.mark.parametrize(
    ("base", "more", "found"),
    [
        ("", "", ["certain"]),
        ("(Base)", "", ["likely"]),
        ("(Base)", "self.register(self.scaler)", []),
        ("(Base)", "self.scaler.unscale_(self.optimizer)", []),
    ],
)
def test_a_base_class_out_of_sight_may_use_the_scaler(base: str, more: str, found: list[str]) -> None:
    text = OF_A_CLASS.replace("class Trainer:", f"class Trainer{base}:").replace(
        "\nclass", "from lib import Base\n\nclass", 1
    )
    text = text.replace("self.optimizer.zero_grad()", f"self.optimizer.zero_grad(); {more or 'pass'}")
    assert [each.confidence.value for each in amplint.check(text) if each.code == "AMP207"] == found
