"""What the rules of the scaler's order share (AMP402 and on): where its calls stand to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.compat import block_leaves
from amplint.model.events import Event, events
from amplint.model.flow import Flow
from amplint.model.objects import objects
from amplint.model.transfer import Visit
from amplint.rules.clips import escapes

if TYPE_CHECKING:
    from amplint.model import Module


def visits(flow: Flow, *kinds: str) -> list[Visit]:
    """The visits of a function's events of some kinds, in the order of the text."""
    return [visit for visit in flow.in_order if visit.event.kind in kinds]


def calls_of(flow: Flow, scaler: str, *kinds: str) -> list[Event]:
    """A function's calls of a scaler's methods that paths reach, in the order of the text."""
    return [visit.event for visit in visits(flow, *kinds) if visit.event.scaler == scaler]


def last_before(flow: Flow, event: Event, kind: str) -> Event | None:
    """The last call of a method, for the same scaler and optimizer, that may come before another one."""
    before = [
        each
        for each in calls_of(flow, str(event.scaler), kind)
        if each.optimizer == event.optimizer and each.call.id < event.call.id
        if not independent(each.call, event.call)
    ]
    return before[-1] if before else None


def backward_between(flow: Flow, first: ir.Node, second: ir.Node) -> bool:
    """Whether a backward, or what may run one, stands between two nodes."""
    return any(first.id < each.event.call.id < second.id for each in visits(flow, "backward", "opaque"))


def stepping(flow: Flow) -> set[str | None]:
    """The optimizers that a function unscales or steps."""
    return {visit.event.optimizer for visit in visits(flow, "optimizer_step", "step", "unscale_")}


def receiver(event: Event) -> ir.Value:
    """The object whose method an event calls."""
    assert isinstance(event.call, ir.Call)
    assert isinstance(event.call.func, ir.Attribute)
    return event.call.func.base


def used_elsewhere(module: Module, flow: Flow, scaler: str, method: str) -> bool:
    """Whether another function of the file calls a method of the scaler."""
    return any(not flow.contains(call) for call in module.once(_calls_by_method).get((scaler, method), ()))


def _calls_by_method(module: Module) -> dict[tuple[str, str], list[ir.Call]]:
    known = objects(module)
    found: dict[tuple[str, str], list[ir.Call]] = {}
    for call in module.calls:
        scaler = known.is_scaler(call.func.base) if isinstance(call.func, ir.Attribute) else None
        if scaler is not None and isinstance(call.func, ir.Attribute):
            found.setdefault((scaler, call.func.attr), []).append(call)
    return found


def methods_used(module: Module, scaler: str) -> set[str]:
    """The names of the attributes that the file reads of a scaler."""
    return module.once(_attributes).get(scaler, set())


def _attributes(module: Module) -> dict[str, set[str]]:
    known = objects(module)
    found: dict[str, set[str]] = {}
    for value in module.values:
        if isinstance(value, ir.Attribute) and (scaler := known.is_scaler(value.base)) is not None:
            found.setdefault(scaler, set()).add(value.attr)
    return found


def in_this_file_only(module: Module, scaler: str) -> bool:
    """Whether the file makes the scaler and gives it to nothing but its own functions."""
    return bool(objects(module).made.get(scaler)) and not escapes(module, scaler)


# --- where statements stand -----------------------------------------------------------------------------------------


