"""AMP207: names that only sound like apex, and texts that an option only starts with."""

from __future__ import annotations

import pytest

import amplint

TRAINER = """\
import torch
IMPORT

class ApexTrainer:
    def __init__(self, model):
        self.model, self.use_apex_norm = model, True
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(self, loader):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            loss.backward()
            self.opt.step()
"""
CHOSEN = """\
import torch

def main(cfg, model, opt, loader):
    mode = cfg.training.mode
    enabled = mode.startswith("START")
    dtype = torch.float16 if mode == "mixed-fp16" else torch.bfloat16
    for x in loader:
        with torch.autocast("cuda", dtype=dtype, enabled=enabled):
            loss = model(x).mean()
        loss.backward()
        opt.step()
"""


def found(text: str) -> list[str]:
    return [each.code for each in amplint.check(text, "train.py") if each.code == "AMP207"]


def test_apex_is_a_library_only_where_it_is_imported() -> None:
    assert found(TRAINER.replace("IMPORT", "")) == ["AMP207"]


@pytest.mark.parametrize("line", ["import apex", "from apex import amp", "from apex.fp16_utils import FP16_Optimizer"])
def test_apex_may_scale(line: str) -> None:
    assert not found(TRAINER.replace("IMPORT", line))


def test_a_module_called_apex_may_scale() -> None:
    assert not found(TRAINER.replace("IMPORT", "").replace("loss.backward()", "self.apex.prepare(loss).backward()"))


@pytest.mark.parametrize(("start", "codes"), [("mixed", ["AMP207"]), ("mixed-fp16", ["AMP207"]), ("mixed-bf", [])])
def test_an_option_that_starts_with_a_text(start: str, codes: list[str]) -> None:
    assert found(CHOSEN.replace("START", start)) == codes
