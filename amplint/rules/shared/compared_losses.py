"""Losses that belong together: one is subtracted from the other, or some call gets both.

Where both are rounded, the same rounding is in both. If one of them alone were exact, their difference would not be 0
where model and reference are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from amplint.model.names.reaching_definitions import reaching
from amplint.model.syntax import ir
from amplint.model.syntax.control import unpacked_from
from amplint.model.syntax.ir import Assigned

if TYPE_CHECKING:
    from amplint.model import Module

_COMPARES = ("Subtract", "Divide")
_MANY = 500  # values that one is followed through


def compared_losses(module: Module, losses: Sequence[ir.Value]) -> list[list[ir.Value]]:
    """Those of some losses that belong together, group by group, each group in the order of the text."""
    groups: dict[int, set[int]] = {each.id: {each.id} for each in losses}
    for function in dict.fromkeys(map(ir.function_of, losses)) if len(losses) > 1 else ():
        for values in _compared(module, function):
            made = [_made_of(module, each, groups.keys()) for each in values]
            if any(made) and any(each and each != made[0] for each in made):
                joined = {one for each in made for loss in each for one in groups[loss]}
                groups.update(dict.fromkeys(joined, joined))
    by_id = {each.id: each for each in losses}
    several = {tuple(sorted(each)) for each in groups.values() if len(each) > 1}
    return [[by_id[one] for one in group] for group in sorted(several)]


def _compared(module: Module, function: ir.Function | None) -> Iterator[Sequence[ir.Value]]:
    """What is subtracted or divided in a function, or given to one call, whose result is used."""
    near = module.whole.within(function)
    for value in near.values:
        if isinstance(value, ir.Binary) and value.op in _COMPARES:
            yield value.left, value.right
    for statement in near.statements:
        if isinstance(statement, ir.AugAssign) and statement.op in _COMPARES:
            yield statement.target, statement.value
    for call in near.calls:
        if len(call.args) > 1 and not isinstance(call.parent, ir.Expr) and not _keeps(module, call):
            yield [each.value for each in call.args]


def _keeps(module: Module, call: ir.Call) -> bool:
    """Whether a call only keeps what it is given, as `dict(first=a, second=b)` does."""
    return any(each.startswith("builtins.") for each in module.names.of(call.func))


def _made_of(module: Module, value: ir.Value, losses: Set[int]) -> frozenset[int]:
    """The losses that a value is computed from."""
    found, seen, todo = set(), set[int](), [value]
    while todo and len(seen) < _MANY:
        each = todo.pop()
        if each.id in losses:
            found.add(each.id)
        elif each.id not in seen:
            seen.add(each.id)
            todo += each.children()
            for binding in reaching(module.names, each) if isinstance(each, ir.Name) else ():
                source = binding.value if isinstance(binding, Assigned) else unpacked_from(binding)
                todo += [source] if source is not None else []
    return frozenset(found)
