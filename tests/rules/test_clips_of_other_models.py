"""Models that an optimizer doesn't have, and objects that keep a scaler: AMP401, AMP402, AMP206."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding

CLIPS = """\
import torch
from nets import VAE, Converter


def main(loader, criterion):
    vae, other = MAKE, VAE()
    model = Converter()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(vae.encode(x)))
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(WHOSE.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
KEEPS = """\
import torch


class Trainer:
    def __init__(self, optimizer, scaler):
        self.model = optimizer.model
        self.optimizer = optimizer
        self.scaler = scaler

    def fit(self, loader, criterion):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = criterion(self.model(x), y)
            SCALER.scale(loss).backward()
            self.optimizer.step()
"""
TYPES = """\
import torch


def train(model, loader, config, device, criterion):
    optimizer = torch.optim.AdamW(model.parameters())
    enabled = config.amp and device.type in ("cuda", "OTHER")
    dtype = torch.bfloat16 if device.type == "OTHER" else torch.float16
    scaler = torch.amp.GradScaler("cuda", enabled=SWITCH)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=enabled):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def found(text: str, code: str) -> list[Finding]:
    return [each for each in check(text) if each.code == code]


@pytest.mark.parametrize("make", ["VAE()", "VAE().cuda().eval()", "VAE(dim=4).to('cuda')"])
def test_unscale_does_not_divide_what_another_model_has(make: str) -> None:
    text = CLIPS.replace("MAKE, VAE()", f"{make}, 1")
    (finding,) = found(text.replace("WHOSE", "model"), "AMP401")
    assert finding.fix is not None
    text = text.replace(f"vae, other = {make}, 1", f"vae = {make}")
    (finding,) = found(text.replace("WHOSE", "vae"), "AMP401")
    assert finding.fix is None
    assert str(finding.withheld).startswith("`optimizer` has other parameters than those that are clipped here")


@pytest.mark.parametrize("make", ["model.module", "torch.compile(model)", "wrap(model)", "model"])
def test_what_may_be_the_same_model_gets_its_unscale(make: str) -> None:
    text = CLIPS.replace("    vae, other = MAKE, VAE()\n", "").replace(
        "    optimizer =", f"    net = {make}\n    optimizer ="
    )
    (finding,) = found(text.replace("vae.encode(x)", "x").replace("WHOSE", "net"), "AMP401")
    assert finding.fix is not None


def test_an_optimizer_that_keeps_the_scaler_may_step_with_it() -> None:
    assert not found(KEEPS.replace("SCALER", "self.optimizer.scaler"), "AMP402")
    assert found(KEEPS.replace("SCALER", "self.scaler"), "AMP402")


@pytest.mark.parametrize("other", ["xla", "mps", "npu", "musa"])
def test_a_scaler_for_cuda_is_off_on_another_device(other: str) -> None:
    text = TYPES.replace("OTHER", other)
    assert not found(text.replace("SWITCH", 'enabled and device.type == "cuda"'), "AMP206")


def test_a_scaler_that_is_on_there_is_not() -> None:
    assert found(TYPES.replace("OTHER", "xla").replace("SWITCH", "enabled"), "AMP206")
