"""What loops and comprehensions go through."""

from __future__ import annotations

from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.standins import Counted, Frame, Unknown
from amplint.verify.program.program import TOOLS, Code

INNER = 2  # iterations of a loop inside one over batches, and items of a container out of sight
_MOST = 64


class LoopItems:
    """Says what a value has for a loop; what is out of sight has so many items as a loop is run `iterations`."""

    def __init__(self, roles: Roles, iterations: int) -> None:
        self._roles = roles
        self._iterations = iterations

    def of(self, value: Any, frame: Frame, where: ir.Value) -> Counted:
        """What a loop goes through."""
        if isinstance(value, Counted):
            return value
        if isinstance(value, (list, tuple, dict)):
            return Counted([*value][:_MOST], whole=True)
        if not isinstance(value, Unknown):
            return Counted([Unknown(f"{frame.code.text(where)}[...]") for _ in range(self._iterations)])
        if frame.code.known(_reads_gradients, where):
            return Counted([*self._roles.as_parameters(value)], whole=True)
        name = _target_name(where) or f"{value.text}[...]"
        tools = bool(TOOLS.search(value.text))
        owner = ir.statement_of(where)
        if isinstance(owner, ir.For) and not tools and frame.code.trains(owner):
            return Counted([value.item(at, name, batch=True) for at in range(self._iterations)])
        count = INNER if tools else 1 if value.tensor is not None else self._iterations
        return Counted([value.item(at, name) for at in range(count)], whole=tools)


def _target_name(where: ir.Value) -> str | None:
    """The variable of the loop that goes through a value."""
    parent = where.parent
    owner = ir.statement_of(where)
    if parent is None and isinstance(owner, ir.For) and isinstance(owner.target, ir.Name):
        return owner.target.name
    return None


def _reads_gradients(_: Code, where: ir.Value) -> bool:
    """Whether the items of a loop or comprehension are used as parameters are."""
    owner: ir.Node | None = where
    while isinstance(owner, ir.Value) and not isinstance(owner, ir.Comprehension):
        owner = owner.parent
    statement = ir.statement_of(where)
    if isinstance(owner, ir.Comprehension):
        targets = [clause.target for clause in owner.clauses]
        roots = [*owner.elements, *(test for clause in owner.clauses for test in clause.conditions)]
        values = [each for root in roots for each in ir.walk_values(root)]
    elif isinstance(statement, ir.For):
        targets, values = [statement.target], [*ir.values_below(statement.body)]
    else:
        return False
    names = {each.name for target in targets for each in ir.walk_values(target) if isinstance(each, ir.Name)}
    return any(_gradient_of(each) in names for each in values)


def _gradient_of(value: ir.Value) -> str | None:
    """The variable of whose value a gradient is read."""
    if isinstance(value, ir.Attribute) and value.attr == "grad" and isinstance(value.base, ir.Name):
        return value.base.name
    return None
