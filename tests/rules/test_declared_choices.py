"""AMP210 and settings that are declared to be one of some names; and those of which the code names all that matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP210"}), isolated=True, target_torch="2.6", suspicions=True)
NESTED = """\
from typing import Literal

from pydantic import BaseModel, Field


class Optimization(BaseModel):
    precision: CHOICES = "fp32"


class Config(BaseModel):
    optimization: Optimization = Field(default_factory=Optimization)
"""
DECLARED = """\
import argparse
from dataclasses import dataclass
from typing import Literal, Optional

import torch

Precision = CHOICES


@dataclass
class Settings:
    precision: CHOICES = "fp32"


"""
PROGRAM = """\
class Trainer:
    def __init__(self, model, optimizer, GIVEN):
        self.model, self.optimizer = model, optimizer
        use_amp = VALUE != "fp32"
        self.dtype = torch.float16
        if VALUE == "bf16":
            self.dtype = torch.bfloat16
        self.use_amp = use_amp
        self.scaler = None
        if use_amp and VALUE == "fp16":
            self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=self.dtype, enabled=self.use_amp):
            loss = torch.nn.functional.mse_loss(self.model(x), y)
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
"""
ALL = 'Literal["fp32", "bf16", "fp16"]'
PARSED = """
parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
args = parser.parse_args()
"""


def found(program: str, value: str, given: str, choices: str = ALL, path: Path | str = "a.py") -> list[str]:
    text = program.replace("VALUE", value).replace("GIVEN", given).replace("CHOICES", choices)
    return [each.confidence.value for each in check(text, path, SETTINGS)]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("precision: Literal['fp32', 'bf16', 'fp16']", "precision"),
        ("precision: Precision", "precision"),
        ("precision: Precision = 'fp32'", "precision"),
        ("settings: Settings", "settings.precision"),
        ("settings=None", "Settings().precision"),
    ],
)
def test_what_is_declared_is_nothing_else(given: str, value: str) -> None:
    assert found(DECLARED + PROGRAM, value, given, ALL) == []


def test_an_options_choices() -> None:
    assert found(DECLARED + PARSED + PROGRAM, "args.precision", "args") == []


def test_a_declaration_that_leaves_more_open() -> None:
    more = 'Literal["fp32", "bf16", "fp16", "amp"]'
    assert found(DECLARED + PROGRAM, "settings.precision", "settings: Settings", more) == ["suspicion"]
    assert found(DECLARED + PROGRAM, "precision", "precision: Optional[Precision] = None") == ["suspicion"]
    assert found(DECLARED + PROGRAM, "settings.precision", "settings", ALL) == ["suspicion"]


def test_a_choice_of_a_declaration_that_is_wrong() -> None:
    program = DECLARED + PROGRAM.replace('and VALUE == "fp16"', 'and VALUE == "bf16"')
    assert found(program, "settings.precision", "settings: Settings") == ["certain"]


def test_a_model_of_another_file_that_is_kept_in_another_one(tmp_path: Path) -> None:
    package = tmp_path / "project"
    package.mkdir()
    (tmp_path / "pyproject.toml").touch()
    (package / "__init__.py").touch()
    (package / "schema.py").write_text(NESTED.replace("CHOICES", ALL))
    path = package / "trainer.py"
    program = "import torch\n\nfrom project.schema import Config\n\n\n" + PROGRAM
    path.write_text(program)
    assert found(program, "config.optimization.precision", "config: Config", path=path) == []
    assert found(program, "config.optimization.precision", "config", path=path) == ["suspicion"]


def test_where_nothing_means_full_precision() -> None:
    program = (DECLARED + PROGRAM).replace('use_amp = VALUE != "fp32"', "use_amp = True")
    assert found(program, "precision", "precision") == ["certain"]


ASKED = """\
IMPORTS


def step(model, batch, optimizer, amp=False, scaler=None):
    with torch.cuda.amp.autocast(enabled=amp):
        loss = model(batch)
    if amp and isinstance(scaler, torch.cuda.amp.GradScaler):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
"""
CALLS = """

def train(model, data, optimizer, amp):
    scaler = torch.cuda.amp.GradScaler() if SWITCH else None
    for batch in data:
        step(model, batch, optimizer, amp, scaler)
"""


@pytest.mark.parametrize("imports", ["import torch", "import torch\nfrom other import *", "from other import *"])
def test_a_scaler_that_is_asked_for_by_its_class(imports: str) -> None:
    text = ASKED.replace("IMPORTS", imports)
    assert [each.confidence.value for each in check(text, "a.py", SETTINGS)] == ["suspicion"]
    assert check(text + CALLS.replace("SWITCH", "amp"), "a.py", SETTINGS) == []


def test_a_scaler_that_is_there_in_the_other_case() -> None:
    text = ASKED.replace("IMPORTS", "import torch") + CALLS.replace("SWITCH", "not amp")
    assert [each.confidence.value for each in check(text, "a.py", SETTINGS)] == ["certain"]
