"""Runs a function's events through its branches, loops and calls, along every path.

An abstract interpreter over the IR. What it yields are *event states*, each event with the states in which paths
reach it, and *violations*, the misuse that a path shows. Rules read these; nothing here knows a rule's message or fix.

Where it can't see it goes silent: a call that may do anything leaves the gradients "unknown", a function with too
many paths yields nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.base.patience import of_file
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.flow.eval_expressions import MAX_WORK, Following
from amplint.model.flow.eval_statements import Statements
from amplint.model.flow.event_states import EventStates, SeveralOptimizersError, TooLongError, TooManyPathsError
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.guessed_branches import OF_WHAT_IS_MISSING
from amplint.model.flow.open_regions import Regions
from amplint.model.flow.state import State
from amplint.model.flow.unreached_events import UnreachedEvents
from amplint.model.flow.violations import Violation, ViolationKind
from amplint.model.inference.value_sets import is_off
from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.event import Event
from amplint.model.regions.framework_regions import framework_region
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST
from amplint.model.torch_facts.signatures import CLIPS

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.queries import Nodes

# Where calls led to too many paths, less is tried of what is left of the file: of functions that get there, which call
# the same, and of others. In the end no more calls are followed.
MUCH_WORK = 3_000
LESS_WORK = 6_000
MUCH_LOST = 90_000


# What giving a function up means.
_UNCHECKED = "the order of the scaler's calls in it is not checked"
# Where an event may be, aliases of functions aside.
_EVENTS = re.compile(r"\.\s*(?:grad\b|(?:backward|scale|unscale_|step|zero_grad)\b(?:[\s\\)]|#.*\n)*\()")


class Flow:
    """One function (or the module's own body) interpreted; where calls aren't followed, by itself."""

    def __init__(self, module: Module, container: ir.Function | ir.Program, effort: int = MAX_WORK) -> None:
        self.container = container
        self.ends: list[State] = []  # in which the function returns
        self._module = module
        self._events = events(module)
        self._takes_too_long = False
        self.lost = 0
        self.given_up = not any(self._run(following, effort) for following, effort in self._tries(effort))

    def _tries(self, effort: int) -> Iterator[tuple[Following, int]]:
        """How the function is run, with its effort, until its paths are few enough; else nothing is said about it."""
        calls_matter = True
        for following in (Following.EVERYTHING, Following.SCALERS):
            if effort > 0 and calls_matter:
                yield following, effort
                self.lost += self.work
                calls_matter = self._expressions.work_in_calls > effort // 3
        if calls_matter or effort < MAX_WORK:
            yield Following.NOTHING, MAX_WORK
        yield Following.ROUGHLY, MAX_WORK

    def _run(self, following: Following, effort: int, several: bool = False) -> bool:
        """Run the function; whether its paths were few enough for an effort.

        `several`: a run before has met several optimizers, so that a backward need not be that of the one met first. It
        ends there, as what it has seen until then is of no use.
        """
        statements = Statements(self._module, following, effort, several)
        self._expressions, self._loops = statements.expressions, statements.loops
        self._transfer = self._expressions.transfer
        self.conditions = self._expressions.conditions
        self.regions: Regions = self._expressions.regions
        self.disabled = self._transfer.switches.disabled
        self.surely_enabled = self._transfer.switches.surely_enabled
        function = self.container if isinstance(self.container, ir.Function) else None
        if (time := of_file()) is not None:
            time.start(function.name if function is not None else "the file's own code")
        start = State(regions=self.regions.decorators(function) if function is not None else ())
        try:
            with self._expressions.within(objects(self._module).call_context, function):
                paths = statements.block(self.container.body, [start])
        except SeveralOptimizersError:
            return self._run(following, effort, several=True)
        except TooManyPathsError as error:
            self._takes_too_long = isinstance(error, TooLongError)
            self._transfer.event_states, self._transfer.violations = {}, {}
            return False
        for state in (*paths.normal, *paths.exits, *paths.raises):
            self._transfer.end(state)
        self.ends = [*paths.normal, *paths.exits]
        return True

    @property
    def why_not(self) -> str:
        """Why the function is given up, if it is."""
        return "takes too long to follow" if self._takes_too_long else "has too many paths to follow"

    @property
    def event_states(self) -> dict[int, EventStates]:
        """The events that were met, with the states that reach them, by the ids of their calls."""
        return self._transfer.event_states

    @cached_property
    def events(self) -> list[Event]:
        """The events of the function, and those that were met in what it calls, in the order of the text."""
        own = {event.call.id: event for event in self._events.below(self.container.body)}
        met = {number: reached.event for number, reached in self.event_states.items()}
        first = {**self._unreached.events, **own, **met}
        others = {number: reached.others for number, reached in self.event_states.items()}
        return [event for number in sorted(first) for event in (first[number], *others.get(number, ()))]

    @cached_property
    def _unreached(self) -> UnreachedEvents:
        return UnreachedEvents(self._module, self.container.body, self._expressions.followed, self.event_states)

    def node(self, number: int) -> ir.Value:
        """The call with an id."""
        return self._module.value(number)

    def follows(self, node: ir.Node) -> bool:
        """Whether a node stands in a function that is called from here."""
        function = ir.function_of(node)
        return function is not None and self.leads_to(function)

    def leads_to(self, container: ir.Function | ir.Program) -> bool:
        """Whether calls lead from here to a function."""
        return container.id in self._reached

    @cached_property
    def _reached(self) -> set[int]:
        """The functions, by their ids, that calls lead to, whether or not a path gets there."""
        return self._module.once(CallGraph).reached(self.container.body) | set(self._expressions.followed)

    @property
    def counters(self) -> set[str]:
        """The variables of which it is known whether they are at 0."""
        return self._loops.counters

    @property
    def work(self) -> int:
        """How much there was to do: a state taken through a statement counts one."""
        return self._expressions.work

    def call_sites(self, node: ir.Node) -> list[ir.Call]:
        """The calls that led to a node in another function."""
        function = ir.function_of(node)
        if function is None:
            return []
        return self._expressions.followed.get(function.id) or self._unreached.sites.get(function.id, [])

    @cached_property
    def in_order(self) -> list[EventStates]:
        """The events that were met, with their states, in the order of the text."""
        return sorted(self.event_states.values(), key=lambda reached: reached.event.call.id)

    def violations(self, kinds: Collection[ViolationKind]) -> list[tuple[Violation, list[State]]]:
        """The misuse of some kinds, with the states that show it, in the order of the text."""
        shown = [
            (violation, self._proven(violation, states))
            for violation, states in self._transfer.violations.items()
            if violation.kind in kinds
        ]
        return sorted(((violation, states) for violation, states in shown if states), key=lambda each: each[0].order)

    def _proven(self, violation: Violation, states: list[State]) -> list[State]:
        """The states that show a violation for sure: what is missing there is not missing by a guess alone."""
        missing = violation.kind in OF_WHAT_IS_MISSING
        return self._expressions.guesses.proven(violation, states) if missing else states

    def sees_gradients(self, call: int) -> bool:
        """Whether in each state that reaches a call it is known what the gradients are, or all scalers are off."""
        optimizer, every = self.event_states[call].event.optimizer, self.event_states[call].states
        states = [
            each for each in every if not each.in_sight or not all(self.disabled(of, each) for of in each.in_sight)
        ]
        held = [of for state in states for of in ([of for _, of in state.groups] or [state.rest])]
        if optimizer is not None:
            held = [state.gradients_of(optimizer) for state in states]
        return all(of.kind not in (GradientKind.ENTRY, GradientKind.UNKNOWN, GradientKind.MAYBE) for of in held)

    def sees_scaler(self, call: int) -> bool:
        """Whether in each state that reaches a scaler's call all that was done with it is in sight, or it is off."""
        scaler, states = self.event_states[call].event.scaler, self.event_states[call].states
        return scaler is not None and all(scaler in each.in_sight or self.disabled(scaler, each) for each in states)

    def contains(self, node: ir.Node) -> bool:
        """Whether a node stands in this function itself, and in none that is nested in it."""
        function = ir.function_of(node)
        return function is self.container or (function is None and isinstance(self.container, ir.Program))


def flows(module: Module) -> list[Flow]:
    """Every function with events, and the module's own body, interpreted."""
    return module.once(_flows)


def given_up(module: Module) -> list[str]:
    """The functions with more paths than can be followed, as far as any rule has asked for the flows."""
    return [
        f"{module.line(each.container)}: {each.container.name} {each.why_not}: {_UNCHECKED}"
        for each in module.known(_flows) or ()
        if each.given_up and isinstance(each.container, ir.Function)
    ]


def _near_events(module: Module) -> Nodes:
    """The nodes near what may be an event, aliases of functions aside."""
    known = objects(module)
    return module.whole.near(_EVENTS, *sorted({word_of(key) for key in known.scalers | known.library_scalers}))


def _aliased(module: Module) -> list[ir.Value]:
    """The functions that are events, by whatever name."""
    return module.meaning(*CLIPS, "torch.autograd.backward")


def _may_train(module: Module) -> list[ir.Function]:
    """The functions of the file that may have events, or call one that does, going by names; in the text's order."""
    whole, aliased = module.whole, {ir.function_of(each) for each in _aliased(module)}
    todo = [*_near_events(module).functions, *(each for each in aliased if each is not None)]
    found = {each.id: each for each in todo}
    while todo:
        function = todo.pop()
        if function.name == "__call__":
            return module.functions  # whatever its objects are called
        names = {function.name, *(each.name for each in _around(function))}
        for caller in whole.near(*sorted(names)).functions:
            if caller.id not in found:
                found[caller.id] = caller
                todo.append(caller)
    return sorted((each for each in found.values() if module.is_own(each)), key=lambda each: each.id)


def _around(function: ir.Function) -> Iterator[ir.Function | ir.Class]:
    """The functions that a function is nested in, and may be returned by; the class that a constructor makes."""
    outer = function.outer
    while outer is not None:
        yield outer
        outer = outer.outer
    if function.cls is not None and function.name == "__init__":
        yield function.cls


def _amp_in_sight(module: Module) -> bool:
    """Whether there is a scaler, or a region that may be on: without one no path shows any misuse."""
    if objects(module).scalers:
        return True
    for each in module.meaning(AUTOCAST, *OLD_AUTOCAST):
        call = each.parent
        region = region_of(module, call) if isinstance(call, ir.Call) and call.func is each else None
        if region is None or not is_off(module, region):
            return True
    return any(framework_region(module, call) is not None for call in module.whole.called("autocast"))


def _only_starts(module: Module, calls: CallGraph) -> bool:
    """Whether all that the file's own body does is to call functions without arguments, each looked at by itself."""
    for call in ir.calls_below(module.program.body):
        callee = calls.callee(call)
        if callee is not None and calls.trains(callee.function.body):
            up = call.parent.parent if isinstance(call.parent, ir.Expr) else None
            at_top = module.program in (up, up.parent if isinstance(up, ir.If) else None)
            if not at_top or call.args or callee.function.params or callee.made is not None:
                return False
    return True


def _flows(module: Module) -> list[Flow]:
    if not (_near_events(module).pieces or _aliased(module)) or not _amp_in_sight(module):
        return []
    calls, recogniser = module.once(CallGraph), events(module)
    every: list[ir.Function | ir.Program] = [module.program, *_may_train(module)]
    containers = [each for each in every if calls.trains(each.body)]
    found: dict[int, Flow] = {}
    # Those that only call others come last, and callers after what they call: where that was much work, there is no
    # more to learn.
    own = [each for each in containers if any(event.kind != "opaque" for event in recogniser.below(each.body))]

    def look_at(container: ir.Function | ir.Program) -> None:
        lost = {number: each.lost for number, each in found.items() if each.lost}
        effort = LESS_WORK if lost else MAX_WORK
        if lost.keys() & calls.reached(container.body):
            effort = MUCH_WORK
        found[container.id] = Flow(module, container, effort if sum(lost.values()) < MUCH_LOST else 0)

    def by_reach(container: ir.Function | ir.Program) -> int:
        return len(calls.reached(container.body))

    for each in sorted(own, key=by_reach):
        look_at(each)
    for each in sorted(containers, key=by_reach):
        if each.id not in found and not (each is module.program and _only_starts(module, calls)):
            work = sum(found[number].work for number in calls.reached(each.body) if number in found)
            if work <= MUCH_WORK:
                look_at(each)
    return [found[each.id] for each in containers if each.id in found]
