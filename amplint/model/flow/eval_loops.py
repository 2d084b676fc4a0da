"""How flow analysis runs loops: until nothing new comes round, or once for each of several optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events
from amplint.model.flow.containers import Containers, Round
from amplint.model.flow.eval_expressions import Expressions
from amplint.model.flow.path_sets import joined
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.inference.iterations import RANGES, SHOWN, is_repeated, runs_once
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import owner_of, self_id
from amplint.model.objects.terms import ONE, ZERO, equal, path
from amplint.model.syntax import ir
from amplint.model.syntax.interpreter import Rounds

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.objects.call_context import CallContext

MAX_ROUNDS = 6
# How a comparison of a loop's index with its last value comes out in the last iteration.
_AT_THE_LAST = {"Equal": True, "NotEqual": False, "LessThan": False, "GreaterThanEqual": True}


class _Numbers(NamedTuple):
    """What is known of a loop's numbers from one iteration to the next.

    `counter` is at 0 in the first one; `advancing` is one more in each, and asked for behind the loop; `neighbour`
    likewise, and multiples are asked for both of it and of the one behind it. `limits`: the tests that end the loop.
    `lasts`: the tests that ask for the last iteration, each with its truth there.
    `unknown_first`, `unknown_next`: what an iteration computes anew, before the first one and between two.
    """

    counter: str | None
    advancing: str | None
    neighbour: str | None
    limits: list[ir.Value]
    lasts: list[tuple[ir.Value, bool]]
    unknown_first: list[str]
    unknown_next: list[str]


class Loops:
    """Runs the loops of one function, and of those that it calls."""

    def __init__(self, module: Module, expressions: Expressions) -> None:
        self._module = module
        self._objects = objects(module)
        self._containers = module.once(Containers)
        self._events = events(module)
        self._expressions = expressions
        self._known_numbers: dict[tuple[int, CallContext, object], _Numbers] = {}
        self.counters: set[str] = set()  # variables of which it is known whether they are at 0

    def rounds(self, loop: ir.For | ir.While, states: list[State]) -> list[Rounds[State]]:
        """The iterations of a loop, until nothing new comes; a for is taken to run at least once."""
        drives = False
        if isinstance(loop, ir.For):
            states = self._expressions.evaluate(loop.iter, states)
            rounds = self._containers.rounds(loop.target, loop.iter, ir.values_below(loop.body))
            picks = rounds is not None and self._picks(loop)
            if rounds is not None and not picks:
                return self._over_objects(loop, rounds, states)
            drives = picks or self._drives(loop)
        if drives:
            states = [state.havoc() for state in states]
        again, once = is_repeated(self._module, loop), runs_once(self._module, loop)
        numbers = self._numbers(loop)
        return [_UntilNothingNew(loop, states, self._expressions, numbers, drives=drives, again=again, once=once)]

    def _over_objects(self, loop: ir.For, rounds: list[Round], states: list[State]) -> list[Rounds[State]]:
        """A loop over optimizers: apart for the states that differ in what they have seen before."""
        groups: dict[object, list[State]] = {}
        for state in states:
            groups.setdefault(state.last_transitions, []).append(state)
        shadowed = self._bound_again(loop)
        return [_OverObjects(loop, rounds, group, self._expressions, shadowed) for group in reversed(groups.values())]

    def _numbers(self, loop: ir.For | ir.While) -> _Numbers:
        """What is known of a loop's numbers from one iteration to the next."""
        question = loop.id, self._objects.call_context, self._objects.names_known
        if question not in self._known_numbers:
            self._known_numbers[question] = self._find_numbers(loop)
        return self._known_numbers[question]

    def _find_numbers(self, loop: ir.For | ir.While) -> _Numbers:
        # What is computed anew in each iteration would only keep paths apart; flags carry over.
        assigned = self._objects.assigned_in(loop, flags=False)
        asked = self._asked_numbers(loop)
        counter, advancing, counts = self._counter(loop, asked), self._index(loop, by_one=True), self._counts(loop)
        limits = self._limits(loop, {*counts, advancing})
        asked_behind = self._asked_behind(loop) if counts or advancing else set[str]()
        neighbours = self._module.once(_asks_for_neighbours)
        neighbour = advancing if neighbours else None
        advancing = advancing if advancing in asked_behind else None
        # Methods that a loop calls ask for what it counts in attributes: `self.step % k`, `(self.step + 1) % k`.
        attributes = {key for key in counts if neighbours and self_id(owner_of(key)) is not None}
        kept = {*(counts & asked_behind), *attributes, advancing, neighbour}
        return _Numbers(
            counter=counter,
            advancing=advancing,
            neighbour=neighbour,
            limits=limits,
            lasts=list(self._lasts(loop)),
            # What a count is before the loop it is in its first iteration.
            unknown_first=[key for key in assigned if key not in counts or key not in {*asked, *attributes}],
            unknown_next=[key for key in assigned if key not in kept],
        )

    def _counter(self, loop: ir.For | ir.While, asked: dict[str, set[object]]) -> str | None:
        """The variable that counts a loop's iterations from 0, if its conditions compare it with numbers."""
        source, target = (self._unwrapped(loop.iter), loop.target) if isinstance(loop, ir.For) else (None, None)
        if not isinstance(source, ir.Call) or source.unpacks():
            return None
        names, start = self._module.names.of(source.func), source.keyword("start")
        if names == {"builtins.enumerate"} and isinstance(target, ir.Sequence):
            target, start = target.items[0], start or next(iter(source.positional[1:]), None)
        elif names <= RANGES:
            start = source.positional[0] if len(source.positional) > 1 else None
        else:
            return None
        is_from_zero = start is None or (isinstance(start, ir.Constant) and start.value == 0)
        if not isinstance(target, ir.Name) or not is_from_zero:
            return None
        key = self._objects.own_key(target)
        if 0 in asked.get(key, ()):
            self.counters.add(key)
        return key if key in asked else None

    def _lasts(self, loop: ir.For | ir.While) -> Iterator[tuple[ir.Value, bool]]:
        """The tests in a loop of whether an iteration is the last, each with its truth there: `i == n - 1`,
        `i + 1 < len(batches)`, or a variable that only holds the result of one.
        """
        index = self._index(loop)
        if index is None:
            return
        assigned = set(self._objects.assigned_in(loop))
        for statement in ir.walk_statements(loop.body, into=False):
            for test in ir.walk_values(statement.test) if isinstance(statement, ir.If) else ():
                asked = self._objects.sources(test) if isinstance(test, ir.Name) else [test]
                truths = {self._at_the_last(each, index, assigned) for each in asked}
                if truths in ({True}, {False}):
                    yield test, True in truths

    def _unwrapped(self, source: ir.Value) -> ir.Value:
        """What a loop goes through, without tqdm around it."""
        if isinstance(source, ir.Call) and source.positional and self._module.names.of(source.func) <= SHOWN:
            return source.positional[0]
        return source

    def _index(self, loop: ir.For | ir.While, *, by_one: bool = False) -> str | None:
        """The variable that is another number in each iteration of a loop: of `enumerate`, or `range`.

        `by_one`: it is surely one more in each.
        """
        if not isinstance(loop, ir.For):
            return None
        source = loop.iter if by_one else self._unwrapped(loop.iter)
        if not isinstance(source, ir.Call):
            return None
        names, target = self._module.names.of(source.func), loop.target
        is_range = names == {"builtins.range"} and len(source.args) < 3 if by_one else bool(names) and names <= RANGES
        if names == {"builtins.enumerate"} and isinstance(target, ir.Sequence):
            target = target.items[0]
        elif not is_range:
            return None
        return self._objects.own_key(target) if isinstance(target, ir.Name) else None

    def _at_the_last(self, test: ir.Value, index: str, assigned: set[str]) -> bool | None:
        """The truth in the last iteration of a test that compares a loop's index with its end; None of another one."""
        if isinstance(test, ir.Unary) and test.op == "Not":
            inner = self._at_the_last(test.operand, index, assigned)
            return None if inner is None else not inner
        truth = _AT_THE_LAST.get(test.ops[0]) if isinstance(test, ir.Compare) and len(test.ops) == 1 else None
        if truth is None or not isinstance(test, ir.Compare):
            return None
        own, end = test.left, test.rights[0]
        keys = self._objects.names_in(end)
        if self._objects.names_in(own) != {index} or not keys or keys & assigned:
            return None
        ahead = isinstance(own, ir.Binary) and own.op == "Add" and isinstance(own.left, ir.Name)
        behind = isinstance(own, ir.Name) and any(_less_one(each) for each in ir.walk_values(end))
        return truth if ahead or behind else None

    def _counts(self, loop: ir.For | ir.While) -> set[str]:
        """The variables and attributes that a loop adds to."""
        targets = [
            each.target
            for each in ir.walk_statements(loop.body, into=False)
            if isinstance(each, ir.AugAssign) and each.op == "Add"
        ]
        keys = (self._objects.own_key(each) for each in targets)
        return {key for key in keys if key is not None}

    def _asked_behind(self, loop: ir.For | ir.While) -> set[str]:
        """What the conditions ask for that stand behind a loop."""
        function = ir.function_of(loop)
        body = function.body if function is not None else self._module.program.body
        inside = {each.id for each in ir.walk_statements(loop.body, into=False)}
        tests = (
            each.test
            for each in ir.walk_statements(body, into=False)
            if isinstance(each, (ir.If, ir.While)) and each.id > loop.id and each.id not in inside
        )
        return {key for test in tests for key in self._asked_for(test)}

    def _asked_for(self, value: ir.Value, depth: int = 2) -> set[str]:
        """What a value is made of, and what is assigned to the variables in it."""
        names = [each for each in ir.walk_values(value) if isinstance(each, ir.Name)] if depth else []
        sources = (source for name in names for source in self._objects.sources(name))
        return self._objects.names_in(value).union(*(self._asked_for(each, depth - 1) for each in sources))

    def _limits(self, loop: ir.For | ir.While, counters: set[str | None]) -> list[ir.Value]:
        """The tests by which a loop ends before it does anything, once it has counted far enough."""
        found: list[ir.Value] = []
        for statement in loop.body.statements if isinstance(loop, ir.For) else ():
            if isinstance(statement, ir.If):
                last = statement.then.statements[-1]
                ends = isinstance(last, ir.Jump) and last.kind == "break" and statement.orelse is None
                if not ends or not isinstance(statement.test, ir.Compare):
                    break
                if counters.intersection(self._objects.assigned_in(statement)):
                    break  # it is set back
                if self._objects.names_in(statement.test) & counters:
                    found.append(statement.test)
            elif any(True for _ in statement.blocks()) or any(True for _ in self._events.in_statement(statement)):
                break
        return found

    def _asked_numbers(self, loop: ir.For | ir.While) -> dict[str, set[object]]:
        """The variables that conditions in a loop compare with numbers, with these: `i == 0`, `(i + 1) % 4 == 0`."""
        found: dict[str, set[object]] = {}
        for statement in ir.walk_statements(loop.body, into=False):
            for test in ir.walk_values(statement.test) if isinstance(statement, ir.If) else ():
                if isinstance(test, ir.Compare) and len(test.rights) == 1 and isinstance(test.rights[0], ir.Constant):
                    for name in _counting(test.left):
                        found.setdefault(self._objects.own_key(name), set()).add(test.rights[0].value)
        return found

    def _drives(self, loop: ir.For) -> bool:
        """Whether each round of a loop runs a generator of this file that has events, or stores what the loop asks
        for.
        """
        calls = (each for each in ir.walk_values(loop.iter) if isinstance(each, ir.Call))
        found = (self._expressions.calls.find(call) for call in calls)
        return any(
            callee is not None
            and callee.function.is_generator
            and self._expressions.calls.matters(callee)
            and self._is_driven_by(loop, callee.function)
            for callee in found
        )

    def _is_driven_by(self, loop: ir.For, generator: ir.Function) -> bool:
        """Whether what a generator does matters to a loop over it: more than to store what it doesn't ask for."""
        stored = self._expressions.calls.only_stores(generator)
        if not stored:
            return stored is None
        reached = self._expressions.calls.reached(loop.body)
        called = (each.body for number in reached if (each := self._module.function(number)) is not None)
        return any(
            isinstance(value, ir.Attribute) and value.attr in stored
            for block in (loop.body, *called)
            for each in ir.walk_statements(block, into=False)
            if isinstance(each, (ir.If, ir.While, ir.Return))
            for root in each.values()
            for value in ir.walk_values(root)
        )

    def _picks(self, loop: ir.For) -> bool:
        """Whether a loop asks which of its objects it is at: then not every round does the same."""
        own = {self._objects.own_key(each) for each in ir.walk_values(loop.target) if isinstance(each, ir.Name)}
        tests = [each.test for each in ir.walk_statements(loop.body, into=False) if isinstance(each, ir.If)]
        return any(
            isinstance(each, ir.Name) and self._objects.own_key(each) in own
            for t in tests
            for each in ir.walk_values(t)
        )

    def _bound_again(self, loop: ir.For) -> set[str]:
        """The variables that loops inside of a loop bind."""
        inside = [each for each in ir.walk_statements(loop.body, into=False) if isinstance(each, ir.For)]
        names = (name for each in inside for name in ir.walk_values(each.target) if isinstance(name, ir.Name))
        return {self._objects.raw_variable(name.scope, name.name) for name in names}


