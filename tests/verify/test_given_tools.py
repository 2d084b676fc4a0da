"""Scalers, regions and models that a step is given: they are what the program makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from tests.interpreting import Ran, interpret, interpret_file, project, verdicts

STEP = """
import torch

def train(loader, args, MANAGER):
    model, optimizer = manager.model, manager.optimizer
    scaler = manager.scaler
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if args.amp:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
MANAGER = """
class Manager:
    def __init__(self, args):
        self.model = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
"""
CALLED = "\ndef main(args, loader):\n    train(loader, args, Manager(args))\n"
PASSED_ON = CALLED.replace("Manager(args))", "manager)").replace("    train", "    manager = Manager(args)\n    train")


def ran(text: str) -> Ran:
    (found,) = interpret(text)
    return found


@pytest.mark.parametrize(
    ("param", "call"), [("manager: Manager", ""), ("manager", CALLED), ("manager", PASSED_ON), ("manager", "")]
)
def test_a_scaler_of_a_parameter_is_on_where_the_program_makes_it_so(param: str, call: str) -> None:
    found = ran(STEP.replace("MANAGER", param) + MANAGER + call)
    in_sight = param != "manager" or bool(call)
    assert found.judged.state == (RIGHT if in_sight else WRONG)


def test_a_scaler_that_another_condition_switches_on() -> None:
    made = MANAGER.replace("enabled=args.amp", "enabled=args.scale")
    assert ran(STEP.replace("MANAGER", "manager: Manager") + made).judged.state == WRONG


def test_a_scaler_that_another_file_gives(tmp_path: Path) -> None:
    step = STEP.replace("MANAGER", "scaler, optimizer, model").replace(
        "    model, optimizer = manager.model, manager.optimizer\n    scaler = manager.scaler\n", ""
    )
    main = """
import torch
from step import train

def main(args, loader, model, optimizer):
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    train(loader, args, scaler, optimizer, model)
"""
    project(tmp_path, step=step, main=main)
    assert interpret_file(tmp_path / "step.py")[0].judged.state == RIGHT
    project(tmp_path, main=main.replace("enabled=args.amp", "enabled=True"))
    assert interpret_file(tmp_path / "step.py")[0].judged.state == WRONG


USED = """
import torch

def train(model, optimizer, loader, scaler=None):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        BODY
"""
AFTER = """scaler.scale(loss).backward()
        if TEST:
            scaler.step(optimizer)
        else:
            optimizer.step()
        scaler.update()"""
BEFORE = """if TEST:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        scaler.step(optimizer)
        scaler.update()"""


@pytest.mark.parametrize("body", [AFTER, BEFORE])
@pytest.mark.parametrize("test", ["scaler", "scaler is not None", "not scaler is None"])
def test_what_is_used_as_a_scaler_counts_as_true(body: str, test: str) -> None:
    assert ran(USED.replace("BODY", body.replace("TEST", test))).judged.state == RIGHT


def test_a_step_past_a_scaler_under_another_condition_shows() -> None:
    assert ran(USED.replace("BODY", AFTER.replace("TEST", "loader.ready"))).judged.state == WRONG


DEVICES = """
import torch

def train(model, optimizer, loader, device: torch.device, amp=False):
    MADE
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type=device.type, enabled=amp and device.type in OF):
            loss = torch.nn.functional.mse_loss(model(x), y)
        LATER
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
SCALER = 'scaler = torch.amp.GradScaler(device.type, enabled=amp and device.type == "cuda")'


@pytest.mark.parametrize(("of", "unscaled"), [('("cpu", "cuda")', False), ('("xpu", "cuda")', True)])
def test_a_region_of_the_cpu_is_bfloat16(of: str, unscaled: bool) -> None:
    text = DEVICES.replace("OF", of).replace("MADE", SCALER).replace("LATER", "pass")
    assert bool(ran(text).judged.unscaled) is unscaled


ENGINE = """
def train(model, criterion, loader, optimizer, region, loss_scaler=None):
    for x, y in loader:
        with region():
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        if loss_scaler is not None:
            loss_scaler(loss, optimizer, parameters=model.parameters())
        else:
            loss.backward()
            optimizer.step()
"""
MAIN = """
import contextlib
import torch
from step import train
from timm.utils import NativeScaler

def main(args, model, loader, optimizer):
    region, loss_scaler = contextlib.nullcontext, None
    if args.amp:
        region = GIVEN
        loss_scaler = NativeScaler()
    train(model, torch.nn.CrossEntropyLoss(), loader, optimizer, region, loss_scaler)
"""


@pytest.mark.parametrize(
    ("given", "steps"), [("torch.cuda.amp.autocast", 1), ("torch.autocast", 1), ("contextlib.suppress", 0)]
)
def test_a_region_that_another_file_gives_as_a_function(tmp_path: Path, given: str, steps: int) -> None:
    project(tmp_path, step=ENGINE, main=MAIN.replace("GIVEN", given))
    assert len(interpret_file(tmp_path / "step.py")) == steps


UNPACKED = """
import contextlib
import torch

