"""Reader 1: runs a function's events through its branches and loops, along every path.

An abstract interpreter over the IR. What it yields are *visits*: each event with the states in which paths reach it.
Rules read these; nothing here knows a rule.

Where it can't see it goes silent: a call that may do anything leaves the gradients "unknown", a function with too
many paths yields no visits at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.dtypes import is_false
from amplint.model.events import Event, events
from amplint.model.objects import objects
from amplint.model.protocol import TABLE, Stage
from amplint.model.regions import Regions
from amplint.model.state import Abstract, Conditions, Gradients, State
from amplint.model.tensors import Tensors

if TYPE_CHECKING:
    from amplint.model import Module

MAX_STATES = 64
MAX_ROUNDS = 6


class TooManyPathsError(Exception):
    """More states than are worth keeping apart."""


@dataclass(slots=True)
class Visit:
    """An event, the states before it, and for a clip what comes behind it."""

    event: Event
    states: list[State] = field(default_factory=list)
    stepped: set[tuple[str, str]] = field(default_factory=set)  # (scaler, optimizer) stepped before the next update
    steps: list[ir.Value] = field(default_factory=list)
    backward_first: bool = False  # a scaled backward comes before the next update on some path
    ends: list[State] = field(default_factory=list)  # the function ends in these before an update


@dataclass(slots=True)
class Paths:
    """The states with which a suite is left, by the way it is left."""

    normal: list[State] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    exits: list[State] = field(default_factory=list)

    def leave(self, other: Paths) -> None:
        """Add the ways in which an inner suite leaves this one."""
        self.breaks += other.breaks
        self.continues += other.continues
        self.exits += other.exits


class Flow:
    """One function (or the module's own body) interpreted."""

    def __init__(self, module: Module, container: ir.Function | ir.Program) -> None:
        self.container = container
        self._events = events(module)
        self._objects = objects(module)
        self.conditions = self._conditions = Conditions(self._objects)
        self.regions = self._regions = Regions(module)
        self._tensors = Tensors(module)
        self.visits: dict[int, Visit] = {}
        start = State(regions=self._regions.decorators(container) if isinstance(container, ir.Function) else ())
        try:
            paths = self._block(container.body, [start])
        except TooManyPathsError:
            self.visits = {}
            return
        for state in (*paths.normal, *paths.exits):
            for clip in state.pending:
                self.visits[clip].ends.append(state)

    # --- statements -------------------------------------------------------------------------------------------------

    def _block(self, block: ir.Block, states: list[State]) -> Paths:
        paths = Paths(normal=states)
        for statement in block.statements:
            if not paths.normal:
                break
            inner = self._statement(statement, paths.normal)
            paths.leave(inner)
            paths.normal = _joined(inner.normal)
        return paths

    def _statement(self, statement: ir.Statement, states: list[State]) -> Paths:
        if isinstance(statement, ir.If):
            return self._branch(statement.test, statement.then, statement.orelse, states)
        if isinstance(statement, (ir.For, ir.While)):
            return self._loop(statement, states)
        if isinstance(statement, ir.With):
            return self._with(statement, states)
        if isinstance(statement, ir.Try):
            return self._try(statement, states)
        if isinstance(statement, ir.Match):
            return self._match(statement, states)
        if isinstance(statement, (ir.Function, ir.Class)):
            return Paths(normal=states)
        states = [self._simple(statement, state) for state in states]
        if isinstance(statement, (ir.Return, ir.Raise)):
            return Paths(exits=states)
        if isinstance(statement, ir.Jump) and statement.kind != "pass":
            return Paths(breaks=states) if statement.kind == "break" else Paths(continues=states)
        return Paths(normal=states)

    def _simple(self, statement: ir.Statement, state: State) -> State:
        if isinstance(statement, ir.Assign):
            if statement.value is None:
                return state
            state = self._evaluate(statement.value, state)
            held = self._abstract(statement.value, state)
            for target in statement.targets:
                state = self._assign(target, held, state)
            return state
        if isinstance(statement, ir.AugAssign):
            state = self._evaluate(statement.value, state)
            scaled = self._tensors.by_hand(statement, state)
            if scaled is not None:
                state = self._visit(scaled, state)
            return self._assign(statement.target, None, state)
        for value in statement.values():
            state = self._evaluate(value, state)
        return state

    def _assign(self, target: ir.Value, held: Abstract | None, state: State) -> State:
        if isinstance(target, (ir.Sequence, ir.Starred)):
            for child in target.children():
                state = self._assign(child, None, state)
            return state
        key = self._objects.key(target) if isinstance(target, (ir.Name, ir.Attribute)) else None
        if isinstance(target, ir.Name):
            key = self._objects.own_key(target)
        return state.bind(key, held) if key is not None else state

    def _branch(self, test: ir.Value, then: ir.Block | None, orelse: ir.Block | None, states: list[State]) -> Paths:
        paths = Paths()
        unscales = [self._unscales(arm) for arm in (then, orelse)]
        for before in states:
            state = self._evaluate(test, before)
            truth = self._conditions.truth(test, state)
            for holds, arm, index in ((True, then, 0), (False, orelse, 1)):
                if truth is not None and truth is not holds:
                    continue
                taken = self._conditions.assume(test, holds, state)
                if truth is None and unscales[1 - index] and not unscales[index] and not self._counts(test):
                    # Whether scaled gradients ever come here can't be seen: the test may be AMP's own flag.
                    if taken.gradients.kind in ("scaled", "entry"):
                        taken = taken.but(gradients=Gradients("unknown"))
                if arm is None:
                    paths.normal.append(taken)
                else:
                    inner = self._block(arm, [taken])
                    paths.leave(inner)
                    paths.normal += inner.normal
        return paths

    def _unscales(self, arm: ir.Block | None) -> bool:
        """Whether a suite holds what could unscale gradients."""
        return arm is not None and any(event.kind in ("unscale_", "opaque") for event in self._events.below(arm))

    def _counts(self, test: ir.Value, depth: int = 3) -> bool:
        """Whether a test is about a counter (`(i + 1) % k == 0`), so that it is no flag of AMP's."""
        for value in ir.walk_values(test):
            if isinstance(value, ir.Binary) and value.op == "Modulo":
                return True
            if isinstance(value, ir.Name) and depth:
                if any(self._counts(source, depth - 1) for source in self._objects.sources(value)):
                    return True
        return False

    def _loop(self, loop: ir.For | ir.While, states: list[State]) -> Paths:
        """A loop until nothing new comes round; a for is taken to run at least once."""
        paths = Paths()
        endless = isinstance(loop, ir.While) and isinstance(loop.test, ir.Constant) and bool(loop.test.value)
        head = loop.iter if isinstance(loop, ir.For) else loop.test
        assigned = self._objects.assigned_in(loop)
        states = [self._evaluate(head, state) for state in states]
        seen: set[State] = set()
        todo = [self._forget(state, assigned) for state in states]
        done: list[State] = [] if isinstance(loop, ir.For) or endless else list(states)
        for _ in range(MAX_ROUNDS):
            todo = [state for state in _joined(todo) if state not in seen]
            if not todo:
                break
            seen.update(todo)
            inner = self._block(loop.body, todo)
            done += inner.breaks
            paths.exits += inner.exits
            todo = [self._forget(state, assigned) for state in (*inner.normal, *inner.continues)]
            if not endless:
                done += [*inner.normal, *inner.continues]
            if isinstance(loop, ir.While):
                todo = [self._evaluate(head, state) for state in todo]
        paths.normal = _joined(done)
        if loop.orelse is not None:
            inner = self._block(loop.orelse, paths.normal)
            paths.leave(inner)
            paths.normal = inner.normal
        return paths

    def _forget(self, state: State, keys: Iterable[str]) -> State:
        for key in keys:
            state = state.bind(key, None)
        return state

    def _with(self, statement: ir.With, states: list[State]) -> Paths:
        outside = states
        for item in statement.items:
            states = [self._evaluate(item.context, state) for state in states]
            states = [self._regions.enter(item.context, state, self._conditions) for state in states]
            if item.target is not None:
                states = [self._assign(item.target, None, state) for state in states]
        inner = self._block(statement.body, states)
        before = outside[0].regions

        def closed(left: list[State]) -> list[State]:
            return [state.but(regions=before) for state in left]

        return Paths(closed(inner.normal), closed(inner.breaks), closed(inner.continues), closed(inner.exits))

    def _try(self, statement: ir.Try, states: list[State]) -> Paths:
        body = self._block(statement.body, states)
        paths = Paths()
        paths.leave(body)
        normal = body.normal
        if statement.orelse is not None:
            inner = self._block(statement.orelse, normal)
            paths.leave(inner)
            normal = inner.normal
        paths.normal = list(normal)
        # An exception can come from anywhere in the body.
        assigned = self._objects.assigned_in(statement)
        caught = [
            self._forget(state.but(gradients=Gradients("unknown"), stages=frozenset()), assigned) for state in states
        ]
        for handler in statement.handlers:
            inner = self._block(handler.body, caught)
            paths.leave(inner)
            paths.normal += inner.normal
        if statement.final is not None:
            inner = self._block(statement.final, _joined(paths.normal or caught))
            paths.leave(inner)
            paths.normal = inner.normal if paths.normal else []
        return paths

    def _match(self, statement: ir.Match, states: list[State]) -> Paths:
        paths = Paths()
        states = [self._evaluate(statement.subject, state) for state in states]
        unscales = any(self._unscales(case.body) for case in statement.cases)
        for case in statement.cases:
            taken = states
            if unscales and not self._unscales(case.body):
                taken = [state.but(gradients=Gradients("unknown")) for state in states]
            inner = self._block(case.body, taken)
            paths.leave(inner)
            paths.normal += inner.normal
        if not any(case.irrefutable and case.guard is None for case in statement.cases):
            paths.normal += [state.but(gradients=Gradients("unknown")) for state in states] if unscales else states
        return paths

    # --- expressions ------------------------------------------------------------------------------------------------

    def _evaluate(self, value: ir.Value, state: State) -> State:
        """The state after the events of an expression."""
        if isinstance(value, (ir.Conditional, ir.Bool)):
            return self._evaluate_choice(value, state)
        if isinstance(value, ir.Call):
            for child in value.children():
                state = self._evaluate(child, state)
            event = self._events.of(value) or self._tensors.by_hand_call(value, state)
            state = self._regions.manual(value, state, self._conditions)
            return self._visit(event, state) if event is not None else state
        for child in value.children():
            state = self._evaluate(child, state)
        if isinstance(value, ir.Walrus):
            state = self._assign(value.target, self._abstract(value.value, state), state)
        return state

    def _evaluate_choice(self, value: ir.Conditional | ir.Bool, state: State) -> State:
        """`a if test else b`, `a and b`: one arm, where the path knows which; else events in an arm hide the rest."""
        if isinstance(value, ir.Conditional):
            test, arms = value.test, {True: value.then, False: value.other}
        else:
            test, arms = value.left, {value.op == "and": value.right}
        state = self._evaluate(test, state)
        truth = self._conditions.truth(test, state)
        for holds, arm in arms.items():
            if truth is None or truth is holds:
                after = self._evaluate(arm, self._conditions.assume(test, holds, state))
                if truth is not None:
                    return after
                if (after.gradients, after.stages) != (state.gradients, state.stages):
                    state = state.but(gradients=Gradients("unknown"), stages=frozenset())
        return state

    def _abstract(self, value: ir.Value, state: State) -> Abstract | None:
        """What an assignment of `value` binds."""
        return (
            self._tensors.held(value, state)
            or self._regions.held(value, state)
            or self._conditions.as_test(value, state)
        )

    # --- events -----------------------------------------------------------------------------------------------------

    def _visit(self, event: Event, state: State) -> State:
        visit = self.visits.setdefault(event.call.id, Visit(event))
        if state not in visit.states:
            visit.states.append(state)
            if len(visit.states) > MAX_STATES:
                raise TooManyPathsError
        return self._after(event, state)

    def _after(self, event: Event, state: State) -> State:
        if event.scaler is not None and event.kind != "opaque":
            state = state.with_fact(f"present({event.scaler})", True)
        if event.kind == "backward":
            return self._after_backward(event, state)
        if event.kind == "opaque":
            return state.but(gradients=Gradients("unknown"), stages=frozenset())
        if event.kind == "zero_grad":
            return state.but(gradients=Gradients("none"))
        if event.kind == "clip":
            return state.but(pending=state.pending | {event.call.id})
        if event.kind in ("unscale_", "step") and event.scaler is not None:
            optimizer = event.optimizer or "?"
            if event.kind == "step":
                self._note_step(event, optimizer, state)
            stage = TABLE[event.kind, state.stage(event.scaler, optimizer)].stage
            return state.advance(event.scaler, optimizer, stage)
        if event.kind == "update" and event.scaler is not None:
            used = bool(state.touched(event.scaler))
            rest = frozenset(each for each in state.stages if each[0] != event.scaler)
            gradients = Gradients("unscaled") if used else state.gradients
            return state.but(stages=rest, gradients=gradients, pending=frozenset())
        return state

    def _note_step(self, event: Event, optimizer: str, state: State) -> None:
        assert event.scaler is not None
        for clip in state.pending:
            if state.stage(event.scaler, optimizer) is Stage.READY:
                self.visits[clip].stepped.add((event.scaler, optimizer))
                if event.call not in self.visits[clip].steps:
                    self.visits[clip].steps.append(event.call)

    def _after_backward(self, event: Event, state: State) -> State:
        scaler = self._tensors.scaler_of(event.subject, state) if event.subject is not None else None
        if scaler == "":
            return state.but(gradients=Gradients("unknown"))
        if scaler is None:
            kind = "plain" if state.gradients.kind in ("none", "plain", "entry", "unscaled") else "mixed"
            return state.but(gradients=Gradients(kind))
        for clip in state.pending:
            self.visits[clip].backward_first = True
        if self.disabled(scaler, state):
            return state.but(gradients=Gradients("plain"), pending=frozenset())
        mixed = state.gradients.kind in ("plain", "mixed") or state.touched(scaler)
        kind = "mixed" if mixed else "scaled"
        return state.but(gradients=Gradients(kind, scaler, event.call.id), pending=frozenset())

    def disabled(self, scaler: str, state: State) -> bool:
        """Whether the scaler is switched off on this path, by a literal or by a flag that the path knows."""
        made = self._objects.made.get(scaler, [])
        return bool(made) and all(
            each.enabled is not None
            and (is_false(each.enabled) or self._conditions.truth(each.enabled, state) is False)
            for each in made
        )


def _joined(states: Iterable[State]) -> list[State]:
    joined = list(dict.fromkeys(states))
    if len(joined) > MAX_STATES:
        raise TooManyPathsError
    return joined


def flows(module: Module) -> list[Flow]:
    """Every function with events, and the module's own body, interpreted."""
    return module.once(_flows)


def _flows(module: Module) -> list[Flow]:
    recogniser = events(module)
    containers: list[ir.Function | ir.Program] = [module.program, *module.functions]
    return [Flow(module, each) for each in containers if any(True for _ in recogniser.below(each.body))]
