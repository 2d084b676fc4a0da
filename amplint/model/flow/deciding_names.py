"""The variables on which it depends what a function does to scaler and gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amplint.model import Module


def deciding_names(module: Module, container: ir.Function | ir.Program) -> frozenset[str]:
    """The keys that a condition reads before such events, and those that flags among them are made of."""
    return module.once(_deciding_names, container)


def _deciding_names(module: Module, container: ir.Function | ir.Program) -> frozenset[str]:
    with objects(module).within(CallContext()):  # the same for whoever asks
        return _found_in(module, container)


def _found_in(module: Module, container: ir.Function | ir.Program) -> frozenset[str]:
    known = objects(module)
    found = {key for test in _tests(module, container.body) for key in known.names_in(test)}
    made: dict[str, set[str]] = {}
    for statement in ir.walk_statements(container.body, into=False):
        if isinstance(statement, ir.Assign) and statement.value is not None:
            for target in statement.targets:
                if (key := known.own_key(target)) is not None:
                    asked = map(known.own_key, _asked(statement.value))
                    made.setdefault(key, set()).update(each for each in asked if each is not None)
    todo = list(found)
    while todo:
        for key in made.get(todo.pop(), set()) - found:
            found.add(key)
            todo.append(key)
    return frozenset(found)


def _tests(module: Module, block: ir.Block) -> Iterator[ir.Value]:
    """The conditions of a suite of which one outcome trains, and the other doesn't."""
    trains = module.once(CallGraph).trains
    for statement in ir.walk_statements(block, into=False):
        if isinstance(statement, (ir.If, ir.While)) and any(map(trains, statement.blocks())):
            yield statement.test
        elif isinstance(statement, ir.Match) and any(trains(case.body) for case in statement.cases):
            yield statement.subject
    for value in ir.values_below(block):
        if isinstance(value, ir.Conditional) and _decides(module, value):
            yield value.test


def _decides(module: Module, value: ir.Conditional) -> bool:
    """Whether a conditional expression decides what is called, or which scaler or optimizer there is."""
    arms, known, recogniser = (value.then, value.other), objects(module), events(module)
    if any(known.is_scalers(key) or known.is_optimizers(key) for key in known.assigned_to(value)):
        return True
    calls = (each for arm in arms for each in ir.walk_values(arm) if isinstance(each, ir.Call))
    return any(recogniser.of(each) is not None for each in calls)


def _asked(value: ir.Value) -> Iterator[ir.Value]:
    """The parts of an expression on which its truth depends in sight: what calls are given is not among them."""
    todo = [value]
    while todo:
        part = todo.pop()
        yield part
        todo += [part.func] if isinstance(part, ir.Call) else part.children()
