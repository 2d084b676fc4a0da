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
from amplint.model.usage.prepared_optimizers import is_prepared

if TYPE_CHECKING:
    from amplint.model import Module

_OPTIMIZERS = ("torch.optim.", "bitsandbytes.optim.")
_PREPARES = re.compile(r"\.prepare(_model|_optimizer)?\(")


class UnpreparedStep(NamedTuple):
    """A step of an optimizer, and the backward of the Accelerator before it.

    `others`: whether something else is prepared. `is_sure`: the Accelerator is for float16, and is passed to nothing.
    """

    step: ir.Call
    backward: ir.Call
    others: bool
    is_sure: bool


def unprepared_steps(module: Module) -> Iterator[UnpreparedStep]:
    """The steps of torch's own optimizers after an Accelerator's backward that nothing in the program prepares.

    Where something else is prepared, only if the file chooses float16, or has an option for it.
    """
    owner = accelerators(module)
    prepared = _prepared(module) if owner.is_used else None
    for each in owner.scaled_backwards() if prepared is not None else ():
        if prepared and not each.how.is_asked_for:
            continue
        step = _step_after(module, each.call, prepared or set()) if owner.made(each.accelerator) else None
        if step is not None:
            sure = each.how.is_sure and not _is_passed(module, each.accelerator)
            yield UnpreparedStep(step, each.call, bool(prepared), sure)


def _prepared(module: Module) -> set[str] | None:
    """The keys of all that the program passes to `prepare`; None: something that it passes can't be told."""
    calls = [each for each in accelerators(module).prepared() if module.is_own(each)]
    if len(calls) != sum(len(_PREPARES.findall(text)) for text in module.texts):
        return None  # in another file, or of what isn't known as an Accelerator
    given = [arg.value for each in calls for arg in each.args if not isinstance(arg.value, ir.Call)]
    keys = [objects(module).key(each) for each in given]
    return {each for each in keys if each} if all(keys) and not any(each.unpacks() for each in calls) else None


def _step_after(module: Module, backward: ir.Call, prepared: set[str]) -> ir.Call | None:
    """The first step after a call, in its function, of one of torch's optimizers that isn't prepared.

    Where models are prepared, of one that owns the parameters of one of them, as far as that can be told.
    """
    for call, optimizer in steps_after(module, backward):
        event, key = events(module).of(call), objects(module).key(optimizer)
        if event is None or event.kind != "optimizer_step" or key is None or key in prepared:
            continue
        owned = objects(module).owns.get(key, set())
        # Where it can't be told what it has, it is the one that steps if it is the only one.
        trains = owned & prepared if owned else len(objects(module).constructed) <= 1
        if _is_torchs(module, optimizer) and (not prepared or trains):
            return call
    return None


def steps_unprepared(module: Module, step: ir.Call, accelerator: ir.Value) -> bool:
    """Whether a call is surely the step of an optimizer of torch's, of a program that prepares none for an Accelerator:
    this has nothing to unscale.
    """
    known, optimizer, prepared = objects(module), ir.called_on(step, "step"), _prepared(module)
    if optimizer is None or prepared is None or _is_passed(module, accelerator):
        return False
    made_here = all(map(module.is_own, accelerators(module).made(accelerator)))
    alone = bool(accelerators(module).made(accelerator)) and made_here and not any(map(known.is_optimizers, prepared))
    return alone and _is_torchs(module, optimizer) and not is_prepared(module, optimizer)


def steps_after(module: Module, node: ir.Node) -> Iterator[tuple[ir.Call, ir.Value]]:
    """The calls of a `step` after a node, in its function, each with what it is a method of."""
    function = ir.function_of(node)
    for call in module.own.within(function).called("step"):
        base = ir.called_on(call, "step")
        if base is not None and call.id >= node.id and ir.function_of(call) is function:
            yield call, base


def _is_torchs(module: Module, optimizer: ir.Value) -> bool:
    """Whether an optimizer is surely one that the file creates by a class of torch's."""
    made = [each.value for each in values_of(module, optimizer).leaves]
    return bool(made) and all(
        isinstance(each, ir.Call) and all(name.startswith(_OPTIMIZERS) for name in module.names.of(each.func))
        for each in made
    )


def _is_passed(module: Module, accelerator: ir.Value) -> bool:
    """Whether an Accelerator is an argument of a call, which may prepare with it."""
    key = objects(module).key(accelerator)
    return any(objects(module).key(each) == key for call in module.own.calls for each in given(call))