class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.region, self.scaler = self.setup()

    def setup(self):
        region = contextlib.nullcontext() if self.cfg.cpu else torch.autocast("cuda", dtype=torch.float16)
        return region, torch.amp.GradScaler("cuda", enabled=not self.cfg.cpu)

    def step(self, model, optimizer, x):
        with self.region:
            loss = model(x)
        BACKWARD
        self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad()
"""


def test_a_region_that_is_unpacked_from_a_call_is_entered() -> None:
    right = ran(UNPACKED.replace("BACKWARD", "self.scaler.scale(loss).backward()"))
    assert (right.judged.state, right.judged.unseen) == (RIGHT, "")
    inside = UNPACKED.replace("        BACKWARD", "            self.scaler.scale(loss).backward()")
    assert "autocast-state" in ran(inside).shown


CHOSEN = """
import torch

def get_model_cls(name):
    if name == "small":
        from models import Small
        return Small
    if name == "large":
        from models import Large
        return Large

class Trainer:
    def __init__(self, cfg):
        self.model = get_model_cls(cfg.name)(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.scaler.scale(loss).backward()
            CLIP
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


@pytest.mark.parametrize(
    ("clip", "state"), [("pass", RIGHT), ("torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)", WRONG)]
)
def test_a_class_that_a_function_may_not_return(clip: str, state: str) -> None:
    assert ran(CHOSEN.replace("CLIP", clip)).judged.state == state


def test_a_class_that_a_function_never_returns() -> None:
    text = CHOSEN.replace("return Small", "return None").replace("return Large", "return None").replace("CLIP", "pass")
    judged = ran(text).judged
    assert judged.state == UNKNOWN
    assert "TypeError: 'NoneType' object is not callable" in judged.reason


BOUND = """
import torch

class Trainer:
    def __init__(self, args):
        self.bound = BOUND

    def train(self, model, optimizer, scaler, loader):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            if self.bound > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), self.bound)
            scaler.step(optimizer)
            scaler.update()

class Other:
    def __init__(self, args):
        self.bound = args.bound
"""


@pytest.mark.parametrize(("bound", "state"), [("-1", RIGHT), ("0", RIGHT), ("10", WRONG), ("args.bound", WRONG)])
def test_a_clip_that_an_attribute_switches_off(bound: str, state: str) -> None:
    assert ran(BOUND.replace("BOUND", bound)).judged.state == state


@pytest.mark.parametrize("anew", ["trainer.bound = args.bound", "setattr(trainer, 'bound', args.bound)"])
def test_an_attribute_that_is_set_anew_is_no_constant(anew: str) -> None:
    text = BOUND.replace("BOUND", "-1") + f"\ndef main(args):\n    trainer = Trainer(args)\n    {anew}\n"
    assert ran(text).judged.state == UNKNOWN


def test_a_fault_that_shows_is_said_where_the_fixed_step_is_not_checkable() -> None:
    bad = USED.replace(
        "BODY",
        "scaler.scale(loss).backward()\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "        scaler.step(optimizer)\n        scaler.update()",
    )
    fixed = bad.replace("        scaler.step", "        secret(optimizer, scaler)\n        scaler.step")
    ((_, verdict),) = verdicts(bad, fixed, ["AMP401"], [])
    assert verdict.verdict == "misbehaves"
    assert verdict.reason.startswith("whether the fix repairs it is not checkable: ")


SETTINGS = """
import torch
from settings import FLAGS

def scheduler_of(optimizer):
    if FLAGS.kind == "steps":
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
    elif FLAGS.kind == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
    else:
        raise NotImplementedError(FLAGS.kind)

def main(model, optimizer, loader):
    scheduler = scheduler_of(optimizer)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        BACKWARD
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
"""


@pytest.mark.parametrize(("backward", "state"), [("scaler.scale(loss).backward()", RIGHT), ("loss.backward()", WRONG)])
def test_a_setting_of_an_import_out_of_sight_has_a_value_that_it_is_compared_with(backward: str, state: str) -> None:
    assert ran(SETTINGS.replace("BACKWARD", backward)).judged.state == state


EPOCH = """
import torch

def train_epoch(model, loader, optimizer, amp_enabled=False, scaler=None):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=amp_enabled):
            loss = torch.nn.functional.mse_loss(model(x), y)
        if amp_enabled:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()

def main(args, model, loader):
    amp_on = args.amp and torch.cuda.is_available()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=ENABLED)
    for epoch in range(args.epochs):
        train_epoch(model, loader, optimizer, amp_enabled=amp_on, scaler=scaler)
"""


@pytest.mark.parametrize("enabled", ["amp_on", "args.scale"])
def test_a_scaler_that_is_switched_by_what_its_maker_passes_on(enabled: str) -> None:
    found = ran(EPOCH.replace("ENABLED", enabled))
    assert bool(found.judged.unscaled) == (enabled == "args.scale")
