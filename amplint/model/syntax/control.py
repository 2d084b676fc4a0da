"""What decides about a node: the tests round it, and how a variable is bound."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned

# What ends the program.
EXITS = {"builtins.exit", "builtins.quit", "sys.exit", "os._exit", "os.abort"}


def conditions_round(node: ir.Node, within: ir.Node | None = None) -> list[tuple[ir.Value, bool]]:
    """The tests that decide whether a node is run, and how they have to come out, within its function.

    Only those inside of `within`, where that is given.
    """
    found: list[tuple[ir.Value, bool]] = []
    child, up = node, node.parent
    while up is not None and child is not within and (child is node or not isinstance(child, ir.Function)):
        found += conditions_between(child, up)
        child, up = up, up.parent
    return found


def conditions_between(child: ir.Node, up: ir.Node) -> Iterator[tuple[ir.Value, bool]]:
    """The tests in a node that decide about one of its children, ifs before it in its suite that leave among them."""
    if isinstance(up, ir.Conditional) and child is not up.test:
        yield up.test, child is up.then
    if isinstance(up, ir.Bool) and child is up.right:
        yield up.left, up.op == "and"
    if isinstance(child, ir.Statement):
        if isinstance(up, ir.If):
            yield up.test, child.block is up.then
        if isinstance(up, ir.Match):
            yield from _conditions_of_case(up, child.block)
        yield from _conditions_before(child)


def _conditions_before(statement: ir.Statement) -> Iterator[tuple[ir.Value, bool]]:
    """The tests of what stands before a statement in its suite, and leaves the suite where they come out otherwise."""
    for before in statement.block.statements if statement.block is not None else ():  # a lambda's stands in none
        if before is statement:
            break
        if isinstance(before, ir.If) and block_leaves(before.then):
            yield before.test, False
        elif isinstance(before, ir.If) and before.orelse is not None and block_leaves(before.orelse):
            yield before.test, True
        elif isinstance(before, ir.Match):
            for case in before.cases:
                if case.equals is not None and case.guard is None and block_leaves(case.body):
                    yield equality(before.subject, case.equals), False


def _conditions_of_case(match: ir.Match, block: ir.Block) -> Iterator[tuple[ir.Value, bool]]:
    """The tests that decide about a case, as far as they are some: its own, and those of the cases before it."""
    for case in match.cases:
        here = case.body is block
        test = equality(match.subject, case.equals) if case.equals is not None else None
        if test is not None and (here or case.guard is None):
            yield test, here
        if case.guard is not None and here:
            yield case.guard, True
        if here:
            break


def parts_that_hold(test: ir.Value, holds: bool) -> Iterator[tuple[ir.Value, bool]]:
    """The parts of a test that surely come out one way where it `holds`, or doesn't, with that way.

    A comparison by `!=` or `is not` is given as if it were by `==` or `is`.
    """
    if isinstance(test, ir.Unary) and test.op == "Not":
        yield from parts_that_hold(test.operand, not holds)
    elif isinstance(test, ir.Bool):
        if holds is (test.op == "and"):
            yield from parts_that_hold(test.left, holds)
            yield from parts_that_hold(test.right, holds)
    elif isinstance(test, ir.Compare) and test.ops in (("NotEqual",), ("IsNot",)):
        yield test, not holds
    else:
        yield test, holds


def equality(subject: ir.Value, value: ir.Value) -> ir.Compare:
    """The test that a case with one value makes."""
    op = "Is" if isinstance(value, ir.Constant) and (value.value is None or isinstance(value.value, bool)) else "Equal"
    return ir.Compare(value.id, value.node, value.parent, subject, (op,), (value,))


def block_leaves(block: ir.Block) -> bool:
    """Whether control never gets past a suite, going by its last statement."""
    last = block.statements[-1] if block.statements else None
    if isinstance(last, ir.With):
        return block_leaves(last.body) and not may_suppress(last)
    if isinstance(last, ir.If):
        return last.orelse is not None and block_leaves(last.then) and block_leaves(last.orelse)
    return isinstance(last, (ir.Return, ir.Raise)) or (isinstance(last, ir.Jump) and last.kind in ("break", "continue"))


def ends_iteration(block: ir.Block) -> bool:
    """Whether a suite ends the iteration that it is in, or the function; `break` may end an inner loop alone."""
    last = block.statements[-1] if block.statements else None
    return isinstance(last, ir.Return) or (isinstance(last, ir.Jump) and last.kind == "continue")


def may_suppress(statement: ir.With) -> bool:
    """Whether a `with` goes on behind an exception of its body."""
    calls = (each.context for each in statement.items if isinstance(each.context, ir.Call))
    return any(ir.last_name(each.func) == "suppress" for each in calls)


def asks_for_itself(place: ir.Node, test: ir.Value) -> bool:
    """Whether a test round an assignment reads what is assigned."""
    statement = ir.statement_of(place)
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    names = set(map(_variable_or_attribute, targets)) - {None}
    return any(_variable_or_attribute(each) in names for each in ir.walk_values(test))


def _variable_or_attribute(value: ir.Value) -> tuple[bool, str] | None:
    """A name, and whether it is an attribute: `self.amp` is another than `amp`; None for any other value."""
    if isinstance(value, (ir.Name, ir.Attribute)):
        return isinstance(value, ir.Attribute), ir.last_name(value)
    return None


def is_changed(binding: Assigned) -> bool:
    """Whether it is no plain assignment: what is bound changes from round to round."""
    up = binding.target.parent
    while isinstance(up, ir.Sequence):
        up = up.parent
    return not isinstance(up, (ir.Assign, ir.Walrus))


def source_of(binding: ir.Binding) -> ir.Value | None:
    """What a binding takes its value from: what is assigned, also to one of several targets, or what a loop is over."""
    return binding.value if isinstance(binding, ir.Assigned) else unpacked_from(binding)


def unpacked_from(binding: ir.Binding | None) -> ir.Value | None:
    """What a loop's target, or one of several targets, takes its values from; None for other bindings."""
    return taken_from(binding.node) if isinstance(binding, ir.Other) else None


def taken_from(target: ir.Node | None) -> ir.Value | None:
    """What a target that is unpacked, or a loop's, takes its values from."""
    up = target
    while isinstance(up, (ir.Name, ir.Sequence, ir.Starred)):
        up = up.parent
    if isinstance(up, ir.Assign):
        return up.value
    return up.iter if isinstance(up, ir.For) else None
