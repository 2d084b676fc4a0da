"""Optimizers that an Accelerator, or a class made as it is, gives back: their `step` goes through its scaler.

As of accelerate 1.15 (accelerate/optimizer.py): the step of a prepared optimizer calls the scaler's `step` and
`update`, and does nothing on micro steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import CallSites
from amplint.model.calls.external_calls import bases_in_sight, local_class
from amplint.model.inference.values import values_of
from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import given, objects
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import owner_class
from amplint.model.usage.accelerators import accelerators

if TYPE_CHECKING:
    from amplint.model import Module

_PREPARES = ("prepare", "prepare_optimizer")


def is_prepared(module: Module, optimizer: ir.Value) -> bool:
    """Whether an optimizer can be what an Accelerator's `prepare` gives back, through variables and calls."""
    return optimizer.id in module.once(_prepared)


def _prepared(module: Module) -> set[int]:
    """What can be a result of `prepare`, by the ids of the values."""
    sites = module.once(CallSites)
    starts: list[ir.Value] = list(_calls_of_prepare(module))
    found: dict[int, ir.Value] = {}
    while starts:
        new = [each for each in sites.reached(starts) if each.id not in found]
        found |= {each.id: each for each in new}
        functions = (ir.function_of(each) for each in new if isinstance(each.parent, ir.Return))
        starts = [call for function in functions if function is not None for call in sites.of(function)]
        starts = [each for each in starts if each.id not in found]
    return set(found)


def _calls_of_prepare(module: Module) -> Iterator[ir.Call]:
    """The calls that prepare an optimizer, or what can't be told."""
    known = objects(module)
    for call in module.whole.called(*_PREPARES):
        has_one = call.unpacks() or any(known.is_optimizer(each) is not None for each in given(call))
        base = ir.called_on(call, *_PREPARES)
        if has_one and base is not None and _is_accelerator(module, base):
            yield call


def _is_accelerator(module: Module, value: ir.Value) -> bool:
    """Whether a value is an Accelerator, or an object of a class in sight that inherits it, or is a copy of it."""
    if accelerators(module).owns(value):
        return True
    made = (each.value for each in values_of(module, value).leaves)
    classes = (local_class(module, each.func) for each in made if isinstance(each, ir.Call))
    return any(each is not None and _hands_scaler_on(module, each) for each in classes)


def _hands_scaler_on(module: Module, cls: ir.Class) -> bool:
    """Whether a class gives a scaler away: to an optimizer of its own kind, say; or may do so out of sight."""
    if not bases_in_sight(module, cls):
        return True
    known = objects(module)
    near = module.whole.near(*sorted({word_of(key) for key in known.scalers}))
    kept = (each for call in near.calls for each in given(call) if isinstance(each, ir.Attribute))
    return any(owner_class(each) is cls and known.is_scaler(each) is not None for each in kept)
