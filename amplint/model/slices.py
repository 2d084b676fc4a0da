"""Which variables matter to a path: what losses are made of, and what conditions read.

Flow analysis has to know of these, by the last words of their names; others would only keep paths apart. Each name is
looked for where it is written, when it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.objects import objects

if TYPE_CHECKING:
    from amplint.model import Module

_LOSSES = ("backward", "scale")
_OF_LOSSES = re.compile(r"\b(?:backward|scale)\s*\(")


def is_asked(module: Module, name: str) -> bool:
    """Whether a condition reads something of that name."""
    return module.once(_is_asked, name)


def is_asked_attribute(module: Module, name: str) -> bool:
    """Whether a condition reads an attribute of that name."""
    return module.once(_is_asked_attribute, name)


def makes_loss(module: Module, name: str) -> bool:
    """Whether a loss is made of something of that name, through the assignments of the whole file."""
    return name in module.once(_losses) or module.once(_is_returned, name)


def _is_asked(module: Module, name: str) -> bool:
    return any(name in _names(test) for test in _tests(module, name))


def _is_asked_attribute(module: Module, name: str) -> bool:
    values = (value for test in _tests(module, name) for value in ir.walk_values(test))
    return any(isinstance(each, ir.Attribute) and each.attr == name for each in values)


def _tests(module: Module, name: str) -> Iterator[ir.Value]:
    near = module.whole.near(name)
    for statement in near.statements:
        if isinstance(statement, (ir.If, ir.While, ir.Assert)):
            yield statement.test
        # A flag that a function returns, or that switches a region or scaler, is asked elsewhere.
        if isinstance(statement, ir.Return) and statement.value is not None:
            yield statement.value
    for value in near.values:
        if isinstance(value, ir.Conditional):
            yield value.test
        elif isinstance(value, ir.Bool):
            yield value
        elif isinstance(value, ir.Call):
            yield from (arg.value for arg in value.args if arg.keyword == "enabled")


def _is_returned(module: Module, name: str) -> bool:
    """A loss may be made in a function that returns it, or be an argument."""
    return any(
        isinstance(each, ir.Return) and each.value is not None and name in _names(each.value)
        for each in module.whole.near(name).statements
    )


def _losses(module: Module) -> set[str]:
    found: set[str] = set()
    for call in module.whole.near(_OF_LOSSES).calls:
        if ir.last_name(call.func) in _LOSSES:
            found |= _names(call)
    todo = list(found)
    while todo:
        for name in _assigned(module, todo.pop()) - found:
            found.add(name)
            todo.append(name)
    return found


def _assigned(module: Module, name: str) -> set[str]:
    """The names that are in what is assigned to a name, or passed on to a parameter of that name."""
    found: set[str] = set()
    for statement in module.whole.near(name).statements:
        if isinstance(statement, ir.Assign) and statement.value is not None:
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ir.AugAssign):
            targets, value = (statement.target,), statement.value
        else:
            continue
        if any(name in _names(target) for target in targets):
            found |= _names(value)
    for given in _passed(module, name):
        found |= _names(given)
    return found


def _passed(module: Module, name: str) -> Iterator[ir.Value]:
    """What parameters of a name may be given by calls in the file, going by the callee's name."""
    for function in module.whole.near(name).functions:
        params = function.params[1:] if function.cls is not None else function.params
        number = next((place for place, param in enumerate(params) if param.name == name), None)
        if number is None:
            continue
        names = {function.name}
        if function.cls is not None and function.name in ("__init__", "__call__"):
            names = {function.cls.name} if function.name == "__init__" else _instances(module, function.cls)
        for call in module.whole.near(*sorted(names)).calls:
            if ir.last_name(call.func) in names:
                given = call.keyword(name) or next(iter(call.positional[number : number + 1]), None)
                if given is not None:
                    yield given


def _instances(module: Module, cls: ir.Class) -> set[str]:
    """The names of the variables and attributes that are made by a class of the file."""
    known = objects(module)
    found: set[str] = set()
    for statement in module.whole.near(cls.name).statements:
        for target in statement.targets if isinstance(statement, ir.Assign) else ():
            key = known.key(target)
            if key is not None and known.instance(key) is cls:
                found.add(re.split(r"[.:]", key)[-1])
    return found


def _names(value: ir.Value) -> set[str]:
    return {ir.last_name(each) for each in ir.walk_values(value)} - {""}
