"""The models that a value is, or is a part of: `net` for `part.to_q`, of `for part in net.modules()`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import source_of

if TYPE_CHECKING:
    from amplint.model import Module

# What gives back the model that it is given, without what wraps it: `accelerator.unwrap_model(net)`.
_UNWRAPS = re.compile(r"^_?(unwrap|de_?parallel|get_?bare|extract)(_?model\w*|_?from\w*)?$")
_INSIDE = ("module", "_orig_mod")  # what torch's wrappers keep it in
_DEEP = 6


def unwrapped(module: Module, value: ir.Value) -> ir.Value:
    """A model without what wraps it: `net` of `accelerator.unwrap_model(net)` and of `net.module`."""
    for _ in range(_DEEP):
        inner = _inner(module, value)
        if inner is None:
            break
        value = inner
    return value


def _inner(module: Module, value: ir.Value) -> ir.Value | None:
    if isinstance(value, ir.Attribute):
        return value.base if value.attr in _INSIDE else None
    if not isinstance(value, ir.Call) or not value.positional:
        return None
    first = value.positional[0]
    if module.names.of(value.func) == {"builtins.getattr"}:
        name = value.positional[1] if len(value.positional) > 1 else None
        return first if isinstance(name, ir.Constant) and name.value in _INSIDE else None
    return first if _UNWRAPS.search(ir.last_name(value.func)) else None


def whole_of(module: Module, value: ir.Value, depth: int = _DEEP) -> set[str]:
    """The keys of what a value is, and of what it is a part of, through variables and loops."""
    key = objects(module).key(value)
    found = {key} if key is not None else set()
    inner = _inner(module, value) if depth else None
    if inner is not None:
        return found | whole_of(module, inner, depth - 1)
    if not depth:
        return found
    if isinstance(value, ir.Sequence):
        return found.union(*(whole_of(module, each, depth - 1) for each in value.items))
    if isinstance(value, (ir.Attribute, ir.Subscript)):
        return found | whole_of(module, value.base, depth - 1)
    if isinstance(value, ir.Call):
        base = value.func.base if isinstance(value.func, ir.Attribute) else None
        of = value.positional[0] if base is None and value.positional else base
        return found | whole_of(module, of, depth - 1) if of is not None else found
    for each in module.names.bindings(value) if isinstance(value, ir.Name) else ():
        source = source_of(each)
        found |= whole_of(module, source, depth - 1) if source is not None else set()
    return found
