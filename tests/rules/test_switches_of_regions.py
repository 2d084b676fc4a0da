"""AMP210 and AMP203: what switches a region and its scaler, by settings, parameters and devices."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

SCRIPT = """\
import torch
from somewhere import dtype, eval_only, model, optimizer, batches

kinds = {{"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}}
region = torch.autocast("cuda", dtype=kinds[dtype])
scaler = torch.amp.GradScaler("cuda", enabled=dtype == "{on}")
number = 0
while True:
    if number == 0 and eval_only:
        break
    with region:
        loss = model(next(batches)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    number += 1
"""


@pytest.mark.parametrize(("on", "codes"), [("float32", ["AMP210"]), ("float16", [])])
def test_a_break_before_the_region_is_no_switch(on: str, codes: list[str]) -> None:
    found = check(SCRIPT.format(on=on), settings=Settings(frozenset({"AMP210"}), isolated=True))
    assert [each.code for each in found] == codes


TRAINER = """\
import torch

class Trainer:
    def __init__(self, model, optimizer, use_amp=True):
        self.model, self.optimizer = model, optimizer
        self.use_amp = use_amp
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.use_amp)

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = self.forward(x, y, use_amp={given})
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def validate(self, x, y):
        with torch.inference_mode():
            return self.forward(x, y, use_amp=False)

    def forward(self, x, y, use_amp=None):
        if use_amp is None:
            use_amp = self.use_amp
        with torch.autocast("cuda", dtype=torch.float16, enabled=bool(use_amp)):
            return torch.nn.functional.mse_loss(self.model(x), y)

def main(model, loader):
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.1), use_amp=use_amp)
    for x, y in loader:
        trainer.train(x, y)

if __name__ == "__main__":
    use_amp = False
    main(torch.nn.Linear(3, 3).cuda(), [])
"""


@pytest.mark.parametrize(("given", "codes"), [("self.use_amp", []), ("None", []), ("True", ["AMP210"])])
def test_what_the_call_of_the_forward_gives_switches_its_region(given: str, codes: list[str]) -> None:
    """Not what another call gives, for a validation."""
    found = check(TRAINER.format(given=given), settings=Settings(frozenset({"AMP210"}), isolated=True))
    assert [each.code for each in found] == codes


CHOSEN = """\
import argparse
from contextlib import nullcontext
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bfloat16")
args = parser.parse_args()
device = "cpu"
if torch.cuda.is_available():
    device = "cuda"
{elif_}
dtype = {{"bfloat16": torch.bfloat16, "float16": torch.float16}}[args.dtype]
region = nullcontext() if device == "cpu" else torch.autocast(device, dtype=dtype)
model = torch.nn.Linear(3, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda", enabled=args.dtype == "{on}")
for _ in range(100):
    with region:
        loss = model(torch.randn(3, 3, device=device)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
MPS = 'elif torch.backends.mps.is_available():\n    device = "mps"'


@pytest.mark.parametrize(
    ("elif_", "on", "confidences"),
    [(MPS, "float16", [Confidence.LIKELY]), ("", "float16", []), (MPS, "bfloat16", [])],
)
def test_a_scaler_for_cuda_where_a_setting_makes_another_device_float16(
    elif_: str, on: str, confidences: list[Confidence]
) -> None:
    text = CHOSEN.format(elif_=elif_, on=on)
    found = check(text, settings=Settings(frozenset({"AMP203"}), isolated=True))
    assert [each.confidence for each in found] == confidences


TYPED = """\
import torch
from contextlib import nullcontext

if torch.cuda.is_available():
    device = "cuda"
else:
    device = "{other}"
device_type = "cuda" if {test} else "cpu"
region = torch.autocast(device_type=device_type, dtype=torch.bfloat16)
model = torch.nn.Linear(3, 3).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(100):
    optimizer.zero_grad()
    with {entered}:
        loss = model(torch.randn(3, 3).to(device)).mean()
    loss.backward()
    optimizer.step()
"""
PLAIN, GUARDED = "region", 'nullcontext() if device_type == "cpu" else torch.autocast(device_type, torch.bfloat16)'


@pytest.mark.parametrize(
    ("other", "test", "entered", "count"),
    [
        ("mps", 'device.startswith("cuda")', PLAIN, 1),
        ("mps", '"cuda" in device', PLAIN, 1),
        ("cpu", 'device.startswith("cuda")', PLAIN, 0),
        ("mps", 'device.startswith(("cuda", "mps"))', PLAIN, 0),
        ("mps", 'device.startswith("cuda") or True', PLAIN, 0),
    ],
)
def test_a_device_type_that_knows_cuda_alone(other: str, test: str, entered: str, count: int) -> None:
    text = TYPED.format(other=other, test=test, entered=entered)
    found = check(text, settings=Settings(frozenset({"AMP203"}), isolated=True))
    assert ['on mps `device_type` is "cpu"' in each.message for each in found] == [True] * count


def test_no_region_is_opened_there() -> None:
    text = TYPED.format(other="mps", test='"cuda" in device', entered=GUARDED)
    text = text.replace("region = torch.autocast(device_type=device_type, dtype=torch.bfloat16)\n", "")
    assert not check(text, settings=Settings(frozenset({"AMP203"}), isolated=True))
