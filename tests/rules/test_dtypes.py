"""AMP203 to AMP213: where the code trains, in which dtype, and whether scaler and region agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import Severity, check, fix
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

CODES = frozenset({"AMP203", "AMP205", "AMP206", "AMP207", "AMP208", "AMP209", "AMP210", "AMP213"})
SETTINGS = Settings(CODES, isolated=True)


def found(text: str, settings: Settings = SETTINGS) -> list[str]:
    return [each.code for each in check(text, "train.py", settings)]


STEP = """
import torch
from contextlib import nullcontext
from torch.cuda.amp import autocast, GradScaler

def train(model, loader, args, use_amp, device, ctx):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {made}
    for x, y in loader:
        {before}
        with {region}:
            loss = model(x).mean()
        {after}
"""
SCALED = """scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()"""
PLAIN = """loss.backward()
        optimizer.step()"""


def step(made: str, region: str, after: str = SCALED, before: str = "optimizer.zero_grad()") -> str:
    return STEP.format(made=made, region=region, after=after, before=before)


@pytest.mark.parametrize(
    ("made", "region"),
    [
        ("scaler = GradScaler(enabled=args.amp)", "autocast()"),
        ("scaler = GradScaler(enabled=args.amp)", "torch.autocast('cuda')"),
        ("scaler = GradScaler(enabled=args.amp)", "torch.autocast(device.type, dtype=torch.half)"),
        ("scaler = GradScaler(enabled=False)", "autocast(enabled=use_amp)"),
        ("scaler = GradScaler(enabled=args.amp)", "autocast() if args.amp or args.half else nullcontext()"),
        ("scaler = GradScaler(enabled=not args.bf16)",
         "torch.autocast('cuda', torch.float16 if args.bf16 else torch.bfloat16)"),
        ("scaler = GradScaler(enabled=device.type == 'cuda')", "torch.autocast(device.type, dtype=torch.float16)"),
        ("scaler = GradScaler(enabled=args.scale)", "autocast(enabled=args.amp)"),
    ],
)  # fmt: skip
def test_a_region_that_is_on_without_the_scaler(made: str, region: str) -> None:
    assert "AMP210" in found(step(made, region))


@pytest.mark.parametrize(
    ("made", "region"),
    [
        ("scaler = GradScaler(enabled=args.amp)", "autocast(enabled=args.amp)"),
        ("scaler = GradScaler(enabled=args.amp)", "autocast(args.amp)"),
        ("scaler = GradScaler(enabled=args.amp)", "autocast() if args.amp else nullcontext()"),
        ("scaler = GradScaler(enabled=args.amp)", "autocast(enabled=args.amp and args.fast)"),
        ("scaler = GradScaler(enabled=args.amp or args.fast)", "autocast(enabled=args.amp)"),
        ("scaler = GradScaler(enabled=use_amp)", "autocast(enabled=args.amp)"),  # they may be one
        ("scaler = GradScaler(enabled=args.amp)", "torch.autocast('cuda', dtype=args.dtype)"),
        ("scaler = GradScaler(enabled=args.amp)", "torch.autocast('cuda', dtype=torch.bfloat16, enabled=args.amp)"),
        ("scaler = GradScaler(enabled=torch.cuda.is_available())", "autocast()"),
        ("scaler = GradScaler(enabled=torch.cuda.is_available())", "torch.autocast(device.type)"),
        ("scaler = GradScaler(enabled=args.amp)", "ctx"),
        ("scaler = GradScaler(**args.scaler)", "autocast()"),
        ("scaler = args.scaler", "autocast()"),
    ],
)
def test_switches_that_agree_or_of_which_that_can_not_be_told(made: str, region: str) -> None:
    assert "AMP210" not in found(step(made, region))


ARMS = """
import torch
from mine import SAM
from torch.cuda.amp import autocast, GradScaler

def train(cfg, model, optimizer, loader, scaler):
    for i, x in enumerate(loader):
        with autocast({region}):
            loss = model(x).mean()
        if {test}:
            loss.backward()
            {step}
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

def main(cfg, model, loader):
    scaler = GradScaler()
    train(cfg, model, make_optimizer(cfg, model), loader, scaler)
"""
OTHER = "cfg.optimizer == 'sam'"
FIRST = "optimizer.first_step(zero_grad=True)"


@pytest.mark.parametrize(
    ("region", "test", "step", "wanted"),
    [
        ("enabled=cfg.amp", OTHER, FIRST, Confidence.LIKELY),
        ("enabled=cfg.amp", OTHER, "optimizer.second_step()", Confidence.LIKELY),
        ("", "isinstance(optimizer, SAM)", FIRST, Confidence.LIKELY),
        ("enabled=cfg.amp", OTHER, "optimizer.step()", Confidence.LIKELY),
        ("", OTHER, FIRST, Confidence.LIKELY),
        ("", OTHER, "optimizer.step()", Confidence.CERTAIN),
        ("", OTHER, "optimizer.step(closure)", Confidence.CERTAIN),
        # There the region is off, or nothing steps.
        ("enabled=cfg.amp", "not cfg.amp", FIRST, None),
        ("enabled=cfg.amp", "not scaler.is_enabled()", FIRST, None),
        ("enabled=cfg.optimizer != 'sam'", OTHER, FIRST, None),
        ("dtype=torch.bfloat16", OTHER, FIRST, None),
        ("", OTHER, "optimizer.first_stage()", None),
        ("", OTHER, "cfg.first_step()", None),
    ],
)
def test_an_arm_for_another_optimizer_goes_without_the_scaler(
    region: str, test: str, step: str, wanted: Confidence | None
) -> None:
    text = ARMS.format(region=region, test=test, step=step)
    told = [each.confidence for each in check(text, "train.py", SETTINGS) if each.code == "AMP210"]
    assert told == ([wanted] if wanted is not None else [])


OWN = """
class Twice(torch.optim.Optimizer):
    def advance(self):
        self.inner.step()

    def wait(self):
        self.inner.zero_grad()
