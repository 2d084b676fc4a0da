"""Loops of a few rounds: whether a node is run in a later one than another, as far as the loop's variable decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.flow.path_conditions import truth_of
from amplint.model.inference.iterations import how_many, is_repeated
from amplint.model.inference.python_types import number
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.ir import Other
from amplint.model.syntax.nesting import exclusive
from amplint.model.syntax.operators import COMPARES, COMPUTES, ORDERS

if TYPE_CHECKING:
    from amplint.model import Module

FEW = 5  # critics are trained that often for each step of the generator
_OPEN = object()  # a value that isn't known


def is_brief(module: Module, loops: list[ir.For | ir.While]) -> bool:
    """Whether nested loops surely have a few rounds at most, all in all."""
    rounds = 1.0
    for loop in loops:
        rounds *= how_many(module, loop.iter).most if isinstance(loop, ir.For) else FEW + 1
    return rounds <= FEW


def comes_later(module: Module, loop: ir.For | ir.While, first: ir.Node, second: ir.Node) -> bool:
    """Whether the second of two nodes in a loop is run in a later round than the first is."""
    if not isinstance(loop, ir.For) or not is_repeated(module, loop):
        return False
    target, values = _rounds(module, loop)
    one, other = (
        [i for i, value in enumerate(values) if _runs(module, node, loop, target, value)] for node in (first, second)
    )
    if exclusive(first, second) and set(one) & set(other):
        return False  # it is something else that tells them apart
    return bool(one and other) and one[0] < other[-1]


def _rounds(module: Module, loop: ir.For) -> tuple[ir.Value, list[object]]:
    """What tells the rounds of a loop apart, and its values in the first rounds, as far as they are known."""
    source, target = loop.iter, loop.target
    if isinstance(source, ir.Sequence):
        return target, [each.value if isinstance(each, ir.Constant) else _OPEN for each in source.items]
    name = module.names.only(source.func) if isinstance(source, ir.Call) else None
    count = how_many(module, source)
    if not isinstance(source, ir.Call) or len(source.args) != 1 or not count.least == count.most <= FEW:
        return target, [_OPEN, _OPEN]
    if name == "builtins.enumerate" and isinstance(target, ir.Sequence):
        return target.items[0], [*range(int(count.most))]
    return target, [*range(int(count.most))] if name == "builtins.range" else [_OPEN, _OPEN]


def _runs(module: Module, node: ir.Node, loop: ir.For, target: ir.Value, value: object) -> bool:
    """Whether a node is run in the round of a loop in which its variable has a value; False where that is open.

    What no round changes is taken to let the node be run.
    """
    known = objects(module)
    changing = set(known.assigned_in(loop))
    for test, holds in conditions_round(node, loop):
        truth = truth_of(test, lambda part: _truth(module, part, target, value))
        if truth is (not holds) or (truth is None and known.names_in(test) & changing):
            return False
    return True


def _truth(module: Module, part: ir.Value, target: ir.Value, value: object) -> bool | None:
    if not isinstance(part, ir.Compare):
        known = _known(module, part, target, value)
        return None if known is _OPEN else bool(known)
    if len(part.ops) != 1 or part.ops[0] not in COMPARES:
        return None
    left, right = (_known(module, each, target, value) for each in (part.left, part.rights[0]))
    if _OPEN in (left, right) or (part.ops[0] in ORDERS and not (_is_number(left) and _is_number(right))):
        return None
    return COMPARES[part.ops[0]](left, right)


def _known(module: Module, value: ir.Value, target: ir.Value, its: object) -> object:
    """What a value is while the loop's variable is `its`."""
    if isinstance(value, ir.Constant):
        return value.value
    if isinstance(value, ir.Name):
        bindings = reaching(module.names, value)
        if bindings and all(isinstance(each, Other) and each.node is target for each in bindings):
            return its
    if isinstance(value, ir.Binary) and value.op in COMPUTES:
        left, right = (_known(module, each, target, its) for each in (value.left, value.right))
        by_zero = value.op == "Modulo" and not right
        return COMPUTES[value.op](left, right) if _is_number(left) and _is_number(right) and not by_zero else _OPEN
    found = number(module, value)
    return _OPEN if found is None else found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
