"""Scalers that a framework makes and uses for a model: accelerate's Accelerator, transformers' Trainer (AMP208).

As of accelerate 1.15 (accelerator.py: the constructor makes the scaler, `clip_grad_norm_` and a prepared optimizer's
step unscale) and transformers 4.57, whose Trainer trains through an Accelerator.
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
from amplint.rules.shared.transformers_trainers import FLOAT16, argument_given, has_engine, makes_arguments, trainers

if TYPE_CHECKING:
    from amplint.model import Module


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
    given = {known.key(arg.value) for call in owner.prepared() if module.is_own(call) for arg in call.args}
    if given & models and given & optimizers:
        for each in owner.scaled_backwards():
            yield FrameworkScaler(each.call, TRUE, each.how.is_sure, "the Accelerator's scaler")


def _of_trainers(module: Module, models: set[str]) -> Iterator[FrameworkScaler]:
    """The Trainers that get a model, and arguments that ask for float16."""
    for trainer in trainers(module):
        if trainer.model is None or trainer.args is None or objects(module).key(trainer.model) not in models:
            continue
        for each in values_of(module, trainer.args).leaves:
            made = each.value
            is_made = isinstance(made, ir.Call) and makes_arguments(module, made)
            flag = argument_given(module, made, FLOAT16) if isinstance(made, ir.Call) and is_made else None
            on = decided(module).of(flag) if flag is not None else FALSE
            if flag is not None and on != FALSE and not has_engine(module, made):
                said = f"the scaler of the Trainer with `{FLOAT16}={module.on_one_line(flag)}`"
                yield FrameworkScaler(trainer.call, on, True, said)
