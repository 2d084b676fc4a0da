"""Which variables matter to a path: what losses are made of, and what conditions read.

Flow analysis has to know of these, by the last words of their names; others would only keep paths apart. Each name is
looked for where it is written, when it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import given_to

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.lazy_lowering import Piece

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
    return any(name in module.once(_asked_in, piece)[0] for piece in module.whole.near(name).pieces)


def _is_asked_attribute(module: Module, name: str) -> bool:
    return any(name in module.once(_asked_in, piece)[1] for piece in module.whole.near(name).pieces)


def _asked_in(_module: Module, piece: Piece) -> tuple[set[str], set[str]]:
    """The names that the conditions in a piece of the file read, and those of them that are attributes'."""
    values = [value for test in _tests(piece) for value in ir.walk_values(test)]
    attributes = {each.attr for each in values if isinstance(each, ir.Attribute)}
    return {ir.last_name(each) for each in values} - {""}, attributes


def _tests(piece: Piece) -> Iterator[ir.Value]:
    for statement in piece.statements:
        if isinstance(statement, (ir.If, ir.While, ir.Assert)):
            yield statement.test
        # A flag that a function returns, or that switches a region or scaler, is asked elsewhere.
        if isinstance(statement, ir.Return) and statement.value is not None:
            yield statement.value
    for value in piece.values:
        if isinstance(value, ir.Conditional):
            yield value.test
        elif isinstance(value, ir.Bool):
            yield value
        elif isinstance(value, ir.Call):
            yield from (arg.value for arg in value.args if arg.keyword == "enabled")


def _is_returned(module: Module, name: str) -> bool:
    """A loss may be made in a function that returns it, or be an argument."""
    return any(name in module.once(_returned_in, piece) for piece in module.whole.near(name).pieces)


def _returned_in(_module: Module, piece: Piece) -> set[str]:
    """The names in what the functions in a piece of the file return."""
    values = (each.value for each in piece.statements if isinstance(each, ir.Return) and each.value is not None)
    return set[str]().union(*map(_names, values))


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
    pieces = module.whole.near(name).pieces
    found = set[str]().union(*(module.once(_assigned_in, piece).get(name, ()) for piece in pieces))
    for given in _passed(module, name):
        found |= _names(given)
    return found


def _assigned_in(_module: Module, piece: Piece) -> dict[str, set[str]]:
    """The names that a piece of the file assigns to, and those in what it assigns to them."""
    found: dict[str, set[str]] = {}
    for statement in piece.statements:
        if isinstance(statement, ir.Assign) and statement.value is not None:
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ir.AugAssign):
            targets, value = (statement.target,), statement.value
        else:
            continue
        names = _names(value)
        for name in set[str]().union(*map(_names, targets)):
            found.setdefault(name, set()).update(names)
    return found


def _passed(module: Module, name: str) -> Iterator[ir.Value]:
    """What parameters of a name may be given by calls in the file, going by the callee's name."""
    for function in module.whole.near(name).functions:
        params = function.params[1:] if function.cls is not None else function.params
        if all(param.name != name for param in params):
            continue
        names = {function.name}
        if function.cls is not None and function.name in ("__init__", "__call__"):
            names = {function.cls.name} if function.name == "__init__" else _instances(module, function.cls)
        for call in module.whole.near(*sorted(names)).calls:
            if ir.last_name(call.func) in names:
                given = given_to(params, call.positional, call.keywords).get(name)
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
