"""A message says what happens to the code, not only what is wrong."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings
from amplint.registry import all_rules

STEP = """
import torch
def train(model, loader, scheduler):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
"""
INSIDE = STEP.replace("        scaler.scale(loss)", "            scaler.scale(loss)")


@pytest.mark.parametrize(
    ("code", "text", "consequence"),
    [
        ("AMP205", "import torch\nwith torch.autocast('cpu', dtype=torch.float64):\n    f()\n", "dtypes of its inputs"),
        ("AMP301", INSIDE, "computes its gradients in half precision"),
        ("AMP302", INSIDE.replace("        scaler.step(", "            scaler.step("), "uses the old weights"),
        ("AMP305", "import torch\ntorch.autocast('cuda')\nf()\n", "runs in float32"),
        ("AMP412", STEP, "runs ahead of the training"),
    ],
)
def test_a_message_names_the_consequence(code: str, text: str, consequence: str) -> None:
    assert code in all_rules()
    (found,) = check(text, settings=Settings(frozenset({code}), isolated=True))
    assert consequence in found.message
