"""How often a loop runs, as far as what it iterates over tells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.deciding import is_changed
from amplint.model.evident import number
from amplint.model.scopes import Assigned

if TYPE_CHECKING:
    from amplint.model import Module

_RANGES = ("builtins.range", "tqdm.trange", "tqdm.auto.trange")
# What iterates over its first argument once.
_SAME_LENGTH = (
    "builtins.enumerate", "builtins.list", "builtins.tuple", "builtins.reversed", "builtins.iter", "builtins.sorted",
    "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
)  # fmt: skip
_FOLLOW = 5


def runs_once(module: Module, loop: ir.For | ir.While) -> bool:
    """Whether a loop has one iteration: `for _ in range(1)`, or one that breaks at its end whatever happens."""
    ends = loop.body.statements[-1]
    if isinstance(ends, ir.Return) or (isinstance(ends, ir.Jump) and ends.kind == "break"):
        return not any(
            isinstance(each, ir.Jump) and each.kind == "continue" for each in ir.walk_statements(loop.body, into=False)
        )
    return isinstance(loop, ir.For) and most_items(module, loop.iter) <= 1


def most_items(module: Module, source: ir.Value, depth: int = _FOLLOW) -> float:
    """How many items an iterable has at most: `range(2, 3)`, `tqdm([batch])`, `islice(loader, 1)`; infinity: any."""
    if isinstance(source, ir.Sequence):
        unpacks = any(isinstance(each, ir.Starred) for each in source.items)
        return math.inf if unpacks else len(source.items)
    if isinstance(source, ir.Name):
        made = _bound_once(module, source)
        return most_items(module, made, depth - 1) if made is not None and depth else math.inf
    if isinstance(source, ir.Subscript) and isinstance(source.index, ir.Slice):
        upper = source.index.parts[0] if len(source.index.parts) == 1 else None
        count = _count(module, upper) if upper is not None and module.text(source.index)[0] == ":" else None
        return count if count is not None and count >= 0 else math.inf
    return _of_call(module, source, depth) if isinstance(source, ir.Call) and depth else math.inf


def _of_call(module: Module, call: ir.Call, depth: int) -> float:
    name, given = module.names.only(call.func), call.positional
    if call.unpacks("*") or not given:
        return math.inf
    if name in _RANGES:
        counts = [_count(module, each) for each in given]
        numbers = [each for each in counts if each is not None]
        is_range = len(numbers) == len(given) <= 3 and 0 not in numbers[2:]
        return len(range(*numbers)) if is_range else math.inf
    if name in _SAME_LENGTH:
        return most_items(module, given[0], depth - 1)
    if name == "builtins.zip":
        return min(most_items(module, each, depth - 1) for each in given)
    if name == "itertools.islice" and len(given) == 2:
        count = _count(module, given[1])
        return count if count is not None else math.inf
    return math.inf


def _count(module: Module, value: ir.Value) -> int | None:
    """The whole number that a value surely is."""
    made = _bound_once(module, value) if isinstance(value, ir.Name) else value
    found = number(module, made)
    return found if isinstance(found, int) else None


def _bound_once(module: Module, name: ir.Name) -> ir.Value | None:
    """The one value that a variable is ever bound to."""
    bindings = module.names.bindings(name)
    only = bindings[0] if len(bindings) == 1 else None
    return only.value if isinstance(only, Assigned) and not is_changed(only) else None
