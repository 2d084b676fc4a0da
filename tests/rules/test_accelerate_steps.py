"""Steps of loops with an Accelerator that don't go as its scaler needs (AMP402, AMP403, AMP601)."""

from __future__ import annotations

import pytest

from amplint import Severity, check
from amplint.config.settings import Settings

_LOOP = """\
import math

import torch
from accelerate import Accelerator


def main(model, loader, half):
    accelerator = Accelerator(PRECISION)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    PREPARED = accelerator.prepare(PREPARED)
    for x, y in loader:
        loss = model(x, y)
        STEP
        optimizer.zero_grad()
"""
_FP16, _BF16, _CHOSEN = 'mixed_precision="fp16"', 'mixed_precision="bf16"', 'mixed_precision="fp16" if half else "no"'
_STEP = ("accelerator.backward(loss)", "optimizer.step()")
_CLIP = "norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)"


def found(*step: str, prepared: str = "model, optimizer, loader", precision: str = _FP16) -> list[tuple[str, int]]:
    """The codes of what amplint finds in a loop with some lines for its step, with their lines."""
    text = _LOOP.replace("PRECISION", precision).replace("PREPARED", prepared)
    text = text.replace("STEP", "\n        ".join(step))
    ours = ("AMP402", "AMP403", "AMP601")
    return [(each.code, text[: each.start].count("\n") + 1) for each in check(text) if each.code in ours]


@pytest.mark.parametrize("precision", [_FP16, _CHOSEN])
def test_optimizer_that_is_not_prepared(precision: str) -> None:
    """Only a prepared optimizer steps through the scaler."""
    assert found(*_STEP, prepared="model, loader", precision=precision) == [("AMP402", 14)]


_CHOICE = """\
    optimizer_class = torch.optim.AdamW
    if half:
        import bitsandbytes
        optimizer_class = bitsandbytes.optim.AdamW8bit
    groups = [{"params": part} for part in model.parts(half)]
    optimizer = optimizer_class(groups, lr=1e-4)
"""


@pytest.mark.parametrize(
    ("more", "codes"), [("", ["AMP402"]), ("other = torch.optim.SGD(model.head.parameters())", [])]
)
def test_optimizer_of_a_class_that_is_chosen(more: str, codes: list[str]) -> None:
    """What it has can't be told; as the only one it trains the model."""
    text = _LOOP.replace("PRECISION", _FP16).replace("PREPARED", "model, loader")
    made = "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)\n"
    assert made in text
    text = text.replace(made, f"{_CHOICE}    {more}\n").replace("STEP", "\n        ".join(_STEP))
    assert [each.code for each in check(text) if each.code == "AMP402"] == codes


def test_prepared_optimizer() -> None:
    assert found(*_STEP) == []
    assert found(*_STEP, prepared="model, loader", precision=_BF16) == []
    assert found(*_STEP, prepared="model, loader", precision="") == []
    assert found(*_STEP, prepared="*parts", precision=_FP16) == []
    # Another model may be trained next to it, by a loss of its own.
    assert found(*_STEP, prepared="other, loader", precision=_FP16) == []


@pytest.mark.parametrize("precision", [_FP16, _CHOSEN])
def test_plain_backward_before_a_prepared_step(precision: str) -> None:
    assert found("loss.backward()", "optimizer.step()", precision=precision) == [("AMP403", 13)]


def test_plain_backward_without_a_scaler() -> None:
    assert found("loss.backward()", "optimizer.step()", precision=_BF16) == []
    assert found("loss.backward()", "optimizer.step()", precision="") == []
    assert found("loss.backward()", "optimizer.step()", prepared="model, loader") == []
    # Another file makes the Accelerator, for a precision that may be float16.
    made = "from parts import initialize\n" + _LOOP.replace("Accelerator(PRECISION)", "initialize(args)")
    assert made.count("initialize(args)") == 1
    text = made.replace("PREPARED", "model, optimizer, loader").replace(
        "STEP", "loss.backward()\n        optimizer.step()"
    )
    (one,) = (each for each in check(text) if each.code == "AMP403")
    assert (one.severity, one.message[:12]) == (Severity.WARNING, 'with "fp16" ')
    # The loss may be one of two.
    assert found("loss.backward()", *_STEP) == []


