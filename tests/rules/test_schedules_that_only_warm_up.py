"""AMP217 and schedules: one that only warms up raises the learning rate, and never lowers it."""

from __future__ import annotations

import pytest

from amplint import check, make_settings

PROGRAM = """\
import torch
from diffusers.optimization import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from torch.optim.lr_scheduler import ConstantLR, LambdaLR, LinearLR


def up(step):
    if step < 100:
        return float(step + 1) / 100
    return 1.0


def down(step):
    if step < 100:
        return step / 100
    return 100 / step


def train(net, data, criterion, warmup_steps):
    net = net.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    SCHEDULE
    for step, (x, y) in enumerate(data):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        RATES
        optimizer.step()
"""
SET = "for group in optimizer.param_groups:\n            group['lr'] = RATE"
BRANCH = "if step < warmup_steps:\n            " + SET.replace("\n", "\n    ").replace("RATE", "rate(step)")
SCALAR = f"scalar = min(1.0, float(step + 1) / warmup_steps)\n        {SET.replace('RATE', 'scalar * 1e-3')}"
RISES = [
    "LambdaLR(optimizer, lambda step: min(1, (step + 1) / warmup_steps))",
    "LambdaLR(optimizer, lr_lambda=lambda step: min(step / 100, 1.0))",
    "LambdaLR(optimizer, lambda step: step / 100 if step < 100 else 1)",
    "LambdaLR(optimizer, up)",
    "LinearLR(optimizer, start_factor=0.1, total_iters=100)",
    "LinearLR(optimizer, 0.1, end_factor=1.0)",
    "ConstantLR(optimizer)",
    "get_constant_schedule_with_warmup(optimizer, 100)",
]
FALLS = [
    "LambdaLR(optimizer, lambda step: min(1, warmup_steps / (step + 1)))",
    "LambdaLR(optimizer, lambda step: 0.99**step)",
    "LambdaLR(optimizer, lambda step: 1 if step < 100 else 0.1)",
    "LambdaLR(optimizer, lambda step: min(1, (100 - step) / 100))",
    "LambdaLR(optimizer, rate)",
    "LambdaLR(optimizer, down)",
    "LinearLR(optimizer, start_factor=1.0, end_factor=0.1)",
    "get_cosine_schedule_with_warmup(optimizer, 100, 1000)",
]


def found(schedule: str, rates: str) -> tuple[str, str, str | None]:
    text = PROGRAM.replace("SCHEDULE", schedule).replace("RATES", rates)
    (finding,) = [each for each in check(text, settings=make_settings(suspicions=True)) if each.code == "AMP217"]
    return finding.confidence.name.lower(), finding.message, finding.withheld


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [*((f"scheduler = {each}", "pass") for each in RISES), *(("pass", each) for each in (BRANCH, SCALAR))],
)
def test_what_only_warms_up(schedule: str, rates: str) -> None:
    confidence, message, _ = found(schedule, rates)
    assert confidence == "suspicion"
    assert "schedule lowers" not in message


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        *((f"scheduler = {each}", "pass") for each in FALLS),
        ("pass", SET.replace("RATE", "rate(step)")),
        ("pass", SET.replace("RATE", "1e-3 * (1 - step / 1000)")),
        ("pass", BRANCH.replace("<", ">")),
    ],
)
def test_what_lowers_the_rate(schedule: str, rates: str) -> None:
    confidence, message, why = found(schedule, rates)
    assert confidence == "likely"
    assert "once the schedule lowers `lr=0.001`" in message
    assert why is not None
    assert "twice the memory" in why
