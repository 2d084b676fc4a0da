"""Gradients that are read while an Accelerator's scale is still on them: after its backward, before it unscales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.flow.gradient_reads import read_of
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import exclusive
from amplint.model.usage.accelerators import accelerators
from amplint.rules.shared.framework_steps import Met, Step, common, is_always_behind

if TYPE_CHECKING:
    from amplint.model import Module

_READ = "read"


class FrameworkRead(NamedTuple):
    """A read of gradients that an Accelerator has scaled, or a change of them.

    `clip`: the Accelerator's own clip behind it, which unscales. `is_sure`: the precision is float16 and no other.
    """

    call: ir.Call
    accelerator: ir.Value
    backward: ir.Call
    clip: ir.Call | None
    changes: bool
    is_sure: bool


def framework_reads(module: Module) -> Iterator[FrameworkRead]:
    """The calls in the file that read, or change, the gradients of an Accelerator's backward for their size."""
    told, known = set[int](), accelerators(module)
    backwards = [each for each in known.scaled_backwards() if not known.has_no_scaler(each.accelerator)]
    sure = {each.call.id: each.how.is_sure for each in backwards}
    for container in {id(each): each for each in (_container(module, one.call) for one in backwards)}.values():
        step = Step(module, container, lambda call: _kind(module, call))
        for met in step.met:
            backward = _scaled_by(module, step, met) if met.kind == _READ and met.call.id not in told else None
            if backward is None or backward.call.id not in sure or not isinstance(backward.call.func, ir.Attribute):
                continue
            told.add(met.call.id)
            read, clip = read_of(module, met.call), _unscaling_behind(step, met)
            changes = read is not None and read.how == "change"
            base = backward.call.func.base
            yield FrameworkRead(met.call, base, backward.call, clip, changes, sure[backward.call.id])


def _container(module: Module, call: ir.Call) -> ir.Function | ir.Program:
    return ir.function_of(call) or module.program


def _kind(module: Module, call: ir.Call) -> str | None:
    """What a call is to the gradients: an Accelerator's method, or a read."""
    return accelerators(module).kind(call) or (_READ if read_of(module, call) is not None else None)


def _scaled_by(module: Module, step: Step, read: Met) -> Met | None:
    """The backward that surely made the gradients which are read, and whose scale is still on them."""
    for each in reversed(step.met[: step.met.index(read)]):
        if each.kind == _READ or _apart(each, read):
            continue
        if each.kind != "backward" or step.in_other_arm(read) or not is_always_behind(module, read, each):
            return None
        return each
    return None


def _apart(one: Met, other: Met) -> bool:
    """Whether two events stand in two arms of an `if`, of which one alone runs."""
    return exclusive(*common(one, other))


def _unscaling_behind(step: Step, read: Met) -> ir.Call | None:
    """The Accelerator's clip behind a read, before anything else is done with the gradients."""
    for each in step.met[step.met.index(read) + 1 :]:
        if each.kind != _READ and not _apart(read, each):
            return each.call if each.kind == "clip" else None
    return None