"""


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ("optimizer.first_step()", [Confidence.LIKELY]),
        ("optimizer.advance()", [Confidence.CERTAIN]),
        ("optimizer.wait()", []),
    ],
)
def test_a_method_of_an_optimizer_may_be_its_step(step: str, wanted: list[Confidence]) -> None:
    text = (
        f"import torch\n{OWN}\ndef train(model, loader):\n    optimizer = Twice(model.parameters(), {{}})\n"
        "    for x in loader:\n        with torch.autocast('cuda'):\n            loss = model(x).mean()\n"
        f"        loss.backward()\n        {step}\n"
    )
    assert [(each.code, each.confidence) for each in check(text, "train.py", SETTINGS)] == [
        ("AMP207", each) for each in wanted
    ]


NAMED = "dtype = {'full': torch.float32, 'bfloat16': torch.bfloat16, 'float16': torch.float16}[args.dtype]"


@pytest.mark.parametrize(
    ("dtype", "enabled", "wanted"),
    [
        (NAMED, "args.dtype == 'bfloat16'", ["AMP210"]),
        (NAMED, "(dtype == torch.bfloat16)", ["AMP210"]),
        (NAMED, "dtype is not torch.float16", ["AMP210"]),
        (NAMED, "True if args.dtype == 'bfloat16' else False", ["AMP210"]),
        ("dtype = torch.bfloat16 if args.bf16 else torch.float16", "args.bf16", ["AMP210"]),
        ("dtype = getattr(torch, args.dtype)", "args.dtype == 'bfloat16'", ["AMP206"]),
        ("dtype = args.dtype", "dtype == torch.bfloat16", ["AMP206"]),
        (NAMED, "args.dtype == 'float16'", []),
        (NAMED, "dtype == torch.float16", []),
        (NAMED, "args.dtype != 'bfloat16'", []),
        ("dtype = torch.bfloat16 if args.bf16 else torch.float16", "not args.bf16", []),
        ("dtype = args.dtype", "dtype == torch.float16", []),
        ("dtype = args.dtype", "args.scale", []),
    ],
)
def test_a_scaler_that_is_on_in_the_other_half_type(dtype: str, enabled: str, wanted: list[str]) -> None:
    text = step(f"{dtype}\n    scaler = GradScaler(enabled={enabled})", "torch.autocast('cuda', dtype=dtype)")
    assert found(text) == wanted


SET_UP = """
import torch
from contextlib import nullcontext

class Trainer:
    def __init__(self, config, model):
        self.config = config
        self.model = model
        self.dtype = {{"bfloat16": torch.bfloat16, "float16": torch.float16}}[config.dtype]
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = {before}
        self.region = None

    def set_up(self):
        if self.config.amp:
            self.scaler = torch.amp.GradScaler("cuda", enabled=self.config.dtype == "{on}")
            self.region = torch.autocast("cuda", dtype=self.dtype)

    def train(self, loader):
        self.set_up()
        for x in loader:
            with self.region:
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

if __name__ == "__main__":
    Trainer(config, model).train(loader)
