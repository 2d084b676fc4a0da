"""AMP206: a scaler that a switch enables only where no bfloat16 region can run."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import torch


class Args:
    dtype = "bfloat16" if {support} else "float16"


scaler = torch.amp.GradScaler(enabled=(Args.dtype == "float16"))


def train(model, optimizer, loader):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("support", "wanted"),
    [
        ("torch.cuda.is_available() and torch.cuda.is_bf16_supported()", 0),
        ("torch.cuda.is_bf16_supported()", 0),
        ("torch.cuda.is_available()", 0),
        ("SMALL", 1),
        ("not torch.cuda.is_available()", 1),
        ("torch.backends.mps.is_available()", 1),
    ],
)
def test_a_scaler_for_gpus_without_bfloat16(support: str, wanted: int) -> None:
    found = check(TEXT.format(support=support), settings=Settings(frozenset({"AMP206"}), isolated=True))
    assert len(found) == wanted