@pytest.mark.parametrize(
    "step",
    [
        ("if not math.isfinite(norm):", "    optimizer.zero_grad()", "    continue", "optimizer.step()"),
        ("if torch.isnan(norm) or torch.isinf(norm):", "    continue", "optimizer.step()"),
        ("if torch.isfinite(norm):", "    optimizer.step()"),
        ("ok = torch.isfinite(norm)", "if ok:", "    optimizer.step()", "else:", "    print('skipped')"),
    ],
)
def test_step_that_is_skipped_after_the_clip(step: tuple[str, ...]) -> None:
    """Nothing calls `update()` then, and the next clip unscales again."""
    assert found("accelerator.backward(loss)", _CLIP, *step) == [("AMP601", 14)]


def test_step_that_is_skipped_in_a_block_with_the_clip() -> None:
    lines = ("accelerator.backward(loss)", "if accelerator.sync_gradients:", f"    {_CLIP}")
    skipped = ("    if norm.isnan():", "        continue", "optimizer.step()")
    assert found(*lines, *skipped) == [("AMP601", 15)]


@pytest.mark.parametrize(
    "step",
    [
        ("optimizer.step()", "if not math.isfinite(norm):", "    print(norm)"),
        ("if not math.isfinite(norm):", "    print(norm)", "optimizer.step()"),
        ("if not math.isfinite(norm):", "    raise RuntimeError", "optimizer.step()"),
        ("if norm > 100:", "    print(norm)", "optimizer.step()"),
    ],
)
def test_step_that_always_comes(step: tuple[str, ...]) -> None:
    assert found("accelerator.backward(loss)", _CLIP, *step) == []


def test_loss_that_is_tested_before_its_backward() -> None:
    """Nothing is unscaled yet."""
    assert (
        found("if not math.isfinite(loss):", "    continue", "accelerator.backward(loss)", _CLIP, "optimizer.step()")
        == []
    )


MICRO = """\
from accelerate import Accelerator


def train(args, model, optimizer, loader):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=args.steps)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""
PARSED = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=DEFAULT)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("head", "severity", "condition"),
    [
        ("", Severity.WARNING, True),  # out of sight
        (PARSED.replace("DEFAULT", "4"), Severity.ERROR, False),
        (PARSED.replace("DEFAULT", "1"), Severity.WARNING, True),  # likely: without the option each step has one
    ],
)
def test_a_clip_on_micro_steps_that_are_none_by_default(head: str, severity: Severity, condition: bool) -> None:
    (one,) = check(head + MICRO, "train.py", Settings(frozenset({"AMP601"}), isolated=True))
    assert one.severity is severity
    assert ("if `gradient_accumulation_steps` is over 1" in one.message) is condition


OWN_TRAINER = """\
import torch
from transformers import Trainer


class Weighted(Trainer):
    pass


class MyTrainer(BASE):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = self.compute_loss(model, inputs)
        self.accelerator.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        return loss.detach()
"""


@pytest.mark.parametrize(("base", "is_trainer"), [("Trainer", True), ("Weighted", True), ("object", False)])
def test_a_trainer_of_transformers_clips_by_itself(base: str, is_trainer: bool) -> None:
    (one,) = check(OWN_TRAINER.replace("BASE", base), "train.py", Settings(frozenset({"AMP601"}), isolated=True))
    assert ("the Trainer clips by itself: set `max_grad_norm`" in one.message) is is_trainer
    assert one.fix is None or not is_trainer


def test_a_trainer_with_a_loop_of_its_own_clips_nothing() -> None:
    text = (
        OWN_TRAINER.replace("BASE", "Trainer")
        + "\n    def train(self):\n        for x in self.data:\n            pass\n"
    )
    (one,) = check(text, "train.py", Settings(frozenset({"AMP601"}), isolated=True))
    assert one.message.endswith("call `self.accelerator.clip_grad_norm_`")


@pytest.mark.parametrize(("precision", "when"), [(_FP16, ""), (_CHOSEN, 'with "fp16", ')])
def test_the_precision_is_named_where_there_is_a_choice(precision: str, when: str) -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    text = _LOOP.replace("PRECISION", precision).replace("PREPARED", "model, optimizer, loader")
    text = text.replace("STEP", f"accelerator.backward(loss)\n        {clip}\n        optimizer.step()")
    (message,) = (each.message for each in check(text) if each.code == "AMP601")
    assert message.startswith(f"{when}`torch.nn.utils.clip_grad_norm_` clips gradients that are still scaled")
