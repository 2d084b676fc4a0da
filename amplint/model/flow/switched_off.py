"""Code that the file as it is never runs: behind a constant of the file that is false, `if CFG.train:`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import callers
from amplint.model.flow.path_conditions import truth_of
from amplint.model.project.importers import is_imported
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round

if TYPE_CHECKING:
    from amplint.model import Module

_DEPTH = 6
# A switch of AMP is what a reader changes next: what it does is said.
_OF_AMP = re.compile(r"(?i)amp|fp_?16|bf_?16|half|precision|scal|apex|float16")

_CONSTANT = re.compile(r"(?m)^[ \t]*([^\W\d]\w*)[ \t]*(?::[^=\r\n]+)?=[ \t]*(?:True|False)\b")
_TEST = re.compile(r"(?m)^[ \t]*(?:if|elif|while)\b.*")
_WORD = re.compile(r"\w+")


def is_switched_off(module: Module, start: int) -> bool:
    """Whether the code at an offset of the file is never run, by the literals that its constants are.

    A constant is a variable outside of functions, or an attribute of a class that the file reads by the class's name,
    and that is set once, to a literal. Of a file that another one imports nothing is known.
    """
    if not module.once(_may_have_switches):
        return False
    statement = module.statement_at(start)
    return (
        statement is not None
        and not is_imported(module.source.filename)
        and module.once(_never_runs, statement, _DEPTH)
    )


def _may_have_switches(module: Module) -> bool:
    """Whether the text has a test of a name that it sets to True or False; most have none, and are not read for it."""
    text = module.source.text
    names = {name for name in _CONSTANT.findall(text) if not _OF_AMP.search(name)}
    return any(names & set(_WORD.findall(line)) for line in _TEST.findall(text))


def _never_runs(module: Module, node: ir.Node, depth: int) -> bool:
    for test, holds in conditions_round(node):
        truth = truth_of(test, lambda part: _literal(module, part))
        if truth is not None and truth is not holds:
            return True
    function = ir.function_of(node)
    if function is None or not depth or function.cls is not None:
        return False
    calls = callers(module, function)
    reads = (each for each in module.whole.near(function.name).values if isinstance(each, ir.Name))
    named = [each for each in reads if each.name == function.name and not each.bound]
    if not calls or len(named) != len(calls) or not all(map(module.is_own, calls)):
        return False  # it may be called by another name
    return all(module.once(_never_runs, each, depth - 1) for each in calls)


def _literal(module: Module, value: ir.Value) -> bool | None:
    """The truth of a constant of the file that has nothing to do with AMP."""
    if not isinstance(value, (ir.Name, ir.Attribute)) or _OF_AMP.search(ir.last_name(value)):
        return None
    return module.once(_truth_of_constant, value)


def _truth_of_constant(module: Module, value: ir.Name | ir.Attribute) -> bool | None:
    stored: list[ir.Value | None]
    if isinstance(value, ir.Attribute):
        cls = module.names.definition(value.base)
        if not isinstance(cls, ir.Class) or _is_set_elsewhere(module, cls, value.attr):
            return None
        assigned = [each for each in cls.body.statements if isinstance(each, ir.Assign)]
        named = [each for each in assigned if any(ir.is_variable(target, value.attr) for target in each.targets)]
        stored = [*cls.stored(value.attr), *(each.value for each in named)]
    else:
        bound = module.names.bound_once(value)
        if bound is None or ir.function_of(bound.target) is not None:
            return None
        stored = [bound.value]
    only = stored[0] if len(stored) == 1 else None
    return bool(only.value) if isinstance(only, ir.Constant) and isinstance(only.value, bool) else None


def _is_set_elsewhere(module: Module, cls: ir.Class, name: str) -> bool:
    """Whether code may set an attribute of a class by its own name, or all of them."""
    for each in module.whole.near(cls.name).values:
        if isinstance(each, ir.Name) and each.name == cls.name and not each.bound:
            up = each.parent
            if isinstance(up, ir.Attribute):
                if up.attr == name and ir.is_target(up):
                    return True
            elif isinstance(up, ir.Call) and ir.last_name(up.func) in ("setattr", "vars", "update"):
                return True
    return False
