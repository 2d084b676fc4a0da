"""Schedules of the project that are given an optimizer and set its rate."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import interpret_file, project

STEP = """
import torch
from torch import nn
from helper import Helper

def train(loader, net, config):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    helper = Helper(config)
    for batch, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        MORE
        helper.adjust(batch, optimizer)
"""
SCHEDULE = """
class Schedule:
    def __init__(self, config):
        self.config = config

    def step(self, at, optimizer):
        for group in optimizer.param_groups:
            group["lr"] = self.config.lr * 0.9 ** at
"""
HELPER = """
from schedule import Schedule

class Helper:
    def __init__(self, config):
        self.schedule = Schedule(config)

    def adjust(self, at, optimizer):
        self.schedule.step(at, optimizer)
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("more", "state"), [("pass", RIGHT), ("optimizer.step()", WRONG)])
def test_a_schedule_of_a_file_without_amp_steps_no_optimizer(tmp_path: Path, more: str, state: str) -> None:
    folder = project(tmp_path, schedule=SCHEDULE, helper=HELPER, train=STEP.replace("MORE", more))
    (found,) = interpret_file(folder / "train.py")
    assert found.judged.state == state
