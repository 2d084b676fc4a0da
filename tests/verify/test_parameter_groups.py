"""Groups of parameters that functions out of sight make, and that are added: what an optimizer gets are parameters."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify import worker
from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret

STEP = """
import torch
from groups import groups
from torch import nn


class Trainer:
    def __init__(self, model, decay):
        self.model = model
        last = groups(model.last, decay)
        if model.is_frozen:
            self.optimizer = torch.optim.AdamW(last)
        else:
            first = groups(model.first, decay)
            self.optimizer = torch.optim.AdamW(GIVEN)

    def train(self, loader, scaler):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), y)
            scaler.scale(loss).backward()
            UNSCALE
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            scaler.step(self.optimizer)
            scaler.update()
"""


def ran(given: str, unscale: str) -> Ran:
    (found,) = interpret(STEP.replace("GIVEN", given).replace("UNSCALE", unscale))
    return found


@pytest.mark.parametrize("given", ["first + last", "last + first", "params=last + first", "[*first, *last]"])
def test_an_optimizer_of_added_groups(given: str) -> None:
    assert ran(given, "scaler.unscale_(self.optimizer)").judged.state == RIGHT
    assert ran(given, "pass").judged.state == WRONG


def test_an_error_of_amplint_is_not_said_to_be_the_program_s() -> None:
    asked = {"timeout": 60.0, "memory": 2048}
    told = worker._answer(worker.Answers(), asked)  # says nothing of a file
    assert told["failed"].startswith("an error of amplint's own, not of the program: KeyError")
