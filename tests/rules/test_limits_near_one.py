"""AMP501: limits that should keep a half-precision tensor from 1, and are 1 in its dtype."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn

class Margin(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 8))
        self.eps = 1e-7

    def forward(self, x):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight))
        COSINE
        return theta

def focal(logits, target):
    p = torch.sigmoid(logits)
    PROBABILITY
    return loss.mean()

def train(loader, optimizer):
    model = nn.Linear(8, 8).cuda()
    margin = Margin().cuda()
    for x, y in loader:
        with torch.autocast("cuda", dtype=DTYPE):
            logits = model(x)
            loss = margin(logits).mean() + focal(logits, y)
        loss.backward()
        optimizer.step()
"""
ACOS = "theta = torch.acos(cosine.clamp(-1 + self.eps, 1 - self.eps))"
LOG = "p = p.clamp(LOW, HIGH)\n    loss = -(target * torch.log(p) + (1 - target) * torch.log(1 - p))"


def found(cosine: str = "theta = cosine", probability: str = "loss = p", dtype: str = "float16") -> list[str]:
    program = PROGRAM.replace("COSINE", cosine).replace("PROBABILITY", probability)
    findings = check(program.replace("DTYPE", f"torch.{dtype}"), "train.py")
    return [
        each.confidence.value for each in findings if each.code == "AMP501" and "doesn't prevent 1," in each.message
    ]


@pytest.mark.parametrize(
    ("cosine", "confidences"),
    [
        (ACOS, ["likely"]),
        ("cosine = torch.clamp(cosine, -1 + 1e-7, 1 - 1e-7)\n        theta = cosine.acos()", ["likely"]),
        ("cosine = cosine.clamp(max=0.9999)\n        theta = torch.asin(cosine)", ["likely"]),
        ("cosine = cosine.clamp(-0.999, 0.999)\n        theta = torch.acos(cosine)", []),
        ("cosine = cosine.float().clamp(-1 + 1e-7, 1 - 1e-7)\n        theta = torch.acos(cosine)", []),
        ("cosine = cosine.clamp(-1, 1)\n        theta = torch.acos(cosine)", []),  # that is what it says
        ("theta = cosine.clamp(-1 + 1e-7, 1 - 1e-7)", []),  # nothing is infinite at 1
        ("theta = torch.acos(cosine)\n        theta = theta + cosine.clamp(-1 + 1e-7, 1 - 1e-7)", []),
    ],
)
def test_cosines(cosine: str, confidences: list[str]) -> None:
    assert found(cosine=cosine) == confidences


@pytest.mark.parametrize(
    ("low", "high", "dtype", "count"),
    [
        ("1e-4", "1 - 1e-4", "float16", 1),
        ("1e-3", "1 - 1e-3", "float16", 0),
        ("1e-3", "1 - 1e-3", "bfloat16", 1),
        ("1e-2", "1 - 1e-2", "bfloat16", 0),
    ],
)
def test_probabilities(low: str, high: str, dtype: str, count: int) -> None:
    assert found(probability=LOG.replace("LOW", low).replace("HIGH", high), dtype=dtype) == ["certain"] * count


def test_what_is_not_one_minus_it() -> None:
    assert found(probability="p = p.clamp(1e-4, 1 - 1e-4)\n    loss = -torch.log(p)") == []
    assert found(probability="p = p.clamp(1e-4, 1 - 1e-4)\n    loss = -torch.log(1.1 - p)") == []
