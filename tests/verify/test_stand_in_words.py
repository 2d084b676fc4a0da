"""What verify says it put in the place of what: a model is only what can be one."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint

STEP = """
import torch
def train(model, optimizer, loader, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            out = model(batch)
            losses = criterion(out)
            loss = 0
            for each in losses.values():
                loss = loss + each
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def test_what_can_be_no_model_is_a_stand_in() -> None:
    (row,) = amplint.verify(STEP)
    said = {text: what for _, text, what in row.notes}
    assert (said["model(batch)"], said["criterion(out)"]) == ("a stand-in model", "a stand-in")
