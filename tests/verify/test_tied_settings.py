"""What a call gives a step along with a scaler that hangs on it: no run has one of them without the other."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests import some
from tests.interpreting import Ran, interpret, interpret_file, project

STEP = """
import torch

def train(model, loader, optimizer, scaler, use_amp):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=use_amp):
            loss = torch.nn.functional.mse_loss(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""
MAIN = """
def main(args, model, loader):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    MADE
    for epoch in range(args.epochs):
        train(model, loader, optimizer, GIVEN)
"""
ONE_OR_NONE = 'scaler = torch.amp.GradScaler("cuda") if args.amp and device.startswith("cuda") else None'
TIED = {
    "by place": (ONE_OR_NONE, "scaler, args.amp"),
    "by name": (ONE_OR_NONE, "use_amp=args.amp, scaler=scaler"),
    "None first": (
        'scaler = None\n    if args.amp:\n        scaler = torch.amp.GradScaler("cuda")',
        "scaler, args.amp",
    ),
    "None else": (
        'if args.amp:\n        scaler = torch.amp.GradScaler("cuda")\n    else:\n        scaler = None',
        "scaler, args.amp",
    ),
    "a variable": (
        'amp = args.amp\n    scaler = torch.amp.GradScaler("cuda") if amp else None', "scaler, amp",
    ),
    "turned round": ('scaler = None if args.fp32 else torch.amp.GradScaler("cuda")', "scaler, not args.fp32"),
    "a variable of its own": (
        'scales = args.amp and device == "cuda"\n    scaler = torch.amp.GradScaler("cuda", enabled=scales)',
        "scaler, args.amp",
    ),
    "its switch": ('scaler = torch.amp.GradScaler("cuda", enabled=args.amp)', "scaler, args.amp"),
}  # fmt: skip
CLASS = """
import torch

class NativeScaler:
    def __init__(self, fp32=False):
        self._scaler = torch.amp.GradScaler("cuda", enabled=not fp32)

    def __call__(self, loss, optimizer, parameters=None):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()
"""
ENGINE = """
import torch

def train(model, loader, optimizer, loss_scaler, args=None, fp32=False):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=not fp32):
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss_scaler(loss, optimizer, parameters=model.parameters())
"""
RUN = """
import torch
from scaling import NativeScaler
from engine import train

def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_scaler = NativeScaler(fp32=args.fp32)
    for epoch in range(args.epochs):
        train(model, loader, optimizer, loss_scaler=loss_scaler, args=args, fp32=GIVEN)
"""


def ran(made: str, given: str) -> Ran:
    (found,) = interpret(STEP + MAIN.replace("MADE", made).replace("GIVEN", given))
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TIED)
def test_a_scaler_is_there_where_its_setting_is_on(name: str) -> None:
    found = ran(*TIED[name])
    assert (found.judged.state, found.judged.reason, found.judged.unscaled) == ("right", "", "")


@pytest.mark.parametrize("given", ["scaler, args.half", "scaler, True"])
def test_another_setting_may_be_on_without_a_scaler(given: str) -> None:
    assert "runs in float16, and no scaler scales the loss" in ran(ONE_OR_NONE, given).judged.unscaled


@pytest.mark.parametrize(("given", "unscaled"), [("args.fp32", False), ("args.single", True)])
def test_a_class_with_a_scaler_in_another_file(tmp_path: Path, given: str, unscaled: bool) -> None:
    folder = project(tmp_path, scaling=CLASS, engine=ENGINE, run=RUN.replace("GIVEN", given))
    (found,) = interpret_file(folder / "engine.py")
    assert (found.judged.state, bool(found.judged.unscaled)) == ("right", unscaled), found.judged


ITERATION = """
import torch

def train_iter(model, optimizer, clip, use_amp, scaler, x, y):
    optimizer.zero_grad()
    with torch.autocast("cuda", enabled=use_amp):
        loss = torch.nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    if clip is not None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()

def train_epoch(model, optimizer, clip, use_amp, scaler, loader):
    for x, y in loader:
        train_iter(model, optimizer, clip, use_amp, scaler, x, y)
"""
BEGIN = """
import torch
from iteration import train_epoch

def main(args, settings, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp = settings.get("amp", False)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for epoch in range(args.epochs):
        train_epoch(model, optimizer, args.clip, GIVEN, scaler, loader)
"""


