"""What the rules of the scaler's order share (AMP402 and on): where its calls stand to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Confidence
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import runs_instead
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.guessed_branches import Changing
from amplint.model.flow.state import State
from amplint.model.flow.violations import Violation, ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.terms import Fact
from amplint.model.project.importers import user_of
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.nesting import (
    conditions,
    dominates,
    exclusive,
    ifs_round,
    loop_of,
    loops_round,
    skipping,
    upwards,
)
from amplint.model.usage.mentions_of import near_kept
from amplint.rules.shared.default_values import holds_by_default, in_words
from amplint.rules.shared.violation_codes import OF_ORDER, VIOLATIONS, same_rules

if TYPE_CHECKING:
    from amplint.base.findings import Finding, Fix
    from amplint.model import Module

    Judge = Callable[[Module, "Misuse"], Finding | None]
    FixBuilder = Callable[[Module, Flow, EventStates, Event], tuple[Fix | None, str | None]]


class Misuse(NamedTuple):
    """A misuse: in which function's flow, and on which of its paths."""

    flow: Flow
    violation: Violation
    states: list[State]

    @property
    def here(self) -> bool:
        """Whether the finding stands in that function itself, and in none that it calls."""
        return self.flow.contains(self.node)

    @property
    def node(self) -> ir.Value:
        """The call that the finding stands at."""
        return self.flow.node(self.violation.at)

    @property
    def reached(self) -> EventStates:
        """That call, as the flow comes to it."""
        return self.flow.event_states[self.violation.at]

    @property
    def cause(self) -> Event | None:
        """The other call that takes part, if the flow comes to it."""
        reached = self.flow.event_states.get(self.violation.cause)
        return reached.event if reached is not None else None


def misuses(module: Module, code: str) -> list[Misuse]:
    """The misuse of one code, in the order of the text; for each place first as its own function shows it."""
    return module.once(_misuses, code)


def _misuses(module: Module, code: str) -> list[Misuse]:
    if "_per_optimizer_states" in module.source.text:
        return []  # the program looks into the scaler's state itself
    kinds = VIOLATIONS[code]
    shown = [Misuse(flow, violation, states) for flow in flows(module) for violation, states in flow.violations(kinds)]
    shown = [misuse for misuse in shown if not _is_doubtful(misuse) and not _is_refuted(module, misuse)]
    return sorted(shown, key=lambda misuse: (misuse.violation.at, not misuse.here))


def one_for_each(module: Module, code: str, judge: Judge) -> Iterator[Finding]:
    """The findings of one code: for each place the first that a rule makes of the misuse that shows there."""
    reported: set[int] = set()
    for misuse in misuses(module, code):
        finding = judge(module, misuse) if misuse.violation.at not in reported else None
        if finding is not None:
            reported.add(misuse.violation.at)
            yield finding


def _is_refuted(module: Module, misuse: Misuse) -> bool:
    """Whether all that call a function show that what it does is right there: the scaler that they pass is off."""
    kind, at = misuse.violation.kind, misuse.violation.at
    callers = [
        flow
        for flow in flows(module)
        if flow is not misuse.flow and at in flow.event_states and flow.leads_to(misuse.flow.container)
    ]
    # What callers in between show by themselves, those who call them know better.
    outer = [flow for flow in callers if not any(other.leads_to(flow.container) for other in callers)]
    of_order = kind in OF_ORDER
    same = {other for other in same_rules(kind) if (other in OF_ORDER) is of_order}
    return bool(outer) and all(
        (flow.sees_scaler(at) if of_order else flow.sees_gradients(at))
        and not any(violation.at == at for violation, _ in flow.violations(same))
        for flow in outer
    )


def _is_doubtful(misuse: Misuse) -> bool:
    """Whether an update comes too early only if one of the backwards before it is that of the gradients it meets, and
    they may have another one.

    No doubt where the update and the step that it comes before are in a loop over optimizers, without a backward: the
    gradients of all of them were there before.
    """
    kind, gradients = misuse.violation.kind, misuse.violation.gradients
    backwards = [event.call for event in misuse.flow.events if event.kind == "backward"]
    if kind is ViolationKind.UPDATE_BEFORE_USE and _is_of_a_loop_over_optimizers(misuse, backwards):
        return False
    return (
        kind is ViolationKind.UPDATE_BEFORE_USE
        and gradients is None
        and not all(
            any(dominates(*pair) for pair in side_by_side(misuse.flow, backward, misuse.node)) for backward in backwards
        )
    )


