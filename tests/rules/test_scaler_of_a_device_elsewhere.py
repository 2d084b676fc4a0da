"""AMP201: the device of the regions comes from another file, whose code says which ones there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Severity
from amplint.config.settings import Settings

METHOD = """\
import torch


class Method:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.scaler = torch.amp.GradScaler()
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast({region}):
                loss = torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
MAIN = """\
import torch
from method import Method

{device}
Method(torch.nn.Linear(3, 3).to(device), device).train([])
"""
CUDA_OR_CPU = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
ANY = 'device = torch.device("cuda" if torch.cuda.is_available() else "mps")'
OPTION = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
device = torch.device(parser.parse_args().device)"""
DEFAULT, FLOAT16 = "self.device.type", "self.device.type, dtype=torch.float16"


@pytest.mark.parametrize(
    ("region", "device", "found"),
    [
        (DEFAULT, CUDA_OR_CPU, False),
        (DEFAULT, ANY, True),
        (DEFAULT, OPTION, False),
        (FLOAT16, CUDA_OR_CPU, True),
    ],
)
def test_a_disabled_scaler_does_no_harm_where_the_region_is_bfloat16(
    region: str, device: str, found: bool, project: Callable[[dict[str, str | bytes]], Path]
) -> None:
    files = {"method.py": METHOD.format(region=region), "main.py": MAIN.format(device=device), "setup.cfg": ""}
    root = project(files)
    settings = Settings(frozenset({"AMP201"}), isolated=True)
    said = check((root / "method.py").read_text(), str(root / "method.py"), settings)
    assert bool(said) is found


BY_NAME = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default={default!r})
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
scaler = torch.amp.GradScaler()
model, optimizer = build()
dtype = {dtype}
for x in loader:
    with torch.autocast(device.type, dtype=dtype):
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
CHOICE = "torch.float16 if args.precision == 'half' else torch.bfloat16"
TABLE = "{'half': torch.float16, 'brain': torch.bfloat16}[args.precision]"


@pytest.mark.parametrize("dtype", [CHOICE, TABLE])
def test_a_setting_that_float16_needs_is_named(dtype: str) -> None:
    def found(default: str) -> tuple[str, Severity]:
        settings = Settings(frozenset({"AMP201"}), isolated=True)
        (finding,) = check(BY_NAME.format(default=default, dtype=dtype), settings=settings)
        return finding.message, finding.severity

    message, severity = found("brain")
    assert message.startswith(("if `args.precision == 'half'`, ", "if `args.precision` is 'half', "))
    assert severity is Severity.WARNING
    message, severity = found("half")
    assert not message.startswith("if ")
    assert severity is Severity.ERROR


ARMS = """\
import inspect

import torch


def make(device, on):
    if len(inspect.signature(torch.amp.GradScaler).parameters) >= 1:
        return torch.amp.GradScaler({given}enabled=on)
    return torch.amp.GradScaler(enabled=on)
"""


@pytest.mark.parametrize(("given", "likely"), [("device, ", 0), ("", 2)])
def test_an_arm_for_other_releases_is_a_suspicion(given: str, likely: int) -> None:
    settings = Settings(frozenset({"AMP201"}), isolated=True)
    assert len(check(ARMS.format(given=given), settings=settings)) == likely
