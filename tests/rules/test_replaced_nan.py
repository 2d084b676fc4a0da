"""AMP507: what is said where only NaN is replaced, and that a scaler has to be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Finding

PROGRAM = """\
import torch


def train(model, loader, optimizer, criterion, last):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
            LOSS
        scaler.scale(loss.mean()).backward()
        GRADIENTS
        scaler.step(optimizer)
        scaler.update()
"""
EACH = "for p in model.parameters():\n            "


def found(loss: str = "pass", gradients: str = "pass") -> Finding:
    text = PROGRAM.replace("LOSS", loss.replace("\n", "\n            ")).replace("GRADIENTS", gradients)
    (finding,) = [each for each in check(text) if each.code == "AMP507"]
    return finding


@pytest.mark.parametrize(
    "loss",
    [
        "loss = torch.where(torch.isnan(loss), torch.zeros_like(loss), loss)",
        "mask = torch.isnan(loss)\nif mask.any():\n    loss = torch.where(mask, 0.0, loss) * (~mask)",
        "loss = loss.masked_fill(loss.isnan(), 0)",
        "loss[torch.isnan(loss)] = 0",
        "if torch.isnan(loss):\n    loss = last",
    ],
)
def test_only_nan_in_a_loss(loss: str) -> None:
    finding = found(loss)
    assert finding.message.startswith("a NaN loss is replaced")
    assert finding.confidence.value == "likely"


@pytest.mark.parametrize(
    "loss",
    [
        "loss = torch.nan_to_num(loss)",
        "mask = torch.isnan(loss) | torch.isinf(loss)\nloss = torch.where(mask, torch.zeros_like(loss), loss)",
        "loss = torch.where(torch.isfinite(loss), loss, 0.0)",
        "loss[~torch.isfinite(loss)] = 0",
        "if not torch.isfinite(loss):\n    loss = last",
    ],
)
def test_inf_in_a_loss_too(loss: str) -> None:
    finding = found(loss)
    assert finding.message.startswith("an inf or NaN loss is replaced")
    assert finding.confidence.value == "certain"


def test_gradients() -> None:
    only = found(gradients=f"{EACH}p.grad[torch.isnan(p.grad)] = 0").message
    assert only.startswith("NaN in gradients is replaced, and inf isn't")
    for each in ("p.grad[~torch.isfinite(p.grad)] = 0", "p.grad = torch.nan_to_num(p.grad)"):
        assert found(gradients=EACH + each).message.startswith("inf and NaN in gradients are replaced")


ACCELERATOR = """\
import torch


class Accelerator:
    def __init__(self, fp16):
        self.scaler = torch.amp.GradScaler("cuda") if fp16 else None

    def backward(self, loss):
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()
"""
SCRIPT = """\
import torch
from copied import Accelerator


def main(model, optimizer, loader, args):
    accelerator = Accelerator(args.fp16)
    CONFIGURED
    model, optimizer = accelerator.prepare(model, optimizer)
    for x, y in loader:
        loss = (model(x) - y).abs()
        loss = torch.nan_to_num(loss)
        accelerator.backward(loss.mean())
        optimizer.step()
"""
PLUGIN = "accelerator.state.deepspeed_plugin"


@pytest.mark.parametrize(
    ("configured", "count"),
    [
        ("pass", 1),
        (f"{PLUGIN}.deepspeed_config['train_micro_batch_size_per_gpu'] = 4", 0),
        (f"if {PLUGIN} is not None:\n        {PLUGIN}.deepspeed_config['zero_optimization'] = 4", 1),
        (f"stage = {PLUGIN}.zero_stage if {PLUGIN} else 0", 1),
        (f"plugin = {PLUGIN}", 1),
    ],
)
def test_a_program_that_needs_deepspeed_has_no_scaler(tmp_path: Path, configured: str, count: int) -> None:
    (tmp_path / "copied.py").write_text(ACCELERATOR)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("CONFIGURED", configured))
    assert sum(each.code == "AMP507" for each in check(script.read_text(), script)) == count