def _is_of_a_loop_over_optimizers(misuse: Misuse, backwards: list[ir.Value]) -> bool:
    """Whether an update and the step that it comes before stand in one loop, in which nothing calls backward."""
    flow, loop = misuse.flow, loop_of(misuse.node)
    step = flow.node(misuse.violation.meets) if misuse.violation.meets else None

    def is_inside(node: ir.Value) -> bool:
        return any(loop in list(upwards(ir.statement_of(place))) for place in places(flow, node, misuse.node))

    return loop is not None and step is not None and is_inside(step) and not any(map(is_inside, backwards))


def confidence_of(module: Module, misuse: Misuse, also: Iterable[tuple[ir.Value, bool]] = ()) -> Confidence:
    """How sure a misuse is, by the conditions that it needs: those of what it meets, of its cause and of its paths.

    Certain without any that may fail by default; likely under settings, or under one thing that changes as it trains;
    else a suspicion. One that does not hold by default makes it a suspicion, too. `also`: conditions besides these.
    """
    every = [*_needed(module, misuse), *also]
    by_default = {test: holds_by_default(module, test) for test, _ in every}
    needed = [(test, holds) for test, holds in every if by_default[test] is not holds]
    if misuse.flow.lost or any(by_default[test] is not None for test, _ in needed):
        return Confidence.SUSPICION
    changing = {module.on_one_line(test) for test, _ in needed if module.once(Changing).changes(test)}
    if len(changing) > 1:
        return Confidence.SUSPICION
    return Confidence.LIKELY if needed else Confidence.CERTAIN


def _needed(module: Module, misuse: Misuse) -> list[tuple[ir.Value, bool]]:
    """The tests, and their truth, without which a misuse does not show though the calls round it come.

    Those that tell its paths from others that are right, those round the call in which it shows and not round the call
    that it stands at, and those round one of that and of its cause, and not round the other. What changes as it trains
    is no condition round the call alone: it comes out so some time, and the cause was there before.
    """
    flow, node, cause = misuse.flow, misuse.node, misuse.cause
    if misuse.violation.kind in (ViolationKind.UPDATE_BEFORE_USE, ViolationKind.UPDATE_WITHOUT_CHECK):
        return _decided(misuse)  # the update is wrong on each path that comes to it
    needed = _decided(misuse) + [each for each in _told(misuse) if _is_condition(flow, each[0])]
    # A call before any scale has no cause, and one that comes first is none.
    before = cause or next(iter(calls_of(flow, misuse.violation.scaler, "scale")), None)
    of_cause = _only_round(flow, cause.call, node) if cause is not None else []
    of_place = _only_round(flow, node, before.call) if before is not None else []
    return needed + of_cause + (of_place if of_cause else settings_of(module, of_place))


def settings_of(module: Module, tests: Iterable[tuple[ir.Value, bool]]) -> list[tuple[ir.Value, bool]]:
    """Of some tests, and their truth, those that don't change as it trains."""
    return [each for each in tests if not module.once(Changing).changes(each[0])]


def _decided(misuse: Misuse) -> list[tuple[ir.Value, bool]]:
    """The tests round the call in which a misuse shows that are not round that which it stands at, and their truth."""
    return _only_round(misuse.flow, misuse.flow.node(misuse.violation.meets), misuse.node)


def _only_round(flow: Flow, node: ir.Node, without: ir.Node) -> list[tuple[ir.Value, bool]]:
    """The tests round a call that are not round another one, and their truth."""
    tests = asked(flow, node, without)
    return [(test, holds) for test, holds in guards(flow, node) if test in tests and _is_condition(flow, test)]


def _is_condition(flow: Flow, test: ir.Value) -> bool:
    """Whether a misuse depends on a test: not on one that switches the scaler on, which it takes, nor on a boundary,
    which comes in any case.
    """
    return not flow.conditions.counts(test) and not flow.conditions.names_amp(test)


# The rules that report calls of a scaler that raise, or may.
_RAISING = ("AMP404", "AMP405", "AMP406", "AMP407", "AMP410", "AMP418")


def when(module: Module, misuse: Misuse, also: str | None = None, apart: bool = False) -> str:
    """Under which conditions a misuse shows, as a message begins; "" for always. At most two, as the program asks them.

    `also`: one that no path of the flow shows by itself, `k > 1` where something waits for each k-th iteration.
    `apart`: the paths on which the same place is wrong in another way are told from it, too.
    """
    found = [in_words(module.on_one_line(test), holds) for test, holds in _told(misuse, apart)]
    others = [in_words(module.on_one_line(test), holds) for test, holds in _decided(misuse)]
    found += [text for text in dict.fromkeys(others) if text not in found]
    if also is not None and also not in found and not any(" % " in text for text in found):
        found.insert(0, also)
    return f"when {' and '.join(found[:2])}, " if found else ""


