"""Dicts and lists that the file writes out and keeps: what they have at a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.names.reaching_definitions import reaching
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amplint.model import Module

_ADDS = ("update", "setdefault", "pop", "clear", "insert", "remove", "reverse", "sort", "popitem")

# What makes an empty list or dict, and others of what is in them.
MAKES_CONTAINERS = {"builtins.dict", "builtins.list", "collections.defaultdict", "collections.OrderedDict"}


def _sources(module: Module, value: ir.Value) -> Iterator[ir.Value]:
    """What a variable or attribute is set to; the value itself, if it is neither."""
    if isinstance(value, ir.Name):
        yield from (each.value for each in reaching(module.names, value) if isinstance(each, Assigned))
    elif isinstance(value, ir.Attribute) and owner_class(value) is not None:
        yield from (each for each in module.names.stored(value) if each is not None)
    else:
        yield value


def items_at(module: Module, table: ir.Value, key: object) -> list[ir.Value]:
    """What a dict can have at a key, where all that it can be is written out and nothing is put in later."""
    return [each[key] for each in _whole(module, table) if key in each]


def _whole(module: Module, table: ir.Value) -> list[dict[object, ir.Value]]:
    """What a dict can be, where all of that is written out and nothing is put in later."""
    tables = [_written(module, each) for each in _sources(module, table)]
    bound = reaching(module.names, table) if isinstance(table, ir.Name) else tables
    if len(bound) != len(tables) or is_added_to(module, table):
        return []
    known = [each for each in tables if each is not None]
    return known if len(known) == len(tables) else []


def put_at(module: Module, table: ir.Value, key: object) -> list[ir.Value]:
    """What a dict can have at a key, where that is written out; other keys may be put in later.

    Nothing where what is put in can't be told.
    """
    tables = [_written(module, each) for each in _sources(module, table)]
    known = [each for each in tables if each is not None]
    bound = reaching(module.names, table) if isinstance(table, ir.Name) else tables
    stored = _stored_at(module, table, key)
    if not known or len(known) < len(bound) or stored is None:
        return []
    return [*(each[key] for each in known if key in each), *stored]


def _stored_at(module: Module, table: ir.Value, key: object) -> list[ir.Value] | None:
    """What is stored at a key of a dict that a variable or attribute keeps; None where what is put into it can't be
    told.
    """
    name = ir.last_name(table)
    if not name:
        return None
    near, found = module.whole.near(name), list[ir.Value]()
    bases = ((each, ir.called_on(each, *_ADDS)) for each in near.calls)
    if not all(_takes_one_out(each) for each, base in bases if base is not None and _is_kept_as(base, table)):
        return None
    for statement in near.statements:
        for index in _indices(statement, table):
            if not isinstance(index, ir.Constant):
                return None
            if index.value == key and isinstance(statement, ir.Assign) and statement.value is not None:
                found.append(statement.value)
    return found


def _is_kept_as(value: ir.Value, table: ir.Value) -> bool:
    """Whether a value is the same variable, or the same attribute of a class, as the one that keeps a dict."""
    if isinstance(value, ir.Name) and isinstance(table, ir.Name):
        return value.name == table.name and value.scope.home(value.name) is table.scope.home(table.name)
    if isinstance(value, ir.Attribute) and isinstance(table, ir.Attribute):
        return value.attr == table.attr and owner_class(value) is owner_class(table)
    return False


def _indices(statement: ir.Statement, table: ir.Value) -> list[ir.Value]:
    """At what a statement stores something in the dict that a variable or attribute keeps."""
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    return [each.index for each in targets if isinstance(each, ir.Subscript) and _is_kept_as(each.base, table)]


def _takes_one_out(call: ir.Call) -> bool:
    """Whether a call takes one key out of a dict."""
    return ir.last_name(call.func) == "pop" and bool(call.positional) and isinstance(call.positional[0], ir.Constant)


def values_in(module: Module, table: ir.Value) -> list[ir.Value]:
    """What stands in the one dict that a table is, where that is written out and nothing is put in later."""
    known = _whole(module, table)
    return list(known[0].values()) if len(known) == 1 else []


class Taken(NamedTuple):
    """What can be taken from a dict: the index that is asked for, what there is by key, and what is given else."""

    asked: ir.Value
    items: dict[object, ir.Value]
    other: ir.Value | None


def taken(module: Module, value: ir.Value) -> Taken | None:
    """What `table[index]` or `table.get(index, other)` can be, of the objects that one dict is made with.

    A literal index leaves its own item. Dicts of settings are left alone: what they hold is a setting's default.
    """
    other: ir.Value | None = None
    if isinstance(value, ir.Subscript):
        table, index = value.base, value.index
    elif isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr == "get":
        given = value.positional
        if not 1 <= len(given) <= 2 or len(given) != len(value.args) or value.unpacks("*"):
            return None
        table, index, other = value.func.base, given[0], given[1] if len(given) == 2 else None
    else:
        return None
    known = _whole(module, table)
    if len(known) != 1 or not any(isinstance(each, ir.Call) for each in known[0].values()):
        return None
    if not isinstance(index, ir.Constant):
        return Taken(index, known[0], other)
    if index.value in known[0]:
        return Taken(index, {index.value: known[0][index.value]}, None)
    return Taken(index, {}, other) if other is not None else None


def tells(key: object) -> bool:
    """Whether a key can be compared with what else is asked of an index; numbers are asked for their size."""
    return key is None or isinstance(key, (bool, str))


def item_at(module: Module, value: ir.Subscript) -> ir.Value | None:
    """The variable or attribute that a container surely has at a literal: it is written out, and bound once."""
    key, table = value.index, value.base
    if not isinstance(key, ir.Constant) or isinstance(key.value, bool):
        return None
    display = _set_once(module, table)
    if isinstance(display, ir.Sequence) and not display.unpacks():
        items = dict[object, ir.Value](enumerate(display.items))
    else:
        items = (_written(module, display) if display is not None else None) or {}
    item = items.get(key.value)
    if not isinstance(item, (ir.Name, ir.Attribute)) or is_added_to(module, table):
        return None
    return item if _is_one_thing(module, item) else None  # else the container has what it was then


def _set_once(module: Module, value: ir.Value) -> ir.Value | None:
    """What a variable or attribute is set to, where that happens once."""
    if isinstance(value, ir.Name):
        bound = module.names.bound_once(value)
        return bound.value if bound is not None else None
    stored = list(module.names.stored(value)) if isinstance(value, ir.Attribute) else []
    return stored[0] if len(stored) == 1 else None


def _is_one_thing(module: Module, value: ir.Name | ir.Attribute) -> bool:
    """Whether a variable, a parameter or an attribute is set once."""
    if isinstance(value, ir.Attribute):
        return len(list(module.names.stored(value))) == 1
    only = module.names.only_binding(value)
    return isinstance(only, Assigned) or ir.parameter_of(only) is not None


def is_added_to(module: Module, table: ir.Value) -> bool:
    """Whether the file may put something into a dict, going by its name: `AMP["dtype"] = ...`, `AMP.update(...)`."""
    name = ir.last_name(table)
    return bool(name) and module.once(_is_added_to, name)  # nothing else has a display


def _is_added_to(module: Module, name: str) -> bool:
    near = module.whole.near(name)
    stored = (target for each in near.statements if isinstance(each, ir.Assign) for target in each.targets)
    changed = [target.base for target in stored if isinstance(target, ir.Subscript)]
    changed += [base for each in near.calls if (base := ir.called_on(each, *_ADDS)) is not None]
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


def items_of(module: Module, table: ir.Value) -> list[tuple[ir.Value | None, ir.Value]] | None:
    """What stands in a dict or a sequence that is written out, with the keys; None where it is something else."""
    if isinstance(table, ir.Mapping):
        return list(table.items)
    if isinstance(table, ir.Sequence) and not table.unpacks():
        return [(ir.Constant(each.id, each.node, each, place), each) for place, each in enumerate(table.items)]
    written = _written(module, table)
    if written is None:
        return None
    return [(ir.Constant(each.id, each.node, each, key), each) for key, each in written.items()]


def arguments_of(module: Module, call: ir.Call) -> tuple[list[ir.Value], dict[str, ir.Value]] | None:
    """The arguments of a call by position and by keyword, what it unpacks included; None where that isn't in sight.

    In sight is what is written out, and a variable that is only ever bound to it: a tuple for `*`, and a dict that
    nothing is added to for `**`.
    """
    positional, keywords = [*call.positional], call.keywords
    unpacked = False
    for arg in call.args:
        if arg.star == "*":
            unpacked = True
            items = _unpacked(module, arg.value, ir.Sequence)
            if items is None:
                return None
            positional += [value for _, value in items]
        elif arg.star == "**":
            items = _unpacked(module, arg.value, ir.Mapping)
            named = [(key.value, value) for key, value in items or () if isinstance(key, ir.Constant)]
            if items is None or len(named) < len(items):
                return None
            keywords.update((key, value) for key, value in named if isinstance(key, str))
        elif unpacked and arg.keyword is None:
            positional.append(arg.value)
    return positional, keywords


def _unpacked(module: Module, value: ir.Value, kind: type[ir.Value]) -> list[tuple[ir.Value | None, ir.Value]] | None:
    """What stands in a display, or in a variable that is nothing else; None where that can't be told."""
    if isinstance(value, ir.Name):
        bound = module.names.bound_once(value)
        if (
            bound is None
            or is_added_to(module, value)
            or (isinstance(bound.value, ir.Sequence) and bound.value.kind != "tuple")
        ):
            return None
        value = bound.value
    if not isinstance(value, kind):
        return None
    return items_of(module, value)
