"""Objects that scale, clip and step in one call, as timm's `NativeScaler`, in one of two branches (AMP420)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import events
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round, upwards

if TYPE_CHECKING:
    from amplint.model import Module

# How such a call is told the bound of the norm.
_BOUNDS = ("clip_grad", "max_norm", "clip_norm", "max_grad_norm", "grad_clip", "clip_grad_norm")


class ClippedApart(NamedTuple):
    """The argument by which a branch clips, and the step of the other branch, which does not clip."""

    bound: ir.Value
    step: ir.Call


def clipped_apart(module: Module) -> Iterator[ClippedApart]:
    """The calls of such objects that clip, where the other branch steps the same optimizer, and nothing clips there."""
    for call in module.whole.near(*_BOUNDS).calls:
        bound = next((arg.value for arg in call.args if arg.keyword in _BOUNDS and not ir.is_none(arg.value)), None)
        around = ifs_round(call)
        if bound is None or not around or "scaler" not in ir.last_name(call.func).lower():
            continue
        step = _step_of(module, call, _other_block(around[0], call))
        if step is not None and not _clips_elsewhere(module, call):
            yield ClippedApart(bound, step)


def _other_block(statement: ir.If, node: ir.Node) -> ir.Block | None:
    """The suite of an if with two that a node is not in."""
    inside = {id(each.block) for each in upwards(ir.statement_of(node))}
    both = [each for each in (statement.then, statement.orelse) if each is not None]
    others = [each for each in both if id(each) not in inside]
    return others[0] if len(both) == 2 and len(others) == 1 else None


def _step_of(module: Module, call: ir.Call, block: ir.Block | None) -> ir.Call | None:
    """The step, after a backward pass, of the optimizer that a call gets."""
    found = list(events(module).below(block)) if block is not None else []
    kinds = {each.kind for each in found}
    if "backward" not in kinds or kinds & {"clip", "scale", "step", "opaque"}:
        return None
    given = {objects(module).key(arg.value) for arg in call.args} - {None}
    steps = (each.call for each in found if each.kind == "optimizer_step" and each.optimizer in given)
    return next((each for each in steps if isinstance(each, ir.Call)), None)


def _clips_elsewhere(module: Module, call: ir.Call) -> bool:
    """Whether something in the function of a call, or in one that calls it, is called like a clip or a hook."""
    function = ir.function_of(call)
    containers = {function, *map(ir.function_of, callers(module, function))}
    return any(
        word in ir.last_name(each.func).lower()
        for container in containers
        for each in module.whole.within(container).calls
        for word in ("clip", "hook")
    )
