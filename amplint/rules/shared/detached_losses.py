"""Losses without a history: new tensors that no parameter has a part in, so that backward gives none a gradient."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.syntax import ir
from amplint.model.syntax.control import source_of
from amplint.model.syntax.ir import Assigned

if TYPE_CHECKING:
    from amplint.model import Module

_NEW = {f"torch.{name}" for name in ("tensor", "zeros", "ones", "full", "FloatTensor", "empty", "rand", "randn")}
# Methods that give a tensor with the history of the one that they are called of, if they are given nothing else.
_KEEPS = (
    "mean", "sum", "to", "cuda", "cpu", "float", "squeeze", "unsqueeze", "view", "reshape", "clone", "mul", "div",
    "abs", "max", "min", "requires_grad_",
)  # fmt: skip
_DEPTH = 8
# What models are called: not criteria, and functions that compute a loss.
_MODEL = re.compile(r"(?i)(model|net|encoder|decoder|backbone|generator|discriminator|critic|policy)$|^[dg]$")


def new_tensor(module: Module, value: ir.Value, depth: int = _DEPTH) -> ir.Call | None:
    """The call that makes the new tensor which a loss surely is, or is computed from alone; else None.

    Only of one that requires a gradient: backward of another raises by itself.
    """
    known = module.once(_Known)
    if not known.any_made:
        return None
    if value.id not in known.found:
        known.found[value.id] = None  # what is made of itself has a history
        known.found[value.id] = _find(module, value, depth) if depth else None
    return known.found[value.id]


def _find(module: Module, value: ir.Value, depth: int) -> ir.Call | None:
    if isinstance(value, ir.Binary):
        sides = [each for each in (value.left, value.right) if not isinstance(each, ir.Constant)]
        return _all_new(module, sides, depth)
    if isinstance(value, ir.Name):
        bindings = reaching(module.names, value)
        values = [each.value for each in bindings if isinstance(each, Assigned)]
        if len(values) < len(bindings) or _is_changed(module, value.name):
            return None
        return _all_new(module, values, depth)
    return _called(module, value, depth) if isinstance(value, ir.Call) else None


def _all_new(module: Module, values: Sequence[ir.Value | None], depth: int) -> ir.Call | None:
    """The call that makes the first of some values, where all of them are new tensors."""
    found = [new_tensor(module, each, depth - 1) if each is not None else None for each in values]
    return found[0] if found and all(found) else None


class _Known:
    """What was found of values, by their ids."""

    def __init__(self, module: Module) -> None:
        self.found: dict[int, ir.Call | None] = {}
        self.any_made = any(
            call.keyword("requires_grad") is not None or ir.last_name(call.func) == "requires_grad_"
            for call in module.whole.near("requires_grad").calls
        )


def _is_changed(module: Module, name: str) -> bool:
    """Whether `target += ...` may give a variable of that name a history."""
    return any(
        isinstance(each, ir.AugAssign) and isinstance(each.target, ir.Name) and each.target.name == name
        for each in module.whole.near(name).statements
    )


def _called(module: Module, call: ir.Call, depth: int) -> ir.Call | None:
    func = call.func
    if module.names.only(func) in _NEW:
        requires = call.keyword("requires_grad")
        return call if isinstance(requires, ir.Constant) and requires.value is True else None
    if isinstance(func, ir.Attribute) and func.attr in _KEEPS:
        return _kept(module, call, func, depth)
    function = module.once(CallGraph).run_by(call)
    if function is None or function.is_generator or function.is_async or function.decorators:
        return None
    return _all_new(module, [each.value for each in returned(function)], depth)


def _kept(module: Module, call: ir.Call, func: ir.Attribute, depth: int) -> ir.Call | None:
    """The call that makes the tensor which a method gives with its history: `loss.mean()`."""
    base = func.base
    if func.attr == "requires_grad_" and isinstance(base, ir.Call) and ir.last_name(base.func) == "detach":
        return call
    if any(isinstance(each, ir.Call) for arg in call.args for each in ir.walk_values(arg.value)):
        return None
    return new_tensor(module, base, depth - 1)


def feeds_leaves(module: Module, backward: ir.Node, loss: ir.Value) -> bool:
    """Whether a backward pass ends at detached tensors whose gradients its function reads: those of outputs that were
    computed before, as gradient caches do.

    A loss that calls a model on such tensors, as an attack does, gives the model's parameters gradients too.
    """
    function = ir.function_of(backward)
    read = {
        value.base.name
        for value in module.whole.near("grad").values
        if isinstance(value, ir.Attribute) and value.attr == "grad" and isinstance(value.base, ir.Name)
        if value.id > backward.id and ir.function_of(value) is function
    }
    leaves, left, seen = set[str](), [loss], set[int]()
    while left:
        value = left.pop()
        if value.id in seen:
            continue
        seen.add(value.id)
        if isinstance(value, ir.Call) and _is_called_like_a_model(value.func):
            return False
        if isinstance(value, ir.Name):
            sources = [source for each in reaching(module.names, value) if (source := source_of(each)) is not None]
            if sources and all(map(_is_leaf, sources)):
                leaves.add(value.name)
            else:
                left += sources
            continue
        left += value.children()
    return bool(leaves & read)


def _is_leaf(value: ir.Value) -> bool:
    """Whether a value is a new leaf: `output.detach().requires_grad_()`."""
    made = ir.called_on(value, "requires_grad_") if isinstance(value, ir.Call) else None
    return made is not None and any(
        isinstance(each, ir.Call) and ir.called_on(each, "detach") is not None for each in ir.walk_values(made)
    )


def _is_called_like_a_model(func: ir.Value) -> bool:
    """Whether what is called has a name that models have."""
    return bool(_MODEL.search(ir.last_name(func)))
