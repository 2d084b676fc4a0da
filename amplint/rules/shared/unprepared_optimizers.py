"""Optimizers that step on what an Accelerator's backward made, and that no `prepare` got (AMP402).

As of accelerate 1.15: `Accelerator.backward` scales the loss with the scaler that the constructor made, and only an
optimizer that `prepare` has wrapped steps through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import given, objects
from amplint.model.syntax import ir
from amplint.model.usage.accelerators import accelerators

if TYPE_CHECKING:
    from amplint.model import Module

_PREPARES = re.compile(r"\.prepare(_model|_optimizer)?\(")


class UnpreparedStep(NamedTuple):
    """A step of an optimizer, and the backward of the Accelerator before it.

    `is_sure`: the Accelerator is for float16, and is passed to nothing.
    """

    step: ir.Call
    backward: ir.Call
    is_sure: bool


def unprepared_steps(module: Module) -> Iterator[UnpreparedStep]:
    """The steps of torch's own optimizers after an Accelerator's backward, in a program that prepares nothing."""
    owner = accelerators(module)
    if not owner.is_used or any(map(_PREPARES.search, module.texts)):
        return
    for each in owner.scaled_backwards():
        step = _step_after(module, each.call) if owner.made(each.accelerator) else None
        if step is not None:
            yield UnpreparedStep(step, each.call, each.is_sure and not _is_passed(module, each.accelerator))


def _step_after(module: Module, backward: ir.Call) -> ir.Call | None:
    """The first step of one of torch's optimizers after a call, in its function."""
    function = ir.function_of(backward)
    for call in module.own.within(function).called("step"):
        event = events(module).of(call)
        if call.id < backward.id or ir.function_of(call) is not function or event is None:
            continue
        if (
            event.kind == "optimizer_step"
            and isinstance(call.func, ir.Attribute)
            and _is_torchs(module, call.func.base)
        ):
            return call
    return None


def _is_torchs(module: Module, optimizer: ir.Value) -> bool:
    """Whether an optimizer is surely one that the file creates by a class of torch's."""
    made = [each.value for each in values_of(module, optimizer).leaves]
    return bool(made) and all(
        isinstance(each, ir.Call) and all(name.startswith("torch.optim.") for name in module.names.of(each.func))
        for each in made
    )


def _is_passed(module: Module, accelerator: ir.Value) -> bool:
    """Whether an Accelerator is an argument of a call, which may prepare with it."""
    key = objects(module).key(accelerator)
    return any(objects(module).key(each) == key for call in module.own.calls for each in given(call))