def _told(misuse: Misuse, apart: bool = False) -> list[tuple[ir.Value, bool]]:
    """The tests by which the paths of a misuse are told from others, and their truth: the user's flags first."""
    flow = misuse.flow
    facts = sorted(
        _telling(flow, misuse.violation, apart), key=lambda fact: (fact.condition.is_compound, str(fact.condition))
    )
    asked_for = [(flow.conditions.asked.get(condition), holds) for condition, holds in facts]
    return [(each[0], holds is each[1]) for each, holds in asked_for if each is not None]


def _telling(flow: Flow, shown: Violation, apart: bool) -> set[Fact]:
    """The facts of all paths on which a misuse shows that another path of the same place contradicts."""
    # What is wrong there with another's gradients, as in a later iteration, is wrong all the same.
    wrong = {
        state
        for violation, states in flow.violations({shown.kind} if apart else same_rules(shown.kind))
        if (violation.at, violation.meets) == (shown.at, shown.meets)
        for state in states
    }
    others = [state for state in flow.event_states[shown.meets].states if state not in wrong]
    common = frozenset.intersection(*(state.facts for state in wrong))
    return {fact for fact in common if any(state.known(fact.condition) is (not fact.holds) for state in others)}


def running(module: Module) -> Iterator[Flow]:
    """The functions in which no call of the scaler raises, as far as amplint reports that."""
    raising = {each.flow.container for code in _RAISING for each in misuses(module, code)}
    return (flow for flow in flows(module) if flow.container not in raising)


def home(module: Module, *calls: ir.Node) -> Flow | None:
    """The flow of the function that some calls stand in, if it is one and shows them: there a fix can be made."""
    own = next((flow for flow in flows(module) if flow.contains(calls[0])), None)
    return (
        own if own is not None and all(own.contains(call) and call.id in own.event_states for call in calls) else None
    )


def fix_at_home(module: Module, misuse: Misuse, build: FixBuilder, elsewhere: str) -> tuple[Fix | None, str | None]:
    """The fix of a misuse in the function that both of its calls stand in, or why there is none."""
    cause = misuse.cause
    own = home(module, misuse.node, cause.call) if cause is not None else None
    if own is None:
        return None, elsewhere
    return build(module, own, own.event_states[misuse.violation.at], own.event_states[misuse.violation.cause].event)


def reached_events(flow: Flow, *kinds: str) -> list[EventStates]:
    """A function's events of some kinds, with the states that reach them, in the order of the text."""
    return [reached for reached in flow.in_order if reached.event.kind in kinds]


def calls_of(flow: Flow, scaler: str, *kinds: str) -> list[Event]:
    """The calls of a scaler's methods in a function, and in those that it calls, in the order of the text."""
    return [event for event in flow.events if event.kind in kinds and event.scaler == scaler]


def backward_between(module: Module, flow: Flow, first: ir.Node, second: ir.Node) -> bool:
    """Whether a backward, or a call that may run one, stands between two nodes of one function."""
    return any(
        first.id < place.id < second.id
        for each in flow.events
        if each.kind == "backward" or (each.kind == "opaque" and _may_be(module, each, ("backward",)))
        for place in places(flow, each.call, second)
    )


def always_off(flow: Flow, reached: EventStates) -> bool:
    """Whether a call of a scaler is only ever reached with the scaler off."""
    return all(flow.disabled(str(reached.event.scaler), state) for state in reached.states)


def stepping(flow: Flow) -> set[str | None]:
    """The optimizers that a function unscales or steps."""
    return {reached.event.optimizer for reached in reached_events(flow, "optimizer_step", "step", "unscale_")}


def receiver(event: Event) -> ir.Value:
    """The object whose method an event calls."""
    assert isinstance(event.call, ir.Call)
    assert isinstance(event.call.func, ir.Attribute)
    return event.call.func.base


