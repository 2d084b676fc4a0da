"""AMP409 of the gradients that `wandb.watch` logs in the backward pass."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

TEXT = """\
import torch
import wandb


def train(args, model, loader, optimizer, scaler, criterion):
    run = wandb.init()
    wandb.watch(model)
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("watch(model)", 'watch(model, log="all")', 1),
        ("watch(model)", 'watch(model, criterion, "gradients")', 1),
        ("wandb.watch", "run.watch", 1),
        # No gradients are logged, they are not scaled, or another library watches.
        ("watch(model)", 'watch(model, log="parameters")', 0),
        ("watch(model)", "watch(model, log=None)", 0),
        ("watch(model)", "watch(model, log=args.log)", 0),
        ("torch.float16", "torch.bfloat16", 0),
        ("scaler.scale(loss).backward()", "loss.backward()", 0),
        ("wandb.watch", "folder.watch", 0),
    ],
)
def test_it_logs_scaled_gradients(old: str, new: str, count: int) -> None:
    assert old in TEXT
    told = check(TEXT.replace(old, new), "train.py", Settings(frozenset({"AMP409"}), isolated=True))
    assert [each.confidence for each in told] == [Confidence.LIKELY] * count


PREPARED = """\
import wandb
from accelerate import Accelerator


def train(model, loader, optimizer, criterion):
    accelerator = Accelerator(mixed_precision={precision!r})
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    wandb.watch(model, log="all")
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(model(x), y))
        optimizer.step()
"""


@pytest.mark.parametrize(("precision", "count"), [("fp16", 1), ("bf16", 0)])
def test_it_logs_gradients_that_accelerate_has_scaled(precision: str, count: int) -> None:
    settings = Settings(frozenset({"AMP409"}), isolated=True)
    assert len(check(PREPARED.format(precision=precision), settings=settings)) == count


OPTIMIZED = """\
import torch


def step(model, {loss}, optimizer, scaler):
    for param in model.parameters():
        param.grad = None
    scaler.scale({loss}).backward()
    scaler.step(optimizer)
    scaler.update()


def train(model, optimizer, loader, writer):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss, _ = model(x)
        step(model, loss, optimizer, scaler)
        for name, param in model.named_parameters():
            writer.add_scalar(name, param.grad.norm())
"""


@pytest.mark.parametrize("loss", ["loss", "loss_opt"])
def test_a_loss_is_no_optimizer_by_its_name(loss: str) -> None:
    """The gradients are read after the step that unscales them."""
    assert not check(OPTIMIZED.format(loss=loss))
