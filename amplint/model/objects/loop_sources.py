"""From which containers objects are taken: by items, and by the variables of loops and comprehensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.names.reaching_definitions import only_reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Other

if TYPE_CHECKING:
    from amplint.model import Module

_FOLLOW = 6
_COPIES = {"builtins.list", "builtins.tuple", "builtins.reversed", "builtins.sorted"}


def zipped(module: Module, target: ir.Sequence, source: ir.Value) -> list[tuple[ir.Value, ir.Value]] | None:
    """What takes the objects in a loop over `zip`, `enumerate` or `items()`, and from where; None for others."""
    if not isinstance(source, ir.Call):
        return None
    names = module.names.of(source.func)
    if names == {"builtins.zip"} and len(source.positional) == len(target.items):
        return list(zip(target.items, source.positional, strict=True))
    if names == {"builtins.enumerate"} and len(target.items) == 2:
        return [(target.items[1], each) for each in source.positional[:1]]
    if ir.called_on(source, "items") is None:
        return None
    last = target.items[-1]
    return [(last, source)] if isinstance(last, ir.Name) else []


def loop_source(module: Module, value: ir.Name) -> ir.Value | None:
    """What a loop goes through whose variable is read: `all.values()` for `each` of `for each in all.values()`."""
    only = only_reaching(module.names, value)
    name = only.node if isinstance(only, Other) else None
    if not isinstance(name, ir.Name):
        return None
    target: ir.Value = name
    while isinstance(target.parent, ir.Sequence):
        target = target.parent
    loop = target.parent
    if isinstance(loop, ir.For):
        return _part(module, target, loop.iter, name) if target is loop.target else None
    clauses = loop.clauses if isinstance(loop, ir.Comprehension) else ()
    return next((_part(module, target, each.iter, name) for each in clauses if each.target is target), None)


def _part(module: Module, target: ir.Value, source: ir.Value, name: ir.Name) -> ir.Value | None:
    """What one name of a loop's target goes through."""
    if target is name:
        return source
    parts = zipped(module, target, source) if isinstance(target, ir.Sequence) else None
    found = (_part(module, one, other, name) for one, other in parts or () if name in ir.walk_values(one))
    return next(found, None)


def container_of(module: Module, value: ir.Value) -> str | None:
    """The key of the outermost container that an object is taken out of: `self.groups` of `group["optimizer"]` in
    `for group in self.groups.values()`; None where it is taken out of none.
    """
    taken = False
    at: ir.Value | None = value
    for _ in range(_FOLLOW):
        inner = _taken_from(module, at) if at is not None else None
        if inner is None:
            break
        taken, at = True, inner
    return objects(module).key(at) if taken and at is not None else None


def _taken_from(module: Module, value: ir.Value) -> ir.Value | None:
    """What a value is an item of, or an attribute of such an item."""
    if isinstance(value, ir.Subscript):
        return value.base
    if isinstance(value, ir.Attribute):
        return _taken_from(module, value.base)
    if isinstance(value, ir.Name):
        source = loop_source(module, value)
        if source is not None:
            return _gone_through(module, source)
        bound = module.names.bound_once(value)
        return _taken_from(module, bound.value) if bound is not None else None
    return ir.called_on(value, "get")


def _gone_through(module: Module, source: ir.Value) -> ir.Value | None:
    """The container that a loop goes through."""
    if not isinstance(source, ir.Call):
        return source
    names = module.names.of(source.func)
    if names and names <= _COPIES and source.positional:
        return _gone_through(module, source.positional[0])
    return ir.called_on(source, "values", "items")
