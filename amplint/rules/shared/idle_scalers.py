"""Which scalers in the code that runs with a backward do nothing for its loss: they are idle, or for other losses."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import events
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.nesting import nodes_round
from amplint.model.torch_facts.names import SCALER, SCALERS
from amplint.model.usage.mentions_of import near_kept
from amplint.rules.shared.enabled_flags import plain_steps
from amplint.rules.shared.scaler_usage import ScalerUsage, every_scaler_usage

if TYPE_CHECKING:
    from amplint.model import Module

# What a scaler does to a loss and its gradients.
_WORK = {"scale", "unscale_", "step"}
# What else may be asked of a scaler that works for other losses.
_LOOKS = {"update", "state_dict", "load_state_dict", "is_enabled", "get_scale"}
_STEPS = {"step", "optimizer_step"}
_IMPORTED = {"gradscaler", "grad_scaler"}
_WORD = re.compile(r"\w*scaler\w*")


def words_of_idle_scalers(
    module: Module, backward: ir.Node, running: Collection[ir.Function | ir.Class | None], code: str
) -> frozenset[str]:
    """The words of some code, in small letters, that are names of scalers which do nothing for the loss of a backward.

    `running`: the functions and classes in which the code stands, None for the file itself. A word is none of these
    where anything in them that is called so is something else, or a scaler that gets to where it can't be followed.
    """
    words = set(_WORD.findall(code))
    usages = every_scaler_usage(module) if words else ()
    idle = {key for usage in usages if _is_idle(module, usage, backward) for key in usage.keys}
    if not idle:
        return frozenset()
    known, named, others = objects(module), set(_IMPORTED), set[str]()
    for each in module.whole.near("caler").values:
        name = ir.last_name(each).lower() if isinstance(each, (ir.Name, ir.Attribute)) else ""
        if name in words and _stands_in(module, each, running):
            is_idle = known.key(each) in idle or bool(module.names.of(each) & SCALERS)
            (named if is_idle else others).add(name)
    for function in running:
        named |= {each.name.lower() for each in function.params} if isinstance(function, ir.Function) else set()
    return frozenset(words & named - others)


def _stands_in(module: Module, node: ir.Node, running: Collection[ir.Function | ir.Class | None]) -> bool:
    if None in running and module.is_own(node):
        return True
    return any(each in running for each in nodes_round(node) if isinstance(each, (ir.Function, ir.Class)))


def _is_idle(module: Module, usage: ScalerUsage, backward: ir.Node) -> bool:
    """Whether a scaler of torch's, made in sight, does nothing for the loss of a backward: it is only saved, loaded and
    asked for its scale, or it works for other losses.
    """
    return not usage.escapes and (not usage.methods & _WORK or _is_for_others(module, usage, backward))


def _is_for_others(module: Module, usage: ScalerUsage, backward: ir.Node) -> bool:
    """Whether a scaler steps other optimizers than those that step behind a backward, and runs the backward of each
    loss that it scales.
    """
    calls = [each for each in near_kept(module, usage.keys).calls if _is_of(module, usage, each)]
    scales = [each for each in calls if ir.last_name(each.func) == "scale"]
    if not scales or not usage.methods <= _WORK | _LOOKS or not all(map(_runs_backward, scales)):
        return False  # one that scales nothing works for no other loss
    if _is_stepped_by(module, backward, calls):
        return False
    steps = [each.call for each in plain_steps(module, backward)]
    plain = [each.func.base for each in steps if isinstance(each, ir.Call) and isinstance(each.func, ir.Attribute)]
    stepped = [argument(each, f"{SCALER}.step", "optimizer") for each in calls if ir.last_name(each.func) == "step"]
    one, other = (_optimizers(module, each) for each in (plain, stepped))
    return one is not None and other is not None and one.isdisjoint(other)


def _is_of(module: Module, usage: ScalerUsage, call: ir.Call) -> bool:
    return isinstance(call.func, ir.Attribute) and objects(module).key(call.func.base) in usage.keys


def _runs_backward(scale: ir.Call) -> bool:
    return isinstance(scale.parent, ir.Attribute) and scale.parent.attr == "backward"


def _is_stepped_by(module: Module, backward: ir.Node, calls: list[ir.Call]) -> bool:
    """Whether the next step behind a backward in its function, or behind a call of that one, is one of a scaler's."""
    function = ir.function_of(backward)
    for place in (backward, *callers(module, function)):
        around = ir.function_of(place)
        behind = [each for each in module.whole.within(around).called("step") if each.id > place.id]
        steps = [each for each in behind if ir.function_of(each) is around and _kind(module, each) in _STEPS]
        if steps and min(steps, key=lambda each: each.id) in calls:
            return True
    return False


def _kind(module: Module, call: ir.Call) -> str | None:
    event = events(module).of(call)
    return event.kind if event is not None else None


def _optimizers(module: Module, values: Sequence[ir.Value | None]) -> frozenset[str] | None:
    """What some values are, by where they are made or by their parameters; None where that can't be told of each."""
    found = [_made_at(module, each) if each is not None else frozenset[str]() for each in values]
    return frozenset().union(*found) if found and all(found) else None


def _made_at(module: Module, value: ir.Value) -> frozenset[str]:
    bindings = reaching(module.names, value) if isinstance(value, ir.Name) else []
    parameter = ir.parameter_of(bindings[0]) if len(bindings) == 1 else None
    if parameter is not None:
        return frozenset({f"parameter {objects(module).key(value)}"})
    leaves = values_of(module, value).leaves
    calls = [each.value for each in leaves if isinstance(each.value, ir.Call) and not each.is_open]
    return frozenset(f"call {each.id}" for each in calls) if len(calls) == len(leaves) else frozenset()
