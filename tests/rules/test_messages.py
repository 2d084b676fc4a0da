"""A message says what happens to the code, not only what is wrong."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings
from amplint.registry import all_rules

STEP = """
import torch
def train(model, loader, scheduler):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
"""
INSIDE = STEP.replace("        scaler.scale(loss)", "            scaler.scale(loss)")

NORMS = """
import torch


def train(model, optimizer, scaler, loader):
    total = 0.0
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        total += norm.item()
        scaler.step(optimizer)
        scaler.update()
    return total / len(loader)
"""


@pytest.mark.parametrize(
    ("code", "text", "consequence"),
    [
        ("AMP205", "import torch\nwith torch.autocast('cpu', dtype=torch.float64):\n    f()\n", "disables itself"),
        ("AMP301", INSIDE, "can lose precision"),
        (
            "AMP302",
            INSIDE.replace("        scaler.step(", "            scaler.step("),
            "would use the cached old weights",
        ),
        ("AMP305", "import torch\ntorch.autocast('cuda')\nf()\n", "runs in float32"),
        ("AMP412", STEP, "runs ahead of training"),
        ("AMP506", NORMS, "the mean of all norms is inf or NaN too"),
    ],
)
def test_a_message_names_the_consequence(code: str, text: str, consequence: str) -> None:
    assert code in all_rules()
    (found,) = check(text, settings=Settings(frozenset({code}), isolated=True, suspicions=True))
    assert consequence in found.message


ARMS = """
import torch
def train(model, loader, args, start):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    step = 0
    begin = 1
    if args.resume:
        begin = start
    if {skip}:
        return
    for x in loader:
        step += 1
        if step >= args.steps:
            break
        with torch.autocast("cuda"):
            loss = model(x).mean()
        if args.amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("skip", "named"),
    [
        ("begin > args.epochs", "if `args.amp` is false, autocast"),
        ("not step < 3", "if `args.amp` is false, autocast"),
        ("args.amp and args.level > 3", "if `args.amp` is false, autocast"),
        ("args.level > 3", "if `args.amp` is false and `args.level > 3` is false, autocast"),
    ],
)
def test_how_far_a_run_is_is_no_condition_to_name(skip: str, named: str) -> None:
    (found,) = check(ARMS.format(skip=skip), settings=Settings(frozenset({"AMP210"}), isolated=True))
    assert found.message.startswith(named)


CHOSEN = """
import torch
def train(model, loader, args):
    if args.precision == {first}:
        dtype = torch.float16
    elif args.precision == {second}:
        dtype = torch.float32
    else:
        dtype = torch.bfloat16
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_what_equals_none_of_several_is_said_once() -> None:
    settings = Settings(frozenset({"AMP206"}), isolated=True)
    (found,) = check(CHOSEN.format(first="'fp16'", second="'fp32'"), settings=settings)
    assert " if `args.precision` is neither 'fp16' nor 'fp32': " in found.message
    (found,) = check(CHOSEN.format(first="'fp16'", second="'fp16'"), settings=settings)
    assert " if `args.precision != 'fp16'`: " in found.message


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("torch.bfloat16 if args.bf16 else torch.float16", "scaler's: in float16, a resumed run"),
        ("torch.float16", "scaler's: a resumed run"),
    ],
)
def test_a_lost_scale_matters_in_float16(dtype: str, said: str) -> None:
    text = CHOSEN.format(first="'a'", second="'b'").replace(
        "        dtype = torch.float16", f"        dtype = {dtype}", 1
    )
    text = text.replace("dtype=dtype", f"dtype={dtype}")
    text += """    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
def resume(optimizer, model):
    optimizer.load_state_dict(torch.load("last.pt")["optimizer"])
"""
    (found,) = check(text, settings=Settings(frozenset({"AMP413"}), isolated=True, suspicions=True))
    assert said in found.message


TRAINED = """
import torch
def train(model, loader, optimizer, device):
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast({arguments}):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("arguments", "start", "scaler"),
    [
        ('"cpu", dtype=torch.float16', "the loss", '`torch.amp.GradScaler("cpu")`'),
        ('"xpu"', "on xpu, the loss", '`torch.amp.GradScaler("xpu")`'),
        ('"cuda"', "on cuda, the loss", '`torch.amp.GradScaler("cuda")`'),
        (
            'device.type, dtype=torch.float16 if device.type == "mps" else torch.bfloat16',
            "on mps, the loss",
            "`torch.amp.GradScaler(device.type)`",
        ),
    ],
)
def test_the_scaler_is_for_the_device_of_the_region(arguments: str, start: str, scaler: str) -> None:
    settings = Settings(frozenset({"AMP207"}), isolated=True)
    (found,) = check(TRAINED.replace("{arguments}", arguments), settings=settings)
    assert found.message.startswith(start)
    assert found.fix is not None
    assert scaler in found.fix.message


def test_the_device_of_the_settings_is_that_of_a_region_that_names_none() -> None:
    settings = Settings(frozenset({"AMP207"}), isolated=True, device="cpu")
    text = TRAINED.replace("{arguments}", "device, dtype=torch.float16")
    (found,) = check(text, settings=settings)
    assert found.fix is not None
    assert '`torch.amp.GradScaler("cpu")`' in found.fix.message


def test_no_scaler_is_named_that_torch_does_not_have() -> None:
    settings = Settings(frozenset({"AMP207"}), isolated=True, target_torch="2.1")
    (found,) = check(TRAINED.replace("{arguments}", '"cpu", dtype=torch.float16'), settings=settings)
    assert found.fix is not None
    assert "torch>=2.3" in found.fix.message


LOOKED_UP = """
import torch


def train(model, optimizer, loader, config):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[config.dtype]
    scaler = torch.amp.GradScaler("cuda", enabled=config.dtype == "float16")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_what_a_value_is_says_more_than_what_it_is_not() -> None:
    """In bfloat16 the scaler is disabled as well, and that is right."""
    (found,) = check(LOOKED_UP, settings=Settings(frozenset({"AMP210"}), isolated=True))
    assert found.message.startswith("if `config.dtype == 'fp16'`, autocast runs in float16 while the scaler on line 7")
