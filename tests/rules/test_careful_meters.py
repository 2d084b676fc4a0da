"""AMP506 where a meter of another file looks at what it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.config.settings import Settings

TRAIN = """\
import torch
from meters import MetricLogger


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    metric_logger = MetricLogger()
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        metric_logger.update(norm=norm)
"""
METERS = """\
import math


class Smoothed:
    def update(self, value):
        LOOK
            self.total += value


class MetricLogger:
    def update(self, **values):
        for name, value in values.items():
            self.meters[name].update(value)
"""


@pytest.mark.parametrize(("look", "count"), [("if math.isfinite(value):", 0), ("if value is not None:", 1)])
def test_a_meter_of_another_file(look: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "meters.py").write_text(METERS.replace("LOOK", look))
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    settings = Settings(frozenset({"AMP506"}), isolated=True, suspicions=True)
    assert len(check(TRAIN, str(train), settings)) == count
    # By itself the file says nothing of its meter.
    assert len(check(TRAIN, settings=settings)) == 1
