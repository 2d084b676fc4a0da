"""After which statements local variables are of no more use: what is known of them need not keep paths apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amplint.model import Module


def finished_by(module: Module, statement: ir.Statement) -> frozenset[str]:
    """The keys of the local variables that no path reads or binds after a statement."""
    function = ir.function_of(statement)
    return module.once(_finished, function).get(statement.id, frozenset()) if function is not None else frozenset()


def _finished(module: Module, function: ir.Function) -> dict[int, frozenset[str]]:
    """By the ids of statements."""
    last: dict[str, ir.Name] = {}
    for value in ir.values_below(function.body):
        if isinstance(value, ir.Name) and value.scope.home(value.name) is function.scope:
            last[value.name] = max(last.get(value.name, value), value, key=lambda each: each.id)
    kept = {each.name for each in _mentioned_in_functions(function.body)}
    found: dict[int, set[str]] = {}
    for name, mention in last.items():
        if name not in kept:
            key = objects(module).raw_variable(function.scope, name)
            for statement in _ended_by(mention, function):
                found.setdefault(statement.id, set()).add(key)
    return {number: frozenset(keys) for number, keys in found.items()}


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
