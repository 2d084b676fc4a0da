"""Reader 1: runs a function's events through its branches, loops and calls, along every path.

An abstract interpreter over the IR. What it yields are *visits*, each event with the states in which paths reach it,
and *issues*, the misuse that a path shows. Rules read these; nothing here knows a rule's message or fix.

Where it can't see it goes silent: a call that may do anything leaves the gradients "unknown", a function with too
many paths yields nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.arms import Arms
from amplint.model.calls import Calls
from amplint.model.compat import block_leaves
from amplint.model.events import Event, events, is_grad
from amplint.model.expressions import Expressions
from amplint.model.gradients import Gradients
from amplint.model.loops import Loops
from amplint.model.objects import objects
from amplint.model.paths import Paths, joined, without_idle_facts
from amplint.model.reads import reads_of_statement
from amplint.model.regions import Regions
from amplint.model.state import Abstract, State
from amplint.model.unmet import Unmet
from amplint.model.visits import Issue, TooManyPathsError, Visit

if TYPE_CHECKING:
    from amplint.model import Module

MAX_DEPTH = 24
FEW_STATES = 8
MUCH_WORK = 3_000


class Flow:
    """One function (or the module's own body) interpreted."""

    def __init__(self, module: Module, container: ir.Function | ir.Program) -> None:
        self.container = container
        self._module = module
        self._events = events(module)
        self._objects = objects(module)
        self._arms = module.once(Arms)
        # Where following calls makes too many paths, the function by itself is looked at; if that has too many as well,
        # nothing is said about it.
        self.given_up = not self._run(depth=MAX_DEPTH) and not self._run(depth=0)

    def _run(self, depth: int) -> bool:
        """Run the function, following calls `depth` levels; whether its paths were few enough."""
        self._expressions = Expressions(self._module, self._block, depth)
        self._loops = Loops(self._module, self._expressions, self._block)
        self._transfer = self._expressions.transfer
        self.conditions = self._expressions.conditions
        self.regions: Regions = self._expressions.regions
        self.disabled = self._transfer.switches.disabled
        self.surely_enabled = self._transfer.switches.surely_enabled
        function = self.container if isinstance(self.container, ir.Function) else None
        start = State(regions=self.regions.decorators(function) if function is not None else ())
        try:
            with self._expressions.within(self._objects.frame, function):
                paths = self._block(self.container.body, [start])
        except TooManyPathsError:
            self._transfer.visits, self._transfer.issues = {}, {}
            return False
        for state in (*paths.normal, *paths.exits, *paths.raises):
            self._transfer.end(state)
        return True

    @property
    def visits(self) -> dict[int, Visit]:
        """The visits of the events that were met, by the id of their calls."""
        return self._transfer.visits

    @cached_property
    def events(self) -> list[Event]:
        """The events of the function, and those that were met in what it calls, in the order of the text."""
        own = {event.call.id: event for event in self._events.below(self.container.body)}
        met = {number: visit.event for number, visit in self.visits.items()}
        return [each for _, each in sorted({**self._unmet.events, **own, **met}.items())]

    @cached_property
    def _unmet(self) -> Unmet:
        return Unmet(self._module, self.container.body, self._expressions.followed)

    def node(self, number: int) -> ir.Value:
        """The call with an id."""
        return self._module.value[number]

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
        return self._module.once(Calls).reached(self.container.body) | set(self._expressions.followed)

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
        return self._expressions.followed.get(function.id) or self._unmet.sites.get(function.id, [])

    @cached_property
    def in_order(self) -> list[Visit]:
        """The visits in the order of the text."""
        return sorted(self.visits.values(), key=lambda visit: visit.event.call.id)

    def found(self, code: str) -> list[tuple[Issue, list[State]]]:
        """The misuse of one code, with the states that show it, in the order of the text."""
        return sorted(
            (each for each in self._transfer.issues.items() if each[0].code == code), key=lambda each: each[0]
        )

    def sees_gradients(self, call: int) -> bool:
        """Whether in each state that reaches a call it is known what the gradients are."""
        optimizer, states = self.visits[call].event.optimizer, self.visits[call].states
        held = [of for state in states for of in ([of for _, of in state.groups] or [state.rest])]
        if optimizer is not None:
            held = [state.gradients_of(optimizer) for state in states]
        return all(of.kind not in ("entry", "unknown", "maybe") for of in held)

    def sees_scaler(self, call: int, scaler: str) -> bool:
        """Whether in each state that reaches a call all that was done with a scaler is in sight, or it is off."""
        return all(scaler in state.in_sight or self.disabled(scaler, state) for state in self.visits[call].states)

    def contains(self, node: ir.Node) -> bool:
        """Whether a node stands in this function itself, and in none that is nested in it."""
        function = ir.function_of(node)
        return function is self.container or (function is None and isinstance(self.container, ir.Program))

    # --- statements -------------------------------------------------------------------------------------------------

    def _block(self, block: ir.Block, states: list[State]) -> Paths:
        paths = Paths(normal=states)
        for statement in block.statements:
            if not paths.normal:
                break
            self._expressions.spend(paths.normal)
            inner = self._statement(statement, paths.normal)
            paths.leave(inner)
            paths.normal = joined(state.but(result=None) if state.result else state for state in inner.normal)
        return paths

    def _then(self, block: ir.Block | None, states: list[State], paths: Paths) -> None:
        """Run a suite on some states, and add to `paths` how it is left."""
        inner = self._block(block, joined(states)) if block is not None else Paths(normal=states)
        paths.leave(inner)
        paths.normal += inner.normal

    def _statement(self, statement: ir.Statement, states: list[State]) -> Paths:
        if isinstance(statement, ir.If):
            return self._branch(statement, states)
        if isinstance(statement, (ir.For, ir.While)):
            return self._loops.loop(statement, states)
        if isinstance(statement, ir.With):
            return self._with(statement, states)
        if isinstance(statement, ir.Try):
            return self._try(statement, states)
        if isinstance(statement, ir.Match):
            return self._match(statement, states)
        if isinstance(statement, (ir.Function, ir.Class)):
            return Paths(normal=states)
        outcomes = self._expressions.outcomes
        if isinstance(statement, ir.Assert):
            return Paths(normal=[each.state for s in states for each in outcomes(statement.test, s) if each.holds])
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Conditional):
            return Paths(normal=self._choice(statement, statement.value, states))
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Bool) and self._is_asked(statement):
            return Paths(normal=[each for state in states for each in self._flagged(statement, statement.value, state)])
        states = self._simple(statement, states)
        if isinstance(statement, ir.Return):
            return Paths(exits=[self._returning(statement, state) for state in states])
        if isinstance(statement, ir.Raise):
            return Paths(raises=states)
        if isinstance(statement, ir.Jump) and statement.kind != "pass":
            return Paths(breaks=states) if statement.kind == "break" else Paths(continues=states)
        return Paths(normal=states)

    def _returning(self, statement: ir.Return, state: State) -> State:
        held = self._expressions.abstract(statement.value, state) if statement.value is not None else None
        return state.but(result=(0, held) if held is not None else None)

    def _choice(self, statement: ir.Assign, value: ir.Conditional, states: list[State]) -> list[State]:
        """`scaler = GradScaler() if amp else None`: where it is there, the condition holds, and the other way round."""
        keys = [self._objects.key(target) for target in statement.targets]
        if not any(key is not None and self._objects.is_scalers(key) for key in keys):
            return [each for state in states for each in self._store(statement, value, state)]
        return [
            each
            for state in states
            for outcome in self._expressions.outcomes(value.test, state)
            for each in self._store(statement, value.then if outcome.holds else value.other, outcome.state)
        ]

    def _is_asked(self, statement: ir.Assign) -> bool:
        """Whether a condition reads what is assigned."""
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ir.Name):
            return False
        key = self._objects.own_key(target)
        return key in self._module.once(_asked)

    def _flagged(self, statement: ir.Assign, value: ir.Bool, before: State) -> Iterator[State]:
        """`deferred = amp and not last`: the ways in which it comes out, kept apart."""
        for outcome in self._expressions.outcomes(value, before):
            for state in self._store(statement, value, outcome.state):
                yield state.with_fact(self._objects.own_key(statement.targets[0]), outcome.holds)  # type: ignore[arg-type]

    def _store(self, statement: ir.Assign, value: ir.Value, before: State) -> list[State]:
        if isinstance(value, ir.Call) and self._expressions.constructs(value, statement.targets):
            # What the constructor stores in it has to stay.
            return self._expressions.evaluate(value, [self._expressions.assign(statement.targets[0], None, before)])
        return [self._bound(statement, value, state) for state in self._expressions.evaluate(value, [before])]

    def _bound(self, statement: ir.Assign, value: ir.Value, state: State) -> State:
        """The targets of an assignment bound to what its value is."""
        held = self._expressions.abstract(value, state)
        learned = [self.conditions.learned(target, value, state) for target in statement.targets]
        for target, fact in zip(statement.targets, learned, strict=True):
            if is_grad(target):
                state = self._stored(target, value, state)
            if not self._is_itself(target, value):
                state = self._expressions.assign(target, self._unlike(target, held), state)
            state = state.with_fact(*fact) if fact is not None else state
            state = self._transfer.made(target, value, state)
        return state

    def _is_itself(self, target: ir.Value, value: ir.Value) -> bool:
        """Whether an attribute is given the parameter that goes by its key: `self.model = model` in a constructor."""
        if not isinstance(target, ir.Attribute) or not isinstance(value, ir.Name):
            return False
        return self._objects.key(target) == self._objects.key(value)

    def _stored(self, target: ir.Value, value: ir.Value, state: State) -> State:
        """`p.grad = ...`: None for all of a model's parameters clears them, of anything else nothing is known."""
        up, roots = target.parent, frozenset[str]()
        while isinstance(up, ir.Node) and not isinstance(up, ir.Function):
            if isinstance(up, ir.For) and (roots := self._objects.parameters_roots(up.iter)):
                break
            if isinstance(up, ir.If) and not any(is_grad(each) for each in ir.walk_values(up.test)):
                break  # some of them only
            up = up.parent
        if any(is_grad(each) for each in ir.walk_values(value)):
            return state  # made of what they were
        if isinstance(value, ir.Constant) and value.value is None and len(roots) == 1:
            return self._transfer.visit(Event("zero_grad", target, optimizer=min(roots)), state) or state
        return state.all_gradients(lambda _, old: Gradients("unknown", told=old.told))

    def _unlike(self, target: ir.Value, held: Abstract | None) -> Abstract | None:
        """What a target is bound to, unless that is itself: names with one binding share a key already."""
        if held is not None and held.kind == "object":
            key = self._objects.own_key(target) if isinstance(target, ir.Name) else self._objects.key(target)
            return None if key == held.key else held
        return held

    def _simple(self, statement: ir.Statement, states: list[State]) -> list[State]:
        for event in reads_of_statement(self._module, statement):
            states = [after for state in states if (after := self._transfer.visit(event, state)) is not None]
        if isinstance(statement, ir.Assign):
            value = statement.value
            return [each for s in states for each in self._store(statement, value, s)] if value is not None else states
        if isinstance(statement, ir.AugAssign):
            return [each for state in states for each in self._increased(statement, state)]
        for value in statement.values():
            states = self._expressions.evaluate(value, states)
        if isinstance(statement, ir.Delete):
            for value in statement.targets:
                states = [self._expressions.assign(value, None, state) for state in states]
        return states

    def _increased(self, statement: ir.AugAssign, before: State) -> Iterator[State]:
        tensors = self._expressions.tensors
        for state in self._expressions.evaluate(statement.value, [before]):
            divides = is_grad(statement.target) and tensors.is_scale(statement.value, state)
            divided = self._transfer.by_hand(state) if divides else state
            clip = tensors.by_hand(statement, divided)
            after = self._transfer.visit(clip, divided) if clip is not None else divided
            if after is not None:
                yield self._counted(statement, after)

    def _counted(self, statement: ir.AugAssign, state: State) -> State:
        """`n += 1`: what was known of n + 1 is known of n; a counter at 0 comes to 1."""
        target = statement.target
        key = self._objects.own_key(target) if isinstance(target, ir.Name) else self._objects.key(target)
        by = self._objects.render(statement.value)
        bound = self._expressions.assign(target, None, state)
        if key is None or by is None or statement.op != "Add":
            return bound
        if by == "1" and state.known(f"Equal({key},0)"):
            bound = bound.with_fact(f"Equal({key},1)", True)
        for fact, truth in state.facts:
            renamed = fact.replace(f"Add({key},{by})", "#")
            if renamed != fact and key not in renamed:
                bound = bound.with_fact(renamed.replace("#", key), truth)
        return bound

    def _branch(self, statement: ir.If, states: list[State]) -> Paths:
        paths = Paths()
        arms = {True: statement.then, False: statement.orelse}
        # Where an arm leaves, what stands behind the statement belongs to the other.
        leaving = {holds: arm is not None and block_leaves(arm) for holds, arm in arms.items()}
        behind = any(leaving.values()) and self._arms.unscales_behind(statement)
        unscales = {holds: self._arms.unscales(arm) or (behind and not leaving[holds]) for holds, arm in arms.items()}
        taken: dict[bool, list[State]] = {True: [], False: []}
        decides = self._arms.decides(statement)
        for before in states:
            for outcome in self._expressions.outcomes(statement.test, before):
                # What is known of other conditions would only keep paths apart.
                after = outcome.state if decides else outcome.state.but(facts=before.facts)
                hidden = outcome.by_flag and unscales[not outcome.holds] and not unscales[outcome.holds]
                taken[outcome.holds].append(self._transfer.switches.uncertain(after) if hidden else after)
        for holds, arm in arms.items():
            if taken[holds]:
                # An `and` fails in several ways; in a long chain of elifs they would multiply.
                few = len(taken[holds]) <= FEW_STATES
                self._then(arm, taken[holds] if few else without_idle_facts(taken[holds]), paths)
        paths.normal = without_idle_facts(paths.normal)
        return paths

    def _with(self, statement: ir.With, states: list[State]) -> Paths:
        paths = Paths()
        outside: dict[int, list[State]] = {}
        for state in states:
            outside.setdefault(len(state.regions), []).append(state)
        for depth, entering in outside.items():
            group = entering
            for item in statement.items:
                group = self._expressions.evaluate(item.context, group)
                if self._events.unseen.runs_by_entering(item.context):
                    group = [state.unknown() for state in group]
                group = [each for state in group for each in self._decided(item.context, statement, state)]
                group = [self.regions.enter(item.context, state, self.conditions) for state in group]
                if item.target is not None:
                    group = [self._expressions.assign(item.target, None, state) for state in group]
            inner = self._block(statement.body, joined(group))
            for left in (inner.normal, inner.breaks, inner.continues, inner.exits, inner.raises):
                left[:] = [state.but(regions=state.regions[:depth]) for state in left]
            paths.leave(inner)
            paths.normal += inner.normal
        return paths

    def _decided(self, context: ir.Value, statement: ir.With, state: State) -> list[State]:
        """The paths into a region, on and off apart where its flag changes inside."""
        flag = self.regions.flag(context)
        if flag is None or not set(self._objects.assigned_in(statement)) & self._objects.names_in(flag):
            return [state]
        return [each.state for each in self._expressions.outcomes(flag, state)]

    def _try(self, statement: ir.Try, states: list[State]) -> Paths:
        paths = Paths()
        body = self._block(statement.body, states)
        paths.leave(body)
        if statement.handlers:
            paths.raises = []  # caught, as far as it matters
        self._then(statement.orelse, body.normal, paths)
        # An exception can come from anywhere in the body.
        assigned = self._objects.assigned_in(statement)
        caught = [state.unknown().forget(assigned) for state in states]
        for handler in statement.handlers:
            self._then(handler.body, caught, paths)
        if statement.final is None:
            return paths
        # However the rest is left, the last suite runs, and then it goes on in the same way.
        after = Paths()
        for left, goes_on in (
            (paths.normal or caught, after.normal if paths.normal else []),
            (paths.breaks, after.breaks),
            (paths.continues, after.continues),
            (paths.exits, after.exits),
            (paths.raises, after.raises),
        ):
            inner = self._block(statement.final, joined(left)) if left else Paths()
            after.leave(inner)
            goes_on.extend(inner.normal)
        return after

    def _match(self, statement: ir.Match, states: list[State]) -> Paths:
        """A case with one value is a test for equality; what another compares can't be told."""
        paths = Paths()
        states = self._expressions.evaluate(statement.subject, states)
        unscaling = [self._arms.unscales(case.body) for case in statement.cases]
        for case, unscales in zip(statement.cases, unscaling, strict=True):
            missed: list[State] = []
            for name in case.binds:
                states = [state.bind(self._objects.variable(self.container.scope, name), None) for state in states]
            if case.equals is not None:
                test = _equality(statement.subject, case.equals)
                outcomes = [each for state in states for each in self._expressions.outcomes(test, state)]
                states = [each.state for each in outcomes if each.holds]
                missed = [each.state for each in outcomes if not each.holds]
            elif not case.irrefutable:
                missed = list(states)
            if case.guard is not None:
                outcomes = [each for state in states for each in self._expressions.outcomes(case.guard, state)]
                states = [each.state for each in outcomes if each.holds]
                missed += [each.state for each in outcomes if not each.holds]
            if any(unscaling) and not unscales:
                states = [self._transfer.switches.uncertain(state) for state in states]
            self._then(case.body, states, paths)
            states = joined(missed)
        paths.normal += [self._transfer.switches.uncertain(state) for state in states] if any(unscaling) else states
        return paths


