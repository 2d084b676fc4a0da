"""A variable that the file binds again is what it was bound to last, whatever was imported by that name."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import interpret

IMPORTS = ["import torch.optim as optim", "from torch import optim", "import torch_optimizer as optim", "optim = None"]
LOOP = """
import torch
IMPORT

model = torch.nn.Linear(4, 4).cuda()
optim = MADE
scaler = torch.amp.GradScaler("cuda")
for epoch in range(5):
    for x in loader:
        CLEAR
        for micro in range(4):
            with torch.autocast("cuda"):
                loss = model(x).square().mean() / 4
            scaler.scale(loss).backward()
        scaler.step(optim)
        scaler.update()
"""
HERE = "torch.optim.Adam(model.parameters())"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("imported", IMPORTS)
@pytest.mark.parametrize(
    ("made", "clear", "state"),
    [(HERE, "optim.zero_grad()", RIGHT), ("made_of(model)", "optim.zero_grad()", RIGHT), (HERE, "pass", WRONG)],
)
def test_an_optimizer_by_the_name_of_a_module(imported: str, made: str, clear: str, state: str) -> None:
    text = LOOP.replace("IMPORT", imported).replace("MADE", made).replace("CLEAR", clear)
    (found,) = interpret(text)
    assert found.judged.state == state


@pytest.mark.parametrize("made", ["optim.Adam(model.parameters())", "make()"])
def test_it_is_made_by_the_module_of_that_name(made: str) -> None:
    text = LOOP.replace("IMPORT", f"{IMPORTS[0]}\n\ndef make():\n    return optim.Adam(model.parameters())\n")
    (found,) = interpret(text.replace("MADE", made).replace("CLEAR", "optim.zero_grad()"))
    assert found.judged.state == RIGHT
