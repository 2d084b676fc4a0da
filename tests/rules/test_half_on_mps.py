"""AMP207: a region whose dtype depends on the device is float16 on a third one, neither cuda nor the CPU."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
from torch import nn

DEVICE
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for x, y in loader:
    x, y = x.to(device), y.to(device)
    with torch.autocast(TYPE, dtype=DTYPE):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CHOSEN = """\
device = (
    torch.device("cuda") if torch.cuda.is_available()
    else torch.device("mps") if hasattr(torch.backends, "mps") and torch.backends.mps.is_available()
    else torch.device("cpu")
)"""
BY_ARMS = """\
if torch.cuda.is_available():
    device = "cuda"
elif torch.backends.mps.is_available():
    device = "mps"
else:
    device = "cpu\""""
RETURNED = """\
def pick():
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"


device = pick()"""
TWO = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
OPTION = "device = torch.device(args.device)"
HALF_ELSEWHERE = 'torch.bfloat16 if TYPE in ["cuda", "cpu"] else torch.float16'


def codes(device: str, of: str, dtype: str) -> list[str]:
    text = PROGRAM.replace("DEVICE", device).replace("DTYPE", dtype).replace("TYPE", of)
    return [each.code for each in amplint.check(text) if each.code == "AMP207"]


@pytest.mark.parametrize(
    ("device", "of", "dtype"),
    [
        (CHOSEN, "device.type", HALF_ELSEWHERE),
        (BY_ARMS, "device", HALF_ELSEWHERE),
        (RETURNED, "device", HALF_ELSEWHERE),
        (BY_ARMS, "device", 'torch.bfloat16 if TYPE == "cuda" or TYPE == "cpu" else torch.float16'),
        (BY_ARMS, "device", 'torch.float16 if TYPE not in ("cuda", "cpu") else torch.bfloat16'),
        (BY_ARMS, "device", 'torch.bfloat16 if TYPE == "cpu" else torch.float16'),
    ],
)
def test_the_third_device_is_half(device: str, of: str, dtype: str) -> None:
    assert codes(device, of, dtype) == ["AMP207"]


@pytest.mark.parametrize(
    ("device", "of", "dtype"),
    [
        (TWO, "device.type", HALF_ELSEWHERE),
        (OPTION, "device.type", HALF_ELSEWHERE),
        (BY_ARMS, "device", 'torch.bfloat16 if TYPE in ("cuda", "cpu", "mps") else torch.float16'),
        (BY_ARMS, "device", "torch.bfloat16"),
    ],
)
def test_there_is_no_third_device_or_it_is_right(device: str, of: str, dtype: str) -> None:
    assert codes(device, of, dtype) == []
