"""Which suites leave a loop, a function or the program, and which set what another test asks for."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from amplint.model.syntax import ir
from amplint.model.syntax.control import EXITS
from amplint.model.syntax.nesting import upwards
from amplint.verify.program.program import Code


class Left(Enum):
    """What a suite leaves at its end."""

    LOOP = "a loop or function"
    PROGRAM = "the program"


def left(code: Code, block: ir.Block) -> Left | None:
    """What a suite leaves at its end by a jump, or by ending the program; None: nothing.

    What raises in a `try` that catches something leaves the rest of that.
    """
    last = block.statements[-1]
    call = last.value if isinstance(last, ir.Expr) else None
    exits = isinstance(call, ir.Call) and bool(code.module.names.of(call.func) & EXITS)
    if isinstance(last, ir.Raise) and is_caught(last):
        return Left.LOOP
    if exits or isinstance(last, ir.Raise):
        return Left.PROGRAM
    jumps = isinstance(last, ir.Jump) and last.kind != "pass"
    return Left.LOOP if jumps or isinstance(last, ir.Return) else None


def goes_on(code: Code, block: ir.Block) -> bool:
    """Whether the program may go on after a suite: it doesn't always raise, or end the program."""
    jumps = (ir.Return, ir.Jump)
    return left(code, block) is not Left.PROGRAM or any(
        isinstance(each, jumps) and not (isinstance(each, ir.Jump) and each.kind == "pass")
        for each in ir.walk_statements(block, into=False)
    )


def is_caught(statement: ir.Statement) -> bool:
    """Whether a statement is in the suite of a `try` of its function that has a handler."""
    return any(
        isinstance(owner := each.block.owner, ir.Try) and owner.body is each.block and bool(owner.handlers)
        for each in upwards(statement)
    )


def decides_later(code: Code, statement: ir.Statement) -> bool:
    """Whether a statement sets a variable to one of several constants, or counts it, and events hang on that.

    They do where another test asks for it that has them in its arms, or leaves the rest of a loop or function.
    """
    return code.known(_decides_later, statement)


def _decides_later(code: Code, statement: ir.Statement) -> bool:
    names = {code.text(each) for each in _set_by(statement)}
    if not names:
        return False
    function = ir.function_of(statement)
    body = function.body if function is not None else code.module.program.body
    return any(
        isinstance(each, ir.If) and each is not statement and _asks(code, each.test, names) and _has_events(code, each)
        for each in ir.walk_statements(body, into=False)
    )


def _asks(code: Code, test: ir.Value, names: set[str]) -> bool:
    variables = (each for each in ir.walk_values(test) if isinstance(each, (ir.Name, ir.Attribute)))
    return any(code.text(each) in names for each in variables)


def _has_events(code: Code, test: ir.If) -> bool:
    """Whether events hang on a test: they are in its arms, or after it where it leaves a suite."""
    return any(code.matters(each) or left(code, each) is Left.LOOP for each in test.blocks())


def _set_by(statement: ir.Statement) -> Iterator[ir.Value]:
    """The variables that a statement sets in an arm, or by a conditional expression, to one of several constants."""
    if isinstance(statement, ir.If):
        for block in statement.blocks():
            for each in ir.walk_statements(block, into=False):
                if isinstance(each, ir.Assign) and isinstance(each.value, ir.Constant):
                    yield from each.targets
                elif isinstance(each, ir.AugAssign):
                    yield each.target
    elif isinstance(statement, ir.Assign) and isinstance(chosen := statement.value, ir.Conditional):
        if all(isinstance(each, ir.Constant) for each in (chosen.then, chosen.other)):
            yield from statement.targets
