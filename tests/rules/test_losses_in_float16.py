"""Losses that the code makes float16 itself, and criteria that get half outputs in a disabled region."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Severity
from amplint.config.settings import Settings

CAST = """\
import torch

def distance(features, wanted):
    total = 0
    for one, other in zip(features, wanted):
        total += {term}
    return total

def train(model, loader, optimizer, criterion):
    scaler = torch.amp.GradScaler("cuda"{scale})
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            out = model(x)
            loss = criterion(out, y) + {factor}distance(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("term", "scale", "factor", "severities"),
    [
        ("torch.mean((one - other).float() ** 2).half()", "", "", [Severity.ERROR]),
        ("(one - other).float().abs().sum().to(torch.float16)", "", "", [Severity.ERROR]),
        ("torch.nn.functional.mse_loss(one, other).half()", "", "", [Severity.ERROR]),
        ("torch.mean((one - other).float() ** 2).half()", "", "0.1 * ", [Severity.WARNING]),
        ("torch.mean((one - other).float() ** 2).half()", ", init_scale=64", "", [Severity.WARNING]),
        ("torch.mean((one - other).half() ** 2).float()", "", "", []),
        ("(one - other).abs().mean(dim=1).half().float().sum()", "", "", []),
        ("torch.mean((one - other) ** 2).bfloat16()", "", "", []),
    ],
)
def test_a_loss_that_is_cast(term: str, scale: str, factor: str, severities: list[Severity]) -> None:
    text = CAST.format(term=term, scale=scale, factor=factor)
    found = check(text, settings=Settings(frozenset({"AMP303"}), isolated=True))
    assert [each.severity for each in found if "this cast" in each.message] == severities


DISABLED = """\
import torch

def train(model, criterion, loader, optimizer, device, scaler, **kwargs):
    model.train()
    for x, y in loader:
        with torch.autocast(device_type=str(device)):
            outputs = model(x, y)
        {between}
        with torch.autocast(device_type=str(device), enabled=False):
            losses = {call}
        loss = sum(losses.values())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
{more}
"""
IN_SIGHT = """
class Criterion(torch.nn.Module):
    def forward(self, outputs, targets):
        return {"box": (outputs["boxes"].float() - targets).abs().mean()}

def main(model, loader, optimizer):
    train(model, Criterion(), loader, optimizer, "cuda", torch.amp.GradScaler("cuda"))
"""


@pytest.mark.parametrize(
    ("between", "call", "more", "count"),
    [
        ("pass", "criterion(outputs, y)", "", 1),
        ("pass", "criterion(outputs, y, **kwargs)", "", 1),
        ("outputs = {k: v.float() for k, v in outputs.items()}", "criterion(outputs, y)", "", 0),
        ("pass", "criterion(outputs.float(), y)", "", 0),
        ("pass", "describe(outputs, y)", "", 0),
        ("pass", "criterion(outputs, y)", IN_SIGHT, 0),
    ],
)
def test_a_criterion_in_a_disabled_region(between: str, call: str, more: str, count: int) -> None:
    text = DISABLED.format(between=between, call=call, more=more)
    found = check(text, settings=Settings(frozenset({"AMP311"}), isolated=True))
    assert [each.confidence for each in found] == [Confidence.LIKELY] * count


INVERSION = """\
import torch
from somewhere import make_unet, make_encoder

def train(loader, student):
    unet = make_unet().cuda()
    for p in unet.parameters():
        p.requires_grad = False
    weight = torch.nn.Parameter(torch.randn(8))
    optimizer = torch.optim.AdamW([weight], lr=1e-3)
    for x, noise in loader:
        {step}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        (
            'with torch.autocast("cuda"):\n            pred = unet(x * weight)\n'
            "            loss = torch.nn.functional.mse_loss(pred, noise)",
            ["AMP207"],
        ),
        (
            'with torch.autocast("cuda"):\n            wanted = unet(x)\n'
            "        loss = torch.nn.functional.mse_loss(student(x) * weight, wanted.float())",
            [],
        ),
    ],
)
def test_gradients_flow_through_a_frozen_model_to_what_it_is_given(step: str, codes: list[str]) -> None:
    found = check(INVERSION.format(step=step), settings=Settings(frozenset({"AMP207"}), isolated=True))
    assert [each.code for each in found] == codes