"""


@pytest.mark.parametrize(
    ("on", "before", "wanted"),
    [("bfloat16", "None", True), ("float16", "None", False), ("bfloat16", "config.scaler", False)],
)
def test_what_is_none_until_another_method_makes_it_is_what_that_makes(on: str, before: str, wanted: bool) -> None:
    assert ("AMP210" in found(SET_UP.format(on=on, before=before))) is wanted


@pytest.mark.parametrize(
    ("region", "after", "wanted"),
    [
        ("autocast()", PLAIN, True),
        ("torch.autocast('xpu')", PLAIN, True),
        ("torch.autocast(device, dtype=torch.float16, enabled=use_amp)", PLAIN, True),
        ("torch.autocast(device, dtype=getattr(torch, 'float16'))", PLAIN, True),
        ("autocast() if use_amp else nullcontext()", PLAIN, True),
        ("autocast(dtype=torch.bfloat16)", PLAIN, False),
        ("autocast(enabled=False)", PLAIN, False),
        ("torch.autocast(device, dtype=args.dtype)", PLAIN, False),
        ("torch.autocast(device)", PLAIN, True),  # likely: on cuda
        ("torch.no_grad(), autocast()", PLAIN, False),
        ("autocast()", "loss.backward()", False),
        ("autocast()", "(args.loss_scale * loss).backward()\n        optimizer.step()", False),
        ("autocast()", "args.engine.backward(loss)\n        optimizer.step()", False),
        ("autocast()", "loss.detach().requires_grad_().backward()\n        optimizer.step()", False),
    ],
)
def test_float16_without_a_scaler(region: str, after: str, wanted: bool) -> None:
    text = step("pass", region, after).replace(", GradScaler", "")
    assert ("AMP207" in found(text)) is wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("# TODO: use a GradScaler, as accelerate does", True),
        ('"""Trains without a scaler."""', True),
        ("from sklearn.preprocessing import StandardScaler\nscaler = StandardScaler()", True),
        (
            "import sklearn.preprocessing as pre\n\n"
            "class Data:\n    def __init__(self):\n        self.scaler = pre.MinMaxScaler()",
            True,
        ),
        ("from mine import Scaler\nscaler = Scaler()", True),
        ("from sklearn.preprocessing import StandardScaler\nfrom mine import loss_scaler", True),
        ("import deepspeed", True),
        ("def other(scaler, loss):\n    scaler.scale(loss).backward()", True),
        ("def run(model, loader, loss_scale):\n    train(model, loader, loss_scale)", False),
    ],
)
def test_only_code_that_may_scale_a_loss_silences_float16_without_a_scaler(words: str, wanted: bool) -> None:
    text = step("pass", "autocast()", PLAIN).replace(", GradScaler", "")
    assert ("AMP207" in found(f"{words}\n{text}")) is wanted


@pytest.mark.parametrize(
    ("used", "wanted"),
    [
        ("loss = mine.loss_scaler(loss)", False),
        ("mine.accelerator.log(loss)", False),
        ("mine.log(loss)", True),
    ],
)
def test_what_the_function_of_a_backward_calls_may_scale_its_loss(used: str, wanted: bool) -> None:
    text = step("import mine", "autocast()", f"{used}\n        {PLAIN}").replace(", GradScaler", "")
    assert ("AMP207" in found(text)) is wanted


@pytest.mark.parametrize(
    ("made", "region", "wanted"),
    [
        ("scaler = GradScaler()", "autocast(dtype=torch.bfloat16)", True),
        ("scaler = GradScaler(enabled=args.amp)", "torch.autocast('cuda', torch.bfloat16, args.amp)", True),
        ("scaler = GradScaler()", "torch.autocast('cpu')", True),
        ("scaler = GradScaler(enabled=args.fp16)", "autocast(dtype=torch.bfloat16)", True),  # whatever the option says
        ("scaler = GradScaler(enabled=not args.amp)", "autocast(args.amp, torch.bfloat16)", False),
        ("scaler = GradScaler()", "autocast(dtype=torch.bfloat16 if args.bf16 else torch.float16)", True),
        (
            "scaler = GradScaler(enabled=not args.bf16)",
            "autocast(dtype=torch.bfloat16 if args.bf16 else torch.half)",
            False,
        ),
        (
            "scaler = GradScaler(enabled=args.fp16)",
            "autocast(dtype=torch.bfloat16 if args.bf16 else torch.half)",
            False,
        ),
        (
            "scaler = GradScaler(enabled=args.bf16)",
            "autocast(dtype=torch.bfloat16 if args.bf16 else torch.half)",
            False,
        ),
        ("scaler = GradScaler()", "autocast(dtype=args.dtype)", False),
        ("scaler = GradScaler()", "ctx", False),
        ("scaler = GradScaler()", "torch.autocast(device.type)", False),
    ],
)
def test_a_scaler_with_bfloat16(made: str, region: str, wanted: bool) -> None:
    assert ("AMP206" in found(step(made, region))) is wanted


def test_a_scaler_whose_arguments_may_hold_enabled_already_is_not_given_another() -> None:
    text = step("scaler = GradScaler(65536.0, 2.0, 0.5, 2000, True)", "torch.autocast('cuda', dtype=torch.bfloat16)")
    assert [each.fix for each in check(text, "train.py", SETTINGS) if each.code == "AMP206"] == [None]


@pytest.mark.parametrize(
    ("region", "wanted"),
    [
        ("torch.autocast('mps', dtype=torch.float64)", True),
        ("torch.autocast('cuda', dtype='float16')", True),
        ("torch.autocast(x.device.type, dtype=torch.float32)", False),
        ("torch.autocast('cuda', dtype=torch.float32)", False),
        ("torch.autocast(device, dtype=torch.float32)", False),
        ("torch.autocast('cpu', dtype=torch.float32, enabled=False)", False),
        ("torch.autocast('cpu', dtype=args.dtype)", False),
    ],
)
def test_a_dtype_that_the_device_does_not_take(region: str, wanted: bool) -> None:
    assert ("AMP205" in found(step("pass", region, PLAIN))) is wanted


TABLE = "{'float16': torch.float16, 'bfloat16': torch.bfloat16, None: torch.float64}[args.precision]"
CHAIN = """dtype = torch.float64
    if args.precision == 'float16':
        dtype = torch.float16
    elif args.precision == 'bfloat16':
        dtype = torch.bfloat16"""
ELSE = """if args.precision is None:
        dtype = torch.float64
    else:
        dtype = torch.bfloat16"""


@pytest.mark.parametrize(
    ("made", "enabled", "wanted"),
    [
        (f"dtype = {TABLE}", "args.precision is not None", False),
        (f"dtype = {TABLE}", "bool(args.precision)", False),
        (f"dtype = {TABLE}; on = args.precision is not None", "on", False),
        ("dtype = {True: torch.float16, False: torch.float64}[args.amp]", "args.amp", False),
        (ELSE, "args.precision is not None", False),
        (CHAIN, "bool(args.precision)", False),
        (CHAIN, "args.precision != 'float32'", False),
        ("dtype = torch.bfloat16 if use_amp else torch.float64", "use_amp", False),
        ("dtype = torch.bfloat16 if use_amp else torch.float64", "dtype != torch.float64", False),
        # The flag asks for something else, or leaves out another path.
        (f"dtype = {TABLE}", "use_amp", True),
        (f"dtype = {TABLE}", "True", True),
        (f"dtype = {TABLE}", "args.precision != 'float16'", True),
        ("dtype = torch.bfloat16 if use_amp else torch.float64", "not use_amp", True),
        (CHAIN, "True", True),
        (ELSE, "args.precision is None", True),
    ],
)
def test_a_dtype_is_read_with_the_flag_of_its_region(made: str, enabled: str, wanted: bool) -> None:
    region = f"torch.autocast('cuda' if torch.cuda.is_available() else 'cpu', enabled={enabled}, dtype=dtype)"
    assert ("AMP205" in found(step(made, region, PLAIN))) is wanted


@pytest.mark.parametrize(
    ("made", "enabled", "wanted"),
    [
        ("dtype = {'bf16': torch.bfloat16, None: torch.float32}[args.precision]", "args.precision is not None", True),
        ("dtype = torch.bfloat16 if use_amp else torch.float16", "use_amp", True),
        ("dtype = torch.bfloat16 if use_amp else torch.float16", "args.amp", True),
        ("dtype = torch.float16 if use_amp else torch.bfloat16", "use_amp", False),
    ],
)
def test_a_region_that_can_be_on_in_bfloat16_needs_no_scaler_then(made: str, enabled: str, wanted: bool) -> None:
    text = step(f"scaler = GradScaler(); {made}", f"torch.autocast('cuda', enabled={enabled}, dtype=dtype)")
    assert ("AMP206" in found(text)) is wanted


ON_EITHER = """
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def predict(model, x, args):
    {made}
    with torch.autocast(device.type, dtype=dtype):
        return model(x)
