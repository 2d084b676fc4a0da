"""What decides about a node within its function: the tests round it, and how a variable is assigned."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.model import ir
from amplint.model.compat import block_leaves
from amplint.model.scopes import Assigned


def conditions_round(node: ir.Node) -> list[tuple[ir.Value, bool]]:
    """The tests that decide whether a node is run, and how they have to come out, within its function."""
    return list(_conditions_round(node))


def _conditions_round(node: ir.Node) -> Iterator[tuple[ir.Value, bool]]:
    child, up = node, node.parent
    while up is not None and not (isinstance(child, ir.Function) and child is not node):
        if isinstance(up, ir.Conditional) and child is not up.test:
            yield up.test, child is up.then
        if isinstance(up, ir.Bool) and child is up.right:
            yield up.left, up.op == "and"
        if isinstance(up, ir.If) and child is not up.test and isinstance(child, ir.Statement):
            yield up.test, child.block is up.then
        if isinstance(child, ir.Statement) and child.block is not None:
            for before in child.block.statements:
                if before is child:
                    break
                if isinstance(before, ir.If) and before.orelse is None and block_leaves(before.then):
                    yield before.test, False
        child, up = up, up.parent


def asks_for_itself(place: ir.Node, test: ir.Value) -> bool:
    """Whether a test round an assignment reads what is assigned."""
    statement = ir.statement_of(place)
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    names = {ir.last_name(each) for each in targets} - {""}
    return any(
        isinstance(each, (ir.Name, ir.Attribute)) and ir.last_name(each) in names for each in ir.walk_values(test)
    )


def is_changed(binding: Assigned) -> bool:
    """Whether it is no plain assignment: what is bound changes from round to round."""
    up = binding.target.parent
    while isinstance(up, ir.Sequence):
        up = up.parent
    return not isinstance(up, (ir.Assign, ir.Walrus))
