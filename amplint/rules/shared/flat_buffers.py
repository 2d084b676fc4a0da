"""Optimizers over flat buffers: parameters and gradients that are views of one tensor, made by hand (AMP407)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.flow.analysis import Flow, flows
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import nodes_round
from amplint.model.usage.mentions_of import STORES_GRAD, near_kept
from amplint.rules.shared.scaler_order import always_off, reached_events

if TYPE_CHECKING:
    from amplint.model import Module

_DEPTH = 4


class Cleared(NamedTuple):
    """A `zero_grad()` that takes the buffer's gradient from it, and what made the buffer."""

    call: ir.Call
    maker: ir.Function | ir.Class


def cleared(module: Module) -> Iterator[Cleared]:
    """The clears of optimizers over flat buffers that a scaler steps."""
    reported: set[int] = set()
    for flow in flows(module) if module.once(_makers) else ():
        for step in reached_events(flow, "step"):
            maker = _maker(module, flow, step.event.optimizer) if not always_off(flow, step) else None
            for clear in reached_events(flow, "zero_grad") if maker is not None else ():
                call = clear.event.call
                same = clear.event.optimizer == step.event.optimizer
                if same and isinstance(call, ir.Call) and not call.args and call.id not in reported:
                    reported.add(call.id)
                    assert maker is not None
                    yield Cleared(call, maker)


def _maker(module: Module, flow: Flow, optimizer: str | None) -> ir.Function | ir.Class | None:
    """What makes the flat buffer that an optimizer is over, as the file shows: it is made of it, or asked about it."""
    for call in module.whole.near("isinstance").calls:
        if module.names.of(call.func) == {"builtins.isinstance"} and len(call.positional) == 2:
            asked = module.names.definition(call.positional[1])
            if asked in module.once(_makers) and flow.contains(call):
                return asked
    made = (_in(module, arg.value, _DEPTH) for call in _constructions(module, optimizer) for arg in call.args)
    return next((each for each in made if each is not None), None)


def _constructions(module: Module, optimizer: str | None) -> Iterator[ir.Call]:
    """The calls that are assigned to what is kept at the key of an optimizer."""
    known = objects(module)
    keys = {optimizer, known.original(optimizer or "")}
    near = near_kept(module, {each or "" for each in keys}) if optimizer is not None else module.whole
    for statement in near.statements:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            if any(known.key(each) in keys for each in statement.targets):
                yield statement.value


def _in(module: Module, value: ir.Value, depth: int) -> ir.Function | ir.Class | None:
    """A maker of flat buffers that a value comes from."""
    for each in ir.walk_values(value):
        made = module.names.definition(each.func) if isinstance(each, ir.Call) else None
        if made in module.once(_makers):
            return made
        if isinstance(each, ir.Name) and depth:
            for binding in module.names.bindings(each):
                found = _in(module, binding.value, depth - 1) if isinstance(binding, Assigned) else None
                if found is not None:
                    return found
    return None


def _makers(module: Module) -> list[ir.Function | ir.Class]:
    """The functions and classes that make gradients slices of one tensor, and that the gradient of another one."""
    storing = [
        each
        for each in module.whole.near(STORES_GRAD).statements
        if isinstance(each, ir.Assign)
        and any(isinstance(to, ir.Attribute) and to.attr == "grad" for to in each.targets)
    ]
    around = {up.id: up for each in storing for up in _around(each)}
    return [around[each] for each in sorted(around) if _is_flat(around[each].body)]


def _around(statement: ir.Statement) -> Iterator[ir.Function | ir.Class]:
    return (each for each in nodes_round(statement) if isinstance(each, (ir.Function, ir.Class)))


def _is_flat(block: ir.Block) -> bool:
    sliced = whole = False
    for statement in ir.walk_statements(block):
        if isinstance(statement, ir.Assign) and statement.value is not None:
            if any(isinstance(each, ir.Attribute) and each.attr == "grad" for each in statement.targets):
                parts = any(isinstance(each, ir.Slice) for each in ir.walk_values(statement.value))
                sliced = sliced or parts
                tensor = isinstance(statement.value, (ir.Name, ir.Attribute, ir.Subscript))
                whole = whole or (tensor and not parts)
    return sliced and whole
