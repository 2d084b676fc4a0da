"""Regions whose class, or dtype, a setting chooses; and what runs in float16 where no scaler is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.judge import RIGHT
from tests.interpreting import Ran, interpret

HEAD = """
import contextlib
import torch
from contextlib import nullcontext
from torch import nn
from torch.amp import GradScaler, autocast


"""
CHOSEN = """
def train(model, loader, optimizer, args):
    scaler = GradScaler("cuda", enabled=args.amp)
    CHOICE
    for x, y in loader:
        optimizer.zero_grad()
        with REGION:
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def ran(choice: str, region: str) -> Ran:
    (found,) = interpret(HEAD + CHOSEN.replace("CHOICE", choice).replace("REGION", region))
    return found


@pytest.mark.parametrize(
    "choice",
    [
        "made = autocast if args.amp else contextlib.nullcontext",
        "made = contextlib.nullcontext if not args.amp else autocast",
        "made = autocast if args.amp else nullcontext",
        "made = nullcontext\n    if args.amp:\n        made = autocast",
    ],
)
def test_a_region_whose_class_a_setting_chooses(choice: str) -> None:
    found = ran(choice, 'made("cuda") if args.amp else made()')
    regions = {where: path.observed.regions for path in found.runs.paths for where in [path.label]}
    assert all(bool(of) is ("not" not in where) for where, of in regions.items())
    assert len(regions) == 2
    assert not found.judged.unseen


TRAIN = """
def train(model, loader, optimizer, args, criterion):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=DTYPE):  # noqa: AMP207
            loss = criterion(model(x), y)
        MORE
        loss.backward()  # noqa: AMP207
        optimizer.step()
"""
CONFIGURED = """
class Config:
    dtype = DTYPE


class Trainer:
    def __init__(self, model, config):
        self.model = model
        self.dtype = config.dtype
        self.optimizer = torch.optim.AdamW(model.parameters())

    def train(self, loader, criterion):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=self.dtype):  # noqa: AMP207
                loss = criterion(self.model(x), y)
            loss.backward()  # noqa: AMP207
            self.optimizer.step()


def main(model, loader, criterion):
    Trainer(model, Config()).train(loader, criterion)
"""


def verdict(text: str, dtype: str, more: str = "pass") -> tuple[str, str]:
    (row,) = amplint.verify(HEAD + text.replace("DTYPE", dtype).replace("MORE", more))
    return row.verdict, row.reason


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        (TRAIN, "torch.float16"),
        (CONFIGURED, "torch.float16"),
        (CONFIGURED, "torch.float16 if torch.cuda.is_available() else torch.float32"),
    ],
)
def test_float16_without_a_scaler_is_not_clean(text: str, dtype: str) -> None:
    found, reason = verdict(text, dtype)
    assert found == "not checkable"
    assert "runs in float16, and no scaler scales the loss" in reason


@pytest.mark.parametrize("text", [TRAIN, CONFIGURED])
def test_bfloat16_needs_no_scaler(text: str) -> None:
    assert verdict(text, "torch.bfloat16") == ("clean", "")


def test_float16_without_gradients_needs_no_scaler() -> None:
    more = "with torch.no_grad(), torch.autocast('cuda', dtype=torch.float16):\n            shown = model(x)"
    assert verdict(TRAIN, "torch.bfloat16", more) == ("clean", "")


def test_a_dtype_out_of_sight_is_said_to_be() -> None:
    found, reason = verdict(TRAIN, "args.dtype")
    assert found == "clean"
    assert "amplint can't see the dtype of the region" in reason


@pytest.mark.parametrize(
    ("dtype", "assumed"),
    [
        ("args.dtype", "args.dtype is float16"),
        ("{'fp16': torch.float16, 'bf16': torch.bfloat16}[args.dtype]", ""),
        ("torch.float16", ""),
    ],
)
def test_the_dtype_that_a_region_out_of_sight_is_taken_to_have_is_named(dtype: str, assumed: str) -> None:
    text = f"""
import torch

def train(model, loader, optimizer, args):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype={dtype}):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
"""
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    (bad,) = interpret(text.replace("CLIP", clip))
    (good,) = interpret(text.replace("CLIP", f"scaler.unscale_(optimizer); {clip}"))
    assert [each.path for each in bad.judged.faults if each.shows == "gradient"] == [assumed]
    assert good.judged.state == RIGHT
    taken = assumed.replace(" is", ": it is taken for")
    assert good.judged.unseen == (f"amplint can't see {taken}" if assumed else "")
