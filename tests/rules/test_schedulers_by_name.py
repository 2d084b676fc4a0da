"""AMP424: schedulers that functions make, that are parameters, or that step from an epoch on."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR


def make_scheduler(cfg, optimizer):
    RETURN


class Trainer:
    def prepare(self, cfg, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        MADE
        return optimizer, scheduler

    def fit(self, cfg, model, loader, optimizer, scheduler, epoch, start, helper=None):
        scaler = torch.amp.GradScaler("cuda", enabled=cfg.amp)
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            with torch.autocast("cuda", enabled=cfg.amp):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            BEFORE
            scaler.step(optimizer)
            scaler.update()
"""
STEP = "scheduler.step()"
OWN = "scheduler = lr_scheduler.StepLR(optimizer, 10)"
HELPED = "scheduler = make_scheduler(cfg, optimizer)"


def found(made: str = OWN, before: str = STEP, returned: str = "return None") -> list[str]:
    text = PROGRAM.replace("MADE", made).replace("BEFORE", before).replace("RETURN", returned)
    return [each.confidence.value for each in amplint.check(text) if each.code == "AMP424"]


@pytest.mark.parametrize(
    ("made", "returned"),
    [
        (OWN, "return None"),
        ("scheduler = SWALR(optimizer, swa_lr=0.05)", "return None"),
        (HELPED, "return SWALR(optimizer, swa_lr=cfg.swa_lr)"),
        (HELPED, 'chosen = getattr(torch.optim.swa_utils, "SWALR")(optimizer, swa_lr=0.05); return chosen'),
        (HELPED, 'chosen = getattr(lr_scheduler, "StepLR")(optimizer, 10); return chosen'),
        ("scheduler = None\n        if cfg.swa: scheduler = SWALR(optimizer)", "return None"),
    ],
)
@pytest.mark.parametrize(
    "before", [STEP, f"if epoch >= int(start): {STEP}", f"if scheduler is not None and cfg.every: {STEP}"]
)
def test_it_steps_before(made: str, returned: str, before: str) -> None:
    assert found(made, before, returned) == ["likely"]


@pytest.mark.parametrize(
    ("made", "returned"),
    [
        ("scheduler = Warmup(optimizer)", "return None"),
        (HELPED, "return Warmup(optimizer)"),
        (HELPED, "return getattr(lr_scheduler, cfg.name)(optimizer)"),
        (HELPED, "other = torch.optim.SGD(cfg.more, lr=0.1); return SWALR(other)"),
        ("scheduler = lr_scheduler.ReduceLROnPlateau(optimizer)", "return None"),
        ("other = torch.optim.SGD(cfg.more, lr=0.1); scheduler = SWALR(other)", "return None"),
        (f"{OWN}\n        if cfg.warm: scheduler = Warmup(optimizer)", "return None"),
    ],
)
def test_it_may_be_another_kind(made: str, returned: str) -> None:
    assert found(made, returned=returned) == []


@pytest.mark.parametrize(
    "before",
    [
        "pass",
        f"if i > 0: {STEP}",
        f"if self.stepped: {STEP}",
        f"if helper(): {STEP}",
        f"if loss.isfinite(): {STEP}",
        "scheduler.step(epoch)",
        f"helper(optimizer, scaler); {STEP}",
    ],
)
def test_it_may_not_come_before(before: str) -> None:
    assert found(before=before) == []


def test_a_call_that_is_not_always_made() -> None:
    """It may step; where its condition doesn't hold, nothing has stepped."""
    called = f"if cfg.adversarial: helper(optimizer, scaler)\n            {STEP}"
    assert found(before=called) == ["likely"]
