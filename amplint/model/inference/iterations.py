"""How often a loop runs, as far as what it iterates over tells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.python_types import number
from amplint.model.syntax import ir
from amplint.model.syntax.control import is_changed
from amplint.model.syntax.operators import COMPARES, COMPUTES

if TYPE_CHECKING:
    from amplint.model import Module

RANGES = frozenset(("builtins.range", "tqdm.trange", "tqdm.auto.trange"))
# What shows how far its first argument is.
SHOWN = frozenset(("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm"))
# What iterates over its first argument once.
_SAME_LENGTH = SHOWN | {
    "builtins.enumerate", "builtins.list", "builtins.tuple", "builtins.reversed", "builtins.iter", "builtins.sorted",
}  # fmt: skip
_VIEWS = {"items", "keys", "values"}
_ADDS = {"append", "extend", "insert", "setdefault", "update"}
_FOLLOW = 5


class Items(NamedTuple):
    """How many items an iterable has, at least and at most."""

    least: float
    most: float


_ANY = Items(0, math.inf)


def runs_once(module: Module, loop: ir.For | ir.While) -> bool:
    """Whether a loop has one iteration: `for _ in range(1)`, one that breaks at its end whatever happens, or one whose
    counter or flag lets it have no other: `while i < 1:`.
    """
    ends = loop.body.statements[-1]
    if isinstance(ends, ir.Return) or (isinstance(ends, ir.Jump) and ends.kind == "break"):
        return not _continues(loop.body)
    if isinstance(loop, ir.While):
        return _counts_to_one(module, loop)
    return how_many(module, loop.iter).most <= 1


def _continues(body: ir.Block) -> bool:
    """Whether a loop's body has a `continue`."""
    statements = ir.walk_statements(body, into=False)
    return any(isinstance(each, ir.Jump) and each.kind == "continue" for each in statements)


def _counts_to_one(module: Module, loop: ir.While) -> bool:
    """Whether the test of a loop asks for a number or flag that is set beside the loop, and changed at its end so that
    it doesn't hold.
    """
    if _continues(loop.body):
        return False
    names = [each for each in ir.walk_values(loop.test) if isinstance(each, ir.Name)]
    for name in names:
        bound = [ir.statement_of(each) for each in _bound(module, name)]
        before = [each for each in bound if each.block is loop.block and each.id < loop.id]
        inside = [each for each in bound if each.block is loop.body]
        if len(bound) == 2 and len(before) == len(inside) == 1:
            start = _value(module, before[0], name.name, None)
            then = _value(module, inside[0], name.name, start)
            return then is not None and _outcome(module, loop.test, name.name, then) is False
    return False


def _bound(module: Module, name: ir.Name) -> list[ir.Name]:
    """Where a variable is bound."""
    home = name.scope.home(name.name)
    near = module.whole.near(name.name).values
    own = (each for each in near if ir.is_variable(each, name.name) and each.scope.home(each.name) is home)
    return [each for each in own if each.bound]


def _value(module: Module, statement: ir.Statement, name: str, before: float | None) -> float | None:
    """What a statement makes of a variable: a number, a flag as one; `before` is what it is till then."""
    if isinstance(statement, ir.AugAssign):
        amount, compute = number(module, statement.value), COMPUTES.get(statement.op)
        return compute(before, amount) if compute and before is not None and amount is not None else None
    value = statement.value if isinstance(statement, ir.Assign) else None
    if isinstance(statement, ir.Assign) and len(statement.targets) == 1 and isinstance(value, ir.Sequence):
        return next(
            (
                _number(module, each, name, before)
                for one, each in ir.pairs(statement.targets[0], value)
                if ir.last_name(one) == name
            ),
            None,
        )
    return _number(module, value, name, before) if value is not None else None


def _number(module: Module, value: ir.Value, name: str, before: float | None) -> float | None:
    """A number or flag that is made of literals and of what a variable is."""
    if ir.is_variable(value, name):
        return before
    if isinstance(value, ir.Constant) and isinstance(value.value, bool):
        return float(value.value)
    if isinstance(value, ir.Unary) and value.op == "Not":
        operand = _number(module, value.operand, name, before)
        return float(not operand) if operand is not None else None
    if isinstance(value, ir.Binary):
        left, right = _number(module, value.left, name, before), _number(module, value.right, name, before)
        compute = COMPUTES.get(value.op)
        return compute(left, right) if compute and left is not None and right is not None else None
    return number(module, value)


