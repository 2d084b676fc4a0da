"""What of the settings of a run a value tells: what a checkpoint has that a run compares with its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from amplint.model.calls.call_graph import CallGraph
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import asked
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import unpacked_from
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.scopes import owner_class
from amplint.rules.shared.checkpoints import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amplint.model import Module

# Where a setting is: what holds the settings, then names and keys. The empty one is everything.
Setting: TypeAlias = tuple[str, ...]
EVERYTHING: Setting = ()
_LOOKS_UP = ("get", "pop")
_ADDS = ("append", "extend", "add", "update")
_LIBRARIES = ("builtins.", "torch.", "numpy.", "os.", "pathlib.", "copy.", "math.")
_MADE = "made: "
# What makes a path of settings tells where files are, and nothing of the others.
_PATHS = re.compile(r"(?i)(^|_)(path|file|dir|directory|folder)s?$")


def are_related(one: set[Setting], other: set[Setting]) -> bool:
    """Whether a setting of the one is a setting of the other, or a part of it."""
    return any(a[: len(b)] == b[: len(a)] for a in one for b in other)


def settings_of(module: Module, value: ir.Value, origins: bool) -> set[Setting]:
    """The settings that a value tells, as far as it is made of them: all, where it is not in sight what it is.

    `origins`: also those of which an object was made, where only a part of the object counts.
    """
    return asked(module, _settings, value, set[Setting](), origins)


def kept_under(module: Module, slot: Slot, name: str) -> ir.Value | None:
    """What a checkpoint keeps under another key than the slot's; None where that can't be told."""
    if isinstance(slot.whole, ir.Mapping):
        found = [each for key, each in slot.whole.items if isinstance(key, ir.Constant) and key.value == name]
    elif isinstance(slot.whole, ir.Call):
        found = [arg.value for arg in slot.whole.args if arg.keyword == name]
    else:
        found = [each for _, each in _beside(module, slot.whole, name)]
    return found[0] if len(found) == 1 else None


def _beside(module: Module, whole: ir.Assign, name: str) -> Iterator[tuple[ir.Assign, ir.Value]]:
    """What the function of `checkpoint["scaler"] = ...` assigns to another item of the checkpoint, or to the same."""
    base = _item(whole, None)
    function, key = ir.function_of(whole), objects(module).key
    for each in module.whole.within(function).statements:
        target = _item(each, name) if ir.function_of(each) is function else None
        if target is not None and base is not None and key(target.base) == key(base.base):
            assert isinstance(each, ir.Assign)
            if each.value is not None:
                yield each, each.value


def beside(module: Module, slot: Slot) -> list[tuple[ir.Assign, ir.Value]]:
    """What else is assigned to the item of a checkpoint that a slot is: `else: checkpoint["scaler"] = None`."""
    if not isinstance(slot.whole, ir.Assign):
        return []
    return [pair for pair in _beside(module, slot.whole, slot.key) if pair[0] is not slot.whole]


def _item(statement: ir.Statement, name: str | None) -> ir.Subscript | None:
    """The item that a statement assigns to, with a key that is written out: that one, or any."""
    target = statement.targets[0] if isinstance(statement, ir.Assign) and len(statement.targets) == 1 else None
    index = target.index if isinstance(target, ir.Subscript) else None
    if not isinstance(target, ir.Subscript) or not isinstance(index, ir.Constant):
        return None
    return target if name is None or index.value == name else None


def _settings(module: Module, value: ir.Value, origins: bool) -> set[Setting]:
    if isinstance(value, ir.Constant):
        return set()
    step = step_of(value)
    if step is not None:
        return _part(module, *step, origins)
    if isinstance(value, ir.Attribute):
        return _of_attribute(module, value, origins)
    if isinstance(value, ir.Name):
        return _of_name(module, value, origins)
    if isinstance(value, ir.Call):
        return _of_call(module, value, origins)
    return _of_all(module, (each for each in value.children() if isinstance(each, ir.Value)), origins)


def _of_all(module: Module, values: Iterable[ir.Value], origins: bool) -> set[Setting]:
    return set[Setting]().union(*(settings_of(module, each, origins) for each in values))


def _of_object(module: Module, value: ir.Value, origins: bool) -> set[Setting]:
    """Of what has attributes, items or methods: an object that a call made is what it is itself."""
    made = None if origins else asked(module, _made_as, value, None)
    return {(made,)} if made is not None else settings_of(module, value, origins)


def _made_as(module: Module, value: ir.Value) -> str | None:
    """The name of an object that a call makes and a variable or attribute keeps, under whatever names."""
    kept: ir.Value | None = None
    if isinstance(value, ir.Name):
        bindings = reaching(module.names, value)
        only = bindings[0] if len(bindings) == 1 else None
        kept = only.value if isinstance(only, Assigned) else None
    elif isinstance(value, ir.Attribute) and (cls := owner_class(value)) is not None:
        stored = cls.stored(value.attr)
        kept = stored[0] if len(stored) == 1 else None
    if isinstance(kept, ir.Call) and step_of(kept) is None:
        return f"{_MADE}{objects(module).key(value)}"
    return asked(module, _made_as, kept, None) if isinstance(kept, (ir.Name, ir.Attribute)) else None


def _part(module: Module, holder: ir.Value, name: str, origins: bool) -> set[Setting]:
    """An item or attribute of what holds it."""
    return {(*each, name) if each else each for each in _of_object(module, holder, origins)}


def _of_attribute(module: Module, value: ir.Attribute, origins: bool) -> set[Setting]:
    cls = owner_class(value)
    if cls is None:
        return _part(module, value.base, value.attr, origins)
    stored = cls.stored(value.attr)
    if len(stored) != 1 or stored[0] is None:
        return {(f"self of {cls.name}", value.attr)}
    return _of_kept(module, value, stored[0], origins) | _added(module, value, origins)


def _of_name(module: Module, value: ir.Name, origins: bool) -> set[Setting]:
    found = set[Setting]()
    bindings = reaching(module.names, value)
    for each in bindings:
        source = unpacked_from(each)
        if isinstance(each, Assigned):
            found |= _of_kept(module, value, each.value, origins)
        elif source is not None:
            found |= settings_of(module, source, origins)
        else:
            found.add((decided(module).path(value) or value.name,))
    return found | _added(module, value, origins) if bindings else {(value.name,)}


def _of_kept(module: Module, kept_as: ir.Value, value: ir.Value, origins: bool) -> set[Setting]:
    """Of a value that is kept by a name: what a call makes is a thing of its own."""
    found = settings_of(module, value, origins)
    is_made = isinstance(value, ir.Call) and step_of(value) is None
    return found | {(f"{_MADE}{objects(module).key(kept_as)}",)} if is_made else found


def _added(module: Module, value: ir.Value, origins: bool) -> set[Setting]:
    """What is put into a list or dict later."""
    known = objects(module)
    key = known.key(value)
    calls = module.whole.near(*_ADDS).calls if key is not None else ()
    added = (
        call
        for call in calls
        if isinstance(call.func, ir.Attribute) and call.func.attr in _ADDS and known.key(call.func.base) == key
    )
    return _of_all(module, (arg.value for call in added for arg in call.args), origins)


def _of_call(module: Module, value: ir.Call, origins: bool) -> set[Setting]:
    """Of a call what it is given and returns; of a method also its object, but not what that was made of."""
    found = _of_all(module, (arg.value for arg in value.args), origins)
    if _PATHS.search(ir.last_name(value.func)):
        return {each for each in found if len(each) > 1}
    callee = module.once(CallGraph).find(value)
    if callee is not None:
        return found | _of_all(module, (each.value for each in returned(callee.function) if each.value), origins)
    if any(each.startswith(_LIBRARIES) for each in module.names.of(value.func)):
        return found
    if isinstance(value.func, ir.Attribute):
        return found | _of_object(module, value.func.base, origins)
    return found or {(f"{_MADE}{ir.last_name(value.func)}()",)}


def step_of(value: ir.Value) -> tuple[ir.Value, str] | None:
    """What holds a setting, and its key: `config["amp"]`, `config.get("amp", True)`."""
    index = value.index if isinstance(value, ir.Subscript) else None
    if isinstance(value, ir.Subscript) and isinstance(index, ir.Constant):
        return value.base, str(index.value)
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in _LOOKS_UP:
        first = value.positional[0] if value.positional else None
        if isinstance(first, ir.Constant):
            return value.func.base, str(first.value)
    return None
