"""Parameters that all callers in sight give the name of a device: a string has no `type`."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, WRONG
from amplint.verify.steps.verdict import REFUTED
from tests.interpreting import interpret, verdicts

STEP = """
import torch

def train(model, loader, optimizer, device: torch.device):
    scaler = torch.amp.GradScaler("cuda")
    if device != "cpu":
        model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type=DEVICE, dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(config):
    name = "cuda" if torch.cuda.is_available() else "cpu"
    train(config.model, config.loader, config.optimizer, GIVEN)
"""


def program(device: str, given: str) -> str:
    return STEP.replace("DEVICE", device).replace("GIVEN", given)


@pytest.mark.parametrize("given", ["config.device.type", "device=config.device.type", "'cuda'", "name"])
def test_a_name_of_a_device_has_no_type(given: str) -> None:
    ((ran, verdict),) = verdicts(program("device", given), program("device.type", given), ["AMP204"], [])
    assert ran.judged.state == RIGHT
    assert verdict.verdict == REFUTED
    assert "'str' object has no attribute 'type'" in verdict.reason


@pytest.mark.parametrize("given", ["config.device", "torch.device(name)", "config.kind", "f'{name}'"])
def test_what_may_be_a_device_has_one(given: str) -> None:
    (ran,) = interpret(program("device.type", given))
    assert ran.judged.state == RIGHT


def test_callers_that_differ_say_nothing() -> None:
    more = "\ndef test(config):\n    train(config.model, config.loader, config.optimizer, torch.device('cuda'))\n"
    assert [each.judged.state for each in interpret(program("device.type", "name"))] == [WRONG]
    assert [each.judged.state for each in interpret(program("device.type", "name") + more)] == [RIGHT]


@pytest.mark.parametrize("given", ["torch.device(name)", "device=torch.device(config.device)"])
def test_a_region_takes_the_name_of_a_device_alone(given: str) -> None:
    (ran,) = interpret(program("device", given))
    assert ran.judged.state == WRONG
    assert "type `str`, got" in ran.judged.faults[0].text
    assert [each.judged.state for each in interpret(program("device.type", given))] == [RIGHT]


@pytest.mark.parametrize("given", ["config.device", "config.get(device)"])
def test_what_may_be_a_name_is_taken_for_one(given: str) -> None:
    assert [each.judged.state for each in interpret(program("device", given))] == [RIGHT]
