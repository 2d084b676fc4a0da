"""A criterion that an option chooses runs in the region around its call: AMP304."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn


class FocalBCE(nn.Module):
    def forward(self, pred, target):
        return F.binary_cross_entropy(pred, target, reduction="none").mean()


class Dual(nn.Module):
    def __init__(self):
        super().__init__()
        self.bce = FocalBCE()

    def forward(self, pred, target):
        return self.bce(pred.sigmoid(), target)


def main(model, loader, args):
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    CRITERION
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            out = model(x)
            INSIDE
        OUTSIDE
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
LOSS = "loss = criterion(out, y)"
CHAIN = "if args.loss == 'dual':\n        criterion = Dual()\n    else:\n        criterion = nn.MSELoss()"


def found(criterion: str, inside: str = LOSS, outside: str = "pass") -> list[str]:
    text = PROGRAM.replace("CRITERION", criterion).replace("INSIDE", inside).replace("OUTSIDE", outside)
    return [each.code for each in check(text) if each.code == "AMP304"]


@pytest.mark.parametrize(
    "criterion",
    [
        "criterion = Dual()",
        "criterion = Dual() if args.dual else nn.MSELoss()",
        "criterion = FocalBCE().cuda() if args.dual else nn.MSELoss()",
        CHAIN,
    ],
)
def test_one_of_several_criteria_runs_in_the_region(criterion: str) -> None:
    assert found(criterion)
    assert not found(criterion, "pass", LOSS)


@pytest.mark.parametrize(
    "criterion", ["criterion = nn.MSELoss() if args.dual else nn.L1Loss()", "criterion = args.loss()"]
)
def test_another_one_does_not(criterion: str) -> None:
    assert not found(criterion)


def test_not_where_it_is_called_only_when_it_is_another() -> None:
    inside = "loss = criterion(out, y) if not args.dual else out.mean()"
    assert not found("criterion = Dual() if args.dual else nn.MSELoss()", inside)
    assert found("criterion = Dual() if args.dual else nn.MSELoss()", inside.replace("not ", ""))


OPTIONAL = """\
import torch
import torch.nn.functional as F
from torch import nn


class Alignment(nn.Module):
    def forward(self, pred, target{default}):
        if {test}:
            return F.binary_cross_entropy(pred, target)
        return pred.mean()


def main(model, loader, scaler, optimizer):
    align = Alignment()
    for x, more in loader:
        with torch.autocast("cuda"):
            loss = align(model(x), target=more.get("target"))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("default", "test", "confidence"),
    [
        ("=None", "target is not None", Confidence.LIKELY),
        ("=None", "not target is None and pred.ndim > 1", Confidence.LIKELY),
        (", supervised=False", "supervised", Confidence.LIKELY),
        (", supervised=True", "supervised", Confidence.CERTAIN),
        ("", "pred.ndim > 1", Confidence.CERTAIN),
    ],
)
def test_a_loss_that_an_optional_argument_asks_for(default: str, test: str, confidence: Confidence) -> None:
    (finding,) = (each for each in check(OPTIONAL.format(default=default, test=test)) if each.code == "AMP304")
    assert finding.confidence is confidence
