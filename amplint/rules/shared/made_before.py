"""Whether an object that one statement makes is there wherever a place is reached, following calls of functions."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import callers
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import dominates

if TYPE_CHECKING:
    from amplint.model import Module

_DEPTH = 5


class Order(Enum):
    """When a place is reached, seen from the statement that makes an object."""

    AFTER = "after"  # on every path, and the object is not made anew
    LATER = "later"  # on some path the object is made only later
    UNSURE = "unsure"


def made_before(module: Module, made: ir.Statement, place: ir.Node, depth: int = _DEPTH) -> Order:
    """Whether a statement has surely run where a place is reached: in its own function, or in those that run it."""
    container, maker = ir.function_of(place), ir.function_of(made)
    if container is maker:
        return _in_one(made, place)
    sites, sure = _sites(module, made, container)
    if sites:
        order = _in_one(sites[0], place)
        return order if sure or order is Order.LATER else Order.UNSURE
    if container is None or depth == 0:
        return Order.UNSURE
    if container.cls is None and ir.function_of(container) is maker and _in_one(made, container) is Order.AFTER:
        return Order.AFTER  # the function itself exists only after
    made = _in_init(module, made)
    orders = {_at_call(module, made, each, container, depth - 1) for each in callers(module, container)}
    if Order.LATER in orders:
        return Order.LATER
    if Order.UNSURE in orders or not _is_plain(made):
        return Order.UNSURE
    return Order.AFTER if orders else _where_called_unseen(ir.function_of(made), container)


def _where_called_unseen(maker: ir.Function | None, container: ir.Function) -> Order:
    """The order at the calls of a function that are out of sight, for what another function makes, or the file."""
    if container.name == "__init__" and container.cls is not None and maker is not None:
        return Order.LATER if maker.cls is container.cls else Order.UNSURE
    # A file's own statements, and `__init__`, have run before anything that others call.
    return Order.AFTER if maker is None or maker.name == "__init__" else Order.UNSURE


def _in_init(module: Module, made: ir.Statement) -> ir.Statement:
    """The statement of `__init__` by which a method of the object is surely run, or else the one in the method."""
    at = made
    for _ in range(_DEPTH):
        function = ir.function_of(at)
        if function is None or function.cls is None or function.name == "__init__":
            return at if function is not None and function.name == "__init__" else made
        calls = callers(module, function)
        if not _is_plain(at) or len(calls) != 1:
            return made
        at = ir.statement_of(calls[0])
    return made


def _at_call(module: Module, made: ir.Statement, call: ir.Call, container: ir.Function, depth: int) -> Order:
    """The order at a call of the function in which the place is."""
    maker, caller = ir.function_of(made), ir.function_of(call)
    if maker is not None and maker.name == "__init__" and (caller is None or caller.cls is None):
        return Order.AFTER  # called on an object that is made
    if caller is container:
        return Order.AFTER  # it was reached before
    if maker is None or maker.cls is None:
        return made_before(module, made, call, depth)
    if caller is not None and caller.name == "__init__" and caller.cls is container.cls and caller is not maker:
        if not _sites(module, made, caller)[0]:
            return Order.LATER  # before an object exists, none of its other methods runs
    return made_before(module, made, call, depth)


def _in_one(made: ir.Node, place: ir.Node) -> Order:
    """The order of two places of one function."""
    if place.id < made.id:
        return Order.LATER
    return Order.AFTER if dominates(made, place) else Order.UNSURE


def _is_plain(made: ir.Statement) -> bool:
    """Whether a statement runs whenever its function does, to its end."""
    function = ir.function_of(made)
    statement: ir.Node | None = made
    while isinstance(statement, ir.Statement) and isinstance(statement.parent, ir.With):
        statement = statement.parent
    if not isinstance(statement, ir.Statement) or not isinstance(statement.parent, (ir.Function, ir.Program)):
        return False
    body = ir.walk_statements(function.body, into=False) if function is not None else ()
    return not any(isinstance(each, ir.Return) and each.id < made.id for each in body)


def _sites(module: Module, made: ir.Statement, container: ir.Function | None) -> tuple[list[ir.Node], bool]:
    """The calls in a function through which a statement runs, and whether there is one for all, that surely does."""
    sure, at = True, [made]
    for _ in range(_DEPTH):
        functions = {function.id: function for each in at if (function := ir.function_of(each)) is not None}
        sure = sure and len(at) == 1 and _is_plain(at[0])
        calls = [call for function in functions.values() for call in callers(module, function)]
        here: list[ir.Node] = [call for call in calls if ir.function_of(call) is container]
        if here:
            is_init = any(function.name == "__init__" for function in functions.values())
            return sorted(here, key=lambda each: each.id), sure and (len(calls) == 1 or is_init)
        at = [ir.statement_of(call) for call in calls]
    return [], False