class _UntilNothingNew(Rounds[State]):
    """The iterations of a loop until they lead to no state that none has started in.

    `drives`: an iteration runs code that can't be followed. `again`: a loop around repeats it. `once`: it runs once.
    """

    def __init__(
        self,
        loop: ir.For | ir.While,
        states: list[State],
        expressions: Expressions,
        numbers: _Numbers,
        *,
        drives: bool,
        again: bool,
        once: bool,
    ) -> None:
        self._loop = loop
        self._expressions = expressions
        self._numbers = numbers
        self._drives = drives
        self._again = again
        self._once = once
        self._most = 1 if once else MAX_ROUNDS
        self._started = 0  # so many iterations
        self._todo = self._first(states)
        self._seen: set[State] = set()
        self._done: list[State] = []
        self._held_back: list[State] = []
        self._unfinished: list[State] = []  # at the end of iterations that are not the last
        self._has_last = False

    def _first(self, states: list[State]) -> list[State]:
        """The states in which the first iteration starts: the loop's limits let it through."""
        numbers = self._numbers
        states = [_at(state.forget(numbers.unknown_first), numbers.counter, first=True) for state in states]
        for limit in numbers.limits:
            states = [self._expressions.conditions.assume(limit, False, state) for state in states]
        return states

    def start(self) -> list[State]:
        """The states in which the next iteration starts, of those in which none has."""
        if self._started == self._most:
            return []
        self._started += 1
        if isinstance(self._loop, ir.While):
            self._test(self._loop)
        if any(state in self._seen for state in self._todo):  # another round changes nothing
            self._done += self._held_back
        starting = [state for state in joined(self._todo) if state not in self._seen]
        self._seen.update(starting)
        return starting

    def _test(self, loop: ir.While) -> None:
        """Take the states in which the loop's test ends it to those behind it."""
        outcomes = [each for state in self._todo for each in self._expressions.outcomes(loop.test, state)]
        self._done += [each.state.behind_loop(loop.id) for each in outcomes if not each.holds]
        self._todo = [each.state for each in outcomes if each.holds]

    def end(self, states: list[State]) -> None:
        """Take the states at the end of an iteration: behind a for, what the last one has bound is still so."""
        loop, numbers = self._loop, self._numbers
        last = [self._is_last(state) for state in states]
        self._has_last = self._has_last or True in last
        if isinstance(loop, ir.For):
            ends = [_advanced(state, numbers.advancing) for state in states] if numbers.limits else states
            behind = [state.havoc() if self._drives else state.behind_loop(loop.id) for state in ends]
            ended = [state for state, is_last in zip(behind, last, strict=True) if is_last is not False]
            (self._held_back if self._again and self._started == 1 else self._done).extend(ended)
            self._unfinished += [state for state, is_last in zip(behind, last, strict=True) if is_last is False]
        self._todo = [self._next(state) for state, is_last in zip(states, last, strict=True) if is_last is not True]

    def _is_last(self, state: State) -> bool | None:
        """Whether a path was in the last iteration, by the tests for that; None where none was asked."""
        came_out = [(self._expressions.conditions.came_out(test, state), last) for test, last in self._numbers.lasts]
        said = {truth is last for truth, last in came_out if truth is not None}
        return True if True in said else False if False in said else None

    def _next(self, state: State) -> State:
        """The state in which the next iteration starts."""
        numbers = self._numbers
        state = _advanced(state, numbers.advancing or numbers.neighbour)
        state = _at(state.forget(numbers.unknown_next).next_iteration(self._loop.id), numbers.counter, first=False)
        return state.havoc() if self._drives else state

    def behind(self) -> list[State]:
        """The states in which the loop has ended; of a `while` that runs once, also those at its end."""
        once = self._once and isinstance(self._loop, ir.While)
        if not self._has_last:
            self._done += self._unfinished
        return joined([*self._done, *(state.behind_loop(self._loop.id) for state in (self._todo if once else ()))])


