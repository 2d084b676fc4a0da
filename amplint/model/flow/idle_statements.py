"""Statements that leave the scaler, the gradients and what decides about them as they are: logging, validation.

What is inside such a statement need not be followed path by path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.relevant_variables import makes_loss
from amplint.model.flow.deciding_names import deciding_names
from amplint.model.flow.effects import Arms
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.syntax import ir
from amplint.model.syntax.interpreter import Paths
from amplint.model.syntax.nesting import is_within, loop_of, loops_round

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.flow.state import State

_COMPOUND = (ir.If, ir.For, ir.While, ir.With, ir.Try, ir.Match)


def is_idle(module: Module, statement: ir.Statement) -> bool:
    """Whether a compound statement does nothing to scaler and gradients, and always goes on behind it.

    What it assigns is no scaler or optimizer, and read by no test that decides what is trained, nor by a loss before it
    is bound again.
    """
    if not isinstance(statement, _COMPOUND):
        return False
    context = objects(module).call_context
    return module.once(_is_idle, statement, context if context.aliases or context.classes else None)


def behind_idle(module: Module, statement: ir.Statement, states: list[State]) -> Paths[State]:
    """The states after such a statement: what it assigns isn't known."""
    assigned = objects(module).assigned_in(statement)
    return Paths(normal=[state.forget(assigned) for state in states])


def _is_idle(module: Module, statement: ir.Statement, _context: CallContext | None) -> bool:
    """The same, where what is called is what it is in the call context."""
    if _leaves(statement) or module.once(Arms).may_train(statement):
        return False
    with objects(module).within(CallContext()):  # as the tests that decide are read
        return not _binds_what_matters(module, statement)


def _binds_what_matters(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement binds a scaler, an optimizer, what a deciding test reads, or what a loss is made of."""
    known, deciding = objects(module), deciding_names(module, ir.function_of(statement) or module.program)
    assigned = known.assigned_in(statement)
    if any(key in deciding or known.is_scalers(key) or known.is_optimizers(key) for key in assigned):
        return True
    return _makes_loss(module, statement)


def _leaves(statement: ir.Statement) -> bool:
    """Whether control may go from inside a statement to somewhere other than behind it, or an assertion ends it."""
    inside = [each for block in statement.blocks() for each in ir.walk_statements(block, into=False)]
    if any(isinstance(each, (ir.Return, ir.Raise, ir.Assert)) for each in inside):
        return True
    loops = (loop_of(each) for each in inside if isinstance(each, ir.Jump) and each.kind != "pass")
    return any(loop is None or not is_within(loop, statement) for loop in loops)


def _makes_loss(module: Module, statement: ir.Statement) -> bool:
    """Whether a loss may be made of what a statement binds."""
    for value in objects(module).bound_in(statement):
        if isinstance(value, ir.Attribute):
            if makes_loss(module, value.attr):
                return True
        elif isinstance(value, ir.Name) and makes_loss(module, value.name) and _is_read_next(value, statement):
            return True
    return False


def _is_read_next(bound: ir.Name, statement: ir.Statement) -> bool:
    """Whether the next statement with a variable reads it, in the order of the text, and of the loops around."""
    function = ir.function_of(statement)
    if function is None:
        return True
    loops = [each for each in loops_round(statement) if each is not statement]
    before: dict[int, bool] = {}
    after: dict[int, bool] = {}
    for each in ir.values_below(function.body):
        if not isinstance(each, ir.Name) or each.name != bound.name or each.scope is not bound.scope:
            continue
        user = ir.statement_of(each)
        reads = not each.bound or isinstance(user, ir.AugAssign)
        if user.id > statement.id and not is_within(user, statement):
            after[user.id] = after.get(user.id, False) or reads
        elif loops and user.id < statement.id and is_within(user, loops[-1]):
            before[user.id] = before.get(user.id, False) or reads
    following = after or before
    return bool(following) and following[min(following)]
