"""Reader 1: runs a function's events through its branches and loops, along every path.

An abstract interpreter over the IR. What it yields are *visits*: each event with the states in which paths reach it.
Rules read these; nothing here knows a rule.

Where it can't see it goes silent: a call that may do anything leaves the gradients "unknown", a function with too
many paths yields no visits at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.compat import block_leaves
from amplint.model.conditions import Conditions
from amplint.model.events import Event, events
from amplint.model.objects import objects
from amplint.model.paths import Outcome, Paths, joined, without_idle_facts
from amplint.model.regions import Regions
from amplint.model.state import Abstract, Gradients, State
from amplint.model.tensors import Tensors
from amplint.model.transfer import TooManyPathsError, Transfer, Visit

if TYPE_CHECKING:
    from amplint.model import Module

MAX_ROUNDS = 6
FEW_STATES = 8


class Flow:
    """One function (or the module's own body) interpreted."""

    def __init__(self, module: Module, container: ir.Function | ir.Program) -> None:
        self.container = container
        self._events = events(module)
        self._objects = objects(module)
        self.conditions = self._conditions = Conditions(self._objects)
        self.regions = self._regions = Regions(module)
        self._tensors = Tensors(module)
        self._transfer = Transfer(module, self._conditions, self._tensors)
        self.disabled = self._transfer.disabled
        self.surely_enabled = self._transfer.surely_enabled
        start = State(regions=self._regions.decorators(container) if isinstance(container, ir.Function) else ())
        self._unscaling: dict[int, bool] = {}
        self._behind: dict[int, bool] = {}
        try:
            paths = self._block(container.body, [start])
        except TooManyPathsError:
            self._transfer.visits = {}
            return
        for state in (*paths.normal, *paths.exits):
            self._transfer.end(state)

    @property
    def visits(self) -> dict[int, Visit]:
        """The visits of the function's events, by the id of their calls."""
        return self._transfer.visits

    @cached_property
    def in_order(self) -> list[Visit]:
        """The visits in the order of the text."""
        return sorted(self.visits.values(), key=lambda visit: visit.event.call.id)

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
            inner = self._statement(statement, paths.normal)
            paths.leave(inner)
            paths.normal = joined(inner.normal)
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
            return self._loop(statement, states)
        if isinstance(statement, ir.With):
            return self._with(statement, states)
        if isinstance(statement, ir.Try):
            return self._try(statement, states)
        if isinstance(statement, ir.Match):
            return self._match(statement, states)
        if isinstance(statement, (ir.Function, ir.Class)):
            return Paths(normal=states)
        if isinstance(statement, ir.Assert):
            return Paths(
                normal=[each.state for s in states for each in self._outcomes(statement.test, s) if each.holds]
            )
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Conditional):
            return Paths(normal=self._choice(statement, statement.value, states))
        states = [self._simple(statement, state) for state in states]
        if isinstance(statement, (ir.Return, ir.Raise)):
            return Paths(exits=states)
        if isinstance(statement, ir.Jump) and statement.kind != "pass":
            return Paths(breaks=states) if statement.kind == "break" else Paths(continues=states)
        return Paths(normal=states)

    def _choice(self, statement: ir.Assign, value: ir.Conditional, states: list[State]) -> list[State]:
        """`scaler = GradScaler() if amp else None`: where it is there, the condition holds, and the other way round."""
        if not any(self._objects.key(target) in self._objects.scalers for target in statement.targets):
            return [self._store(statement, value, state) for state in states]
        return [
            self._store(statement, value.then if outcome.holds else value.other, outcome.state)
            for state in states
            for outcome in self._outcomes(value.test, state)
        ]

    def _store(self, statement: ir.Assign, value: ir.Value, state: State) -> State:
        state = self._evaluate(value, state)
        held = self._abstract(value, state)
        learned = [self._conditions.learned(target, value, state) for target in statement.targets]
        for target, fact in zip(statement.targets, learned, strict=True):
            state = self._assign(target, held, state)
            state = state.with_fact(*fact) if fact is not None else state
            state = self._transfer.made(target, value, state)
        return state

    def _simple(self, statement: ir.Statement, state: State) -> State:
        if isinstance(statement, ir.Assign):
            return self._store(statement, statement.value, state) if statement.value is not None else state
        if isinstance(statement, ir.AugAssign):
            state = self._evaluate(statement.value, state)
            scaled = self._tensors.by_hand(statement, state)
            if scaled is not None:
                state = self._transfer.visit(scaled, state)
            return self._assign(statement.target, None, state)
        for value in statement.values():
            state = self._evaluate(value, state)
        if isinstance(statement, ir.Delete):
            for value in statement.targets:
                state = self._assign(value, None, state)
        return state

    def _assign(self, target: ir.Value, held: Abstract | None, state: State) -> State:
        if isinstance(target, (ir.Sequence, ir.Starred)):
            for child in target.children():
                state = self._assign(child, None, state)
            return state
        key = self._objects.key(target) if isinstance(target, ir.Attribute) else None
        if isinstance(target, ir.Name):
            key = self._objects.own_key(target)
        return state.bind(key, held) if key is not None else state

    def _branch(self, statement: ir.If, states: list[State]) -> Paths:
        paths = Paths()
        arms = {True: statement.then, False: statement.orelse}
        # Where an arm leaves, what stands behind the statement belongs to the other.
        leaving = {holds: arm is not None and block_leaves(arm) for holds, arm in arms.items()}
        behind = any(leaving.values()) and self._unscales_behind(statement)
        unscales = {holds: self._unscales(arm) or (behind and not leaving[holds]) for holds, arm in arms.items()}
        taken: dict[bool, list[State]] = {True: [], False: []}
        for before in states:
            for outcome in self._outcomes(statement.test, before):
                hidden = outcome.by_flag and unscales[not outcome.holds] and not unscales[outcome.holds]
                taken[outcome.holds].append(_uncertain(outcome.state) if hidden else outcome.state)
        for holds, arm in arms.items():
            if taken[holds]:
                # An `and` fails in several ways; in a long chain of elifs they would multiply.
                few = len(taken[holds]) <= FEW_STATES
                self._then(arm, taken[holds] if few else without_idle_facts(taken[holds]), paths)
        paths.normal = without_idle_facts(paths.normal)
        return paths

    def _outcomes(self, test: ir.Value, state: State) -> Iterator[Outcome]:
        """The ways in which a test can come out on a path, `and` and `or` taken apart."""
        if isinstance(test, ir.Unary) and test.op == "Not":
            for each in self._outcomes(test.operand, state):
                yield each._replace(holds=not each.holds)
        elif isinstance(test, ir.Bool):
            for left in self._outcomes(test.left, state):
                if left.holds is (test.op == "or"):
                    yield left
                else:
                    for right in self._outcomes(test.right, left.state):
                        yield right._replace(by_flag=left.by_flag or right.by_flag)
        else:
            state = self._evaluate(test, state)
            truth = self._conditions.truth(test, state)
            by_flag = not isinstance(test, ir.Constant) and not self._conditions.counts(test)
            for holds in (True, False):
                if truth is None or truth is holds:
                    yield Outcome(self._conditions.assume(test, holds, state), holds, by_flag)

    def _unscales(self, arm: ir.Block | None) -> bool:
        """Whether a suite holds what could unscale gradients."""
        return arm is not None and any(self._may_unscale(each) for each in arm.statements)

    def _may_unscale(self, statement: ir.Statement) -> bool:
        if statement.id not in self._unscaling:
            self._unscaling[statement.id] = not isinstance(statement, (ir.Function, ir.Class)) and (
                any(event.kind in ("unscale_", "opaque") for event in self._events.in_statement(statement))
                or any(self._unscales(block) for block in statement.blocks())
            )
        return self._unscaling[statement.id]

    def _unscales_behind(self, statement: ir.Statement) -> bool:
        """Whether what runs behind a statement, up to the end of the loop or function, could unscale gradients."""
        if statement.id not in self._behind:
            owner = statement.block.owner
            inner = isinstance(owner, ir.Statement) and not isinstance(owner, (ir.Function, ir.Class, ir.For, ir.While))
            found = inner and isinstance(owner, ir.Statement) and self._unscales_behind(owner)
            for each in reversed(statement.block.statements):
                self._behind[each.id] = found
                found = found or self._may_unscale(each)
        return self._behind[statement.id]

    def _loop(self, loop: ir.For | ir.While, states: list[State]) -> Paths:
        """A loop until nothing new comes round; a for is taken to run at least once."""
        paths = Paths()
        # What is computed anew in each iteration would only keep paths apart; flags carry over.
        assigned = self._objects.assigned_in(loop, flags=False)
        done: list[State] = []
        if isinstance(loop, ir.For):
            states = [self._evaluate(loop.iter, state) for state in states]
        seen: set[State] = set()
        todo = [self._forget(state, assigned) for state in states]
        for _ in range(MAX_ROUNDS):
            if isinstance(loop, ir.While):
                outcomes = [each for state in todo for each in self._outcomes(loop.test, state)]
                done += [each.state.behind_loop(loop.id) for each in outcomes if not each.holds]
                todo = [each.state for each in outcomes if each.holds]
            todo = [state for state in joined(todo) if state not in seen]
            if not todo:
                break
            seen.update(todo)
            inner = self._block(loop.body, todo)
            paths.normal += inner.breaks
            paths.exits += inner.exits
            todo = [self._forget(state, assigned) for state in (*inner.normal, *inner.continues)]
            if isinstance(loop, ir.For):
                done += [state.behind_loop(loop.id) for state in todo]
            todo = [state.next_iteration(loop.id) for state in todo]
        self._then(loop.orelse, joined(done), paths)
        paths.normal = joined(paths.normal)
        return paths

    def _forget(self, state: State, keys: Iterable[str]) -> State:
        for key in keys:
            state = state.bind(key, None)
        return state

    def _with(self, statement: ir.With, states: list[State]) -> Paths:
        paths = Paths()
        outside: dict[int, list[State]] = {}
        for state in states:
            outside.setdefault(len(state.regions), []).append(state)
        for depth, entering in outside.items():
            group = entering
            for item in statement.items:
                group = [self._evaluate(item.context, state) for state in group]
                if self._events.unseen.runs_by_entering(item.context):
                    group = [state.unknown() for state in group]
                group = [each for state in group for each in self._decided(item.context, statement, state)]
                group = [self._regions.enter(item.context, state, self._conditions) for state in group]
                if item.target is not None:
                    group = [self._assign(item.target, None, state) for state in group]
            inner = self._block(statement.body, joined(group))
            for left in (inner.normal, inner.breaks, inner.continues, inner.exits):
                left[:] = [state.but(regions=state.regions[:depth]) for state in left]
            paths.leave(inner)
            paths.normal += inner.normal
        return paths

    def _decided(self, context: ir.Value, statement: ir.With, state: State) -> list[State]:
        """The paths into a region, on and off apart where its flag changes inside."""
        flag = self._regions.flag(context)
        if flag is None or not set(self._objects.assigned_in(statement)) & self._objects.names_in(flag):
            return [state]
        return [each.state for each in self._outcomes(flag, state)]

    def _try(self, statement: ir.Try, states: list[State]) -> Paths:
        paths = Paths()
        body = self._block(statement.body, states)
        paths.leave(body)
        self._then(statement.orelse, body.normal, paths)
        # An exception can come from anywhere in the body.
        assigned = self._objects.assigned_in(statement)
        caught = [self._forget(state.unknown(), assigned) for state in states]
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
        ):
            inner = self._block(statement.final, joined(left)) if left else Paths()
            after.leave(inner)
            goes_on.extend(inner.normal)
        return after

    def _match(self, statement: ir.Match, states: list[State]) -> Paths:
        """A case with one value is a test for equality; what another compares can't be told."""
        paths = Paths()
        states = [self._evaluate(statement.subject, state) for state in states]
        unscaling = [self._unscales(case.body) for case in statement.cases]
        for case, unscales in zip(statement.cases, unscaling, strict=True):
            missed: list[State] = []
            for name in case.binds:
                states = [state.bind(self._objects.variable(self.container.scope, name), None) for state in states]
            if case.equals is not None:
                test = _equality(statement.subject, case.equals)
                outcomes = [each for state in states for each in self._outcomes(test, state)]
                states = [each.state for each in outcomes if each.holds]
                missed = [each.state for each in outcomes if not each.holds]
            elif not case.irrefutable:
                missed = list(states)
            if case.guard is not None:
                outcomes = [each for state in states for each in self._outcomes(case.guard, state)]
                states = [each.state for each in outcomes if each.holds]
                missed += [each.state for each in outcomes if not each.holds]
            if any(unscaling) and not unscales:
                states = [_uncertain(state) for state in states]
            self._then(case.body, states, paths)
            states = joined(missed)
        paths.normal += [_uncertain(state) for state in states] if any(unscaling) else states
        return paths

    # --- expressions ------------------------------------------------------------------------------------------------

    def _evaluate(self, value: ir.Value, state: State) -> State:
        """The state after the events of an expression."""
        if isinstance(value, (ir.Conditional, ir.Bool)):
            return self._evaluate_choice(value, state)
        for child in value.children():
            state = self._evaluate(child, state)
        if isinstance(value, ir.Call):
            event: Event | None = self._events.of(value) or self._tensors.by_hand_call(value, state)
            state = self._regions.manual(value, state, self._conditions)
            return self._transfer.visit(event, state) if event is not None else state
        if isinstance(value, ir.Attribute) and self._events.unseen.runs_by_reading(value):
            return state.unknown()
        if isinstance(value, ir.Walrus):
            return self._assign(value.target, self._abstract(value.value, state), state)
        if isinstance(value, ir.Suspend) and value.kind != "await":
            return state.unknown()  # whoever takes what is yielded may do anything
        return state

    def _evaluate_choice(self, value: ir.Conditional | ir.Bool, state: State) -> State:
        """`a if test else b`, `a and b`: one arm, where the path knows which; else events in an arm hide the rest."""
        if isinstance(value, ir.Conditional):
            test, arms = value.test, {True: value.then, False: value.other}
        else:
            test, arms = value.left, {value.op == "and": value.right}
        state = self._evaluate(test, state)
        truth = self._conditions.truth(test, state)
        hidden = False
        for holds, arm in arms.items():
            if truth is None or truth is holds:
                after = self._evaluate(arm, self._conditions.assume(test, holds, state))
                if truth is not None:
                    return after
                hidden = hidden or (after.gradients, after.scalers) != (state.gradients, state.scalers)
        return state.unknown() if hidden else state

    def _abstract(self, value: ir.Value, state: State) -> Abstract | None:
        """What an assignment of `value` binds."""
        return (
            self._tensors.held(value, state)
            or self._regions.held(value, state)
            or self._conditions.as_test(value, state)
        )


def _uncertain(state: State) -> State:
    """The state where scaled gradients may never come: the condition may be AMP's own flag."""
    return state.but(gradients=Gradients("unknown")) if state.gradients.kind in ("scaled", "entry") else state


def _equality(subject: ir.Value, value: ir.Value) -> ir.Compare:
    op = "Is" if isinstance(value, ir.Constant) and (value.value is None or isinstance(value.value, bool)) else "Equal"
    return ir.Compare(value.id, value.node, value.parent, subject, (op,), (value,))


def flows(module: Module) -> list[Flow]:
    """Every function with events, and the module's own body, interpreted."""
    return module.once(_flows)


def _flows(module: Module) -> list[Flow]:
    recogniser = events(module)
    containers: list[ir.Function | ir.Program] = [module.program, *module.functions]
    return [Flow(module, each) for each in containers if any(True for _ in recogniser.below(each.body))]