def _asked(module: Module) -> set[str]:
    """The keys of the variables that conditions of the file read."""
    known = objects(module)
    tests = [each.test for each in module.statements if isinstance(each, (ir.If, ir.While))]
    tests += [each.test for each in module.values if isinstance(each, ir.Conditional)]
    return {known.own_key(each) for test in tests for each in ir.walk_values(test) if isinstance(each, ir.Name)}


def _equality(subject: ir.Value, value: ir.Value) -> ir.Compare:
    op = "Is" if isinstance(value, ir.Constant) and (value.value is None or isinstance(value.value, bool)) else "Equal"
    return ir.Compare(value.id, value.node, value.parent, subject, (op,), (value,))


def flows(module: Module) -> list[Flow]:
    """Every function with events, and the module's own body, interpreted."""
    return module.once(_flows)


def given_up(module: Module) -> list[str]:
    """The functions with more paths than can be followed, as far as any rule has asked for the flows."""
    return [
        f"line {module.row(each.container)}: {each.container.name} has too many paths to follow"
        for each in module.known(_flows) or ()
        if each.given_up and isinstance(each.container, ir.Function)
    ]


def _flows(module: Module) -> list[Flow]:
    calls, recogniser = module.once(Calls), events(module)
    every: list[ir.Function | ir.Program] = [module.program, *module.functions]
    containers = [each for each in every if calls.trains(each.body)]
    found: dict[int, Flow] = {}
    # Those that only call others come last: where the others were much work, there is no more to learn.
    own = [each for each in containers if any(event.kind != "opaque" for event in recogniser.below(each.body))]
    for each in own:
        found[each.id] = Flow(module, each)
    for each in containers:
        if each.id not in found:
            work = sum(found[number].work for number in calls.reached(each.body) if number in found)
            if work <= MUCH_WORK:
                found[each.id] = Flow(module, each)
    return [found[each.id] for each in containers if each.id in found]
