"""AMP207: a region for whichever device the caller has is in float16 on cuda."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP207"}), isolated=True)
PROGRAM = """\
import torch
import torch.nn.functional as F

def train(model, loader, {device}, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        with {region}:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
{before}        loss.backward()
        optimizer.step()
"""


def program(
    region: str = "torch.autocast(device_type=device.type)", device: str = "device: torch.device", before: str = ""
) -> str:
    return PROGRAM.format(region=region, device=device, before=before)


OPTION = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device")
device = torch.device(parser.parse_args().device)
model = nn.Linear(3, 3).to(device)
optimizer = torch.optim.Adam(model.parameters())
for x in torch.randn(4, 2, 3):
    with torch.autocast(str(device.type)):
        loss = model(x.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ATTRIBUTE = """\
import torch

class Trainer:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer, self.device = model, optimizer, device

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast(self.device.type):
                loss = torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y)
            loss.backward()
            self.optimizer.step()
"""
LOSS_IS_GIVEN = """\
import torch

def update(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

def train(model, x, optimizer):
    with torch.autocast(device_type=x.device.type):
        loss = model(x).mean()
    update(loss, optimizer)
"""
STEP_IN_THE_REGION = """\
import torch
import torch.nn.functional as F

def step(model, x, y, optimizer):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()

def train(model, loader, optimizer, device):
    for x, y in loader:
        with torch.autocast(device_type=device):
            step(model, x, y, optimizer)
"""
INPUTS_ARE_GIVEN = """\
import torch
import torch.nn.functional as F

def align(a, b):
    shift = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([shift], lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        loss = F.l1_loss(a + shift, b)
        loss.backward()
        optimizer.step()
    return shift.detach()

def main(model, x):
    with torch.autocast(device_type=x.device.type):
        points = model.infer(x)
    return align(points[0], points[1])
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (program(), "on cuda, "),
        (program(device="device"), "on cuda, "),
        (program("torch.autocast(device)", "device: str"), "on cuda, "),
        (program("torch.autocast(device.type, enabled=amp)", "device, amp"), "if `amp` is true and on cuda, "),
        (OPTION, "on cuda, "),
        (ATTRIBUTE, "on cuda, "),
        (LOSS_IS_GIVEN, "on cuda, "),
        (STEP_IN_THE_REGION, "on cuda, "),
    ],
)
def test_float16_on_cuda(text: str, said: str) -> None:
    (found,) = check(text, settings=SETTINGS)
    assert found.message.startswith(f"{said}the loss from the float16 region on line ")
    assert found.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "text",
    [
        program("torch.autocast(device.type, enabled=device.type == 'cpu')"),
        program("torch.autocast(device.type, dtype=torch.bfloat16)"),
        program("torch.autocast(device.type, dtype=dtype)", "device, dtype"),
        program(before="        if device.type == 'cuda':\n            raise ValueError(device)\n"),
        program(device="scaler, device"),
        program() + "train(model, loader, torch.device('cpu'), optimizer)\n",
        "import torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n" + program(),
        INPUTS_ARE_GIVEN,
    ],
)
def test_never_float16_or_not_trained(text: str) -> None:
    assert not check(text, settings=SETTINGS)
