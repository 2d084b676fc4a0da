"""Results of a `with` block that are computed again after it, before anything reads them (AMP310)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.syntax.nesting import following, upwards

if TYPE_CHECKING:
    from amplint.model import Module


def overwritten_in(module: Module, block: ir.With) -> tuple[ir.Assign, ir.Assign] | None:
    """The last call in a `with` block whose result a variable gets, and the same call outside of it that replaces the
    result unread: in the statements that follow, or in a branch of them. None for none.
    """
    first = next((each for each in reversed(block.body.statements) if _has_call(each)), None)
    if not isinstance(first, ir.Assign):
        return None
    names = {name for target in first.targets for name in _names(target)}
    if not names or first.value is None or names & _names(first.value):
        return None
    after = (each for around in _enclosing(first) for each in following(around))
    for each in after:
        again = _again(module, first, each, names)
        if again is not None:
            return first, again
        if names & _named(each) or _names(first.value) & _bound(each):
            return None  # it is read, or the call is one of another model or of other inputs by then
    return None


def _has_call(statement: ir.Statement) -> bool:
    return any(isinstance(each, ir.Call) for root in statement.values() for each in ir.walk_values(root))


def _enclosing(statement: ir.Statement) -> Iterator[ir.Statement]:
    """A statement, and the `with` and `if` blocks that it is in, up to another kind of block."""
    return takewhile(lambda each: each is statement or isinstance(each, (ir.With, ir.If)), upwards(statement))


def _again(module: Module, first: ir.Assign, statement: ir.Statement, names: set[str]) -> ir.Assign | None:
    """The same assignment as `first`: a statement itself, or what in a branch of it has to do with `names` first."""
    if isinstance(statement, ir.Assign):
        same = [module.text(each) for each in statement.targets] == [module.text(each) for each in first.targets]
        given = [module.text(each.value) if each.value is not None else "" for each in (statement, first)]
        return statement if same and given[0] == given[1] else None
    if not isinstance(statement, ir.If) or names & _names(statement.test):
        return None
    for branch in statement.blocks():
        inner = next((each for each in branch.statements if names & _named(each)), None)
        found = _again(module, first, inner, names) if inner is not None else None
        if found is not None:
            return found
    return None


def _named(statement: ir.Statement) -> set[str]:
    """The variables that a statement, with all in it, reads or sets."""
    below = (statement, *(each for block in statement.blocks() for each in ir.walk_statements(block)))
    return {name for part in below for value in part.values() for name in _names(value)}


def _bound(statement: ir.Statement) -> set[str]:
    """The variables that a statement, with all in it, sets."""
    below = (statement, *(each for block in statement.blocks() for each in ir.walk_statements(block)))
    targets = (each for part in below if isinstance(part, ir.Assign) for each in part.targets)
    return {name for each in targets for name in _names(each)}


def _names(value: ir.Value) -> set[str]:
    return {each.name for each in ir.walk_values(value) if isinstance(each, ir.Name)}
