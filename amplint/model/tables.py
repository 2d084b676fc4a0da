"""Dicts that the file writes out and keeps: what they have at a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.reaching import reaching
from amplint.model.scopes import Assigned, owner_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amplint.model import Module

_ADDS = ("update", "setdefault", "pop", "clear")


def sources(module: Module, value: ir.Value) -> Iterator[ir.Value]:
    """What a variable or attribute is set to; the value itself, if it is neither."""
    if isinstance(value, ir.Name):
        yield from (each.value for each in reaching(module.names, value) if isinstance(each, Assigned))
    elif isinstance(value, ir.Attribute) and owner_class(value) is not None:
        yield from (each for each in module.names.stored(value) if each is not None)
    else:
        yield value


def items_at(module: Module, table: ir.Value, key: object) -> list[ir.Value]:
    """What a dict can have at a key, where all that it can be is written out and nothing is put in later."""
    tables = [_written(module, each) for each in sources(module, table)]
    bound = reaching(module.names, table) if isinstance(table, ir.Name) else tables
    if len(bound) != len(tables) or _is_added_to(module, table):
        return []
    known = [each for each in tables if each is not None]
    return [each[key] for each in known if key in each] if len(known) == len(tables) else []


def _is_added_to(module: Module, table: ir.Value) -> bool:
    """Whether the file may put something into a dict, going by its name: `AMP["dtype"] = ...`, `AMP.update(...)`."""
    name = ir.last_name(table)
    near = module.whole.near(name or "**")
    stored = (target for each in near.statements if isinstance(each, ir.Assign) for target in each.targets)
    changed = [target.base for target in stored if isinstance(target, ir.Subscript)]
    changed += [
        each.func.base for each in near.calls if isinstance(each.func, ir.Attribute) and each.func.attr in _ADDS
    ]
    return any(ir.last_name(each) == name for each in changed)


def _written(module: Module, table: ir.Value) -> dict[object, ir.Value] | None:
    """The items of a dict that is written out; None where it isn't, or not all of it."""
    if isinstance(table, ir.Mapping):
        keys = [each.value for each, _ in table.items if isinstance(each, ir.Constant)]
        return (
            dict(zip(keys, (item for _, item in table.items), strict=True)) if len(keys) == len(table.items) else None
        )
    if isinstance(table, ir.Call) and module.names.of(table.func) == {"builtins.dict"}:
        plain = all(arg.keyword is not None for arg in table.args)
        return {arg.keyword: arg.value for arg in table.args} if plain else None
    return None
