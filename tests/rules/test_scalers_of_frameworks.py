"""AMP208 where the scaler is a framework's: the Accelerator's, or that of transformers' Trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

TRAINER = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Tuner:
    def __init__(self, name):
        self.model = AutoModelForCausalLM.from_pretrained(name, torch_dtype={dtype})

    def train(self, data):
        args = TrainingArguments(output_dir="out", fp16={fp16})
        {more}
        Trainer(model=self.model, args=args, train_dataset=data).train()
"""
ACCELERATOR = """
import torch
from accelerate import Accelerator


def main(args, net, teacher, loader):
    accelerator = Accelerator(mixed_precision={precision})
    optimizer = torch.optim.AdamW(net.parameters())
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        dtype = torch.float16
    # neither peft nor lora
    {cast}
    for x in loader:
        loss = net(x).mean() + teacher(x).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""
ON_CUDA = "torch.cuda.is_available()"


def _found(text: str) -> list[tuple[int, str]]:
    found = [each for each in check(text, "train.py") if each.code == "AMP208"]
    return [(each.location.row, each.confidence.value) for each in found if each.location is not None]


@pytest.mark.parametrize(
    ("dtype", "fp16", "found"),
    [
        ("torch.float16", "True", True),
        (f"torch.float16 if {ON_CUDA} else torch.float32", ON_CUDA, True),
        ("torch.float16", "False", False),
        ("torch.bfloat16", "True", False),
        (f"torch.float32 if {ON_CUDA} else torch.float16", ON_CUDA, False),
    ],
)
def test_a_half_model_of_a_trainer(dtype: str, fp16: str, found: bool) -> None:
    assert _found(TRAINER.format(dtype=dtype, fp16=fp16, more="pass")) == [(8, "certain")] * found


@pytest.mark.parametrize(("engine", "found"), [("args.ds_config", False), ('"ds.json"', False), ("None", True)])
def test_deepspeed_keeps_weights_in_float32_by_itself(engine: str, found: bool) -> None:
    text = TRAINER.format(dtype="torch.float16", fp16=f"True, deepspeed={engine}", more="pass")
    assert bool(_found(text)) is found


@pytest.mark.parametrize("more", ["self.model = get_peft_model(self.model, config)", "self.model.float()"])
def test_a_model_of_a_trainer_that_is_not_half_there(more: str) -> None:
    assert _found(TRAINER.format(dtype="torch.float16", fp16="True", more=more)) == []


@pytest.mark.parametrize(
    ("precision", "cast", "found"),
    [
        ('"fp16"', "net.to(accelerator.device, dtype=dtype)", ["certain"]),
        ("args.mixed_precision", "net.to(accelerator.device, dtype=dtype)", ["likely"]),
        ('"fp16"', "net.half()", ["certain"]),
        ('"bf16"', "net.to(accelerator.device, dtype=dtype)", []),
        ('"fp16"', "teacher.to(accelerator.device, dtype=dtype)", []),
        ('"fp16"', "net.requires_grad_(False); net.half()", []),
    ],
)
def test_a_half_model_of_an_accelerator(precision: str, cast: str, found: list[str]) -> None:
    text = ACCELERATOR.format(precision=precision, cast=cast)
    assert [confidence for _, confidence in _found(text)] == found


def test_the_scaler_is_named() -> None:
    text = TRAINER.format(dtype="torch.float16", fp16="True", more="pass")
    assert check(text, "train.py")[0].message == (
        "this cast makes the parameters float16, and the scaler of the Trainer with `fp16=True` on line 13 raises "
        '"Attempting to unscale FP16 gradients"; keep the parameters in float32'
    )


UNPREPARED = """
import torch
from accelerate import Accelerator


class Worker:
    def __init__(self, model, amp=True):
        self.accelerator = Accelerator(mixed_precision={precision})
        self.model = model
        self.optimizer = {optimizer}

    def train(self, loader):
        {prepares}
        for batch in loader:
            self.optimizer.zero_grad()
            loss = self.model(batch).mean()
            self.accelerator.backward(loss)
            self.optimizer.step()
"""
ADAM = "torch.optim.Adam(self.model.parameters())"


@pytest.mark.parametrize(
    ("precision", "optimizer", "prepares", "found"),
    [
        ('"fp16"', ADAM, "pass", ["certain"]),
        ('"fp16" if amp else "no"', ADAM, "pass", ["likely"]),
        ('"bf16"', ADAM, "pass", []),
        ('"fp16"', "wrapped(self.model)", "pass", []),
        ('"fp16"', ADAM, "setup(self.accelerator)", ["likely"]),
        ('"fp16"', ADAM, "self.optimizer = self.accelerator.prepare(self.optimizer)", []),
    ],
)
def test_an_optimizer_that_an_accelerator_never_prepares(
    precision: str, optimizer: str, prepares: str, found: list[str]
) -> None:
    text = UNPREPARED.format(precision=precision, optimizer=optimizer, prepares=prepares)
    said = [each for each in check(text, "train.py") if each.code == "AMP402"]
    assert [each.confidence.value for each in said] == found
    assert all(
        each.message.startswith("`self.optimizer` steps on gradients still multiplied by the loss scale: ")
        for each in said
    )


OWN_TRAINER = """\
import torch
from transformers import AutoModel, Trainer, TrainingArguments
from own import Own


def main(name, data):
    model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)
    Own(model=model, args=TrainingArguments("out", fp16=True), train_dataset=data).train()
"""
OWN = """\
from transformers import Trainer


class Own(Trainer):
    def METHOD(self, *args):
        return super().METHOD(*args)
"""


@pytest.mark.parametrize(
    ("method", "base", "wanted"),
    [
        ("evaluate", "Trainer", True),
        ("compute_loss", "Trainer", True),
        ("training_step", "Trainer", False),
        ("create_optimizer", "Trainer", False),
        ("evaluate", "Helper", False),
    ],
)
def test_a_trainer_of_the_project(tmp_path: Path, method: str, base: str, wanted: bool) -> None:
    (tmp_path / "own.py").write_text(OWN.replace("METHOD", method).replace("(Trainer)", f"({base})"))
    (tmp_path / "train.py").write_text(OWN_TRAINER)
    found = [each.code for each in check(OWN_TRAINER, tmp_path / "train.py")]
    assert found.count("AMP208") == wanted
