"""AMP501 and AMP502: numbers that float16 doesn't hold, in models and criteria of other files."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

NET = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)

    def forward(self, x, mask):
        scores = torch.matmul(self.q(x), self.k(x).transpose(-2, -1))
        return scores.masked_fill(mask == 0, NUMBER).softmax(-1)


class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attention = Attention(dim)

    def forward(self, x, mask):
        return self.attention(x, mask)
"""
LOSS = """\
import torch
from torch import nn


class Focal(nn.Module):
    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        return -(target * torch.log(p.clamp(min=NUMBER))).mean()
"""
TRAIN = """\
import torch

from losses import Focal
from net import Net


def main(loader, model):
    MADE
    model.train()
    criterion = Focal()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, mask, y in loader:
        with torch.autocast("cuda", dtype=DTYPE):
            loss = LOSS
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
OWN_MODEL = ("model = Net(8).cuda()", "model(x, mask).float().mean()")
OWN_CRITERION = ("pass", "criterion(model(x), y)")


def found(folder: Path, made: str, loss: str, number: str, dtype: str = "torch.float16") -> list[str]:
    (folder / "pyproject.toml").write_text("", "utf-8")
    text = TRAIN.replace("MADE", made).replace("LOSS", loss).replace("DTYPE", dtype)
    files = {"net.py": NET.replace("NUMBER", number), "losses.py": LOSS.replace("NUMBER", number), "train.py": text}
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    findings = amplint.check(text, str(folder / "train.py"))
    return [f"{each.code} {each.message}" for each in findings if each.code in ("AMP501", "AMP502")]


@pytest.mark.parametrize(
    ("number", "dtype", "count"),
    [("-1e9", "torch.float16", 1), ("-1e4", "torch.float16", 0), ("-1e9", "torch.bfloat16", 0)],
)
def test_a_mask(tmp_path: Path, number: str, dtype: str, count: int) -> None:
    messages = found(tmp_path, *OWN_MODEL, number, dtype)
    assert len(messages) == count
    assert all("AMP502 this runs line 13 of net.py, where `scores` is float16: `-1e9` is" in each for each in messages)


@pytest.mark.parametrize(
    ("number", "dtype", "count"),
    [("1e-8", "torch.float16", 1), ("1e-6", "torch.float16", 0), ("1e-8", "torch.bfloat16", 0)],
)
def test_a_floor(tmp_path: Path, number: str, dtype: str, count: int) -> None:
    messages = found(tmp_path, *OWN_CRITERION, number, dtype)
    assert len(messages) == count
    assert all(
        each.startswith("AMP501 this runs line 8 of losses.py, where 1e-08 rounds to 0 in float16") for each in messages
    )