"""
FULL, HALF = "torch.float32", "torch.float16"


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        # float32 is chosen for what isn't cuda.
        (
            "ok = device.type == 'cuda' and torch.cuda.is_bf16_supported()\n"
            f"    dtype = torch.bfloat16 if ok else {HALF} if device.type == 'cuda' else {FULL}",
            Severity.NOTE,
        ),
        (f"dtype = {HALF} if torch.cuda.is_available() else {FULL}", Severity.NOTE),
        (f"dtype = {{'cuda': {HALF}, 'cpu': {FULL}}}[device.type]", Severity.NOTE),
        (f"dtype = {HALF} if torch.cuda.device_count() > 0 else {FULL}", Severity.NOTE),
        (f"count = torch.cuda.device_count()\n    dtype = {FULL} if 1 > count else {HALF}", Severity.NOTE),
        (f"dtype = {HALF} if torch.cuda.device_count() else {FULL}", Severity.NOTE),
        (f"dtype = {HALF} if args.fast and torch.cuda.is_bf16_supported() else {FULL}", Severity.NOTE),
        (f"dtype = {HALF}\n    if device.type == 'cpu':\n        dtype = {FULL}", Severity.NOTE),
        # A setting chooses it.
        (f"dtype = {FULL} if args.full else {HALF}", Severity.NOTE),
        (f"dtype = {FULL} if args.full or torch.cuda.device_count() > 1 else {HALF}", Severity.NOTE),
        (f"dtype = {FULL} if args.count > 1 else {HALF}", Severity.NOTE),
        # Where that holds there is CUDA, and the region runs there.
        (f"dtype = {FULL} if torch.cuda.is_bf16_supported() else {HALF}", None),
        (f"dtype = {FULL} if torch.cuda.device_count() > 1 else {HALF}", None),
        (f"dtype = {FULL} if torch.cuda.get_device_capability()[0] < 7 else {HALF}", None),
        (f"dtype = {FULL} if torch.cuda.get_device_capability() < (7, 0) else {HALF}", None),
        (f"dtype = {FULL} if torch.cuda.get_device_properties(0).major < 7 else {HALF}", None),
        (f"major, _ = torch.cuda.get_device_capability()\n    dtype = {FULL} if major < 7 else {HALF}", None),
    ],
)
def test_what_can_be_asked_only_of_cuda_holds_on_no_other_device(made: str, severity: Severity | None) -> None:
    told = check(ON_EITHER.format(made=made), "predict.py", SETTINGS._replace(suspicions=True))
    assert [(each.code, each.severity) for each in told] == ([("AMP205", severity)] if severity is not None else [])


def test_a_message_names_what_decides_about_a_dtype() -> None:
    made = "ok = device.type == 'cuda' and torch.cuda.is_bf16_supported()"
    (told,) = check(
        ON_EITHER.format(made=f"{made}\n    dtype = {HALF} if ok else {FULL}"),
        "predict.py",
        SETTINGS._replace(suspicions=True),
    )
    assert told.message.startswith("on devices other than cuda, `dtype` is float32: ")


def test_float16_on_the_cpu_needs_torch_2_2() -> None:
    text = step("pass", "torch.autocast('cpu', dtype=torch.float16)", PLAIN)
    assert "AMP205" not in found(text)
    assert "AMP205" in found(text, Settings(CODES, isolated=True, target_torch="2.0"))


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("model.half(); scaler = GradScaler()", True),
        ("model = model.to(device, torch.float16); scaler = GradScaler()", True),
        ("model = model.to(device).half().train(); scaler = GradScaler(enabled=args.amp)", True),
        ("model.half().float(); scaler = GradScaler()", False),
        ("model.half(); scaler = GradScaler(enabled=False)", False),
        ("model.half(); model.to(args.dtype, torch.float32); scaler = GradScaler()", False),
        ("model.half(); cast_training_params(model, torch.float32); scaler = GradScaler()", False),
        ("model.bfloat16(); scaler = GradScaler()", False),
        ("args.teacher.half(); scaler = GradScaler()", False),
        ("model.half(); scaler = args.scaler", False),
    ],
)
def test_half_parameters_with_a_scaler(made: str, wanted: bool) -> None:
    assert ("AMP208" in found(step(made, "autocast()"))) is wanted


FALLS_BACK = """
import contextlib
import inspect
import torch
from torch.cuda.amp import autocast

def predict(model, x, args, on):
{made}
    with ctx:
        return model(x)

def check(model, x):
    with autocast(dtype=torch.bfloat16):
        return model(x)
