"""Steps that a scaler leaves out by design: which code stands in one, between the scaled backward and the update."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import callers
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, exclusive
from amplint.rules.shared.finite_checks import about_finite, comes_again, only_asks_for_presence, stands_in
from amplint.rules.shared.scaler_order import always_off, places, reached_events, side_by_side
from amplint.rules.shared.scaler_usage import float16_possible

if TYPE_CHECKING:
    from amplint.model import Module

# Words in flags that decide when a step is made, or that gradients are clipped.
_ROUTINE = re.compile(r"(?i)clip|norm|accum|step|iter|sync|boundary|last|update|grad")


def scaler_calls(module: Module, *kinds: str) -> Iterator[tuple[Flow, EventStates]]:
    """The calls of scalers that may be on, for float16, in each function that comes to them."""
    if float16_possible(module):
        for flow in flows(module):
            for reached in reached_events(flow, *kinds):
                if not always_off(flow, reached):
                    yield flow, reached


def step_round(module: Module, node: ir.Node) -> tuple[Flow, Event] | None:
    """The scaler's call in whose step a node stands: behind `scale` or `unscale_`, or before `step`.

    None where there is none in sight, or where a condition decides that may have to do with AMP or debugging.
    """
    for flow, reached in scaler_calls(module, "scale", "unscale_", "step"):
        for place, call in beside(module, flow, node, reached.event.call):
            later = place.id <= call.id if reached.event.kind == "step" else place.id >= call.id
            if later and runs_with(module, flow, place, call):
                return flow, reached.event
    return None


def beside(module: Module, flow: Flow, node: ir.Node, call: ir.Node) -> list[tuple[ir.Node, ir.Node]]:
    """A node, or what calls its function, and a call of the scaler as they stand in one function."""
    function = ir.function_of(node)
    pairs = side_by_side(flow, node, call)
    sites = callers(module, function) if not pairs else []
    return pairs + [pair for site in sites for pair in side_by_side(flow, site, call)]


def runs_with(module: Module, flow: Flow, node: ir.Node, call: ir.Node) -> bool:
    """Whether a node runs in the steps in which a call of its function does, but for clipping and accumulation."""
    return not exclusive(node, call) and all(is_routine(module, flow, each.test) for each in conditions(node, call))


def is_routine(module: Module, flow: Flow, test: ir.Value) -> bool:
    """Whether a test asks for the accumulation boundary, for clipping, for NaN, or whether something is there."""
    if only_asks_for_presence(module, [test]) or flow.conditions.counts(test):
        return True
    if about_finite(module, test) or comes_again(module, test, True):
        return True
    names = [ir.last_name(each) for each in ir.walk_values(test) if not isinstance(each.parent, ir.Attribute)]
    return any(names) and all(_ROUTINE.search(each) for each in names if each)


def is_plain(flow: Flow, call: ir.Node) -> bool:
    """Whether no path brings gradients to a clip that the scaler has had a part in."""
    reached = flow.event_states.get(call.id)
    return reached is not None and all(
        state.gradients.kind in (GradientKind.PLAIN, GradientKind.NONE, GradientKind.ZEROS) for state in reached.states
    )


def places_in(flow: Flow, node: ir.Node, block: ir.Block) -> bool:
    """Whether a node, or a call that leads to it, stands below a suite."""
    first = block.statements[0]
    return any(stands_in(place, block) for place in places(flow, node, first))