def on_micro_steps(misuse: Misuse) -> bool:
    """Whether an `unscale_` that an earlier iteration left without update runs on each micro step, with the update at
    the boundary: what is wrong is the unscale_."""
    event = misuse.reached.event
    loop = loop_of(event.call)
    updates = [
        update
        for update in calls_of(misuse.flow, misuse.violation.scaler, "update")
        if not exclusive(update.call, event.call)
    ]
    if updates and loop is not None and not any(loop in upwards(ir.statement_of(each.call)) for each in updates):
        return True  # round a loop that has none
    return bool(updates) and all(
        ir.function_of(update.call) is not ir.function_of(event.call)
        or counts(misuse.flow, skipping(event.call, update.call, "continue"))
        for update in updates
    )


def used_elsewhere(module: Module, flow: Flow, scaler: str, method: str, call: ir.Node | None = None) -> bool:
    """Whether a function that the flow doesn't show calls a method of the scaler, in this file or in another.

    `call`: it matters to this one. What overrides the method of this call, or is overridden by it, runs without it.
    """
    known = objects(module)
    function = ir.function_of(call) if call is not None else None
    return used_by_others(module, scaler, method, call) or any(
        isinstance(each.func, ir.Attribute)
        and each.func.attr == method
        and known.is_scaler(each.func.base) == known.original(scaler)
        and not flow.contains(each)
        and not flow.follows(each)
        and not runs_instead(module, ir.function_of(each), function)
        for each in module.whole.near(method).calls
    )


def used_by_others(module: Module, scaler: str, method: str, call: ir.Node | None = None) -> bool:
    """Whether another file of the project calls a method of a scaler that a class of this file keeps.

    `call`: it matters to this one. What overrides the method that this stands in runs without it.
    """
    owner, _, attribute = objects(module).original(scaler).rpartition(".")
    if not owner or not attribute.isidentifier():
        return False
    classes = frozenset(each.cls.name for each in module.functions if each.cls is not None)
    function = ir.function_of(call) if call is not None else None
    instead_of = function.name if function is not None and function.cls is not None else ""
    return user_of(module.source.filename, attribute, method, classes, instead_of) is not None


def methods_used(module: Module, scaler: str) -> set[str]:
    """The names of the attributes that the file reads of a scaler, under all keys of what is created there."""
    return {each.attr for each in attributes_read(module, scaler)}


def attributes_read(module: Module, scaler: str) -> list[ir.Attribute]:
    """The attributes that the file reads of a scaler, under all keys of what is created there."""
    known = objects(module)
    if not known.is_scalers(scaler):
        return []
    made = {each.call.id for each in known.made_by(scaler)}
    same = {key for key in known.every_scaler() if made and {each.call.id for each in known.made_by(key)} == made}
    keys = {scaler, known.original(scaler), *same}
    near = near_kept(module, keys)
    attributes = (value.parent for key in keys for value in known.with_key(near, key))
    return [each for each in attributes if isinstance(each, ir.Attribute)]


def computed_between(module: Module, first: ir.Node, last: ir.Node) -> set[str]:
    """The variables that a function assigns between two of its nodes, and not in an arm of an `if` that the first isn't
    in: a norm behind `unscale_`, say.
    """
    function = ir.function_of(first)
    body = function.body if function is not None else module.program.body
    return {
        key
        for statement in ir.walk_statements(body, into=False)
        if isinstance(statement, (ir.Assign, ir.AugAssign)) and first.id < statement.id < last.id
        if not exclusive(first, statement)
        for target in (statement.targets if isinstance(statement, ir.Assign) else (statement.target,))
        for key in objects(module).names_in(target)
    }


def _changed_round(module: Module, node: ir.Node) -> set[str]:
    """What the loops round a node assign."""
    return {key for loop in loops_round(node) for key in objects(module).assigned_in(loop)}


def other_arm_has(module: Module, flow: Flow, node: ir.Node, *kinds: str) -> bool:
    """Whether an if around a node, whose condition may be AMP's own flag, has another arm with such an event.

    An arm that leaves has what follows the if for its other arm.
    """

    def may_be_flag(test: ir.Value) -> bool:
        return flow.conditions.may_ask_for_amp(test) and not flow.conditions.is_weight(test)

    for each in upwards(ir.statement_of(node)):
        outer = each.parent
        if isinstance(outer, ir.If) and may_be_flag(outer.test):
            other = outer.orelse if each.block is outer.then else outer.then
            if other is not None and _may_have(module, other, kinds):
                return True
        for before in each.block.statements[: each.block.statements.index(each)]:
            if isinstance(before, ir.If) and may_be_flag(before.test) and block_leaves(before.then):
                if _may_have(module, before.then, kinds):
                    return True
    return False