@pytest.mark.parametrize(("given", "unscaled"), [("amp", False), ("args.single", True)])
def test_what_a_function_passes_on_that_another_file_gives_it(tmp_path: Path, given: str, unscaled: bool) -> None:
    folder = project(tmp_path, iteration=ITERATION, run=BEGIN.replace("GIVEN", given))
    (found,) = interpret_file(folder / "iteration.py")
    assert bool(found.judged.unscaled) is unscaled, found.judged


FALLBACK = """
import torch

def forward_step(model, x, y, device, optimizer, scaler, use_amp=True):
    optimizer.zero_grad()
    with torch.autocast(device_type="cuda" if device == "cuda" else "cpu", enabled=(device == "cuda" and use_amp)):
        loss = torch.nn.functional.mse_loss(model(x), y)
    if scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()

def run_epoch(model, loader, devices, optimizer=None, scaler=None, use_amp=True):
    for x, y in loader:
        device = devices.current()
        try:
            forward_step(model, x, y, device, optimizer, scaler if CONDITION else None, use_amp=use_amp)
        except RuntimeError:
            device = "cpu"
            forward_step(model, x, y, device, optimizer, None, use_amp=use_amp)

def main(args, model, loader, devices):
    use_amp = args.arch != "span"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    for epoch in range(args.epochs):
        run_epoch(model, loader, devices, optimizer=optimizer, scaler=scaler, use_amp=use_amp)
        run_epoch(model, loader, devices, optimizer=None, scaler=None, use_amp=use_amp)
"""


@pytest.mark.parametrize(("condition", "unscaled"), [('device == "cuda"', False), ("devices.scales", True)])
def test_a_scaler_that_a_call_gives_under_a_condition(condition: str, unscaled: bool) -> None:
    found = interpret(FALLBACK.replace("CONDITION", condition))
    assert [bool(each.judged.unscaled) for each in found] == [unscaled], found


DTYPES = {"none": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}
TABLE = "{" + ", ".join(f'"{key}": {dtype}' for key, dtype in DTYPES.items()) + "}"
BY_TABLE = """
import torch

def train(args, model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda", enabled=ENABLED)
    dtype = TAKEN
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


ORDERS = ("scaler first", "table first")
TAKEN = (f"{TABLE}[args.dtype]", f"{TABLE}.get(args.dtype)", "DTYPES[args.dtype]")
SCALES = (("args.dtype == 'fp16'", False), ("args.dtype != 'none'", False), ("args.amp", True))


@pytest.mark.parametrize(
    ("order", "taken", "enabled", "unscaled"),
    # Each pair in one order; with AMPLINT_TEST_ALL=1 in both.
    [each for taken in TAKEN for scales in SCALES for each in some([(order, taken, *scales) for order in ORDERS], 1)],
)
def test_a_dtype_of_a_table_and_a_scaler_by_the_same_setting(
    order: str, taken: str, enabled: str, unscaled: bool
) -> None:
    text = BY_TABLE.replace("ENABLED", enabled).replace("TAKEN", taken)
    if order == "table first":
        lines = text.splitlines()
        lines[4], lines[5] = lines[5], lines[4]
        text = "\n".join(lines)
    (found,) = interpret(f"{text}\nDTYPES = {TABLE}\n")
    assert bool(found.judged.unscaled) is unscaled


def test_each_dtype_of_a_table_is_run() -> None:
    text = BY_TABLE.replace("ENABLED", "args.dtype == 'fp16'").replace("TAKEN", f"{TABLE}[args.dtype]")
    (found,) = interpret(text)
    regions = {each for path in found.runs.paths for each in path.observed.regions}
    assert {"cuda float16", "cuda bfloat16"} <= regions
    assert len(found.runs.paths) == len(DTYPES)


SPELLINGS = ('args["amp"]', "args.amp", 'args.get("amp")', 'args.get("amp", False)')


@pytest.mark.sampled(6)
@pytest.mark.parametrize("made", SPELLINGS)
@pytest.mark.parametrize("given", SPELLINGS)
def test_one_setting_however_it_is_written(made: str, given: str) -> None:
    found = ran(f'scaler = torch.amp.GradScaler("cuda", enabled={made})', f"scaler, {given}")
    assert (found.judged.state, found.judged.unscaled) == ("right", "")


@pytest.mark.parametrize("given", ['args["half"]', 'args.get("half")', 'args["train"]["amp"]'])
def test_another_key_is_another_setting(given: str) -> None:
    found = ran('scaler = torch.amp.GradScaler("cuda", enabled=args["amp"])', f"scaler, {given}")
    assert "runs in float16, and no scaler scales the loss" in found.judged.unscaled


METHOD = """
import torch

