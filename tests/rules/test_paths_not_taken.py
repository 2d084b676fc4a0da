"""What a literal argument, a handler, a pinned release or another function's evidence says of a path, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

STEP_BY_NAME = """\
import torch


def attacked_loss(model, inputs, norm="inf"):
    if norm == "inf":
        inputs = inputs + 1
    elif norm == "2":
        loss = model(inputs).sum()
        loss.backward()
    return model(inputs).mean()


def train(model, loader, optimizer):
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = attacked_loss(model, inputs{norm})
        loss.backward()
        optimizer.step()
"""
FALLBACK = """\
import torch

try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast


def forward(model, inputs, use_bf16):
    try:
        context = autocast({first}dtype=torch.bfloat16, enabled=use_bf16)
    except TypeError:
        context = autocast(enabled=use_bf16)
    with context:
        return model(inputs)
"""
SCALED = """\


def train(model, loader, optimizer, use_bf16):
    scaler = torch.amp.GradScaler("cuda", enabled=not use_bf16)
    for inputs in loader:
        try:
            context = autocast("cuda", dtype=torch.bfloat16, enabled=use_bf16)
        except TypeError:
            context = autocast(enabled=use_bf16)
        optimizer.zero_grad()
        with context:
            loss = model(inputs).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
IN_TESTS = """\
import torch


class TestAutocast:
    def test_on_cuda(self, tiny_model):
        device = torch.device("cuda")
        model = tiny_model.to(device)
        inputs = torch.randn(1, 8, device=device)
        with torch.autocast("cuda"):
            model(inputs)

    def test_on_cpu(self, tiny_model):
        inputs = torch.randn(1, 8)
        with torch.autocast("cpu"):
            tiny_model(inputs)
"""
SWITCHED = """\
import torch


class Trainer:
    def __init__(self, model, device, use_amp=True, amp_dtype="float16"):
        self.device_type = "cuda" if device.type == "cuda" else "cpu"
        self.dtype = torch.float16 if amp_dtype == "float16" else torch.bfloat16
        if use_amp and self.device_type == "cpu" and self.dtype == torch.float16:
            self.use_amp = False
        else:
            self.use_amp = use_amp
        on = self.use_amp and self.device_type == "cuda" and self.dtype == torch.float16
        self.scaler = torch.amp.GradScaler(self.device_type, enabled=on)

    def train(self):
        for inputs in self.loader:
            self.optimizer.zero_grad()
            with torch.amp.autocast(device_type=self.device_type, dtype=self.dtype, enabled=self.use_amp):
                loss = self.model(inputs).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
GIVEN_STATE = """\
import torch


def train_step(state, batch):
    state.optimizer.zero_grad()
    use_amp = state.device.type == "cuda"
    with torch.autocast(device_type=state.device.type, enabled=use_amp):
        loss = state.model(batch).mean()
    if state.scaler is not None and use_amp:
        state.scaler.scale(loss).backward()
        state.scaler.step(state.optimizer)
        state.scaler.update()
    else:
        loss.backward()
        state.optimizer.step()
"""
ONE_REGION = """\
import torch


class Experiment:
    def __init__(self, model, loader):
        self.model = {model}
        self.loader = loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        scaler = torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            for inputs in self.loader:
                self.optimizer.zero_grad()
                loss = self.model(inputs).mean()
                scaler.scale(loss).backward()
                scaler.step(self.optimizer)
                scaler.update()
                {evaluate}

    @torch.autocast("cuda", dtype=torch.float16)
    def evaluate(self):
        with torch.no_grad():
            return sum(self.model(inputs).mean() for inputs in self.loader)
"""
HOOKED = """\
import torch


def bounded_loss(model, inputs):
    loss = model(inputs).mean()
    if loss.requires_grad:
        loss.register_hook(lambda grad: torch.clamp(grad, -1.0, 1.0))
    return loss
"""
HOOKING = """\
import torch
from losses import bounded_loss


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = bounded_loss(model, inputs)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        return [bounded_loss(model, inputs).item() for inputs in loader]
"""
EACH_EPOCH = """\
import torch