"""
TRIED = "try:\n        ctx = autocast(on, dtype=torch.bfloat16)\n    except"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (f"{TRIED}:\n        ctx = autocast(on)", []),
        (f"{TRIED} (TypeError, RuntimeError):\n        ctx = autocast(on)", []),
        (f"ctx = autocast(on)\n    {TRIED} TypeError:\n        pass", []),
        (
            "ctx = autocast(on)\n    with contextlib.suppress(TypeError):\n        "
            "ctx = autocast(dtype=torch.bfloat16)",
            [],
        ),
        (
            "try:\n        return autocast(dtype=torch.bfloat16)\n    except TypeError:\n        pass\n"
            "    ctx = autocast(on)",
            [],
        ),
        (
            "try:\n        torch.zeros(1, dtype=torch.bfloat16, device='cuda')\n        fine = True\n"
            "    except RuntimeError:\n        fine = False\n"
            "    if args.bf16:\n        ctx = autocast(dtype=torch.bfloat16) if fine else autocast()",
            [],
        ),
        ("if args.bf16:\n        ctx = autocast(dtype=torch.bfloat16) if supports_it() else autocast()", []),
        (
            "able = torch.cuda.get_device_capability()[0] >= 8\n"
            "    if args.bf16:\n        ctx = autocast(dtype=torch.bfloat16) if able else autocast()",
            [],
        ),
        (
            "if args.bf16:\n        takes = 'dtype' in inspect.signature(autocast).parameters\n"
            "        ctx = autocast(dtype=torch.bfloat16) if takes else autocast()",
            [],
        ),
        (
            "if args.bf16:\n        new = torch.__version__ >= '1.10'\n"
            "        ctx = autocast(dtype=torch.bfloat16) if new else autocast()",
            [],
        ),
        ("if args.bf16 and not torch.cuda.is_bf16_supported():\n        ctx = autocast(on)", []),
        ("ctx = autocast(on)", ["AMP213"]),
        ("try:\n        ctx = autocast(on)\n    except RuntimeError:\n        raise", ["AMP213"]),
        ("try:\n        x = next(x)\n    except StopIteration:\n        ctx = autocast(on)", ["AMP213"]),
        ("if args.bf16 and torch.cuda.is_bf16_supported():\n        ctx = autocast(on)", ["AMP213"]),
        (
            "if getattr(args, 'fast', False):\n        model.bfloat16()\n        with autocast():\n            "
            "model(x)",
            ["AMP213"],
        ),
        (
            "try:\n        ctx = torch.autocast('cuda', enabled=on)\n    except TypeError:\n"
            "        ctx = torch.autocast('cuda', True)",
            [],
        ),
        ("if torch.__version__ < '1.11':\n        ctx = torch.autocast('cuda', True)", []),
        (
            "try:\n        ctx = torch.autocast('cuda', True)\n    except TypeError:\n"
            "        ctx = torch.autocast('cuda', enabled=on)",
            ["AMP211"],
        ),
    ],
)
def test_what_is_there_for_want_of_support_is_so_on_purpose(made: str, wanted: list[str]) -> None:
    settings = Settings(frozenset({"AMP211", "AMP213"}), isolated=True)
    assert found(FALLS_BACK.format(made=f"    {made}"), settings) == wanted


def test_float32_where_half_precision_failed_is_a_note() -> None:
    made = (
        "try:\n        ctx = torch.autocast('cpu', dtype=torch.bfloat16)\n"
        "    except RuntimeError:\n        ctx = torch.autocast('cpu', dtype=torch.float32)"
    )
    (told,) = check(FALLS_BACK.format(made=f"    {made}"), "predict.py", SETTINGS._replace(suspicions=True))
    assert (told.code, told.severity) == ("AMP205", Severity.NOTE)


@pytest.mark.parametrize(
    ("made", "region", "wanted"),
    [
        ("dtype = torch.bfloat16", "autocast()", True),
        ("dtype = torch.bfloat16 if args.bf16 else torch.float32", "torch.autocast('cuda')", True),
        ("model.to(torch.bfloat16)", "torch.autocast('cuda')", True),
        ("pass", "autocast() if args.use_bf16 else nullcontext()", True),
        ("pass", "autocast() if args['bf16'] else nullcontext()", True),
        ("pass", "autocast() if args.dtype == torch.bfloat16 else nullcontext()", True),
        ("pass", "nullcontext() if args.bf16 else autocast()", False),
        ("pass", "autocast() if torch.cuda.is_bf16_supported() else nullcontext()", False),
        ("pass", "autocast() if args.bf16_or_fp16 else nullcontext()", False),
        ("dtype = torch.bfloat16", "torch.autocast('cpu')", False),
        ("dtype = torch.bfloat16", "autocast(enabled=False)", False),
        ("dtype = args.dtype", "autocast()", False),
    ],
)
def test_a_dtype_that_is_not_passed(made: str, region: str, wanted: bool) -> None:
    assert ("AMP213" in found(step(made, region, PLAIN))) is wanted


@pytest.mark.parametrize(
    ("made", "region", "wanted"),
    [
        ("model.xpu(); scaler = torch.amp.GradScaler('cuda')", "torch.autocast('xpu')", True),
        ("scaler = GradScaler()", "torch.autocast('xpu')", True),
        ("model.cuda(); scaler = None", "torch.autocast('cpu')", True),
        ("model.to('mps'); scaler = None", "torch.autocast('cuda')", True),
        ("model.to(device); scaler = torch.amp.GradScaler('cuda')", "torch.autocast('cuda')", False),
        ("model.cuda().cpu(); scaler = None", "torch.autocast('cpu')", False),
        ("model.cuda(); model.xpu(); scaler = None", "torch.autocast('cuda')", False),
        ("model.xpu(); scaler = None", "torch.autocast('cuda', enabled=False)", False),
        ("scaler = torch.amp.GradScaler('xpu')", "torch.autocast('xpu')", False),
    ],
)
def test_devices_that_disagree(made: str, region: str, wanted: bool) -> None:
    assert ("AMP203" in found(step(made, region))) is wanted


REGION = """
import torch
class Trainer:
    def prepare(self, model, backend):
        {method}
        return model
    def run(self, model, x, backend):
        {before}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(x)
def other(model, backend):
    {other}
def main(trainer: Trainer, model, x, backend):
    {caller}
    Trainer().run(model, x, backend)
{top}
"""


@pytest.mark.parametrize(
    ("where", "statement", "wanted"),
    [
        ("before", 'model = model.to("xpu")', True),
        ("before", 'if backend == "xpu":\n            model = model.to("xpu")', True),
        ("before", 'if backend == "xpu":\n            with ctx():\n                return model.xpu()', False),
        ("before", 'if backend == "xpu":\n            model = model.xpu()\n        else:\n            return x', True),
        ("method", 'model = model.to("xpu")', True),
        ("method", 'if backend == "xpu":\n            model = model.to("xpu")', False),
        ("other", 'return model.to("xpu")', False),
        ("caller", 'model = model.to("xpu")', True),
        ("top", 'model = make().to("xpu")', True),
        ("top", 'if __name__ == "__main__":\n    model = make().to("xpu")', True),
        ("top", 'if torch.xpu.is_available():\n    model = make().to("xpu")', False),
        ("top", "import intel_extension_for_pytorch", False),
        ("top", "import torch_npu, habana_frameworks.torch, torch_xla", False),
    ],
)
def test_a_device_counts_where_it_leads_to_the_region(where: str, statement: str, wanted: bool) -> None:
    places = dict.fromkeys(("method", "before", "other", "caller", "top"), "pass") | {where: statement}
    assert ("AMP203" in found(REGION.format(**places))) is wanted


def test_a_vendors_import_writes_no_fix() -> None:
    text = "import torch\nimport torch_npu\nscaler = torch.amp.GradScaler()\nwith torch.autocast():\n    pass\n"
    assert 'npu"' not in fix(text, unsafe=True)


NAMED = """
import torch
from contextlib import nullcontext
device = "cuda"
dtype = "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
device_type = "cuda" if "cuda" in device else "cpu"
table = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
context = nullcontext() if device_type == "cpu" else torch.autocast(device_type=device_type, dtype=table[dtype])
scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
optimizer = torch.optim.SGD(model.parameters())
for x in batches:
    with context:
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_dtype_by_its_name_decides_about_the_scaler() -> None:
    assert found(NAMED) == []
    assert found(NAMED.replace('dtype == "float16")', 'dtype == "bfloat16")')) == ["AMP210"]


TRAINER = """
import torch

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self, loader):
        {first}
        self.run(loader)
        {last}

    def run(self, loader):
        for x, y in loader:
            self.step(x, y)

    def step(self, x, y):
        self.scaler.scale(torch.nn.functional.mse_loss(self.model(x), y)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
"""


@pytest.mark.parametrize(("first", "last", "wanted"), [("self.model.half()", "", 1), ("", "self.model.half()", 0)])
def test_a_cast_comes_before_a_step_that_other_methods_lead_to(first: str, last: str, wanted: int) -> None:
    assert found(TRAINER.format(first=first, last=last)).count("AMP208") == wanted