class Method:
    def __init__(self, model, cfg):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=cfg.get("lr", 0.1))
        self.scaler = torch.amp.GradScaler("cuda", enabled=MADE)
        self.fp16 = GIVEN

    def observe(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", enabled=self.fp16):
            loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
READ = ('cfg.get("fp16", False)', 'cfg["fp16"]', "cfg.fp16")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("made", "given", "unscaled"),
    [*((made, given, False) for made in READ for given in READ), (READ[0], 'cfg.get("half", False)', True)],
)
def test_a_setting_that_a_constructor_reads_twice(made: str, given: str, unscaled: bool) -> None:
    (found,) = interpret(METHOD.replace("MADE", made).replace("GIVEN", given))
    assert bool(found.judged.unscaled) is unscaled


BY_DTYPE = """
import torch

def train(model, loader, optimizer, scaler=None, amp_dtype=torch.float16):
    for x, y in loader:
        optimizer.zero_grad()
        if scaler is not None:
            with torch.autocast("cuda", dtype=amp_dtype):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()

def main(model, loader, args):
    on_cuda = torch.cuda.is_available()
    dtype = DTYPE
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scales = on_cuda and SCALES
    scaler = torch.amp.GradScaler("cuda", enabled=scales) if on_cuda else None
    for epoch in range(3):
        train(model, loader, optimizer, scaler=scaler, amp_dtype=dtype)
"""
EITHER_DTYPE = "torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16"


@pytest.mark.parametrize(
    ("dtype", "scales", "unscaled"),
    [
        (EITHER_DTYPE, "dtype == torch.float16", False),
        ("torch.bfloat16", "False", False),
        ("torch.bfloat16 if args.bf16 else torch.float16", "not args.bf16", False),
        (EITHER_DTYPE, "args.scales", True),
        ("torch.float16", "False", True),
    ],
)
def test_a_scaler_and_a_dtype_that_one_call_gives(dtype: str, scales: str, unscaled: bool) -> None:
    (found,) = interpret(BY_DTYPE.replace("DTYPE", dtype).replace("SCALES", scales))
    assert (found.judged.state, bool(found.judged.unscaled)) == ("right", unscaled), found.judged


TRAINER = """
import torch

class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.use_amp = False
        self.scaler = torch.amp.GradScaler("cuda", enabled=False)

    def prepare(self, use_amp=False):
        self.use_amp = False
        if use_amp:
            self.use_amp = True
            SCALER
        else:
            self.scaler = torch.amp.GradScaler("cuda", enabled=False)

    def train(self, loader):
        on = bool(self.use_amp and self.scaler is not None)
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=on):
                loss = torch.nn.functional.mse_loss(self.model(x), y)
            if on and self.scaler is not None:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("scaler", "unscaled"),
    [
        ('self.scaler = torch.amp.GradScaler("cuda", enabled=True)', False),
        ('self.scaler = torch.amp.GradScaler("cuda")', False),
        ('self.scaler = torch.amp.GradScaler("cuda", enabled=False)', True),
        ("self.half = True", True),
    ],
)
def test_a_flag_and_a_scaler_that_one_method_sets(scaler: str, unscaled: bool) -> None:
    (found,) = interpret(TRAINER.replace("SCALER", scaler))
    assert (found.judged.state, bool(found.judged.unscaled)) == ("right", unscaled), found.judged
