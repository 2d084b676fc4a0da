"""The Trainers of transformers that a file creates, and what they are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.syntax import ir
from amplint.rules.shared.framework_releases import is_class_of

if TYPE_CHECKING:
    from amplint.model import Module

FLOAT16 = "fp16"  # the argument that asks for it
_LIBRARIES = ("transformers",)


class Trainer(NamedTuple):
    """A construction of a Trainer, with its model and its TrainingArguments as far as they are written there."""

    call: ir.Call
    model: ir.Value | None
    args: ir.Value | None


def trainers(module: Module) -> Iterator[Trainer]:
    """The Trainers that a file creates."""
    for call in module.own.near(*module.words("transformers.*Trainer")).calls:
        if is_class_of(module, call.func, _LIBRARIES, "Trainer", "Seq2SeqTrainer"):
            given = dict(zip(("model", "args"), call.positional, strict=False))
            model, args = (call.keyword(name) or given.get(name) for name in ("model", "args"))
            yield Trainer(call, model, args)


def makes_arguments(module: Module, call: ir.Call) -> bool:
    """Whether a call creates the arguments of a Trainer."""
    return is_class_of(module, call.func, _LIBRARIES, "TrainingArguments", "Seq2SeqTrainingArguments")