TIMED = """
import torch
def run(model, device, loader, latent):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = torch.nn.CrossEntropyLoss()
    {made}
    for i in {loop}:
        {data}
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_fn(model(x.to(device)), y)
        loss.backward()
        optimizer.step()
{after}
"""
MADE = "x = torch.randn(8, 3).to(device); y = torch.randint(0, 10, (8,), device='cuda')"


@pytest.mark.parametrize(
    ("made", "loop", "data", "after", "severity"),
    [
        (MADE, "range(20)", "", "", "warning"),
        ("", "range(20)", MADE, "", "warning"),
        ("batch = {'x': torch.ones(4)}", "tqdm(range(20))", "x = batch['x']; y = torch.zeros_like(x)", "", "warning"),
        (MADE, "range(20)", "", "    torch.save(model.state_dict(), 'x.pt')", "error"),
        (MADE, "range(20)", "", "    model.save_pretrained('x')", "error"),
        ("", "loader", "x = torch.randn_like(i); y = torch.ones_like(i)", "", "error"),
        ("", "range(20)", "x, y = next(loader)", "", "error"),
        ("", "range(20)", "x = loader[torch.randint(0, 9, (4,))]; y = torch.ones(4)", "", "error"),
        ("", "range(20)", "x = torch.randn(3); y = latent", "", "error"),
    ],
)
def test_float16_without_a_scaler_where_nothing_is_trained(
    made: str, loop: str, data: str, after: str, severity: str
) -> None:
    text = TIMED.format(made=made or "pass", loop=loop, data=data or "pass", after=after)
    assert [(each.code, each.severity.value) for each in check(text, "train.py", SETTINGS)] == [("AMP207", severity)]


CAST = """
import torch
from torch import nn
from torch.nn import functional as F
linear, norm = nn.Linear(8, 8), nn.BatchNorm2d(8)
class FrozenBatchNorm(nn.Module):
    def forward(self, x):
        return x * self.weight + self.bias
class NormedLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x / x.norm())
class Net(nn.Module):
    def __init__(self):
        self.bn1 = FrozenBatchNorm()
        self.stem = FrozenBatchNorm()
        self.head = NormedLinear(8, 8)
    def forward(self, x, w):
        with torch.autocast("cuda"):
            {line}
        return y
"""


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("y = F.linear(x.half(), w)", True),
        ("y = x.half() @ w", True),
        ("h = x.half(); y = torch.einsum('ab,bc->ac', h, w)", True),
        ("h = x.half(); y = w.matmul(h)", True),
        ("y = linear(x.half())", True),
        ("y = self.model(x.half())", True),
        ("y = F.layer_norm(x.half(), (8,))", False),
        ("y = norm(x.half())", False),
        ("y = self.bn1(x.half())", False),
        ("y = self.stem(x.half())", False),
        ("y = self.head(x.half())", True),
        ("h = w.half(); y = x * h + h", False),
        ("h = w.half(); y = torch.mul(x, h)", False),
        ("y = torch.cat([x, w]).mul(w.half())", False),
        ("y = x.half()", False),
    ],
)
def test_a_cast_that_a_product_takes(line: str, wanted: bool) -> None:
    assert found(CAST.format(line=line)) == ["AMP209"] * wanted


_SWITCHED = """
import torch
from frame import Base, mixed


CLASS
    DECORATOR
    def NAME(self, inputs, model, optimizer, use_amp):
        scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("cls", "name", "decorator", "before", "said"),
    [
        ("class Steps:", "step", "", "", None),
        ("class Steps(torch.nn.Module):", "step", "", "", None),
        ("class Steps(Base):", "step", "", "", "a framework opens"),
        ("class Steps:", "training_step", "", "", "a framework opens"),
        ("class Steps:", "step", "@mixed", "", "its decorator `mixed`"),
        ("class Steps:", "step", "@torch.autocast('cuda', dtype=torch.bfloat16)", "", "the region on line"),
        (
            "class Steps:",
            "step",
            "",
            "with torch.autocast('cuda'):\n    Steps().step(a, b, c, d)\n",
            "the region on line",
        ),
        ("class Steps:", "step", "", "Steps().step(a, b, c, d)\n", None),
    ],
)
def test_210_no_fix_switches_off_a_region_that_may_be_round_it(
    cls: str, name: str, decorator: str, before: str, said: str | None
) -> None:
    text = _SWITCHED.replace("CLASS", cls).replace("NAME", name).replace("DECORATOR", decorator) + before
    (finding,) = check(text, settings=Settings(frozenset({"AMP210"}), isolated=True))
    if said is None:
        assert finding.fix is not None
    else:
        assert finding.fix is None
        assert said in (finding.withheld or "")
        assert "would also disable" in (finding.withheld or "")


def test_the_condition_of_an_unscaled_loss_names_what_decides_about_its_region() -> None:
    text = """\
import torch

def main(model, loader, opt, args, most):
    for number, x in enumerate(loader):
        if most and number > most:
            break
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16 if args.half else torch.bfloat16):
            loss = model(x).mean()
        loss.backward()
        opt.step()
"""
    (finding,) = (each for each in check(text, "train.py", SETTINGS) if each.code == "AMP207")
    assert "if `args.half` is true" in finding.message
    assert "most" not in finding.message


CHOSEN = """
import torch
from torch.amp import GradScaler, autocast

def dtype_of(name):
    if name == "bf16":
        return torch.bfloat16
    if name == "fp16":
        return torch.float16
    return torch.float32

def train(model, optimizer, loader, args):
    {chosen}
    scaler = GradScaler(enabled={scaler})
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda", dtype=dtype, enabled=on):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
LOWER = "mode = str(getattr(args, 'mode', 'fp16')).lower()"
TWO = "dtype = torch.bfloat16 if mode == 'bf16' else torch.float16; on = mode in ('bf16', 'fp16')"
FLAGS = "dtype = torch.bfloat16 if args.bf16 else torch.float16; on = args.bf16 or args.fp16"


