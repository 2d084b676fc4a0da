"""Losses that a loop doesn't scale, though its optimizer steps through an Accelerator's scaler (AMP403).

As of accelerate 1.15 (accelerate/optimizer.py): the step of a prepared optimizer unscales, and raises if no
`accelerator.backward` has scaled a loss before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.usage.accelerators import accelerators
from amplint.rules.shared.unprepared_optimizers import steps_after

if TYPE_CHECKING:
    from amplint.model import Module


class PlainBackward(NamedTuple):
    """A backward pass of an unscaled loss, and the step of a prepared optimizer after it.

    `is_sure`: the Accelerator is for float16, whatever the program is asked for.
    """

    event: Event
    step: ir.Call
    accelerator: ir.Value
    is_sure: bool


def plain_backwards(module: Module) -> Iterator[PlainBackward]:
    """The plain backward passes before steps of prepared optimizers, if the program never calls the Accelerator's."""
    owner, known = accelerators(module), objects(module)
    if not owner.is_used or any(owner.kind(each) == "backward" for each in module.whole.called("backward")):
        return
    for prepare in owner.prepared():
        accelerator = ir.called_on(prepare, "prepare")
        how = owner.scaling(accelerator) if accelerator is not None and module.is_own(prepare) else None
        if accelerator is None or how is None or not (how.is_asked_for or not owner.made(accelerator)):
            continue  # `Accelerator()` is for float16 only where accelerate's own configuration says so
        if owner.has_no_scaler(accelerator):
            continue
        prepared = {key for each in prepare.args if (key := known.key(each.value)) is not None}
        for call in module.own.called("backward"):
            event = events(module).of(call)
            step = _step_after(module, call, prepared)
            if event is not None and event.kind == "backward" and event.subject is not None and step is not None:
                yield PlainBackward(event, step, accelerator, how.is_sure)


def _step_after(module: Module, backward: ir.Call, prepared: set[str]) -> ir.Call | None:
    """The first step of a prepared optimizer after a call, in its function."""
    known = objects(module)
    steps = steps_after(module, backward)
    return next((call for call, each in steps if known.is_optimizer(each) and known.key(each) in prepared), None)
