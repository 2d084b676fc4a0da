"""Settings of mixed precision that a program declares and never reads: parameters, and fields of configurations
(AMP218).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.inference.declared_settings import field_of
from amplint.model.names.grad_mode import grad_mode
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.project.importers import surely_lack
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import is_within
from amplint.rules.shared.option_reads import is_unread
from amplint.rules.shared.precision_tests import names_amp, names_switch

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.positions import Span

_AMP = re.compile(r"(?i)enabled|amp|fp_?16|bf_?16|float16|autocast|mixed_?precision")
# What may read a parameter without its name.
_READS_ALL = {"locals", "vars", "eval", "exec", "save_hyperparameters", "currentframe", "signature", "getargvalues"}
_PLAIN = {"staticmethod", "classmethod"}
_TRAINS = ("backward", "step", "unscale_", "autocast")
_CONFIG = re.compile(r"(?i)(?:config|cfg|args|arguments|hparams|hyper\w*|settings|options|opt|params)$")
_UNPACKS = re.compile(rb"\*\*\s*[\w.]*(?:vars\(|asdict\(|__dict__|model_dump\(|\bdict\(|to_dict\()|from_argparse_args")
_BACKWARD = re.compile(rb"\bbackward\s*\(")


class Unread(NamedTuple):
    """A setting that nothing reads: its name, where it stands, and the function whose parameter it is, or None.

    `region`: a region of that function, on which no other setting decides.
    """

    name: str
    span: Span
    function: ir.Function | None = None
    region: Region | None = None


def unread_parameters(module: Module) -> Iterator[Unread]:
    """The parameters that are called as what switches AMP, of functions that train and never read them, where calls
    give them.
    """
    for function in module.own.near(_AMP).functions:
        for param in function.params:
            if not _is_switch(function, param) or not _may_have_any_signature(module, function):
                continue
            if _is_read_in(function, param.name) or not _is_given(module, function, param.name):
                continue
            if any("scaler" in each.name and not _is_read_in(function, each.name) for each in function.params):
                continue  # AMP425 finds a scaler that the function gets and never reads
            round_it = [each for each in regions(module) if is_within(each.call, _home(function))]
            if not _trains(function) and not round_it:
                continue
            region = next((each for each in round_it if ir.function_of(each.call) is function), None)
            yield Unread(param.name, _span(module, function, param), function, region)


def _is_switch(function: ir.Function, param: ir.Param) -> bool:
    """Whether a parameter is called as what switches AMP; of a class that is called after AMP, `enabled` is."""
    if param.kind in ("*", "**") or param.name.startswith("_"):
        return False
    if param.name == "enabled":
        return function.cls is not None and function.name == "__init__" and names_amp(_words(function.cls.name))
    return names_switch(param.name) and param.name != "half"


def _words(name: str) -> str:
    """A class's name in words: `AMP_Manager` for `AMPManager`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)


def _home(function: ir.Function) -> ir.Node:
    """What a parameter is for: the function, or the class that it makes an object of."""
    return function.cls if function.cls is not None and function.name == "__init__" else function


def _may_have_any_signature(module: Module, function: ir.Function) -> bool:
    """Whether nothing else says which parameters a function has: a base class, a decorator, a table of functions."""
    if function.cls is not None and function.cls.bases and function.name != "__init__":
        return False
    for each in function.decorators:
        if ir.last_name(each) not in _PLAIN and grad_mode(module, each) is None:
            return False
    if all(isinstance(each, ir.Raise) or ir.is_docstring(each) for each in function.body.statements):
        return False
    named = module.whole.near(function.name).values if function.name != "__init__" else ()
    return all(
        isinstance(each.parent, ir.Call) and each.parent.func is each
        for each in named
        if ir.last_name(each) == function.name
    )


def _is_read_in(function: ir.Function, name: str) -> bool:
    for each in ir.values_below(function.body, into=True):
        if (ir.is_variable(each, name) and not each.bound) or ir.last_name(each) in _READS_ALL:
            return True
        if isinstance(each, ir.Lambda):
            return True  # what is in it isn't looked at
    return False


def _is_given(module: Module, function: ir.Function, name: str) -> bool:
    """Whether a call gives a parameter, by its name or its place, or another file has its name."""
    called = function.cls.name if function.cls is not None and function.name == "__init__" else function.name
    calls = module.once(CallGraph)
    for call in module.whole.called(called):
        callee = calls.find(call)
        if any(arg.keyword == name for arg in call.args):
            return True
        given = calls.arguments(call, callee) if callee is not None and callee.function is function else None
        if given is not None and given.get(name) is not None and is_within(given[name] or call, call):
            return True
    return not surely_lack(module.source.filename, re.compile(rb"\b%s\s*=(?!=)" % name.encode()))


def _trains(function: ir.Function) -> bool:
    """Whether a function, or the class whose objects it makes, trains."""
    home = _home(function)
    body = home.body if isinstance(home, (ir.Function, ir.Class)) else function.body
    values = ir.values_below(body, into=True)
    return any(isinstance(each, ir.Call) and ir.last_name(each.func) in _TRAINS for each in values)


def _span(module: Module, function: ir.Function, param: ir.Param) -> Span:
    """Where a parameter's name stands in the head of its function."""
    start = module.span(function)[0]
    head = re.compile(rf"\bdef\s+{function.name}\b").search(module.source.text, start)
    found = re.compile(rf"\b{param.name}\b").search(module.source.text, head.end() if head is not None else start)
    assert found is not None
    return found.span()


def unread_fields(module: Module) -> Iterator[Unread]:
    """The fields of the file's configurations that are called as what switches AMP, and that no code of the program
    reads.
    """
    for statement in module.own.near(_AMP).statements:
        if not isinstance(statement, ir.Assign) or len(statement.targets) != 1 or not _declares(statement):
            continue
        target = statement.targets[0]
        assert isinstance(target, ir.Name)
        if names_switch(target.name) and _may_be_read_by_name_only(module):
            if is_unread(module, target.name, statement):
                yield Unread(target.name, module.span(target))


def _declares(statement: ir.Assign) -> bool:
    """Whether a statement declares a field of a configuration, or a constant of the file in capitals."""
    target, up = statement.targets[0], statement.parent
    if not isinstance(target, ir.Name):
        return False
    if isinstance(up, ir.Class):
        is_field = field_of(up, target.name)[0]
        return is_field or (not up.bases and _CONFIG.search(up.name) is not None)
    return ir.function_of(statement) is None and target.name.isupper() and isinstance(statement.value, ir.Constant)


def _may_be_read_by_name_only(module: Module) -> bool:
    """Whether the program trains, and none of its files hands all fields of a configuration on to other code."""
    text, filename = module.source.text.encode(), module.source.filename
    if _UNPACKS.search(text) or not surely_lack(filename, _UNPACKS):
        return False
    return _BACKWARD.search(text) is not None or not surely_lack(filename, _BACKWARD)
