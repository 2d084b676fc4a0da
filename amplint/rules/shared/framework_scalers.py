"""Scalers that a framework makes and uses for a model: accelerate's Accelerator, transformers' Trainer (AMP208).

As of accelerate 1.15 (accelerator.py: `prepare` makes the scaler, `clip_grad_norm_` and the prepared optimizer's step
unscale) and transformers 4.57, whose Trainer trains through an Accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.formulas import FALSE, TRUE, Formula
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.usage.accelerators import accelerators
from amplint.rules.shared.framework_releases import is_class_of

if TYPE_CHECKING:
    from amplint.model import Module

_FLOAT16 = "fp16"
_LIBRARIES = ("transformers",)
_TRAINERS, _ARGUMENTS = ("Trainer", "Seq2SeqTrainer"), ("TrainingArguments", "Seq2SeqTrainingArguments")


class FrameworkScaler(NamedTuple):
    """What uses a framework's scaler for a model.

    `at`: the call that unscales or leads to it. `on`: what has to hold for the scaler to be there, as far as the file
    shows; `is_sure`: it shows all of it. `whose`: for a message.
    """

    at: ir.Call
    on: Formula
    is_sure: bool
    whose: str


def framework_scalers(module: Module, models: set[str], optimizers: set[str]) -> Iterator[FrameworkScaler]:
    """The frameworks' scalers that unscale the gradients of a model, by its keys and those of its optimizers."""
    yield from _of_accelerators(module, models, optimizers)
    yield from _of_trainers(module, models)


def _of_accelerators(module: Module, models: set[str], optimizers: set[str]) -> Iterator[FrameworkScaler]:
    """The backward passes of Accelerators that prepare both a model and its optimizer."""
    known, owner = objects(module), accelerators(module)
    if not owner.is_used:
        return
    prepared = [
        call
        for call in module.own.called("prepare")
        if (base := ir.called_on(call, "prepare")) is not None and owner.owns(base)
    ]
    given = {known.key(arg.value) for call in prepared for arg in call.args}
    if not given & models or not given & optimizers:
        return
    for call in module.own.called("backward"):
        base = ir.called_on(call, "backward")
        if base is None or owner.kind(call) != "backward":
            continue
        precisions = owner.precisions(base)
        if precisions & {_FLOAT16, None}:
            yield FrameworkScaler(call, TRUE, precisions == {_FLOAT16}, "the Accelerator's scaler")


def _of_trainers(module: Module, models: set[str]) -> Iterator[FrameworkScaler]:
    """The Trainers that get a model, and arguments that ask for float16."""
    for call in module.own.near(*module.words("transformers.*Trainer")).calls:
        if not is_class_of(module, call.func, _LIBRARIES, *_TRAINERS):
            continue
        model = call.keyword("model") or (call.positional[0] if call.positional else None)
        given = call.keyword("args") or (call.positional[1] if len(call.positional) > 1 else None)
        if model is None or given is None or objects(module).key(model) not in models:
            continue
        for each in values_of(module, given).leaves:
            if isinstance(each.value, ir.Call) and is_class_of(module, each.value.func, _LIBRARIES, *_ARGUMENTS):
                flag = each.value.keyword(_FLOAT16)
                on = decided(module).of(flag) if flag is not None else FALSE
                if on != FALSE:
                    said = f"the scaler of the Trainer, with `fp16={module.on_one_line(flag)}`" if flag else ""
                    yield FrameworkScaler(call, on, True, said)
