"""Which variables matter to a path: what losses are made of, and what conditions read.

Flow analysis has to know of these, by the last words of their names; others would only keep paths apart. Each name is
looked for where it is written, when it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.objects import objects

if TYPE_CHECKING:
    from amplint.model import Module

_LOSSES = ("backward", "scale")
_OF_LOSSES = re.compile(r"\b(?:backward|scale)\s*\(")


class Slices:
    """Answers for the names of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._asked: dict[str, bool] = {}
        self._asked_attributes: dict[str, bool] = {}
        self._returned: dict[str, bool] = {}

    def is_asked(self, name: str) -> bool:
        """Whether a condition reads something of that name."""
        return _remembered(self._asked, name, lambda: any(name in _names(test) for test in self._tests(name)))

    def is_asked_attribute(self, name: str) -> bool:
        """Whether a condition reads an attribute of that name."""
        values = (value for test in self._tests(name) for value in ir.walk_values(test))
        return _remembered(
            self._asked_attributes,
            name,
            lambda: any(isinstance(each, ir.Attribute) and each.attr == name for each in values),
        )

    def makes_loss(self, name: str) -> bool:
        """Whether a loss is made of something of that name, through the assignments of the whole file."""
        return name in self._losses or _remembered(self._returned, name, lambda: self._is_returned(name))

    def _tests(self, name: str) -> Iterator[ir.Value]:
        near = self._module.whole.near(name)
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

    def _is_returned(self, name: str) -> bool:
        """A loss may be made in a function that returns it, or be an argument."""
        return any(
            isinstance(each, ir.Return) and each.value is not None and name in _names(each.value)
            for each in self._module.whole.near(name).statements
        )

    @cached_property
    def _losses(self) -> set[str]:
        found: set[str] = set()
        for call in self._module.whole.near(_OF_LOSSES).calls:
            if ir.last_name(call.func) in _LOSSES:
                found |= _names(call)
        todo = list(found)
        while todo:
            for name in self._assigned(todo.pop()) - found:
                found.add(name)
                todo.append(name)
        return found

    def _assigned(self, name: str) -> set[str]:
        """The names that are in what is assigned to a name, or passed on to a parameter of that name."""
        found: set[str] = set()
        for statement in self._module.whole.near(name).statements:
            if isinstance(statement, ir.Assign) and statement.value is not None:
                targets, value = statement.targets, statement.value
            elif isinstance(statement, ir.AugAssign):
                targets, value = (statement.target,), statement.value
            else:
                continue
            if any(name in _names(target) for target in targets):
                found |= _names(value)
        for given in self._passed(name):
            found |= _names(given)
        return found

    def _passed(self, name: str) -> Iterator[ir.Value]:
        """What parameters of a name may be given by calls in the file, going by the callee's name."""
        for function in self._module.whole.near(name).functions:
            params = function.params[1:] if function.cls is not None else function.params
            number = next((place for place, param in enumerate(params) if param.name == name), None)
            if number is None:
                continue
            names = {function.name}
            if function.cls is not None and function.name in ("__init__", "__call__"):
                names = {function.cls.name} if function.name == "__init__" else self._instances(function.cls)
            for call in self._module.whole.near(*sorted(names)).calls:
                if ir.last_name(call.func) in names:
                    given = call.keyword(name) or next(iter(call.positional[number : number + 1]), None)
                    if given is not None:
                        yield given

    def _instances(self, cls: ir.Class) -> set[str]:
        """The names of the variables and attributes that are made by a class of the file."""
        known = objects(self._module)
        found: set[str] = set()
        for statement in self._module.whole.near(cls.name).statements:
            for target in statement.targets if isinstance(statement, ir.Assign) else ():
                key = known.key(target)
                if key is not None and known.instance(key) is cls:
                    found.add(re.split(r"[.:]", key)[-1])
        return found


def _remembered(answers: dict[str, bool], name: str, ask: Callable[[], bool]) -> bool:
    if name not in answers:
        answers[name] = ask()
    return answers[name]


def _names(value: ir.Value) -> set[str]:
    return {ir.last_name(each) for each in ir.walk_values(value)} - {""}