class _OverObjects(Rounds[State]):
    """The iterations of a loop over optimizers: one after the other, the loop's variables being those objects."""

    def __init__(
        self, loop: ir.For, rounds: list[Round], states: list[State], expressions: Expressions, shadowed: set[str]
    ) -> None:
        self._loop = loop
        self._todo = iter(rounds)
        self._states = states
        self._before = states[0].last_transitions
        self._expressions = expressions
        self._shadowed = shadowed  # the variables that loops inside of it bind
        self._round = Round({}, {})

    def start(self) -> list[State]:
        """The states in which the iteration of the next object starts."""
        names = next(self._todo, None)
        if names is None:
            return []
        states = [state.forget(names.others) for state in self._states]
        for own in self._shadowed & names.keys.keys():  # a loop inside gives the name to others
            states = [state.bind(own, AbstractValue(ValueKind.OBJECT, names.keys[own])) for state in states]
        self._round = names.only(names.keys.keys() - self._shadowed)
        return states

    def inside(self) -> AbstractContextManager[None]:
        """The loop's variables are the objects of the iteration."""
        return self._expressions.within_round(self._round)

    def end(self, states: list[State]) -> None:
        """Take the states at the end of an iteration: behind it, the variables are still those objects."""
        for own, key in self._round.keys.items():
            states = [state.bind(own, AbstractValue(ValueKind.OBJECT, key)) for state in states]
        self._states = joined(state.next_iteration(self._loop.id, self._before) for state in states)

    def behind(self) -> list[State]:
        """The states behind the last object's iteration."""
        return [state.behind_loop(self._loop.id) for state in self._states]


