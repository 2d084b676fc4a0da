"""Scalers and optimizers of classes of the project: they are what they inherit, or what they use."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from tests.interpreting import Ran, interpret, interpret_file, project

HEAD = """
import torch
from torch import nn
"""
STEP = """
def train(loader, net, head, config):
    optimizer = MADE
    scaler = SCALER
    for batch, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(head(net(x)), y)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
"""
CAPPED = """
class Capped(torch.amp.GradScaler):
    def __init__(self, most, enabled=True):
        super().__init__("cuda", init_scale=128.0, enabled=enabled)
        self.most = most

    def scale(self, outputs):
        if self.get_scale() > self.most:
            self._scale.fill_(self.most)
        return super().scale(outputs)
"""
CLIPS = """
    def step(self, optimizer):
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        return super().step(optimizer)
"""
WRAPS = """
class Slow(torch.optim.Optimizer):
    def __init__(self, fast):
        self.fast = fast
        self.param_groups = fast.param_groups

    def zero_grad(self):
        self.fast.zero_grad()

    def step(self):
        self.fast.step()
"""
COMBINES = """
class Both:
    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for each in self.optimizers:
            each.zero_grad()

    def step(self):
        for each in self.optimizers:
            each.step()
"""
SGD = "torch.optim.SGD(net.parameters(), lr=0.1)"
UNSCALED = "scaler.unscale_(optimizer); nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
CLIP = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"


def ran(classes: str, *, made: str = SGD, clip: str = UNSCALED) -> Ran:
    step = STEP.replace("MADE", made).replace("SCALER", 'torch.amp.GradScaler("cuda")').replace("CLIP", clip)
    (found,) = (each for each in interpret(HEAD + classes + step) if each.step.name == "train")
    return found


def ran_with(folder: Path, scalers: str, made: str, clip: str) -> Ran:
    """The step with a scaler whose class is in another file."""
    step = STEP.replace("MADE", SGD).replace("SCALER", made).replace("CLIP", clip)
    project(folder, scalers=HEAD + scalers, train=HEAD + "from scalers import Capped\n" + step)
    (found,) = interpret_file(folder / "train.py")
    return found


@pytest.mark.parametrize(("clip", "state"), [(UNSCALED, RIGHT), (CLIP, WRONG)])
def test_a_scaler_of_a_class_that_inherits_torchs(tmp_path: Path, clip: str, state: str) -> None:
    assert ran_with(tmp_path, CAPPED, "Capped(4096)", clip).judged.state == state


def test_it_is_off_where_its_constructor_says_so(tmp_path: Path) -> None:
    assert "gradient" not in ran_with(tmp_path, CAPPED, "Capped(4096, enabled=False)", CLIP).shown


def test_one_that_clips_is_not_taken_for_torchs(tmp_path: Path) -> None:
    assert ran_with(tmp_path, CAPPED + CLIPS, "Capped(4096)", "pass").judged.state == UNKNOWN


@pytest.mark.parametrize(("clip", "state"), [(UNSCALED, RIGHT), (CLIP, WRONG)])
@pytest.mark.parametrize(
    ("classes", "made"),
    [(WRAPS, f"Slow({SGD})"), (COMBINES, f"Both({SGD}, torch.optim.AdamW(head.parameters()))")],
    ids=["wraps one", "combines several"],
)
def test_an_object_that_steps_optimizers_is_one(classes: str, made: str, clip: str, state: str) -> None:
    assert ran(classes, made=made, clip=clip).judged.state == state


def test_an_optimizer_whose_step_clips_is_not_taken_for_one() -> None:
    clipping = WRAPS.replace(
        "        self.fast.step()",
        '        nn.utils.clip_grad_norm_(self.fast.param_groups[0]["params"], 1.0)\n        self.fast.step()',
    )
    assert ran(clipping, made=f"Slow({SGD})", clip="pass").judged.state == UNKNOWN


ENGINE = """
def train_epoch(net, loader, optimizer, scaler, schedule):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
"""
MAKER = """
from engine import train_epoch
from schedules import Schedule
from models import Net

def main(loader, args):
    net = Net(args).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    train_epoch(net, loader, optimizer, torch.amp.GradScaler("cuda"), Schedule(optimizer))
"""
SCHEDULES = """
class Schedule:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.param_groups[0]["lr"] *= 0.9
"""
MODELS = """
class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.body = nn.Linear(args.width, 1)
"""


@pytest.mark.parametrize(("clip", "state"), [(UNSCALED, RIGHT), (CLIP, WRONG)])
def test_what_is_asked_of_an_object_leaves_the_step_as_it_was(tmp_path: Path, clip: str, state: str) -> None:
    # Where the schedule comes from was looked up, and the step then had the optimizer of main, and not its model.
    files = {"train": MAKER, "schedules": SCHEDULES, "models": MODELS, "engine": ENGINE.replace("CLIP", clip)}
    project(tmp_path, **{name: HEAD + text for name, text in files.items()})
    (found,) = interpret_file(tmp_path / "engine.py")
    assert found.judged.state == state