@pytest.mark.parametrize(
    ("chosen", "scaler", "wanted"),
    [
        (f"{LOWER}; {TWO}", "True", True),
        (f"{LOWER}; {TWO}", "on", True),
        (f"mode = args.get('mode', 'fp16'); {TWO}", "on", True),
        (f"mode = args.mode; {TWO}", "on", True),
        (FLAGS, "on", True),
        ("dtype = dtype_of(args.mode); on = dtype != torch.float32", "on", True),
        # Off with bfloat16, or a path that float16 alone takes.
        (f"{LOWER}; {TWO}", "mode == 'fp16'", False),
        (f"{LOWER}; {TWO}", "on and mode != 'bf16'", False),
        (FLAGS, "args.fp16", False),
        (FLAGS, "args.fp16 and not args.bf16", False),
        ("dtype = torch.bfloat16; on = True", "not args.no_fp16", True),
        ("dtype = dtype_of(args.mode); on = dtype != torch.float32", "dtype == torch.float16", False),
    ],
)
def test_a_scaler_is_on_where_the_name_of_bfloat16_is_given(chosen: str, scaler: str, wanted: bool) -> None:
    assert ("AMP206" in found(CHOSEN.format(chosen=chosen, scaler=scaler))) is wanted


UNPACKED = """
import torch
from torch.amp import GradScaler, autocast

def setup(args):
{setup}

def train(model, optimizer, loader, args):
    {taken} = setup(args)
    scaler = GradScaler(enabled={scaler})
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda", dtype=dtype, enabled=on):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
ARMS_OF_SETUP = """
    if args.mode == "fp32":
        return False, torch.float32
    if args.mode == "bf16":
        return True, torch.bfloat16
    return True, torch.float16
"""
THREE = """
    dtype = torch.bfloat16 if args.bf16 else torch.float16
    return args.amp, dtype, args.amp and not args.bf16
"""


@pytest.mark.parametrize(
    ("setup", "taken", "scaler", "wanted"),
    [
        (ARMS_OF_SETUP, "on, dtype", "on", True),
        (ARMS_OF_SETUP, "(on, dtype)", "True", True),
        (THREE, "on, dtype, _", "on", True),
        ("    return args.amp, torch.bfloat16", "on, dtype", "on", True),
        ("    return (True, torch.bfloat16) if args.bf16 else (True, torch.float16)", "on, dtype", "True", True),
        (ARMS_OF_SETUP, "on, dtype", "dtype == torch.float16", False),
        (THREE, "on, dtype, scaled", "scaled", False),
        ("    return args.amp, args.dtype", "on, dtype", "on", False),
        ("    return pick(args), torch.float16", "on, dtype", "on", False),
        ("    return args.both", "on, dtype", "on", False),
        ("    return (*args.more, torch.bfloat16)", "on, dtype", "on", False),
        ("    yield args.amp\n    yield torch.bfloat16", "on, dtype", "on", False),
    ],
)
def test_what_a_function_returns_is_followed_through_unpacking(
    setup: str, taken: str, scaler: str, wanted: bool
) -> None:
    assert ("AMP206" in found(UNPACKED.format(setup=setup, taken=taken, scaler=scaler))) is wanted


OFFERED = """
import torch

def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda") if hasattr({owner}, "{name}") else None
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = model(x, y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("owner", "name", "target", "wanted"),
    [
        ("torch.amp", "GradScaler", ">=2.0", True),
        ("torch.amp", "GradScaler", ">=2.3", False),
        ("torch.amp", "GradScaler", None, False),
        ("torch", "amp", ">=1.6", False),
        ("torch.amp", "Scaler", None, True),
    ],
)
def test_what_all_releases_have_is_no_condition(owner: str, name: str, target: str | None, wanted: bool) -> None:
    settings = Settings(CODES, isolated=True, target_torch=target)
    assert ("AMP210" in found(OFFERED.format(owner=owner, name=name), settings)) is wanted


CALLED = """
import torch
from contextlib import nullcontext
from functools import partial

def plain():
    return nullcontext()

def half():
    return torch.autocast("cuda", dtype=torch.bfloat16)

def with_arguments(dtype):
    return torch.autocast("cuda", dtype=dtype)

def make(args):
    if args.amp:
        def inner():
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return inner, args.more
    return (lambda: nullcontext()), args.more

def train(model, optimizer, loader, args):
    {chosen}
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with ctx():
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
HALVES = "partial(torch.autocast, 'cuda', dtype=torch.bfloat16)"


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (f"ctx = {HALVES} if args.amp else nullcontext", True),
        (f"if args.amp:\n        ctx = {HALVES}\n    else:\n        ctx = nullcontext", True),
        ("ctx = half if args.amp else plain", True),
        ("ctx = (lambda: torch.autocast('cuda', dtype=torch.bfloat16)) if args.amp else plain", True),
        ("ctx, more = make(args)", True),
        ("ctx = partial(torch.autocast, 'cuda') if args.amp else nullcontext", False),
        (f"ctx = {HALVES} if args.bf16 else partial(torch.autocast, 'cuda')", True),
        (f"ctx = {HALVES} if args.amp else args.context", False),
        ("ctx = half if args.amp else with_arguments", False),
        ("ctx = plain if args.amp else nullcontext", False),
        ("ctx = partial(args.make, torch.autocast) if args.amp else nullcontext", False),
    ],
)
def test_one_of_several_things_is_called_for_a_region(chosen: str, wanted: bool) -> None:
    assert ("AMP206" in found(CALLED.format(chosen=chosen))) is wanted


FALLBACK = """
import torch
try:
    from torch.amp import GradScaler, autocast
except ImportError:
    from torch.cuda.amp import GradScaler, autocast

def train(model, optimizer, loader, args):
    scaler = GradScaler(enabled=args.amp)
    for x, y in loader:
        optimizer.zero_grad()
        with autocast({given}):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("'cuda', dtype=torch.bfloat16", ["AMP206"]),
        ("device_type='cuda', dtype=torch.bfloat16", ["AMP206"]),
        ("dtype=torch.bfloat16", ["AMP206"]),
        ("'cuda', torch.bfloat16", ["AMP206"]),
        ("device_type='cuda', dtype=torch.float16", ["AMP210"]),
        ("dtype=torch.float16, enabled=args.amp", []),
        ("'cuda', torch.bfloat16, enabled=False", []),
        ("args.first, dtype=torch.bfloat16", []),  # a device, or a switch
        ("**args.region", []),
    ],
)
def test_a_fallback_import_of_autocast_by_the_arguments(given: str, wanted: list[str]) -> None:
    assert found(FALLBACK.format(given=given)) == wanted


