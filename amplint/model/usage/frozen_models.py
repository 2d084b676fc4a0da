"""Models that a file freezes: no gradients are made for their weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false

if TYPE_CHECKING:
    from amplint.model import Module


def frozen(module: Module) -> frozenset[str]:
    """The keys of the models that the file freezes, also those of which it freezes only some weights."""
    return module.once(_frozen)


def _frozen(module: Module) -> frozenset[str]:
    known = objects(module)
    found: set[str | None] = set()
    for call in module.whole.near("requires_grad", "freeze").calls:
        found |= {known.key(each) for each in _frozen_by(call)}
    for statement in module.whole.near("requires_grad", "setattr").statements:
        if isinstance(statement, ir.For) and _may_freeze(statement.body):
            found |= known.parameters_roots(statement.iter)
    return frozenset(each for each in found if each is not None)


def _frozen_by(call: ir.Call) -> Iterator[ir.Value]:
    """The models that a call freezes."""
    name = ir.last_name(call.func)
    off = any(map(is_false, call.positional))
    base = ir.called_on(call, "requires_grad_")
    if base is not None and off:
        yield base
        if isinstance(call.parent, ir.Assign):  # `teacher = load().requires_grad_(False)`
            yield from call.parent.targets
    if "freeze" in name or ("requires_grad" in name and off):
        yield from (arg.value for arg in call.args)


def _may_freeze(body: ir.Block) -> bool:
    """Whether a suite sets `requires_grad` of something, to anything but True."""
    for each in ir.walk_statements(body, into=False):
        if isinstance(each, ir.Assign) and any(ir.last_name(target) == "requires_grad" for target in each.targets):
            if not _is_true(each.value):
                return True
    calls = (each for each in ir.calls_below(body) if each.positional)
    return any(
        ir.last_name(each.func) in ("requires_grad_", "setattr") and not _is_true(each.positional[-1]) for each in calls
    )


def _is_true(value: ir.Value | None) -> bool:
    return isinstance(value, ir.Constant) and value.value is True
