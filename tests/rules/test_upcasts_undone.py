"""AMP503: what is cast to float32 for a product, though it isn't surely in half precision."""

from __future__ import annotations

import pytest

from amplint import check

CONTRAST = """\
import torch
import torch.nn.functional as F

def contrast(z, temperature):
    BEFORE
    same = torch.arange(z.size(0), device=z.device)
    return F.cross_entropy(torch.matmul(z, z.t()) / temperature, same)

def train(model, loader, optimizer):
    model.train()
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = contrast(model(x), 0.1)
        loss.backward()
        optimizer.step()
"""
RESIDUAL = """\
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x):
        return OUTPUT

class EdgeLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.ones(1, 1, 3, 3))

    def forward(self, output, target):
        wide = output.float()
        return (F.conv2d(wide, self.kernel) - target).abs().mean()

def train(loader, optimizer):
    net, criterion = Net().cuda(), EdgeLoss().cuda()
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
"""


def confidences(program: str) -> list[str]:
    return [each.confidence.value for each in check(program, "train.py") if each.code == "AMP503"]


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("z = F.normalize(z, dim=1).float()", ["likely"]),
        ("z = F.normalize(z.float(), dim=1)", []),  # the norm is computed of float32
        ("z = F.normalize(z, dim=1)", []),
        ("z = F.normalize(z, dim=1).float(); scale = z.std()", ["likely"]),  # read before it is multiplied
        ("z = F.normalize(z, dim=1).to(torch.float32)", ["likely"]),
    ],
)
def test_normalized_outputs(before: str, found: list[str]) -> None:
    assert confidences(CONTRAST.replace("BEFORE", before)) == found


def test_what_is_asked_of_a_tensor_is_no_operation() -> None:
    program = CONTRAST.replace("BEFORE", "z = F.normalize(z, dim=1).float()")
    assert confidences(program.replace(" / temperature, same)", " / temperature, same.to(z.device))")) == ["likely"]
    assert confidences(program.replace(" / temperature, same)", " / z.std(), same)")) == []


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("self.body(x)", ["certain"]),
        ("x + self.body(x)", ["likely"]),  # float32 where the input is
        ("(x + self.body(x)).clamp(0, 1)", ["likely"]),
        ("x > self.body(x)", []),
        ("self.body(x).argmax(1)", []),
    ],
)
def test_sums_with_what_is_given(output: str, found: list[str]) -> None:
    assert confidences(RESIDUAL.replace("OUTPUT", output)) == found


def test_inputs_are_no_outputs() -> None:
    program = RESIDUAL.replace("OUTPUT", "self.body(x)")
    assert confidences(program.replace("criterion(net(x), y)", "criterion(x, net(x))")) == []


def test_several_products_of_one_function_are_one_finding() -> None:
    twice = "F.conv2d(wide, self.kernel) ** 2 + F.conv2d(wide, self.kernel.mT) ** 2 - target"
    program = RESIDUAL.replace("OUTPUT", "x + self.body(x)").replace("F.conv2d(wide, self.kernel) - target", twice)
    assert len(confidences(program)) == 1


INPUTS = """\
import torch

def train(model, optimizer):
    model = torch.nn.Linear(2, 2)
    for _ in range(3):
        x = torch.randn(4, 2)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x.float()).sum()
        loss.backward()
        optimizer.step()
"""


def test_an_input_that_is_float32_anyway() -> None:
    assert confidences(INPUTS) == []
    assert confidences(INPUTS.replace("x.float()", "model(x).float()")) == ["certain"]
