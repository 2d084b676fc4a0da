"""Which variables matter to a path: what losses are made of, and what conditions read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.objects import objects

if TYPE_CHECKING:
    from amplint.model import Module

_LOSSES = ("backward", "scale")


# What flow analysis has to know of variables, by the last words of their names; others would only keep paths apart.


def asked_attributes(module: Module) -> set[str]:
    """The attributes that conditions of the file read."""
    return {each.attr for test in _tests(module) for each in ir.walk_values(test) if isinstance(each, ir.Attribute)}


def _tests(module: Module) -> list[ir.Value]:
    tests = [each.test for each in module.whole.statements if isinstance(each, (ir.If, ir.While, ir.Assert))]
    tests += [each.test for each in module.whole.values if isinstance(each, ir.Conditional)]
    tests += [each for each in module.whole.values if isinstance(each, ir.Bool)]
    # A flag that a function returns, or that switches a region or scaler, is asked elsewhere.
    tests += [each.value for each in module.whole.statements if isinstance(each, ir.Return) and each.value is not None]
    return tests + [arg.value for call in module.whole.calls for arg in call.args if arg.keyword == "enabled"]


def asked(module: Module) -> set[str]:
    """The names that conditions read."""
    return {name for test in _tests(module) for name in _names(test)}


def losses(module: Module) -> set[str]:
    """The names that losses are made of, through the assignments of the whole file."""
    found: set[str] = set()
    for call in module.whole.calls:
        if ir.last_name(call.func) in _LOSSES:
            found |= _names(call)
    assigned: dict[str, set[str]] = {}
    for statement in module.whole.statements:
        if isinstance(statement, ir.Assign) and statement.value is not None:
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ir.AugAssign):
            targets, value = (statement.target,), statement.value
        else:
            continue
        for target in targets:
            for name in _names(target):
                assigned.setdefault(name, set()).update(_names(value))
    for name, given in _passed(module):  # what is passed on has the parameter's name there
        assigned.setdefault(name, set()).update(_names(given))
    todo = list(found)
    while todo:
        for name in assigned.get(todo.pop(), set()) - found:
            found.add(name)
            todo.append(name)
    # A loss may be made in a function that returns it, or be an argument.
    returns = [each.value for each in module.whole.statements if isinstance(each, ir.Return) and each.value]
    return found.union(*map(_names, returns))


def _passed(module: Module) -> Iterator[tuple[str, ir.Value]]:
    """What parameters may be given by calls in the file, going by the callee's name."""
    calls: dict[str, list[ir.Call]] = {}
    for call in module.whole.calls:
        calls.setdefault(ir.last_name(call.func), []).append(call)
    instances: dict[str, set[str]] = {}
    for key, cls in objects(module).instances.items():
        if cls is not None:
            instances.setdefault(cls.name, set()).add(re.split(r"[.:]", key)[-1])
    for function in module.whole.functions:
        cls, names = function.cls, {function.name}
        if cls is not None and function.name in ("__init__", "__call__"):
            names = {cls.name} if function.name == "__init__" else instances.get(cls.name, set())
        params = function.params[1:] if cls is not None else function.params
        for call in (call for name in names for call in calls.get(name, ())):
            for number, param in enumerate(params):
                given = call.keyword(param.name) or next(iter(call.positional[number : number + 1]), None)
                if given is not None:
                    yield param.name, given


def _names(value: ir.Value) -> set[str]:
    return {ir.last_name(each) for each in ir.walk_values(value)} - {""}
