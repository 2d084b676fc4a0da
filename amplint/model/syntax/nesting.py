"""Where nodes stand to each other, going by the text: the ifs and loops round them, what is reached through what."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.model.syntax import ir

_ARMS = (ir.If, ir.Match)  # of whose suites one is run at most


def upwards(statement: ir.Statement) -> Iterator[ir.Statement]:
    """A statement and those it is nested in, up to the function's own suite."""
    up: ir.Node | None = statement
    while isinstance(up, ir.Statement) and not isinstance(up, (ir.Function, ir.Class)):
        yield up
        up = up.parent


def nodes_round(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes that a node is in, from the innermost on, up to the program."""
    while node.parent is not None:
        node = node.parent
        yield node


def is_within(node: ir.Node, outer: ir.Node) -> bool:
    """Whether a node is another one, or is in it."""
    up: ir.Node | None = node
    while up is not None and up is not outer:
        up = up.parent
    return up is outer


def following(statement: ir.Statement) -> list[ir.Statement]:
    """The statements after one in its suite."""
    around = statement.block.statements
    return around[around.index(statement) + 1 :]


def ifs_round(node: ir.Node) -> list[ir.If]:
    """The ifs round a node, from the innermost on."""
    return [each.parent for each in upwards(ir.statement_of(node)) if isinstance(each.parent, ir.If)]


def conditions(node: ir.Node, without: ir.Node) -> list[ir.If]:
    """The ifs round a node that are not, with the same arm, round another."""
    shared = {id(each.block) for each in upwards(ir.statement_of(without))}
    return [
        each.parent
        for each in upwards(ir.statement_of(node))
        if isinstance(each.parent, ir.If) and id(each.block) not in shared
    ]


def independent(first: ir.Node, second: ir.Node) -> bool:
    """Whether neither of two calls runs whenever the other does, going by the ifs round them."""
    return bool(conditions(first, second)) and bool(conditions(second, first))


def exclusive(first: ir.Node, second: ir.Node) -> bool:
    """Whether two calls stand in different arms of one if, or different cases of one match."""
    arms = {id(each.parent): each.block for each in upwards(ir.statement_of(first)) if isinstance(each.parent, _ARMS)}
    return any(
        arms.get(id(each.parent), each.block) is not each.block
        for each in upwards(ir.statement_of(second))
        if isinstance(each.parent, _ARMS)
    )


def dominates(first: ir.Node, second: ir.Node) -> bool:
    """Whether the second statement is reached only through the first, which stands before it."""
    blocks = {id(each.block) for each in upwards(ir.statement_of(second))}
    for each in upwards(ir.statement_of(first)):
        if id(each.block) in blocks:
            return True
        if not isinstance(each.parent, ir.With):
            return False
    return False


def loops_round(node: ir.Node) -> list[ir.For | ir.While]:
    """The loops round a node, from the innermost on."""
    return [each for each in upwards(ir.statement_of(node)) if isinstance(each, (ir.For, ir.While))]


def loop_of(node: ir.Node) -> ir.For | ir.While | None:
    """The innermost loop round a node."""
    return next(iter(loops_round(node)), None)


def handler_of(node: ir.Node) -> ir.Block | None:
    """The suite of the exception handler that a node is in, unless a loop or a `try` in it is closer."""
    for each in upwards(ir.statement_of(node)):
        if each.block.role.startswith("handler"):
            return each.block
        if isinstance(each.parent, (ir.Try, ir.For, ir.While, ir.Function)):
            return None
    return None


def skipping(first: ir.Node, second: ir.Node, *leaving: str) -> list[ir.If]:
    """The ifs that decide whether a call comes behind another: round it, or with an arm that leaves in between.

    `leaving`: the jumps that count, "return" and "raise" among them.
    """
    found = conditions(second, first)
    return found + [each.parent for each in _leaves(first, second, leaving) if isinstance(each.parent, ir.If)]


def ways_past(first: ir.Node, second: ir.Node, *leaving: str) -> list[list[tuple[ir.Value, bool]]]:
    """The ways in which a call does not come behind another: for each the tests and how they come out.

    `leaving`: the jumps that count, "return" and "raise" among them.
    """
    ways = [[(each.test, each not in _then_round(second))] for each in conditions(second, first)]
    jumps = _leaves(first, second, leaving)
    return ways + [[(each.test, each in _then_round(jump)) for each in conditions(jump, first)] for jump in jumps]


def _then_round(node: ir.Node) -> list[ir.If]:
    """The ifs that have a node in their first arm."""
    around = ((each.block, each.parent) for each in upwards(ir.statement_of(node)))
    return [up for block, up in around if isinstance(up, ir.If) and block is up.then]


def _leaves(first: ir.Node, second: ir.Node, leaving: tuple[str, ...]) -> Iterator[ir.Statement]:
    """The statements between two calls that leave by the jumps that count, in an if of its own."""
    shared = {id(each.block) for each in upwards(ir.statement_of(first))}
    top = next((each for each in upwards(ir.statement_of(second)) if id(each.block) in shared), None)
    for statement in ir.walk_statements(top.block, into=False) if top is not None else ():  # None: of two functions
        if first.id < statement.id < second.id and isinstance(statement.parent, ir.If):
            kind = statement.kind if isinstance(statement, ir.Jump) else type(statement).__name__.lower()
            if kind in leaving:
                yield statement
