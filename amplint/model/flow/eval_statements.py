"""What flow analysis makes of statements: branches, regions, assignments; loops are in `eval_loops`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from amplint.model.calls.events import events, is_grad
from amplint.model.flow.deciding_names import deciding_names
from amplint.model.flow.effects import Arms
from amplint.model.flow.eval_expressions import Expressions, Following
from amplint.model.flow.eval_loops import Loops
from amplint.model.flow.gradient_reads import reads_of_statement
from amplint.model.flow.idle_statements import behind_idle, is_idle
from amplint.model.flow.last_uses import finished_by, lasting_locals
from amplint.model.flow.path_sets import (
    joined,
    knowing_only,
    without_complements,
    without_finished,
    without_idle_facts,
)
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.terms import ONE, ZERO, equal, path
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves, equality
from amplint.model.syntax.interpreter import Interpreter, Paths, Rounds

if TYPE_CHECKING:
    from amplint.model import Module

FEW_STATES = 12  # into an arm
FEW_APART = 10  # behind an if, where they differ in what is known of conditions only


class Statements(Interpreter[State]):
    """Takes states through the statements of one function, and of those that it calls."""

    def __init__(self, module: Module, following: Following, effort: int, several: bool) -> None:
        super().__init__()
        self._module = module
        self._following = following
        self._events = events(module)
        self._objects = objects(module)
        self._arms = module.once(Arms)
        self.expressions = self._expressions = Expressions(module, self.block, following, effort, several)
        self.loops = Loops(module, self._expressions)
        self._transfer = self._expressions.transfer
        self._regions = self._expressions.regions
        self._conditions = self._expressions.conditions

    # --- suites -----------------------------------------------------------------------------------------------------

    def goes_on(self, states: list[State]) -> bool:
        """Whether a statement is run in some states; it is counted."""
        if states:
            self._expressions.spend(states)
        return bool(states)

    def statement(self, statement: ir.Statement, states: list[State]) -> Paths[State]:
        """How a statement is left."""
        idle = is_idle(self._module, statement)
        return behind_idle(self._module, statement, states) if idle else super().statement(statement, states)

    def joined(self, states: list[State]) -> list[State]:
        """The states of paths that have met."""
        return joined(states)

    def behind_statement(self, statement: ir.Statement, states: list[State]) -> list[State]:
        """The states at the end of a statement: what a call in it has returned is of no more use."""
        found = joined(state.with_result(None) for state in states)
        if self._following is Following.ROUGHLY:
            return knowing_only(found, deciding_names(self._module, ir.function_of(statement) or self._module.program))
        keys = finished_by(self._module, statement)
        return without_finished(found, keys) if keys else found

    def rounds(self, loop: ir.For | ir.While, states: list[State]) -> list[Rounds[State]]:
        """The iterations of a loop."""
        return self.loops.rounds(loop, states)

    # --- assignments and other simple statements --------------------------------------------------------------------

    def simple(self, statement: ir.Statement, states: list[State]) -> list[State]:
        """The states after a statement without suites, or a definition."""
        if isinstance(statement, (ir.Function, ir.Class)):
            return states
        if isinstance(statement, ir.Assert):
            outcomes = (each for state in states for each in self._expressions.outcomes(statement.test, state))
            return [each.state for each in outcomes if each.holds]
        if isinstance(statement, ir.Assign):
            return self._assigned(statement, states)
        states = self._read(statement, states)
        if isinstance(statement, ir.AugAssign):
            return [each for state in states for each in self._increased(statement, state)]
        for value in statement.values():
            states = self._expressions.evaluate(value, states)
        if isinstance(statement, ir.Delete):
            for value in statement.targets:
                states = [self._expressions.assign(value, None, state) for state in states]
        return states

    def _read(self, statement: ir.Statement, states: list[State]) -> list[State]:
        """The states after the gradients that a statement reads."""
        for event in reads_of_statement(self._module, statement):
            states = [after for state in states if (after := self._transfer.apply(event, state)) is not None]
        return states

    def returned(self, statement: ir.Return, states: list[State]) -> list[State]:
        """The states in which a `return` leaves the function, with what it returns."""
        return [self._with_result(statement, state) for state in self.simple(statement, states)]

    def _with_result(self, statement: ir.Return, state: State) -> State:
        value = statement.value
        if value is None:
            return state.replace(result=(0, AbstractValue(ValueKind.TRUTH, flag=False)))
        held = self._expressions.abstract(value, state)
        if held is None or held.kind is ValueKind.TEST or isinstance(value, (ir.Constant, ir.Compare, ir.Unary)):
            truth = self._conditions.truth(value, state)  # what it depends on may be the function's own
            held = AbstractValue(ValueKind.TRUTH, flag=truth) if truth is not None else held
        return state.replace(result=(0, held) if held is not None else None)

    def _assigned(self, statement: ir.Assign, states: list[State]) -> list[State]:
        value = statement.value
        if isinstance(value, ir.Conditional):
            return self._choice(statement, value, states)
        if isinstance(value, ir.Bool) and self._is_asked(statement):
            return [each for state in states for each in self._flagged(statement, value, state)]
        states = self._read(statement, states)
        if value is None:
            return states
        return [each for state in states for each in self._store(statement, value, state)]

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
        key = self._objects.raw_variable(target.scope, target.name)
        return self._module.once(_is_in_conditions, target.name, key)

    def _flagged(self, statement: ir.Assign, value: ir.Bool, before: State) -> Iterator[State]:
        """`deferred = amp and not last`: the ways in which it comes out, kept apart."""
        for outcome in self._expressions.outcomes(value, before):
            for state in self._store(statement, value, outcome.state):
                yield state.with_fact(path(self._objects.own_key(statement.targets[0])), outcome.holds)  # type: ignore[arg-type]

    def _store(self, statement: ir.Assign, value: ir.Value, before: State) -> list[State]:
        if isinstance(value, ir.Call) and self._expressions.constructs(value, statement.targets):
            # What the constructor stores in it has to stay.
            return self._expressions.evaluate(value, [self._expressions.assign(statement.targets[0], None, before)])
        return [self._bound(statement, value, state) for state in self._expressions.evaluate(value, [before])]

    def _bound(self, statement: ir.Assign, value: ir.Value, state: State) -> State:
        """The targets of an assignment bound to what its value is."""
        made = [pair for target in statement.targets for pair in ir.pairs(target, value)]
        whole = len(made) == len(statement.targets)
        held = [self._expressions.held_by(statement.targets if whole else (one,), other, state) for one, other in made]
        learned = [self._conditions.learned(one, other, state) for one, other in made]
        for (target, source), its, fact in zip(made, held, learned, strict=True):
            if is_grad(target):
                state = self._stored(target, source, state)
            if not self._is_itself(target, source) and not self._is_lasting(target):
                state = self._expressions.assign(target, self._unlike(target, its), state)
            state = state.with_fact(*fact) if fact is not None else state
            state = self._transfer.made(target, source, state)
        return state

    def _is_lasting(self, target: ir.Value) -> bool:
        """Whether a target is a variable that is the same in each call: it keeps what is known of it."""
        function = ir.function_of(target) if isinstance(target, ir.Name) else None
        return function is not None and self._objects.own_key(target) in lasting_locals(self._module, function)

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
            return self._transfer.apply(Event("zero_grad", target, optimizer=min(roots)), state) or state
        return state.havoc_gradients()

    def _unlike(self, target: ir.Value, held: AbstractValue | None) -> AbstractValue | None:
        """What a target is bound to, unless that is itself: names with one binding share a key already."""
        if held is not None and held.kind is ValueKind.OBJECT:
            key = self._objects.own_key(target)
            return None if key == held.key else held
        return held

    def _increased(self, statement: ir.AugAssign, before: State) -> Iterator[State]:
        tensors = self._expressions.tensors
        for state in self._expressions.evaluate(statement.value, [before]):
            divides = is_grad(statement.target) and tensors.is_scale(statement.value, state)
            divided = state.havoc_gradients() if divides else state
            clip = tensors.by_hand(statement, divided)
            after = self._transfer.apply(clip, divided) if clip is not None else divided
            if after is not None:
                yield self._counted(statement, after)

    def _counted(self, statement: ir.AugAssign, state: State) -> State:
        """`n += 1`: what was known of n + 1 is known of n; a counter at 0 comes to 1; a multiple is none any more.

        And `n -= 1`: what was known of n is known of n + 1.
        """
        target = statement.target
        key = self._objects.own_key(target)
        by = self._objects.term(statement.value)
        bound = self._expressions.assign(target, None, state)
        sources = self._transfer.ownership.reach_of_all([target, statement.value], state)
        if key is not None and sources is not None and sources.roots:
            bound = bound.bind(key, sources)  # `loss += term`
        if key is None or by is None or statement.op not in ("Add", "Subtract"):
            return bound
        if statement.op == "Subtract":
            for fact, truth in state.known_of_difference(key, by):
                bound = bound.with_fact(fact, truth)
            return bound
        if by == ONE and state.known(equal(path(key), ZERO)):
            bound = bound.with_fact(equal(path(key), ONE), True)
        for fact in state.multiples(key) if by == ONE else ():
            bound = bound.with_fact(fact, False)
        for fact, truth in state.known_of_sum(key, by):
            bound = bound.with_fact(fact, truth)
        return bound

    # --- branches ---------------------------------------------------------------------------------------------------

    def arms(self, statement: ir.If, states: list[State]) -> tuple[list[State], list[State]]:
        """The states in which the test of an `if` holds, and those in which it doesn't."""
        arms = {True: statement.then, False: statement.orelse}
        unscales = self._unscaling(statement, arms)
        taken: dict[bool, list[State]] = {True: [], False: []}
        decides = self._arms.decides(statement)
        for before in states:
            self._expressions.guesses.entered(statement.test, before)
            for each in self._expressions.outcomes(statement.test, before):
                guessed = decides and not _breaks(arms[each.holds])
                outcome = self._expressions.guesses.taken(statement.test.id, each) if guessed else each
                # What is known of other conditions would only keep paths apart.
                after = outcome.state if decides else outcome.state.replace(facts=before.facts)
                hidden = outcome.by_flag and unscales[not outcome.holds] and not unscales[outcome.holds]
                taken[outcome.holds].append(self._transfer.switches.uncertain(after) if hidden else after)
        # An `and` fails in several ways; in a long chain of elifs they would multiply.
        then, other = (each if len(each) <= FEW_STATES else without_idle_facts(each) for each in taken.values())
        return then, other

    def _unscaling(self, statement: ir.If, arms: dict[bool, ir.Block | None]) -> dict[bool, bool]:
        """Which arms of an `if` could unscale gradients."""
        # Where an arm leaves, what stands behind the statement belongs to the other.
        leaving = {holds: arm is not None and block_leaves(arm) for holds, arm in arms.items()}
        behind = any(leaving.values()) and self._arms.unscales_behind(statement)
        return {holds: self._arms.unscales(arm) or (behind and not leaving[holds]) for holds, arm in arms.items()}

    def behind_arms(self, _statement: ir.If, states: list[State]) -> list[State]:
        """The states of the paths that have met behind an `if`."""
        apart = without_complements(states)
        return apart if len(apart) <= FEW_APART else without_idle_facts(apart)

    def subject(self, statement: ir.Match, states: list[State]) -> list[State]:
        """The states in which a `match` has evaluated its subject."""
        return self._expressions.evaluate(statement.subject, states)

    def case(self, case: ir.Case, statement: ir.Match, states: list[State]) -> tuple[list[State], list[State]]:
        """The states in which a case is the one, and those in which it isn't.

        A case with one value is a test for equality; what another compares can't be told.
        """
        missed: list[State] = []
        scope = (ir.function_of(statement) or self._module.program).scope
        for name in case.binds:
            states = [state.bind(self._objects.variable(scope, name), None) for state in states]
        if case.equals is not None:
            test = self._module.once(_equality, statement.subject, case.equals)
            states, missed = self._divided(test, states)
        elif not case.irrefutable:
            missed = list(states)
        if case.guard is not None:
            states, failed = self._divided(case.guard, states)
            missed += failed
        if self._unscales_somewhere(statement) and not self._arms.unscales(case.body):
            states = [self._transfer.switches.uncertain(state) for state in states]
        return states, missed

    def unmatched(self, statement: ir.Match, states: list[State]) -> list[State]:
        """The states behind a `match` of which no case was the one."""
        if not self._unscales_somewhere(statement):
            return states
        return [self._transfer.switches.uncertain(state) for state in states]

    def _divided(self, test: ir.Value, states: list[State]) -> tuple[list[State], list[State]]:
        """The states in which a test holds, and those in which it doesn't."""
        outcomes = [each for state in states for each in self._expressions.outcomes(test, state)]
        return [each.state for each in outcomes if each.holds], [each.state for each in outcomes if not each.holds]

    def _unscales_somewhere(self, statement: ir.Match) -> bool:
        return any(self._arms.unscales(case.body) for case in statement.cases)

    # --- regions and exceptions -------------------------------------------------------------------------------------

    def inside(
        self,
        item: ir.Item,
        statement: ir.With,
        states: list[State],
        run: Callable[[list[State]], Paths[State]],
    ) -> Paths[State]:
        """Enter a context, `run` what is in it, and leave it with the regions that were open before."""
        paths: Paths[State] = Paths()
        outside: dict[int, list[State]] = {}
        for state in states:
            outside.setdefault(len(state.regions), []).append(state)
        for depth, entering in outside.items():
            group = self._expressions.evaluate(item.context, entering)
            if self._events.external_calls.runs_by_entering(item.context):
                group = [state.havoc() for state in group]
            group = [each for state in group for each in self._decided(item.context, statement, state)]
            group = [self._regions.enter(item.context, state, self._conditions) for state in group]
            if item.target is not None:
                group = [self._expressions.assign(item.target, None, state) for state in group]
            inner = run(group)
            inner.replace(partial(_left_to, depth))
            paths.leave(inner)
            paths.normal += inner.normal
        return paths

    def _decided(self, context: ir.Value, statement: ir.With, state: State) -> list[State]:
        """The paths into a region, on and off apart where its flag changes inside."""
        flag = self._regions.flag(context)
        if flag is None or not set(self._objects.assigned_in(statement)) & self._objects.names_in(flag):
            return [state]
        return [each.state for each in self._expressions.outcomes(flag, state)]

    def interrupted(self, statement: ir.Try, states: list[State]) -> list[State]:
        """The states in which an exception leaves the suite of a `try`: it can come from anywhere in it.

        A suite without events leaves the scaler and the gradients as they are: `try: batch = next(batches)`.
        """
        assigned = self._objects.assigned_in(statement)
        if self._arms.has_events(statement.body):
            return [state.havoc().forget(assigned) for state in states]
        return [state.havoc_missing_gradients().forget(assigned) for state in states]


def _left_to(depth: int, state: State) -> State:
    """A state with so many of its regions open still."""
    return state.replace(regions=state.regions[:depth])


def _breaks(arm: ir.Block | None) -> bool:
    """Whether an arm ends a loop: that it may end there is no guess about what stands behind it."""
    last = arm.statements[-1] if arm is not None else None
    return isinstance(last, ir.Jump) and last.kind == "break"


def _is_in_conditions(module: Module, name: str, key: str) -> bool:
    """Whether conditions of the file read a variable, by its name and key."""
    read = (each for test in _tests(module, name) for each in ir.walk_values(test) if isinstance(each, ir.Name))
    return any(objects(module).raw_variable(each.scope, each.name) == key for each in read)


def _tests(module: Module, name: str) -> Iterator[ir.Value]:
    """The conditions round which a name is written."""
    near = module.whole.near(name)
    yield from (each.test for each in near.statements if isinstance(each, (ir.If, ir.While)))
    yield from (each.test for each in near.values if isinstance(each, ir.Conditional))


def _equality(_module: Module, subject: ir.Value, value: ir.Value) -> ir.Compare:
    # One for all paths: what is known of a test is known by its node.
    return equality(subject, value)
