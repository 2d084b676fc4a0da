"""A step that is compared with itself after a fix, though the fix takes away all that it did by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.api import make_settings
from amplint.verify.steps.output import as_tables
from amplint.verify.steps.verdict import CONFIRMED, MISBEHAVES
from amplint.verify.steps.verify import StepRow, Verifier
from tests.interpreting import project

TRAIN = """
import torch

def train(model, optimizer, scaler, loader):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(x), y)
            BACKWARD
        scaler.step(optimizer)
        scaler.update()
"""
MAIN = """
def main(model, loader, optimizer):
    torch.cuda.amp.autocast(enabled=True)
    scaler = torch.amp.GradScaler("cuda")
    train(model, optimizer, scaler, loader)
"""
INSIDE, OUTSIDE = "scaler.scale(loss).backward()", "pass\n        scaler.scale(loss).backward()"


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier() as found:
        yield found


def row_of(verifier: Verifier, path: Path) -> StepRow:
    (row,) = verifier.verify(str(path), path.read_bytes(), make_settings())
    return row


@pytest.mark.parametrize(("backward", "verdict"), [(OUTSIDE, CONFIRMED), (INSIDE, MISBEHAVES)])
@pytest.mark.parametrize("apart", [False, True])
def test_a_function_that_only_runs_a_step_after_the_fix(
    verifier: Verifier, tmp_path: Path, backward: str, verdict: str, apart: bool
) -> None:
    train = TRAIN.replace("BACKWARD", backward)
    main = f"import torch\nfrom engine import train\n{MAIN}" if apart else f"{train}{MAIN}"
    row = row_of(verifier, project(tmp_path, engine=train, main=main) / "main.py")
    assert (row.name, row.verdict) == ("main", verdict if apart or backward is OUTSIDE else CONFIRMED)
    assert "no step of this name" not in row.reason
    assert row.after is not None
    assert "AMP305 line" in (said := as_tables([row]))
    assert "no run can show it (it has no effect, so a run without it is the same)" in said
