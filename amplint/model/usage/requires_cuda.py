"""Code that can't run without CUDA: it asserts that there is some, leaves where there is none, or uses it before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers
from amplint.model.inference.formulas import negated, possible
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.project.importers import is_imported
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import EXITS, block_leaves
from amplint.model.syntax.queries import names_cuda
from amplint.model.syntax.scopes import NOTHING, UNKNOWN

if TYPE_CHECKING:
    from amplint.model import Module

# What raises without CUDA (run with torch 2.13 for the CPU).
_RAISES = {
    f"torch.cuda.{name}"
    for name in (
        "set_device", "current_device", "synchronize", "reset_peak_memory_stats",
        "get_device_name", "get_device_properties", "get_device_capability", "mem_get_info", "memory_summary",
        "reset_max_memory_allocated", "set_per_process_memory_fraction", "init", "get_rng_state", "ipc_collect",
        "Stream", "Event", "current_stream", "default_stream", "current_blas_handle", "set_sync_debug_mode",
    )
}  # fmt: skip
_MAKES = {f"torch.{name}" for name in ("tensor", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "eye")}
_GROUP, _BACKEND = "torch.distributed.init_process_group", "nccl"
_FOLLOW = 3  # calls, one inside the other: what is followed are the ways to a place, not values


def needs_cuda(module: Module, node: ir.Node, depth: int = _FOLLOW) -> bool:
    """Whether a place is only ever reached where there is CUDA: what stops without it runs before, in its function, in
    all that calls it, or when the file is imported.
    """
    if any(_stops(module, each, _FOLLOW) for each in _before(node)):
        return True
    function = ir.function_of(node)
    if function is None:
        return False
    if any(_stops(module, each, _FOLLOW) for each in module.program.body.statements):
        return True
    sites = callers(module, function) if depth else []
    if not sites or is_imported(module.source.filename):
        return False
    return all(needs_cuda(module, each, depth - 1) for each in sites)


def _before(node: ir.Node) -> Iterator[ir.Statement]:
    """The statements before a node in the suites round it, in its function."""
    up: ir.Node | None = ir.statement_of(node)
    while isinstance(up, ir.Statement):
        if up.block is not None:
            yield from up.block.statements[: up.block.statements.index(up)]
        up = up.parent
        if isinstance(up, (ir.Function, ir.Class)):
            return


def _stops(module: Module, statement: ir.Statement, depth: int) -> bool:
    """Whether what follows a statement runs with CUDA only."""
    if isinstance(statement, ir.Assert):
        return _implies(module, statement.test, True)
    if isinstance(statement, ir.If):
        if _leaves(module, statement.then) and _implies(module, statement.test, False):
            return True
        return (
            statement.orelse is not None
            and _leaves(module, statement.orelse)
            and _implies(module, statement.test, True)
        )
    if isinstance(statement, ir.With):
        return any(_stops(module, each, depth) for each in statement.body.statements)
    if not isinstance(statement, (ir.Expr, ir.Assign)):
        return False
    calls = [each for value in statement.values() for each in _surely_evaluated(value) if isinstance(each, ir.Call)]
    return any(_uses_cuda(module, each) or (depth > 0 and _runs_what_stops(module, each, depth)) for each in calls)


def _runs_what_stops(module: Module, call: ir.Call, depth: int) -> bool:
    callee = module.once(CallGraph).find(call)
    if callee is None or callee.function.is_generator or callee.function.is_async:
        return False
    for each in callee.function.body.statements:
        # Behind an `if` that may return it may not be reached; where that asks for CUDA, it is not needed either.
        if isinstance(each, (ir.If, ir.Try, ir.Match)) and not _stops(module, each, 0):
            return False
        if _stops(module, each, depth - 1):
            return not isinstance(each, ir.If) or not _returns(each)
    return False


def _returns(statement: ir.If) -> bool:
    """Whether an `if` that leaves a function lets its caller go on."""
    blocks = [statement.then, *([statement.orelse] if statement.orelse is not None else [])]
    return any(isinstance(each, ir.Return) for block in blocks for each in ir.walk_statements(block, into=False))


def _surely_evaluated(value: ir.Value) -> Iterator[ir.Value]:
    """A value and its parts, those left out that are evaluated under a condition or later."""
    yield value
    children: list[ir.Value] = list(value.children())
    if isinstance(value, ir.Conditional):
        children = [value.test]
    elif isinstance(value, ir.Bool):
        children = [value.left]
    elif isinstance(value, (ir.Lambda, ir.Comprehension)):
        children = []
    for each in children:
        yield from _surely_evaluated(each)


def _uses_cuda(module: Module, call: ir.Call) -> bool:
    names = module.names.of(call.func)
    if len(names) == 1 and names <= _RAISES:
        return True
    if names == {_GROUP}:
        backend = argument(call, "torch.distributed.init_process_group", "backend")
        return isinstance(backend, ir.Constant) and backend.value == _BACKEND
    if isinstance(call.func, ir.Attribute) and names <= {UNKNOWN, NOTHING}:
        moved = call.func.attr == "to" and any(map(names_cuda, call.positional[:1]))
        return call.func.attr == "cuda" or moved
    return len(names) == 1 and min(names) in _MAKES and names_cuda(call.keyword("device"))


def _leaves(module: Module, block: ir.Block) -> bool:
    last = block.statements[-1] if block.statements else None
    if isinstance(last, ir.Expr) and isinstance(last.value, ir.Call):
        return bool(module.names.of(last.value.func) & EXITS)
    return block_leaves(block)


def _implies(module: Module, test: ir.Value, outcome: bool) -> bool:
    """Whether there is CUDA where a test has an outcome."""
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _implies(module, test.operand, not outcome)
    if isinstance(test, ir.Bool):
        sides = [_implies(module, each, outcome) for each in (test.left, test.right)]
        return any(sides) if (test.op == "and") is outcome else all(sides)
    formula = decided(module).of(test)
    formula = formula if outcome else negated(formula)
    return not is_vague(formula) and possible(formula, negated(ON_CUDA)) is None
