"""Losses that are a product of a weight without gradients and of what a model out of sight has computed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret

STEP = """
import torch
from torch.distributions import Normal

def train(value, policy, loader, scaler):
    value_optimizer = torch.optim.AdamW(value.parameters(), lr=1e-3)
    policy_optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            advantage = y - value(x)
            value_loss = advantage.pow(2).mean()
        value_optimizer.zero_grad()
        scaler.scale(value_loss).backward()
        scaler.step(value_optimizer)
        with torch.autocast("cuda", dtype=torch.float16):
            weight = torch.exp(3.0 * advantage.detach()).clamp(max=100.0)
            mu, log_std = policy(x)
            log_prob = Normal(mu, log_std.exp()).log_prob(y).sum(dim=-1)
            policy_loss = LOSS
        policy_optimizer.zero_grad()
        scaler.scale(policy_loss).backward()
        UNSCALE
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        scaler.step(policy_optimizer)
        scaler.update()
"""


def ran(loss: str, unscale: str) -> Ran:
    (found,) = interpret(STEP.replace("LOSS", loss).replace("UNSCALE", unscale))
    return found


@pytest.mark.parametrize(
    "loss", ["-(weight * log_prob).mean()", "-(log_prob * weight).mean()", "(-log_prob * weight).mean()"]
)
def test_the_factor_has_gradients(loss: str) -> None:
    assert ran(loss, "scaler.unscale_(policy_optimizer)").judged.state == RIGHT
    assert ran(loss, "pass").judged.state == WRONG
