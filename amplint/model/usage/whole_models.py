"""The models that a value is, or is a part of: `net` for `part.to_q`, of `for part in net.modules()`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import source_of
from amplint.model.torch_facts.modules import RETURNS_ITSELF

if TYPE_CHECKING:
    from amplint.model import Module

# What gives back the model that it is given, without what wraps it: `accelerator.unwrap_model(net)`.
_UNWRAPS = re.compile(r"^_?(unwrap|de_?parallel|get_?bare|extract)(_?model\w*|_?from\w*)?$")
_INSIDE = ("module", "_orig_mod")  # what torch's wrappers keep it in
# What gives the parts of a module, or of what holds some of them.
_PARTS = ("modules", "named_modules", "children", "named_children", "get_submodule", "items", "values")
_PIPELINE = "Pipeline"  # how the classes of diffusers end that keep the models that they are given
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


def put_together(module: Module, value: ir.Value) -> list[ir.Value]:
    """The models that a pipeline has which a value is, as far as it is given them: `net` of `Pipeline(unet=net)`."""
    found = list[ir.Value]()
    for made in _made(module, value):
        func = made.func
        names = (ir.last_name(func), ir.last_name(func.base) if isinstance(func, ir.Attribute) else "")
        if any(each.endswith(_PIPELINE) for each in names):
            found += [arg.value for arg in made.args if arg.keyword is not None]
    return found


def _made(module: Module, value: ir.Value, depth: int = _DEEP) -> list[ir.Call]:
    """The calls that make what a value is, through variables and the methods that give back what they are called on."""
    moved = ir.before_calls(value, *RETURNS_ITSELF)
    if isinstance(moved, ir.Call):
        return [moved]
    if not isinstance(moved, ir.Name) or not depth:
        return []
    sources = (each.value for each in reaching(module.names, moved) if isinstance(each, ir.Assigned))
    return [made for each in sources for made in _made(module, each, depth - 1)]


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
        given = value.positional if all(each.startswith("builtins.") for each in module.names.of(value.func)) else ()
        bases = [base] if (base := ir.called_on(value, *_PARTS)) is not None else given
        return found.union(*(whole_of(module, each, depth - 1) for each in bases))
    for each in module.names.bindings(value) if isinstance(value, ir.Name) else ():
        source = source_of(each)
        found |= whole_of(module, source, depth - 1) if source is not None else set()
    return found
