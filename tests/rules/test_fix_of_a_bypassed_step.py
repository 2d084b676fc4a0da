"""AMP402's fix where the scaler and the optimizer are parameters: the scaler may be off, and the last step unscaled."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding

LOOP = """\
import torch


def train(model, optimizer, scaler, batches):
    for inputs in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs).mean()
        SCALED
        BETWEEN
        optimizer.step()
"""


def found(scaled: str, between: str) -> Finding:
    text = LOOP.replace("SCALED", scaled).replace("BETWEEN", between)
    (finding,) = (each for each in check(text) if each.code == "AMP402")
    return finding


@pytest.mark.parametrize(
    "between",
    ["pass", "scaler.unscale_(optimizer)\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"],
)
def test_a_straight_path_has_a_fix(between: str) -> None:
    fix = found("scaler.scale(loss).backward()", between).fix
    assert fix is not None
    assert [each.content.strip() for each in fix.edits] == ["scaler.step(optimizer)", "scaler.update()"]


def test_one_of_two_paths_has_none() -> None:
    finding = found("(scaler.scale(loss) if batches.scaled else loss).backward()", "pass")
    assert finding.fix is None
