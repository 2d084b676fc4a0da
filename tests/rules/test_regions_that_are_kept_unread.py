"""AMP305: an autocast object in a variable that nothing reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

STEP = """\
import contextlib
import torch

KEPT = torch.autocast("cuda")


def step(model, x, low, helper):
    ctx = VALUE
    USE
    return model(x)
"""
REGION = 'torch.autocast("cuda", dtype=torch.bfloat16)'


def found(value: str, use: str = "pass") -> list[str]:
    text = STEP.replace("VALUE", value).replace("USE", use)
    return [each.message for each in check(text) if each.code == "AMP305"]


@pytest.mark.parametrize(
    "value",
    [REGION, f"{REGION} if low else torch.no_grad()", f"contextlib.nullcontext() if low else {REGION}"],
)
def test_one_that_nothing_reads(value: str) -> None:
    (message,) = found(value)
    assert message == (
        "the autocast object in `ctx` is never entered and has no effect; write `with ctx:` around the "
        "forward pass and the loss"
    )


@pytest.mark.parametrize(
    ("value", "use"),
    [
        (REGION, "with ctx:\n        model(x)"),
        (REGION, "helper(ctx)"),
        (REGION, "run = lambda: ctx"),
        (REGION, "helper(**locals())"),
        (f"helper({REGION})", "pass"),
        (f"{REGION} if low else helper()", "pass"),
        ("KEPT and low", "pass"),
    ],
)
def test_one_that_may_be_entered(value: str, use: str) -> None:
    assert found(value, use) == []


def test_what_another_file_reads_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    engine = STEP.replace("VALUE", REGION).replace("USE", "with ctx:\n        model(x)")
    (tmp_path / "engine.py").write_text(engine, "utf-8")
    text = "import torch\nfrom engine import step\n\nscaler = torch.amp.GradScaler()\nstep(None, None, True, print)\n"
    file = tmp_path / "train.py"
    file.write_text(text, "utf-8")
    assert "AMP305" not in {each.code for each in check(text, str(file))}