class Trainer:
    def epoch(self):
        fp16 = {fp16}
        scaler = torch.amp.GradScaler("cuda", enabled=fp16)
        for inputs in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", enabled=fp16):
                loss = self.model(inputs).sum()
            scaler.scale(loss).backward()
            scaler.step(self.optimizer)
            scaler.update()

    def train(self):
        for _ in range(10):
            self.epoch()
"""
CPU_IN_FLOAT16 = """\
import torch


def train(args, model, loader, optimizer):
    device = torch.device(args.device if args.device else "cpu")
    scaler = torch.cuda.amp.GradScaler()
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda" if torch.cuda.is_available() else "cpu", dtype=torch.float16):
            loss = model(inputs.to(device)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def codes(text: str) -> list[str]:
    return [each.code for each in amplint.check(text, "train.py") if each.code > "AMP2"]


@pytest.mark.parametrize(("norm", "expected"), [("", []), (', norm="inf"', []), (', norm="2"', ["AMP301"])])
def test_a_literal_argument_chooses_the_arm(norm: str, expected: list[str]) -> None:
    assert codes(STEP_BY_NAME.format(norm=norm)) == expected


@pytest.mark.parametrize("first", ['"cuda", ', 'device_type="cuda", '])
def test_a_handler_of_the_right_call_is_for_the_old_class(first: str) -> None:
    assert codes(FALLBACK.format(first=first) + SCALED) == []


def test_a_call_that_is_right_for_the_old_class_only_is_found() -> None:
    assert codes(FALLBACK.format(first="")) == ["AMP202", "AMP202"]


def test_another_test_is_no_evidence_of_a_device() -> None:
    assert codes(IN_TESTS) == []


def test_an_attribute_is_not_the_parameter_of_its_name() -> None:
    assert codes(SWITCHED) == []
    assert codes(SWITCHED.replace("            self.use_amp = False\n", "            self.use_amp = True\n")) == [
        "AMP210"
    ]


def test_a_scaler_that_a_given_object_keeps_is_doubtful() -> None:
    (finding,) = amplint.check(GIVEN_STATE, "train.py", amplint.make_settings(suspicions=True))
    assert (finding.code, finding.confidence.value) == ("AMP210", "suspicion")


def test_a_compiled_model_caches_no_casts() -> None:
    settings = amplint.make_settings(select=["AMP309"])
    (plain,), (compiled,) = (
        amplint.check(ONE_REGION.format(model=model, evaluate=""), "train.py", settings)
        for model in ("model", "torch.compile(model)")
    )
    assert (plain.confidence.value, plain.fix is not None) == ("certain", True)
    assert compiled.confidence.value == "likely"


def test_no_cache_is_switched_off_around_a_decorated_function() -> None:
    (finding,) = amplint.check(ONE_REGION.format(model="model", evaluate="self.evaluate()"), "train.py")
    assert (finding.code, finding.fix) == ("AMP309", None)


def test_a_hook_is_not_registered_without_gradients(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text(HOOKED)
    train = tmp_path / "train.py"
    train.write_text(HOOKING)
    found = amplint.check(HOOKING, train, amplint.settings_for(train))
    assert [(each.code, each.location.row) for each in found] == [("AMP401", 10)]


@pytest.mark.parametrize(("fp16", "expected"), [("False", []), ("True", ["AMP408"])])
def test_a_scaler_that_is_off_starts_no_scale_again(fp16: str, expected: list[str]) -> None:
    assert codes(EACH_EPOCH.format(fp16=fp16)) == expected


@pytest.mark.parametrize(("pinned", "expected"), [("2.0.1", []), ("2.2.0", ["AMP203"])])
def test_float16_on_a_cpu_is_off_before_torch_2_2(tmp_path: Path, pinned: str, expected: list[str]) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch=={pinned}\n")
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "train.py"
    path.write_text(CPU_IN_FLOAT16)
    found = amplint.check(CPU_IN_FLOAT16, path, amplint.settings_for(path))
    assert [each.code for each in found if each.code > "AMP2"] == expected