def _may_have(module: Module, block: ir.Block, kinds: tuple[str, ...], depth: int = 4) -> bool:
    """Whether a suite, or a function that it calls, has events of some kinds, or calls what can't be seen."""
    return any(_may_be(module, event, kinds, depth) for event in events(module).below(block))


def _may_be(module: Module, event: Event, kinds: tuple[str, ...], depth: int = 4) -> bool:
    if event.kind != "opaque":
        return event.kind in kinds
    callee = module.once(CallGraph).callee(event.call) if isinstance(event.call, ir.Call) else None
    return callee is None or not depth or _may_have(module, callee.function.body, kinds, depth - 1)


def asked_apart(flow: Flow, node: ir.Node, without: ir.Node) -> bool:
    """Whether ifs decide about one call and not about another: they may ask for AMP, as those of the other do."""
    return any(not flow.conditions.counts(each.test) for each in conditions(node, without))


def dynamic(module: Module, flow: Flow, node: ir.Node, without: ir.Node, depth: int = 4) -> list[ir.Value]:
    """The tests that decide about one call and not about another, and that come out differently in each iteration."""
    known = objects(module)
    assigned = _changed_round(module, node) | _changing(module, flow, node)
    found = [
        test
        for test in asked(flow, node, without, depth=0)
        if not known.names_in(test) <= flow.counters
        if known.names_in(test) & assigned or any(isinstance(value, ir.Call) for value in ir.walk_values(test))
    ]
    if depth and ir.function_of(node) is not ir.function_of(without):
        for site in flow.call_sites(node):
            found += dynamic(module, flow, site, without, depth - 1)
    return found


def _changing(module: Module, flow: Flow, node: ir.Node) -> set[str]:
    """The parameters of the function round a node that get another value in each iteration of a loop that calls it."""
    known, calls = objects(module), module.once(CallGraph)
    function, found = ir.function_of(node), set[str]()
    for site in flow.call_sites(node) if function is not None else ():
        assigned = _changed_round(module, site)
        callee = calls.find(site)
        given = calls.arguments(site, callee) if callee is not None and callee.function is function else None
        for name, value in (given or {}).items():
            if function is not None and value is not None and known.names_in(value) & assigned:
                found.add(known.variable(function.scope, name))
    return found


def asked(flow: Flow, node: ir.Node, without: ir.Node, depth: int = 4) -> list[ir.Value]:
    """The tests that decide about one call and not about another, those round the calls that lead to it too."""
    if ir.function_of(node) is ir.function_of(without):
        return [each.test for each in conditions(node, without)]
    tests = [each.test for each in ifs_round(node)]
    for site in flow.call_sites(node) if depth else ():
        tests += asked(flow, site, without, depth - 1)
    return tests


def guards(flow: Flow, node: ir.Node, depth: int = 4) -> Iterator[tuple[ir.Value, bool]]:
    """The tests of the ifs round a node, or round a call that leads to it, and how they have to come out."""
    for each in upwards(ir.statement_of(node)):
        if isinstance(each.parent, ir.If):
            yield each.parent.test, each.block is each.parent.then
    for site in flow.call_sites(node) if depth else ():
        yield from guards(flow, site, depth - 1)


def places(flow: Flow, node: ir.Node, other: ir.Node, depth: int = 4) -> Iterator[ir.Node]:
    """A node, or the calls that lead to it, as they stand in the function of another one."""
    if ir.function_of(node) is ir.function_of(other):
        yield node
    for site in flow.call_sites(node) if depth else ():
        yield from places(flow, site, other, depth - 1)


def side_by_side(flow: Flow, one: ir.Node, other: ir.Node, depth: int = 4) -> list[tuple[ir.Node, ir.Node]]:
    """Two nodes, or the calls that lead to them, as they stand in one function: the innermost that has both."""
    level = [other]
    while level and depth:
        if found := [(place, each) for each in level for place in places(flow, one, each)]:
            return found
        level = [site for each in level for site in flow.call_sites(each)]
        depth -= 1
    return []


def counts(flow: Flow, tests: list[ir.If]) -> bool:
    """Whether one of some ifs asks for the accumulation boundary (`(i + 1) % k == 0`), by itself or among others."""
    return any(flow.conditions.counts(part) for each in tests for part in _parts(each.test))


def _parts(test: ir.Value) -> Iterator[ir.Value]:
    if isinstance(test, ir.Bool):
        yield from _parts(test.left)
        yield from _parts(test.right)
    else:
        yield test
