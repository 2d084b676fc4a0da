"""Objects that are given a scaler when they are made: what a call of theirs does with it can't be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import Objects, given, objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import given_to

if TYPE_CHECKING:
    from amplint.model import Module


def holders(module: Module) -> set[str]:
    """The keys of the variables and attributes that hold such an object."""
    return module.once(_holders)


def _holders(module: Module) -> set[str]:
    known = objects(module)
    found: set[str] = set()

    def is_scaler(value: ir.Value) -> bool:
        return known.is_scaler(value) is not None

    words = {word_of(key) for key in known.scalers}
    for statement in module.whole.near(*sorted(words)).statements:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            call = statement.value
            if any(map(is_scaler, given(call))) and not _only_calls_it(known, call, is_scaler):
                found |= {key for target in statement.targets if (key := known.key(target)) is not None}
    return found


def _only_calls_it(known: Objects, call: ir.Call, is_scaler: Callable[[ir.Value], bool], depth: int = 4) -> bool:
    """Whether a function of this file that is given a scaler only calls its methods, and tests whether there is one."""
    function = known.function(known.key(call.func) or "") if isinstance(call.func, ir.Name) else None
    if function is None or not depth or call.unpacks():
        return False
    given = given_to(function.params, call.positional, call.keywords)
    keys = {known.raw_variable(function.scope, name) for name, value in given.items() if is_scaler(value)}

    def is_it(value: ir.Value) -> bool:
        return isinstance(value, ir.Name) and known.own_key(value) in keys

    return bool(keys) and all(
        isinstance(each.parent, (ir.Attribute, ir.Compare, ir.If))
        or (isinstance(each.parent, ir.Call) and _only_calls_it(known, each.parent, is_it, depth - 1))
        for each in ir.values_below(function.body)
        if is_it(each)
    )