def _less_one(value: ir.Value) -> bool:
    """Whether a value is `n - 1`."""
    right = value.right if isinstance(value, ir.Binary) and value.op == "Subtract" else None
    return isinstance(right, ir.Constant) and right.value == 1


def _asks_for_neighbours(module: Module) -> bool:
    """Whether a file asks for multiples both of a number and of the one behind it: `i % k`, `(i + 1) % k`."""
    asked = {
        isinstance(each.left, ir.Binary)
        for test in (each.test for each in module.whole.near("%").statements if isinstance(each, ir.If))
        for each in ir.walk_values(test)
        if isinstance(each, ir.Binary) and each.op == "Modulo"
    }
    return len(asked) == 2


def _at(state: State, counter: str | None, first: bool) -> State:
    """A state at the first iteration of a loop, or at a later one."""
    return state.with_fact(equal(path(counter), ZERO), first) if counter is not None else state


def _advanced(state: State, counter: str | None) -> State:
    """A state where a loop's variable has become one more: what was known of that number is known of it."""
    if counter is None:
        return state
    known = state.known_of_sum(counter, ONE)
    state = state.forget((counter,))
    for fact, truth in known:
        state = state.with_fact(fact, truth)
    return state


def _counting(value: ir.Value) -> Iterator[ir.Name]:
    """The variable in a number that is made of it and of literals."""
    if isinstance(value, ir.Name):
        yield value
    elif isinstance(value, ir.Binary) and isinstance(value.right, ir.Constant):
        yield from _counting(value.left)
