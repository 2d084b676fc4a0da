"""Where the gradients were read that a clip's own bound, factor or condition is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint.model.flow.event_states import EventStates
from amplint.model.flow.value_uses import takes_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import upwards
from amplint.model.torch_facts.signatures import CLIPS

if TYPE_CHECKING:
    from amplint.model import Module


def reads_behind(module: Module, clip: EventStates, backward: int) -> list[ir.Statement]:
    """The statements between a backward, by its id, and a clip that read gradients for what the clip depends on.

    Those of the clip's own function, in the order of the text; 0 for a backward in another function.
    """
    statement = ir.statement_of(clip.event.call)
    before = [each for each in _statements_of(module, statement) if backward < each.id < statement.id]
    around = set(upwards(statement))
    wanted = _names_in(module, _decides(module, clip))
    found = set[ir.Statement]()
    relevant, given = set[ir.Statement](), takes_norm(module, clip)
    while new := [each for each in before if each not in relevant and _makes(module, each) & wanted]:
        for each in new:
            relevant.add(each)
            values = [*each.values(), *(value for up in upwards(each) if up not in around for value in _head(up))]
            wanted |= _names_in(module, values)
            # What a norm comes from that is given to the clip has read them, in sight or not.
            if (given and _has_calls(values)) or any(_reads(module, value) for value in each.values()):
                found.add(each)
    return sorted(found, key=lambda each: each.id)


def _statements_of(module: Module, statement: ir.Statement) -> Iterator[ir.Statement]:
    """The statements of the function that one stands in, or of the module."""
    function = ir.function_of(statement)
    return ir.walk_statements(function.body if function is not None else module.program.body, into=False)


def _names_in(module: Module, values: Iterable[ir.Value]) -> set[str]:
    """The keys of the variables in some values."""
    return {key for value in values for key in objects(module).names_in(value)}


def _has_calls(values: Iterable[ir.Value]) -> bool:
    """Whether something is called in one of some values."""
    return any(isinstance(part, ir.Call) for value in values for part in ir.walk_values(value))


def takes_norm(module: Module, clip: EventStates) -> bool:
    """Whether a clip divides by a norm that was read before."""
    by_norm = clip.event.how in ("norm", "torch.nn.utils.clip_grads_with_norm_")
    return by_norm and not any(_reads(module, value) for value in _decides(module, clip))


def _reads(module: Module, value: ir.Value) -> bool:
    """Whether gradients are read in a value for more than whether there are any."""
    return any(takes_gradients(module, each) and not _is_asked_for(each) for each in ir.walk_values(value))


def _is_asked_for(value: ir.Value) -> bool:
    """`p.grad is not None`."""
    return isinstance(value.parent, ir.Compare) and all(op in ("Is", "IsNot") for op in value.parent.ops)


def _decides(module: Module, clip: EventStates) -> Iterator[ir.Value]:
    """What a clip's effect depends on, the gradients that it clips aside: bound or factor, and the heads round it."""
    call, statement = clip.event.call, ir.statement_of(clip.event.call)
    if isinstance(call, ir.Call):
        listed = bool(module.names.of(call.func) & CLIPS)
        yield from (arg.value for arg in call.args[1 if listed else 0 :])
    elif isinstance(statement, ir.AugAssign):
        yield statement.value
    for each in upwards(statement):
        if isinstance(each.parent, ir.Statement) and not isinstance(each.parent, (ir.Function, ir.Class)):
            yield from _head(each.parent)


def _head(statement: ir.Statement) -> Iterator[ir.Value]:
    """What decides whether, and for what, the suites of an if or a loop run."""
    if isinstance(statement, (ir.If, ir.While)):
        yield statement.test
    elif isinstance(statement, ir.For):
        yield statement.iter


def _makes(module: Module, statement: ir.Statement) -> set[str]:
    """The keys of the variables that a statement binds, adds to, or calls a method of: `norms.append(norm)`."""
    if isinstance(statement, ir.Expr):
        call = statement.value
        base = call.func.base if isinstance(call, ir.Call) and isinstance(call.func, ir.Attribute) else None
        return {objects(module).own_key(base)} if isinstance(base, ir.Name) and call.args else set()  # type: ignore[attr-defined]
    targets: tuple[ir.Value, ...] = ()
    if isinstance(statement, ir.Assign):
        targets = statement.targets
    elif isinstance(statement, (ir.AugAssign, ir.For)):
        targets = (statement.target,)
    return _names_in(module, targets)
