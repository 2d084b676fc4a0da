"""AMP210 and regions of an old class that the device chooses: `torch.cuda.amp.autocast` or `torch.cpu.amp.autocast`."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP202", "AMP203", "AMP205", "AMP210", "AMP211"}), isolated=True, target_torch="2.3")
PROGRAM = """\
import torch
from torch.cuda.amp import GradScaler


def train(model, loader, criterion, optimizer, args):
    device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
    dtype = torch.float16 if args.amp_dtype == "fp16" else torch.bfloat16
    scaler = GradScaler(SWITCH)
    autocast = torch.cuda.amp.autocast if device.type == "cuda" else torch.cpu.amp.autocast
    for x, y in loader:
        optimizer.zero_grad()
        with autocast(GIVEN):
            loss = criterion(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
ON_CUDA = 'enabled=device.type == "cuda"'


def found(switch: str, given: str, program: str = PROGRAM) -> list[tuple[str, str]]:
    text = program.replace("SWITCH", switch).replace("GIVEN", given)
    return [(each.code, each.confidence.value) for each in check(text, "a.py", SETTINGS)]


@pytest.mark.parametrize("given", ["dtype=torch.float16", "True, torch.float16"])
def test_float16_on_the_cpu_without_a_scaler(given: str) -> None:
    assert found(ON_CUDA, given) == [("AMP210", "certain")]


def test_a_dtype_that_a_setting_chooses() -> None:
    assert found(ON_CUDA, "dtype=dtype") == [("AMP210", "likely")]


@pytest.mark.parametrize(
    "given",
    [
        "",  # the CPU's default is bfloat16
        "dtype=torch.bfloat16",
        ON_CUDA + ", dtype=torch.float16",
        "enabled=args.amp and device.type == 'cuda', dtype=torch.float16",
        "enabled=args.amp, dtype=torch.float16",  # a flag that may be on with cuda only
    ],
)
def test_what_is_float16_on_cuda_only(given: str) -> None:
    assert found(ON_CUDA, given) == []


def test_a_class_that_is_not_one_of_torchs() -> None:
    program = PROGRAM.replace("torch.cpu.amp.autocast", "contextlib.nullcontext").replace(
        "import torch\n", "import contextlib\nimport torch\n", 1
    )
    assert found(ON_CUDA, "", program) == []


def test_the_dtype_of_the_cpu_in_an_arm_of_its_own() -> None:
    program = PROGRAM.replace('if args.amp_dtype == "fp16"', 'if device.type == "cuda"')
    assert found(ON_CUDA, "dtype=dtype", program) == []
