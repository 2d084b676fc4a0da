"""How long what is known of local variables counts: after which statements they are of no more use, so that it need not
keep paths apart, and which are the same in each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amplint.model import Module

# Functions whose result is the same for the same numbers.
_PLAIN = {f"builtins.{name}" for name in ("int", "float", "bool", "abs", "round", "max", "min")}


def finished_by(module: Module, statement: ir.Statement) -> frozenset[str]:
    """The keys of the local variables that no path reads or binds after a statement."""
    return module.once(_finished_by, statement)


def _finished_by(module: Module, statement: ir.Statement) -> frozenset[str]:
    function = ir.function_of(statement)
    return module.once(_finished, function).get(statement.id, frozenset()) if function is not None else frozenset()


def _finished(module: Module, function: ir.Function) -> dict[int, frozenset[str]]:
    """By the ids of statements."""
    last: dict[str, ir.Name] = {}
    for value in ir.values_below(function.body):
        if isinstance(value, ir.Name) and value.scope.home(value.name) is function.scope:
            last[value.name] = max(last.get(value.name, value), value, key=lambda each: each.id)
    kept = {each.name for each in _mentioned_in_functions(function.body)}
    lasting = lasting_locals(module, function)
    found: dict[int, set[str]] = {}
    for name, mention in last.items():
        key = objects(module).raw_variable(function.scope, name)
        if name not in kept and key not in lasting:
            for statement in _ended_by(mention, function):
                found.setdefault(statement.id, set()).add(key)
    return {number: frozenset(keys) for number, keys in found.items()}


def lasting_locals(module: Module, function: ir.Function) -> frozenset[str]:
    """The keys of a function's variables that are the same number in each call: `every = max(1, self.args.every)`, if
    only constructors set these attributes. What is known of them in one call holds in the next.
    """
    return module.once(_lasting_locals, function)


def _lasting_locals(module: Module, function: ir.Function) -> frozenset[str]:
    found = {
        name: bindings[0].value
        for name, bindings in function.scope.bindings.items()
        if len(bindings) == 1 and isinstance(bindings[0], ir.Assigned) and bindings[0].value is not None
    }
    return frozenset(
        objects(module).raw_variable(function.scope, name) for name, value in found.items() if _lasts(module, value)
    )


def _lasts(module: Module, value: ir.Value) -> bool:
    """Whether a value is computed of constants and attributes of `self` alone, which only constructors set."""
    if isinstance(value, ir.Constant):
        return True
    if isinstance(value, ir.Attribute):
        base = value.base
        is_self = isinstance(base, ir.Name) and owner_class(value) is not None
        return (is_self or _lasts(module, base)) and not module.once(_is_set_later, value.attr)
    if isinstance(value, ir.Call):
        names = module.names.of(value.func)
        plain = bool(names) and names <= _PLAIN and not value.unpacks()
        return plain and all(_lasts(module, arg.value) for arg in value.args)
    parts = list(value.children()) if isinstance(value, (ir.Binary, ir.Unary)) else []
    return bool(parts) and all(_lasts(module, each) for each in parts)


def _is_set_later(module: Module, attr: str) -> bool:
    """Whether something but a constructor sets an attribute of that name."""
    return any(
        isinstance(target, ir.Attribute) and target.attr == attr and not _is_of_constructor(statement)
        for statement in module.whole.near(attr).statements
        for target in _targets(statement)
    )


def _is_of_constructor(statement: ir.Statement) -> bool:
    function = ir.function_of(statement)
    return function is not None and function.name in ("__init__", "__post_init__")


def _targets(statement: ir.Statement) -> Iterator[ir.Value]:
    """What a statement sets."""
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    if isinstance(statement, (ir.AugAssign, ir.For)):
        targets = (statement.target,)
    for target in targets:
        yield from ir.walk_values(target)


def _ended_by(mention: ir.Name, function: ir.Function) -> list[ir.Statement]:
    """The statements, from inside out, after which no path comes to a mention again: a loop does, until it ends."""
    around: list[ir.Statement] = []
    node: ir.Node | None = mention
    while node is not None and node is not function:
        if isinstance(node, (ir.For, ir.While)):
            around = [node]
        elif isinstance(node, ir.Statement):
            around.append(node)
        node = node.parent
    return around


def _mentioned_in_functions(block: ir.Block) -> Iterator[ir.Name]:
    """The names in the functions, lambdas and classes of a suite, which may be run later."""
    bodies = [each.body for each in ir.walk_statements(block) if isinstance(each, (ir.Function, ir.Class))]
    bodies += [each.function.body for each in ir.values_below(block) if isinstance(each, ir.Lambda)]
    for body in bodies:
        yield from (each for each in ir.values_below(body) if isinstance(each, ir.Name))