def _outcome(module: Module, test: ir.Value, name: str, value: float) -> bool | None:
    """How a test comes out where a variable has a value; None where that can't be told."""
    if isinstance(test, ir.Compare):
        left, right = _number(module, test.left, name, value), _number(module, test.rights[0], name, value)
        compare = COMPARES.get(test.ops[0]) if len(test.ops) == 1 else None
        return bool(compare(left, right)) if compare and left is not None and right is not None else None
    found = _number(module, test, name, value)
    return bool(found) if found is not None else None


def is_repeated(module: Module, loop: ir.For | ir.While) -> bool:
    """Whether a loop runs more than once, if nothing leaves it: `for epoch in range(10)`."""
    return isinstance(loop, ir.For) and how_many(module, loop.iter).least > 1


def how_many(module: Module, source: ir.Value, depth: int = _FOLLOW) -> Items:
    """How many items an iterable has: `range(2, 3)`, `tqdm([batch])`, `islice(loader, 1)`."""
    if isinstance(source, ir.Sequence):
        unpacked = sum(isinstance(each, ir.Starred) for each in source.items)
        return Items(len(source.items) - unpacked, math.inf if unpacked else len(source.items))
    if isinstance(source, ir.Mapping):
        return _of_keys([key for key, _ in source.items])
    if isinstance(source, ir.Name):
        return _of_variable(module, source, depth)
    if isinstance(source, ir.Subscript):
        return _of_slice(module, source.index)
    return _of_call(module, source, depth) if isinstance(source, ir.Call) and depth else _ANY


def _of_keys(keys: list[ir.Value | None]) -> Items:
    """How many items a dict display has; the key of what it unpacks is None."""
    told_apart = {key.value for key in keys if isinstance(key, ir.Constant)}
    least = len(told_apart) or int(any(keys))
    return Items(least, math.inf if None in keys else len(keys))


def _of_variable(module: Module, name: ir.Name, depth: int) -> Items:
    """How many items has what a variable holds that is bound once."""
    # One variable at a time: something may be added under each of its names.
    only = module.names.bound_once(name)
    if only is None or is_changed(only) or not depth:
        return _ANY
    found = how_many(module, only.value, depth - 1)
    return Items(found.least, math.inf) if _may_grow(module, name) else found


def _of_slice(module: Module, index: ir.Value) -> Items:
    """How many items `[:count]` leaves."""
    if not isinstance(index, ir.Slice) or len(index.parts) != 1 or module.text(index)[0] != ":":
        return _ANY
    count = _count(module, index.parts[0])
    return Items(0, count) if count is not None and count >= 0 else _ANY


def _may_grow(module: Module, name: ir.Name) -> bool:
    """Whether something is added to a list or dictionary that a variable holds."""
    near = module.whole.near(name.name)
    changed = [base for call in near.calls if (base := ir.called_on(call, *_ADDS)) is not None]
    targets = (target for each in near.statements if isinstance(each, ir.Assign) for target in each.targets)
    changed += [target.base for target in targets if isinstance(target, ir.Subscript)]
    bound = module.names.bindings(name)
    return any(ir.is_variable(each, name.name) and module.names.bindings(each) == bound for each in changed)


def _of_call(module: Module, call: ir.Call, depth: int) -> Items:
    name, given = module.names.only(call.func), call.positional
    viewed = ir.called_on(call, *_VIEWS)
    if viewed is not None and not call.args:
        return how_many(module, viewed, depth - 1)
    if call.unpacks("*") or not given:
        return _ANY
    if name in RANGES:
        return _of_range([_count(module, each) for each in given])
    if name in _SAME_LENGTH:
        return how_many(module, given[0], depth - 1)
    if name == "builtins.zip":
        least, most = zip(*(how_many(module, each, depth - 1) for each in given), strict=True)
        return Items(min(least), min(most))
    count = _count(module, given[1]) if name == "itertools.islice" and len(given) == 2 else None
    return Items(0, count) if count is not None else _ANY


def _of_range(bounds: list[int | None]) -> Items:
    """How many items a range has; a bound is None where it isn't known."""
    numbers = [each for each in bounds if each is not None]
    is_range = len(numbers) == len(bounds) <= 3 and 0 not in numbers[2:]
    return Items(*[len(range(*numbers))] * 2) if is_range else _ANY


def _count(module: Module, value: ir.Value) -> int | None:
    """The whole number that a value surely is."""
    found = number(module, value)
    return found if isinstance(found, int) else None
