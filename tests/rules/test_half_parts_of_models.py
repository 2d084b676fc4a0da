"""AMP217, AMP208: models of which a function or method casts most parameters, as those of guided-diffusion do."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

LAYERS = """\
from torch import nn


def to_fp16(layer):
    if isinstance(layer, nn.Conv2d):
        layer.weight.data = layer.weight.data.half()


def to_fp32(layer):
    if isinstance(layer, nn.Conv2d):
        layer.weight.data = layer.weight.data.float()


class Denoiser(nn.Module):
    def __init__(self, use_fp16=False):
        super().__init__()
        self.torso, self.out = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
        if use_fp16:
            self.convert_to_fp16()

    def convert_to_fp16(self):
        self.torso.apply(to_fp16)

    def convert_to_fp32(self):
        self.torso.apply(to_fp32)


def all_to_fp16(model):
    model.apply(to_fp16)
"""
TRAIN = """\
import torch
from layers import Denoiser, all_to_fp16, to_fp16, to_fp32


def main(loader, options):
    net = Denoiser(MADE).cuda()
    CAST
    optimizer = torch.optim.AdamW(PARAMS, lr=1e-4)
    AFTER
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def found(
    folder: Path, made: str = "", cast: str = "pass", params: str = "net.parameters()", after: str = "pass"
) -> str:
    (folder / "pyproject.toml").touch()
    (folder / "layers.py").write_text(LAYERS)
    text = TRAIN.replace("MADE", made).replace("CAST", cast).replace("PARAMS", params).replace("AFTER", after)
    train = folder / "train.py"
    train.write_text(text)
    messages = [each.message for each in check(text, train) if each.code == "AMP217"]
    assert len(messages) < 2
    return messages[0] if messages else ""


@pytest.mark.parametrize(
    ("made", "cast"),
    [
        ("", "net.convert_to_fp16()"),
        ("use_fp16=options.use_fp16", "pass"),
        ("use_fp16=True", "pass"),
        ("", "net.apply(to_fp16)"),
        ("", "net.torso.apply(to_fp16)"),
        ("", "all_to_fp16(net)"),
        ("", "all_to_fp16(net.torso)"),
        ("", "for p in net.parameters():\n        p.data = p.data.half()"),
        ("", "for _, p in net.named_parameters():\n        p.data = p.data.to(torch.float16)"),
    ],
)
def test_parameters_that_a_function_casts(made: str, cast: str, tmp_path: Path) -> None:
    said = found(tmp_path, made, cast)
    line = "8" if "\n" not in cast else "9"
    line += " of this file" if said.startswith("this runs") else ""
    assert f"cast makes the optimizer on line {line} train float16 parameters: `eps` rounds to 0 in float16" in said


@pytest.mark.parametrize(
    ("made", "cast", "params"),
    [
        ("use_fp16=False", "pass", "net.parameters()"),
        ("", "net.convert_to_fp16()\n    net.convert_to_fp32()", "net.parameters()"),
        ("", "net.convert_to_fp16()\n    net.apply(to_fp32)", "net.parameters()"),
        ("", "net.convert_to_fp16()\n    net.float()", "net.parameters()"),
        ("", "net.convert_to_fp16()", "[p.detach().clone().float() for p in net.parameters()]"),
        ("", "net.convert_to_fp16()\n    net.requires_grad_(False)", "net.parameters()"),
        ("", "net.apply(to_fp32)", "net.parameters()"),
        ("", "other = Denoiser()\n    other.convert_to_fp16()", "net.parameters()"),
        ("", "for p in net.parameters():\n        p.data = p.data.clone()", "net.parameters()"),
    ],
)
def test_what_is_right(made: str, cast: str, params: str, tmp_path: Path) -> None:
    assert not found(tmp_path, made, cast, params)


def test_a_model_out_of_sight_is_told_by_the_method() -> None:
    text = TRAIN.replace("from layers import Denoiser, all_to_fp16, to_fp16, to_fp32", "from diffuser import make")
    text = text.replace("Denoiser(MADE).cuda()", "make(options)").replace("PARAMS", "net.parameters()")
    said = [
        (each.code, each.confidence.name)
        for method in ("convert_to_fp16", "convert_to_bf16", "convert_to_fp32", "convert_to_onnx")
        for each in check(text.replace("CAST", f"net.{method}()").replace("AFTER", "pass"), "train.py")
    ]
    assert said == [("AMP217", "LIKELY"), ("AMP217", "LIKELY")]


def test_a_function_that_says_what_is_frozen_freezes_nothing() -> None:
    text = TRAIN.replace("Denoiser(MADE).cuda()", "torch.nn.Linear(2, 2).half()").replace("PARAMS", "net.parameters()")
    said = [
        bool(check(text.replace("CAST", f"{name}(net)").replace("AFTER", "pass"), "train.py"))
        for name in ("print_freeze_status", "_log_frozen_and_freeze", "freeze", "freeze_all")
    ]
    assert said == [True, True, False, False]


def test_a_scaler_refuses_gradients_of_cast_parts(tmp_path: Path) -> None:
    text = TRAIN.replace("MADE", "").replace("CAST", "net.convert_to_fp16()").replace("PARAMS", "net.parameters()")
    text = text.replace("AFTER", "scaler = torch.amp.GradScaler()").replace(
        "loss.backward()", "scaler.scale(loss).backward()"
    )
    text = text.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "train.py").write_text(text)
    said = [each.message for each in check(text, tmp_path / "train.py") if each.code == "AMP208"]
    assert len(said) == 1
    assert 'raises "Attempting to unscale FP16 gradients"' in said[0]


LOADERS = """\
import torch
from transformers import AutoModelForCausalLM


def load_teacher():
    return AutoModelForCausalLM.from_pretrained("big", torch_dtype=torch.bfloat16)


def load_student():
    student = AutoModelForCausalLM.from_pretrained("small", torch_dtype=torch.bfloat16)
    return student, len(student.state_dict())


def load_both():
    teacher = load_teacher()
    student, count = load_student()
    return teacher, student, count


def load(dtype=torch.bfloat16):
    return AutoModelForCausalLM.from_pretrained("small", torch_dtype=dtype)


def load_on():
    student = load()
    student.train()
    return student
"""
DISTILL = """\
import torch
from loaders import load, load_both, load_on, load_student, load_teacher


def main(loader):
    LOAD
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-5)
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = student(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("load", "line"),
    [
        ("student, count = load_student()", "10"),
        ("teacher, student, count = load_both()", "10"),
        ("student, teacher, count = load_both()", "6"),
        ("student = load()", "21"),
        ("student = load_on()", "21"),
        ("student = load(torch.float32)", ""),
        ("student = load_on().float()", ""),
        ("teacher, _, count = load_both()\n    student = torch.nn.Linear(2, 2)", ""),
        ("teacher, student, count = load_both()\n    student.float()", ""),
    ],
)
def test_a_model_that_functions_of_another_file_return_on(load: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "loaders.py").write_text(LOADERS)
    train = tmp_path / "train.py"
    train.write_text(DISTILL.replace("LOAD", load))
    found = [each.message for each in check(train.read_text(), train) if each.code == "AMP217"]
    assert [f"runs line {line} of loaders.py, where this cast" in each for each in found] == ([True] if line else [])
