"""The condition that AMP210 names is one of AMP or of the device, where there is one."""

from __future__ import annotations

import pytest

from amplint import check, make_settings

TWO_DEVICES = """\
import torch


device = torch.device("cuda" if torch.cuda.is_available() else "mps")
MIXED = device.type in ("cuda", "mps")


def train(model, data, criterion, optimizer, scaler=None, use_mixed_precision=False):
    for x, y in data:
        optimizer.zero_grad()
        if use_mixed_precision:
            if device.type == "cuda" and scaler is not None:
                with torch.autocast("cuda"):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            elif device.type == "mps":
                with torch.autocast("mps", dtype=torch.float16):
                    loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
        else:
            criterion(model(x), y).backward()
            optimizer.step()


def main(build, epochs):
    dataset, model, criterion, optimizer = build()
    if len(dataset) == 0:
        raise ValueError("no data")
    scaler = None
    use_mixed_precision = MIXED
    if use_mixed_precision:
        if device.type == "cuda":
            scaler = torch.amp.GradScaler("cuda")
    for _ in range(epochs):
        train(model, dataset, criterion, optimizer, scaler, use_mixed_precision)
"""


def test_what_is_not_about_amp_is_not_said() -> None:
    (finding,) = (each for each in check(TWO_DEVICES) if each.code == "AMP210")
    assert finding.message.startswith("on mps, autocast runs in float16 while the backward pass on line")


SUPPORTED = """\
import torch

dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
chosen = {"bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
region = torch.amp.autocast(device_type="cuda", dtype=chosen)
scaler = torch.amp.GradScaler(enabled=False)


def train(model, optimizer, loader):
    for x, y in loader:
        with region:
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
WHOLLY = SUPPORTED.replace("is_bf16_supported()", "is_bf16_supported(including_emulation=False)")


@pytest.mark.parametrize(
    ("text", "torch", "condition"),
    [
        (SUPPORTED, "2.3", "`torch.cuda.is_bf16_supported()`"),
        (WHOLLY, "2.4", "`torch.cuda.is_bf16_supported(including_emulation=False)`"),
    ],
)
def test_the_condition_of_the_dtype_is_said_where_the_scaler_is_always_off(
    text: str, torch: str, condition: str
) -> None:
    said = [
        each.message.partition(",")[0]
        for each in check(text, settings=make_settings(target_torch=torch))
        if each.code == "AMP210"
    ]
    assert said == [f"if {condition} is false"]


def test_since_torch_2_4_each_cuda_device_supports_bfloat16() -> None:
    """By emulation, which counts unless the caller says otherwise."""
    assert [
        each for each in check(SUPPORTED, settings=make_settings(target_torch="2.4")) if each.code == "AMP210"
    ] == []


GUARDED = """\
import argparse
import torch


def train(model, loader, device, optimizer, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type=device.type, enabled=device.type in {{"cuda", "mps"}}):
            loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--init-from")
    args = parser.parse_args()
    device = torch.device(args.device)
    model = torch.nn.Linear(3, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler(enabled=device.type == "cuda")
    if {test}:
        raise ValueError("not these")
    train(model, [], device, optimizer, scaler)


main()
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("args.init_from is not None and find_latest() is not None", True),  # None of it: it goes on
        ("not supported(device)", False),  # it may be asked for mps
    ],
)
def test_what_a_guard_asks_of_other_things_hides_nothing(test: str, found: bool) -> None:
    said = [each for each in check(GUARDED.format(test=test)) if each.code == "AMP210"]
    assert bool(said) is found
