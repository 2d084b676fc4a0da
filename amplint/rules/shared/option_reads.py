"""What a program does with an option of its command line: the texts that it compares the option with (AMP218)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.flow.value_uses import LOGS
from amplint.model.inference.declared_settings import PARSES
from amplint.model.inference.values import held
from amplint.model.names.reaching_definitions import reaching
from amplint.model.project.importers import surely_lack, surely_run_without
from amplint.model.project.resolve_import import module_file
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Imported
from amplint.model.syntax.nesting import is_within

if TYPE_CHECKING:
    from amplint.model import Module

_EQUAL, _MEMBER = ("Equal", "NotEqual", "Is", "IsNot"), ("In", "NotIn")
_LOGS = LOGS - {"format", "update"}
# Packages whose functions read no option of a program from its arguments: they save or show them.
_KNOWN = sys.stdlib_module_names | {"loguru", "numpy", "omegaconf", "pandas", "rich", "torch", "tqdm", "wandb", "yaml"}
# Values that are followed from an option to what is asked of them.
_DEEP = 6


def texts_asked(module: Module, attr: str, declared: ir.Call) -> set[str] | None:
    """The texts that the program asks an option for, whatever object keeps it under its name.

    None where the program does something else with it, or sets it otherwise.
    """
    if _has_elsewhere(module, attr):
        return None
    asked = set[str]()
    for value in module.whole.near(attr).values:
        if is_within(value, declared):
            continue
        if isinstance(value, ir.Attribute) and value.attr == attr:
            found = _asked(module, value) if not ir.is_target(value) else _set_again(value, attr)
        elif isinstance(value, ir.Constant) and value.value == attr:
            read = value.parent
            found = _asked(module, read) if isinstance(read, ir.Call) and _is_read_of(module, read, attr) else None
        else:
            continue
        if found is None:
            return None
        asked |= found
    return asked


def _set_again(target: ir.Attribute, attr: str) -> set[str] | None:
    """No text, where an attribute named as the option gets the option; None if it is set otherwise."""
    value = target.parent.value if isinstance(target.parent, ir.Assign) else None
    return set() if value is not None and _is_named(value, attr) else None


def _is_read_of(module: Module, call: ir.Call, attr: str) -> bool:
    """Whether a call is `getattr(args, "precision", ...)`."""
    given = call.positional
    return (
        module.names.of(call.func) == {"builtins.getattr"}
        and len(given) > 1
        and isinstance(given[1], ir.Constant)
        and given[1].value == attr
    )


def _asked(module: Module, value: ir.Value, depth: int = _DEEP) -> set[str] | None:
    """The texts that are asked of what is read here, also through variables and parameters; None if not only that."""
    up = value.parent
    if isinstance(up, ir.Compare):
        return _compared(module, up, value)
    if isinstance(up, ir.FString):
        return set()
    if isinstance(up, ir.Subscript) and up.index is value:
        table = held(module, up.base)
        return _keys(table) if isinstance(table, ir.Mapping) else None
    if isinstance(up, ir.Match) and up.subject is value:
        cases = [each.equals for each in up.cases if not each.irrefutable]
        return _texts(tuple(each for each in cases if each is not None)) if None not in cases else None
    if isinstance(up, ir.Assign) and up.value is value and len(up.targets) == 1:
        target = up.targets[0]
        if isinstance(target, ir.Attribute):
            return set() if _is_named(value, target.attr) else None
        return _asked_of_variable(module, target, depth - 1) if isinstance(target, ir.Name) and depth else None
    if isinstance(up, ir.Call) and up.func is not value:
        if _is_read_of(module, up, _attr_of(value)):
            return set()  # the default of `getattr(args, "precision", config.precision)`
        return _asked_by_call(module, up, value, depth)
    return None


def _attr_of(value: ir.Value) -> str:
    return value.attr if isinstance(value, ir.Attribute) else ""


def _is_named(value: ir.Value, attr: str) -> bool:
    """Whether a read of an attribute, or by `getattr`, has a name: what else has that name is followed already."""
    if isinstance(value, ir.Call):
        return any(isinstance(each, ir.Constant) and each.value == attr for each in value.positional)
    return isinstance(value, ir.Attribute) and value.attr == attr


def _compared(module: Module, test: ir.Compare, value: ir.Value) -> set[str] | None:
    if len(test.ops) != 1 or test.ops[0] not in _EQUAL + _MEMBER:
        return None
    other = test.rights[0] if test.left is value else test.left
    if test.ops[0] in _MEMBER:
        items = held(module, other)
        whole = test.left is value and isinstance(items, ir.Sequence)
        return _texts(items.items) if whole and isinstance(items, ir.Sequence) else None
    return set() if ir.is_none(other) else _texts((held(module, other),))


def _texts(values: tuple[ir.Value, ...]) -> set[str] | None:
    texts = {each.value for each in values if isinstance(each, ir.Constant) and isinstance(each.value, str)}
    return texts if all(isinstance(each, ir.Constant) for each in values) else None


def _keys(table: ir.Mapping) -> set[str] | None:
    keys = tuple(key for key, _ in table.items if key is not None)
    return _texts(keys) if len(keys) == len(table.items) else None


def _asked_of_variable(module: Module, target: ir.Name, depth: int) -> set[str] | None:
    """What is asked of a variable that is only assigned once."""
    home = target.scope.home(target.name)
    if home is None or home.kind == "class" or len(home.bindings[target.name]) != 1:
        return None
    return _asked_of_reads(module, target.name, home, depth)


def _asked_of_reads(module: Module, name: str, home: ir.Scope, depth: int) -> set[str] | None:
    asked = set[str]()
    for read in module.whole.near(name).values:
        if ir.is_variable(read, name) and not read.bound and read.scope.home(name) is home:
            found = _asked(module, read, depth)
            if found is None:
                return None
            asked |= found
    return asked


def _asked_by_call(module: Module, call: ir.Call, value: ir.Value, depth: int) -> set[str] | None:
    """What is asked by a function of this project that gets the value, and of what a table is looked up for."""
    if module.names.of(call.func) == {"builtins.print"} or ir.last_name(call.func) in _LOGS:
        return set()
    base = ir.called_on(call, "get")
    if base is not None and call.positional[:1] == (value,):
        table = held(module, base)
        return _keys(table) if isinstance(table, ir.Mapping) else None
    calls = module.once(CallGraph)
    callee = calls.find(call)
    given = calls.arguments(call, callee) if callee is not None and depth and not call.unpacks() else None
    names = [name for name, each in (given or {}).items() if each is value]
    if callee is None or len(names) != 1:
        return None
    bound = list(_reads_of(module, callee.function, names[0]))
    if any(len(reaching(module.names, each)) != 1 for each in bound):
        return None
    found = [_asked(module, each, depth - 1) for each in bound]
    return None if None in found else set().union(*(each for each in found if each is not None))


def _reads_of(module: Module, function: ir.Function, name: str) -> Iterator[ir.Name]:
    for each in module.whole.near(name).values:
        if ir.is_variable(each, name) and not each.bound and ir.function_of(each) is function:
            yield each


def _has_elsewhere(module: Module, attr: str) -> bool:
    """Whether another file of the program has a word, as far as can be told."""
    return not surely_lack(module.source.filename, re.compile(rb"\b" + re.escape(attr.encode()) + rb"\b"))


def is_unread(module: Module, attr: str, declared: ir.Node) -> bool:
    """Whether the program reads a setting at most to log it; `declared`: the call or the field that declares it."""
    if isinstance(declared, ir.Call):
        filename, reads = module.source.filename, _reads(attr)
        elsewhere = not surely_lack(filename, reads) and not surely_run_without(
            filename, next(iter(module.texts)), reads
        )
    else:
        elsewhere = _has_elsewhere(module, attr)
    return not elsewhere and not any(_is_read(module, each, declared) for each in _named(module, attr))


def _reads(attr: str) -> re.Pattern[bytes]:
    """How another file reads an option of the arguments that it is given: by its name, or with all others."""
    name = re.escape(attr.encode())
    return re.compile(
        rb"(?<!torch)(?<!cuda)(?<!apex)\.\s*%s\b|[\"']%s[\"']|\*\*\s*(?:vars\(|[\w.]*__dict__)" % (name, name)
    )


def are_given_away(module: Module) -> bool:
    """Whether the parsed arguments go as a whole to code of a package that is not in sight: `RAFT(args)`."""
    made = (ir.statement_of(each) for each in module.whole.called(*PARSES))
    bound = (target for each in made if isinstance(each, ir.Assign) for target in each.targets)
    names = {each.name for each in bound if isinstance(each, ir.Name)}
    return any(
        isinstance(each, ir.Name)
        and each.name in names
        and isinstance(each.parent, ir.Call)
        and each.parent.func is not each
        and _is_out_of_sight(module, each.parent.func)
        for each in (module.whole.near(*names).values if names else ())
    )


def _is_out_of_sight(module: Module, func: ir.Value) -> bool:
    """Whether a function is imported from a package of which neither the code nor what it does is known."""
    root = ir.root(func)
    for each in module.names.bindings(root) if isinstance(root, ir.Name) else ():
        name = (each.statement.module or each.name) if isinstance(each, Imported) else ""
        package = name.lstrip(".").partition(".")[0]
        if package and package not in _KNOWN and module_file(module.source.filename, name) is None:
            return True
    return False


def _named(module: Module, attr: str) -> Iterator[ir.Value]:
    """The attributes, names, parameters' defaults and texts that have an option's name."""
    for value in module.whole.near(attr).values:
        if isinstance(value, ir.Attribute) and any(name.startswith("torch.") for name in module.names.of(value)):
            continue  # `torch.amp`
        if ir.last_name(value) == attr or (isinstance(value, ir.Constant) and value.value == attr):
            yield value


def _is_read(module: Module, value: ir.Value, declared: ir.Node) -> bool:
    """Whether something with the name of an option may read it, for more than to log it."""
    if is_within(value, declared) or (isinstance(value, ir.Attribute) and ir.is_target(value)):
        return False
    at: ir.Node = value
    while isinstance(at.parent, (ir.FString, ir.Binary, ir.Sequence, ir.Mapping)):
        at = at.parent
    up = at.parent
    if not isinstance(value, ir.Attribute) or not isinstance(up, ir.Call) or up.func is at:
        return True
    if isinstance(up.parent, ir.Call) and ir.last_name(up.func) == "format":
        up = up.parent  # `logger.info("fp16: {}".format(args.fp16))`
    return module.names.of(up.func) != {"builtins.print"} and ir.last_name(up.func) not in _LOGS