def upwards(statement: ir.Statement) -> Iterator[ir.Statement]:
    """A statement and those it is nested in, up to the function's own suite."""
    up: ir.Node | None = statement
    while isinstance(up, ir.Statement) and not isinstance(up, (ir.Function, ir.Class)):
        yield up
        up = up.parent


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
    """Whether two calls stand in different arms of one if."""
    arms = {id(each.parent): each.block for each in upwards(ir.statement_of(first)) if isinstance(each.parent, ir.If)}
    return any(
        arms.get(id(each.parent), each.block) is not each.block
        for each in upwards(ir.statement_of(second))
        if isinstance(each.parent, ir.If)
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


def loop_of(node: ir.Node) -> ir.For | ir.While | None:
    """The innermost loop round a node."""
    return next((each for each in upwards(ir.statement_of(node)) if isinstance(each, (ir.For, ir.While))), None)


def skipping(first: ir.Node, second: ir.Node, *leaving: str) -> list[ir.If]:
    """The ifs that decide whether a call comes behind another: round it, or with an arm that leaves in between.

    `leaving`: the jumps that count, "return" and "raise" among them.
    """
    shared = {id(each.block) for each in upwards(ir.statement_of(first))}
    top = next(each for each in upwards(ir.statement_of(second)) if id(each.block) in shared)
    found = conditions(second, first)
    for statement in ir.walk_statements(top.block, into=False):
        if first.id < statement.id < second.id and isinstance(statement.parent, ir.If):
            kind = statement.kind if isinstance(statement, ir.Jump) else type(statement).__name__.lower()
            if kind in leaving:
                found.append(statement.parent)
    return found


def other_arm_has(module: Module, node: ir.Node, *kinds: str) -> bool:
    """Whether an if round a node has another arm with such an event: its condition may be AMP's own flag.

    An arm that leaves has what stands behind the if for its other arm.
    """
    recogniser = events(module)
    wanted = {*kinds, "opaque"}
    for each in upwards(ir.statement_of(node)):
        outer = each.parent
        if isinstance(outer, ir.If):
            other = outer.orelse if each.block is outer.then else outer.then
            if other is not None and any(event.kind in wanted for event in recogniser.below(other)):
                return True
        for before in each.block.statements[: each.block.statements.index(each)]:
            if isinstance(before, ir.If) and block_leaves(before.then):
                if any(event.kind in wanted for event in recogniser.below(before.then)):
                    return True
    return False


def asked_apart(flow: Flow, node: ir.Node, without: ir.Node) -> bool:
    """Whether ifs decide about one call and not about another: they may ask for AMP, as those of the other do."""
    return any(not flow.conditions.counts(each.test) for each in conditions(node, without))


def counts(flow: Flow, tests: list[ir.If]) -> bool:
    """Whether one of some ifs asks for the accumulation boundary (`(i + 1) % k == 0`), by itself or among others."""
    return any(flow.conditions.counts(part) for each in tests for part in _parts(each.test))


def _parts(test: ir.Value) -> Iterator[ir.Value]:
    if isinstance(test, ir.Bool):
        yield from _parts(test.left)
        yield from _parts(test.right)
    else:
        yield test


# --- updates that come too early ------------------------------------------------------------------------------------


def early_updates(flow: Flow) -> dict[int, Event]:
    """The updates that come between a backward and a step on its gradients, by their ids, with that step."""
    found: dict[int, Event] = {}
    backwards = [visit.event.call for visit in visits(flow, "backward", "opaque")]
    for visit in visits(flow, "step"):
        event = visit.event
        for state in visit.states:
            update, scaler = state.gradients.updated, state.gradients.scaler
            if (
                update
                and state.gradients.origin
                and scaler == event.scaler
                and not flow.disabled(scaler, state)
                and not backward_between(flow, flow.visits[update].event.call, event.call)
            ):
                found.setdefault(update, event)
    for visit in visits(flow, "update"):
        step = _in_loop_over_optimizers(flow, visit, backwards)
        if step is not None:
            found.setdefault(visit.event.call.id, step)
    return found


def _in_loop_over_optimizers(flow: Flow, visit: Visit, backwards: list[ir.Value]) -> Event | None:
    """The step that shares a loop with an update, but not with the backward before the loop."""
    scaler, loop = str(visit.event.scaler), loop_of(visit.event.call)
    if loop is None:
        return None
    steps = [event for event in calls_of(flow, scaler, "step") if loop_of(event.call) is loop]
    shared = any(
        state.gradients.scaler == scaler and 0 < state.gradients.origin < loop.id and not flow.disabled(scaler, state)
        for state in visit.states
    )
    inside = any(loop in upwards(ir.statement_of(backward)) for backward in backwards)
    if not steps or not shared or inside:
        return None
    return steps[-1]
