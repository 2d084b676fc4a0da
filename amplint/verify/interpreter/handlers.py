"""Which handlers of the program catch an exception, and where it goes on."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.nesting import loops_round, upwards
from amplint.verify.interpreter.standins import Raised
from amplint.verify.program.leaving import goes_on
from amplint.verify.program.program import Code

_CALLS = 3  # that are followed up to a loop


def goes_on_where(statement: ir.Try, raised: Raised, code: Code) -> bool:
    """Whether a `try` catches an exception in its suite, and the program may go on.

    Args:
        statement: the `try`.
        raised: what is raised in its suite.
        code: the file that it stands in.

    Returns:
        Whether the first handler for the exception may come to its end, or leaves a loop or function.
    """
    handler = _first_for(statement, raised, code)
    return handler is not None and goes_on(code, handler.body)


def _first_for(statement: ir.Try, raised: Raised, code: Code) -> ir.Handler | None:
    return next((each for each in statement.handlers if handles(each, raised, code)), None)


def caught_by_callers(code: Code, function: ir.Function) -> Callable[[Raised], bool]:
    """Whether those who call a function catch what it raises, and call it again.

    Args:
        code: the file that is verified.
        function: one of its functions.

    Returns:
        A function that says it of an exception: a `try` around one of the calls in sight catches that, in a loop.
    """
    tries = [
        (owner, of)
        for of, call in code.callers.calls(function)
        for each in upwards(ir.statement_of(call))
        if isinstance(owner := each.block.owner, ir.Try) and owner.body is each.block
    ]
    return lambda raised: any(goes_on_where(each, raised, of) and _comes_again(each, raised, of) for each, of in tries)


def _comes_again(statement: ir.Try, raised: Raised, code: Code) -> bool:
    """Whether a `try` that catches an exception runs again after the handler."""
    handler = _first_for(statement, raised, code)
    last = handler.body.statements[-1] if handler is not None else None
    loops = loops_round(statement)
    if isinstance(last, ir.Return):
        loops = []
    elif isinstance(last, ir.Jump) and last.kind == "break":
        loops = loops[1:]
    return bool(loops) or _is_called_again(code, ir.function_of(statement), _CALLS)


def _is_called_again(code: Code, function: ir.Function | None, depth: int) -> bool:
    """Whether a loop calls a function, also through its callers."""
    calls = code.callers.calls(function) if function is not None and depth else []
    return any(loops_round(call) or _is_called_again(of, ir.function_of(call), depth - 1) for of, call in calls)


def handler_around(statement: ir.Statement) -> ir.Handler | None:
    """The innermost handler that a statement is in."""
    for each in upwards(statement):
        owner = each.block.owner
        for handler in owner.handlers if isinstance(owner, ir.Try) else ():
            if handler.body is each.block:
                return handler
    return None


def raised_kinds(code: Code, what: ir.Value) -> frozenset[str]:
    """The names of the class of an exception that the program makes, and of all that it inherits.

    Args:
        code: the file with the `raise`.
        what: the exception, or its class.

    Returns:
        Names with and without the module that they are from, as handlers may have either.
    """
    made = what.func if isinstance(what, ir.Call) else what
    found = {*code.module.names.of(made), ir.last_name(made), "builtins.Exception", "builtins.BaseException"}
    cls = code.files.what(code, made)
    for of, each in code.files.bases(code.owner(cls), cls) if isinstance(cls, ir.Class) else ():
        found.add(each.name)
        for base in each.bases:
            found |= {*of.module.names.of(base.value), ir.last_name(base.value)}
    for name in [each.removeprefix("builtins.") for each in found]:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            found |= kinds_of(kind)
    if found & {"SystemExit", "KeyboardInterrupt"}:
        found -= {"builtins.Exception", "Exception"}
    return frozenset(found - {""})


def kinds_of(kind: type[BaseException]) -> frozenset[str]:
    """The names of an exception's class and of all that it inherits, with and without where they are."""
    names = {each.__name__ for each in inspect.getmro(kind) if each is not object}
    return frozenset({*names, *(f"builtins.{each}" for each in names)})


def handles(handler: ir.Handler, raised: Raised, code: Code) -> bool:
    """Whether a handler of a file catches an exception."""
    if handler.type is None:
        return True
    types = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
    return is_of_types(types, raised, code)


def is_of_types(types: Sequence[ir.Value], raised: Raised, code: Code) -> bool:
    """Whether an exception is of one of the types that a file names."""
    names = {name for each in types for name in code.module.names.of(each)}
    if raised.error is None:
        if raised.kinds:
            return bool(raised.kinds & (names | {ir.last_name(each) for each in types}))
        own = raised.args[0].partition("(")[0].rpartition(" ")[2]
        return ("builtins.Exception" in names and own != "SystemExit") or any(
            ir.last_name(each) == own for each in types
        )
    kinds = {f"{each.__module__}.{each.__name__}" for each in inspect.getmro(type(raised.error))}
    if isinstance(raised.error, torch.cuda.OutOfMemoryError):
        kinds |= {"torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"}
    return bool(kinds & names)