GIVEN = """\
import torch

def predict(model, loader, device, dtype={default}):
    for x in loader:
        with torch.autocast(device, dtype=dtype):
            first = model(x)
        with torch.autocast(device_type=device, dtype=dtype):
            yield first, model(x)

device = {device}
print(list(predict(model, loader, device{given})))
"""
EITHER_DEVICE = '"cuda" if torch.cuda.is_available() else "cpu"'


@pytest.mark.parametrize(
    ("default", "given"),
    [
        ("torch.float32", ""),
        ("torch.bfloat16", ", dtype=torch.float32"),
        ("torch.float16", ", torch.float32"),
        ("None", ", torch.float"),
    ],
)
def test_float32_that_a_call_asks_for_is_what_it_gets(default: str, given: str) -> None:
    settings = Settings(frozenset({"AMP205"}), isolated=True, suspicions=True)
    either = check(GIVEN.format(default=default, given=given, device=EITHER_DEVICE), settings=settings)
    assert [(each.code, each.confidence) for each in either] == [("AMP205", "suspicion")] * 2
    assert "half" not in either[0].message
    only = check(GIVEN.format(default=default, given=given, device='"cpu"'), settings=settings)
    assert [each.confidence for each in only] == ["certain"] * 2


def test_one_call_that_gives_a_dtype_to_another_file_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    head, call = GIVEN.format(default="torch.bfloat16", given=", torch.float32", device=EITHER_DEVICE).split(
        "device = "
    )
    (tmp_path / "helper.py").write_text(head)
    region = "with torch.autocast('cuda', dtype=torch.float16):\n    pass\n"
    text = f"import torch\nfrom helper import predict\ndevice = {call}{region}"
    (tmp_path / "main.py").write_text(text)
    settings = Settings(frozenset({"AMP205"}), isolated=True, suspicions=True)
    (finding,) = check(text, str(tmp_path / "main.py"), settings)
    assert finding.location.row == 4


def test_float64_that_a_call_asks_for_is_not() -> None:
    settings = Settings(frozenset({"AMP205"}), isolated=True)
    text = GIVEN.format(default="torch.float16", given=", torch.float64", device=EITHER_DEVICE)
    assert [each.confidence for each in check(text, settings=settings)] == ["certain"] * 2


RETURNED = """
def arguments(args):
    if not args.amp:
        return {{"device_type": "cuda", "enabled": False}}
    kept = {{"device_type": "cuda"}}
    return {returned}

"""


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ('{"device_type": "cuda", "dtype": torch.float16}', ["AMP207"]),
        ('dict(device_type="cuda", dtype=torch.float16 if args.half else torch.bfloat16)', ["AMP207"]),
        ('{"device_type": "cuda", "dtype": torch.bfloat16}', []),
        ('{"device_type": "cuda", "dtype": torch.float16, **args.more}', []),
        ("kept", []),
        ("args.arguments", []),
    ],
)
def test_the_dtype_of_a_dict_that_a_function_returns(returned: str, expected: list[str]) -> None:
    text = step("given = arguments(args)", "torch.autocast(**given)", PLAIN).replace(
        "def train(", RETURNED.format(returned=returned) + "def train(", 1
    )
    assert found(text) == expected


def test_a_dict_that_a_function_returns_may_get_another_dtype_behind_it() -> None:
    text = step("given = arguments(args)\n    given['dtype'] = torch.bfloat16", "torch.autocast(**given)", PLAIN)
    returned = RETURNED.format(returned='{"device_type": "cuda", "dtype": torch.float16}')
    assert not found(text.replace("def train(", returned + "def train(", 1))


TWO_LOSSES = """
def one(p):
    return p.mean()

def loss_of(p, kind):
    if kind in ("l1", "mae"):
        return one(p)
    if kind in ("l2", "mse"):
        return one(p * p)
    raise ValueError(kind)

"""


def test_the_message_does_not_ask_which_function_gives_the_loss() -> None:
    text = step("pass", "autocast()", PLAIN).replace("model(x).mean()", "loss_of(model(x), args.kind)")
    findings = check(text.replace("def train(", TWO_LOSSES + "def train(", 1), "train.py", SETTINGS)
    assert [(each.code, "kind" in each.message) for each in findings] == [("AMP207", False)]


PREPARED = """
import torch
from accelerate import Accelerator

def train(model, loader, optimizer, cfg):
    accelerator = Accelerator({precision})
    dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        dtype = torch.bfloat16
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x.to(dtype)).mean()
        accelerator.backward(loss)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("precision", "wanted"),
    [
        ('mixed_precision="fp16"', []),
        ("mixed_precision=cfg.precision", ["AMP213"]),
        ("", ["AMP213"]),  # accelerate's own configuration decides
    ],
)
def test_an_accelerator_has_the_precision_that_it_is_made_with(precision: str, wanted: list[str]) -> None:
    settings = Settings(frozenset({"AMP213"}), isolated=True)
    assert found(PREPARED.format(precision=precision), settings) == wanted


@pytest.mark.parametrize(("wrapper", "wanted"), [("tools", True), (None, False)])
def test_a_region_with_unseen_arguments_in_another_file(wrapper: str | None, wanted: bool, tmp_path: Path) -> None:
    """What wraps functions there says nothing of a region here; in the same file it may be meant instead."""
    wraps = (
        "import torch\n\n\ndef wrapped(model, *args, **kwargs):\n"
        "    with torch.autocast('cuda', *args, **kwargs):\n        return model\n\n\n"
    )
    train = (
        "import torch\n\n\ndef train(model, x, optimizer):\n    dtype = torch.bfloat16\n"
        "    with torch.autocast('cuda'):\n        loss = wrapped(model, dtype)(x)\n    loss.backward()\n"
        "    optimizer.step()\n"
    )
    if wrapper is not None:
        (tmp_path / f"{wrapper}.py").write_text(wraps, "utf-8")
    text = f"from {wrapper} import wrapped\n{train}" if wrapper is not None else wraps + train
    (tmp_path / "train.py").write_text(text, "utf-8")
    codes = {each.code for each in check(text, filename=str(tmp_path / "train.py"))}
    assert ("AMP213" in codes) is wanted
