"""How flow analysis evaluates expressions: the events in them, the choices, and the calls that are followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from amplint.base.interruption import go_on
from amplint.base.patience import of_file
from amplint.model.calls.call_graph import CallGraph, Given, only_hands_on
from amplint.model.calls.cuda_graphs import Graphs
from amplint.model.calls.events import events
from amplint.model.calls.predicates import Predicates
from amplint.model.calls.relevant_variables import is_asked, makes_loss
from amplint.model.flow.containers import Containers, Round
from amplint.model.flow.effects import Effects
from amplint.model.flow.event_states import TooLongError, TooManyPathsError
from amplint.model.flow.gradient_reads import read_of
from amplint.model.flow.gradients import GradientKind, Gradients
from amplint.model.flow.guessed_branches import Guesses
from amplint.model.flow.last_uses import lasting_locals
from amplint.model.flow.open_regions import Regions, region_held
from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.path_sets import Outcome, joined, without_idle_variables
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.flow.tensors import Tensors, may_divide
from amplint.model.flow.transfer import Transfer
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext, Callee
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import attribute_of, own_self
from amplint.model.objects.terms import Fact, Op, Term, equal, literal, path, present
from amplint.model.syntax import ir
from amplint.model.syntax.interpreter import Paths

if TYPE_CHECKING:
    from amplint.model import Module

MAX_WORK = 30_000
MAX_DEPTH = 24
_ONE_OF = 20  # what a function is worth for each that it calls and that has no scaler
_UNTIMED = 64  # work between two looks at the clock


class Following(Enum):
    """Which calls are followed, of those whose functions are certain."""

    EVERYTHING = "everything"
    SCALERS = "scalers"  # what does something to a scaler, or clips
    NOTHING = "nothing"
    ROUGHLY = "roughly"  # none, and of a path only what decides how it trains is known


class Expressions:
    """Takes states through the expressions of one function, and of those that it calls."""

    def __init__(
        self,
        module: Module,
        run: Callable[[ir.Block, list[State]], Paths[State]],
        following: Following,
        effort: int,
        several: bool,
    ) -> None:
        self._module = module
        self._following = following
        self._spent: Counter[int] = Counter()  # the work in functions, by their ids
        self.work_in_calls = 0
        self._effort = effort  # what the function is worth
        self._run = run
        self._events = events(module)
        self._objects = objects(module)
        self.calls = module.once(CallGraph)
        self.conditions = Conditions(module)
        self.predicates = module.once(Predicates)
        self.guesses = Guesses(module)
        self.regions = Regions(module)
        self.tensors = Tensors(module, self.conditions)
        self.transfer = Transfer(module, self.conditions, self.tensors, several)
        self._containers = module.once(Containers)
        self._effects = module.once(Effects)
        self._graphs = module.once(Graphs)
        self._active: list[ir.Function] = []
        self._handed: dict[int, Given] = {}  # what those are given
        self.followed: dict[int, list[ir.Call]] = {}  # the functions, by their ids, that calls have run
        self.work = self._timed = 0

    def spend(self, states: list[State]) -> None:
        """Count what was done.

        Raises:
            TooManyPathsError: it is more than the function is worth.
            TooLongError: it takes too long.
        """
        go_on()
        self.work += len(states)
        if self.work > self._effort:
            raise TooManyPathsError
        if self.work - self._timed >= _UNTIMED:
            self._timed = self.work
            if (time := of_file()) is not None and time.ends():
                raise TooLongError

    # --- evaluation -------------------------------------------------------------------------------------------------

    def evaluate(self, value: ir.Value, states: list[State]) -> list[State]:
        """The states after an expression; those on which it raises are left out."""
        if not states or not self._effects.has_effects(value) or self._is_quiet(value):
            return states
        if isinstance(value, ir.Conditional):
            return self._arms(value.test, {True: value.then, False: value.other}, states)
        if isinstance(value, ir.Bool):
            return self._arms(value.left, {value.op == "and": value.right}, states)
        if isinstance(value, ir.Comprehension):
            return self._comprehension(value, states)
        for child in self._effects.operands(value):
            states = self.evaluate(child, states)
        return self._call(value, states) if isinstance(value, ir.Call) else self._after_operands(value, states)

    def _after_operands(self, value: ir.Value, states: list[State]) -> list[State]:
        """The states after what an expression that is not a call does itself, once its operands are evaluated."""
        if isinstance(value, ir.Compare) and (event := read_of(self._module, value)) is not None:
            return [after for state in states if (after := self.transfer.apply(event, state)) is not None]
        if isinstance(value, ir.Attribute) and self._events.external_calls.runs_by_reading(value):
            return [state.havoc() for state in states]
        if isinstance(value, ir.Walrus):
            return [self.assign(value.target, self.abstract(value.value, state), state) for state in states]
        if isinstance(value, ir.Suspend) and value.kind != "await":
            return [state.havoc() for state in states]  # whoever takes what is yielded may do anything
        return states

    def _arms(self, test: ir.Value, arms: dict[bool, ir.Value], states: list[State]) -> list[State]:
        """`a if test else b`, `a and b`: the arm that the path takes."""
        found: list[State] = []
        unscales = {holds: self._unscales(arm) for holds, arm in arms.items()}
        for state in states:
            outcomes = list(self.outcomes(test, state))
            if not any(map(self._effects.has_effects, arms.values())):
                # Whichever it is, the same comes of it.
                found += [outcomes[0].state] if len(outcomes) == 1 else self.evaluate(test, [state])
                continue
            self.guesses.entered(test, state)
            for each in (self.guesses.taken(test.id, outcome) for outcome in outcomes):
                hides = each.by_flag and unscales.get(not each.holds) and not unscales.get(each.holds)
                after = self.transfer.switches.uncertain(each.state) if hides else each.state
                found += self.evaluate(arms[each.holds], [after]) if each.holds in arms else [after]
        return joined(found)

    def _unscales(self, arm: ir.Value) -> bool:
        calls = (self._events.of(each) for each in ir.walk_values(arm) if isinstance(each, ir.Call))
        return any(event is not None and event.kind in ("unscale_", "opaque") for event in calls)

    def _comprehension(self, value: ir.Comprehension, states: list[State]) -> list[State]:
        first = value.clauses[0]
        body = (each for element in value.elements for each in ir.walk_values(element))
        rounds = self._containers.rounds(first.target, first.iter, body) if len(value.clauses) == 1 else None
        if rounds is None:
            for child in value.children():
                states = self.evaluate(child, states)
            return states
        states = self.evaluate(first.iter, states)
        for each in rounds:
            with self.within_round(each):
                for element in value.elements:
                    states = self.evaluate(element, states)
        return states

    def outcomes(self, test: ir.Value, state: State) -> Iterator[Outcome]:
        """The ways in which a test can come out on a path, `and` and `or` taken apart."""
        if isinstance(test, ir.Unary) and test.op == "Not":
            for each in self.outcomes(test.operand, state):
                yield each._replace(holds=not each.holds)
            return
        # How it came out as a whole outlives what is known of its parts, where paths are joined.
        whole = self._as_a_whole(test)
        known = state.known(whole) if whole is not None else None
        if known is not None:
            yield Outcome(state, known, self.conditions.may_ask_for_amp(test))
            return
        for each in self._taken_apart(test, state):
            yield each if whole is None else each._replace(state=each.state.with_fact(whole, each.holds))

    def _as_a_whole(self, test: ir.Value) -> Term | None:
        """The condition of a test of several parts that its function asks for more than once."""
        asks = isinstance(test, (ir.Call, ir.Attribute)) and self.predicates.find(test) is not None
        if not (asks or isinstance(test, ir.Bool)) or not self.predicates.is_asked_again(test):
            return None
        if any(self._does_something(each) for each in ir.walk_values(test)):
            return None
        term = self._objects.term(test)
        return Term(Op.CALL, str(term)) if term is not None and isinstance(test, ir.Attribute) else term

    def _does_something(self, value: ir.Value) -> bool:
        if isinstance(value, ir.Call):
            return self._events.of(value) is not None
        return isinstance(value, (ir.Walrus, ir.Suspend))

    def _taken_apart(self, test: ir.Value, state: State) -> Iterator[Outcome]:
        if isinstance(test, ir.Bool):
            yield from self._by_sides(test, state)
        elif (found := self._predicate(test, state)) is not None:
            function, call_context, bound = found
            with self.within(call_context, function):
                outcomes = list(self._decisions(function.body.statements, bound))
            own = self._objects.prefix(function.scope)
            yield from (each._replace(state=each.state.without(own)) for each in outcomes)
        else:
            by_flag = self.conditions.may_ask_for_amp(test)
            raises = self.conditions.divides_by_zero(test, state)
            for after in self.evaluate(test, [state]) if not raises else ():
                truth = self.conditions.truth(test, after)
                guessed = truth is None and self.guesses.may_guess(test)
                for holds in (True, False):
                    if truth is None or truth is holds:
                        yield Outcome(self.conditions.assume(test, holds, after), holds, by_flag, guessed)

    def _by_sides(self, test: ir.Bool, state: State) -> Iterator[Outcome]:
        """The ways in which `and` or `or` can come out: by the left side alone, or by both."""
        for left in self.outcomes(test.left, state):
            if left.holds is (test.op == "or"):
                yield left
                continue
            for right in self.outcomes(test.right, left.state):
                # What the right side decides by itself it would whatever the left one is.
                guessed = right.guessed or (left.guessed and right.holds is left.holds)
                yield right._replace(by_flag=left.by_flag or right.by_flag, guessed=guessed)

    def _predicate(self, test: ir.Value, state: State) -> tuple[ir.Function, CallContext, State] | None:
        """The function of this file that only decides how a test comes out, its context, and the state at its head."""
        callee = self.predicates.find(test) if self._follows else None
        if callee is None or callee.function in self._active:
            return None
        arguments = self.calls.arguments(test, callee) if isinstance(test, ir.Call) else {}
        if arguments is None or any(value is None for value in arguments.values()):
            return None
        written = {name: term for name, value in arguments.items() if value and (term := self._written(value))}
        others = {name: value for name, value in arguments.items() if name not in written}
        aliases, bound = self._bound(callee.function, others, state)
        own = callee.function.scope
        values = {self._objects.raw_variable(own, name): term for name, term in written.items()}
        return callee.function, self._call_context(callee, aliases, values), bound

    def _written(self, value: ir.Value) -> Term | None:
        """A number, or what is computed, as a condition has it that asks for it."""
        named = isinstance(value, (ir.Name, ir.Attribute, ir.Subscript))
        literal = isinstance(value, ir.Constant) and type(value.value) is not int
        return self._objects.term(value) if not named and not literal else None

    def _decisions(self, statements: list[ir.Statement], state: State) -> Iterator[Outcome]:
        """The ways in which a function comes out that only decides."""
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            if isinstance(statement, ir.Return):
                if statement.value is not None:
                    yield from self.outcomes(statement.value, state)
                    return
                break
            if isinstance(statement, ir.If):
                for each in self.outcomes(statement.test, state):
                    arm = statement.then if each.holds else statement.orelse
                    for after in self._decisions([*(arm.statements if arm is not None else ()), *rest], each.state):
                        by_flag, guessed = each.by_flag or after.by_flag, each.guessed or after.guessed
                        yield after._replace(by_flag=by_flag, guessed=guessed)
                return
            if isinstance(statement, ir.Assign):
                block = ir.Block(statement.block.owner, statement.block.role, [statement])
                for bound in self._run(block, [state]).normal:
                    yield from self._decisions(rest, bound)
                return
        yield Outcome(state, holds=False, by_flag=False)

    # --- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: ir.Call, states: list[State]) -> list[State]:
        measure = read_of(self._module, call)
        callee = self.calls.callee(call) if measure is None else None
        if measure is None and self._is_quiet_call(call):
            return states
        if callee is not None and self._is_followed(callee.function):
            given = self.calls.given(call, callee, self._handed)
            if given is not None and (not given.positional or only_hands_on(callee.function)):
                return self._cleared(call, callee, self._follow(call, callee, given, states))
        if self._graphs.is_replay(call):
            return joined(self._replayed(call, state) for state in states)
        found = [after for state in states if (after := self._after_call(call, measure, state)) is not None]
        return joined(found) if len(found) > 1 else found

    @property
    def _follows(self) -> bool:
        """Whether calls are followed at this depth."""
        return self._following in (Following.EVERYTHING, Following.SCALERS) and len(self._active) <= MAX_DEPTH

    def _is_followed(self, function: ir.Function) -> bool:
        if not self._follows or function in self._active:
            return False
        worth = self._following is Following.EVERYTHING and self._spent[function.id] <= self._effort // _ONE_OF
        return worth or self.calls.scales(function)

    def _cleared(self, call: ir.Call, callee: Callee, states: list[State]) -> list[State]:
        """The states after a method: where a scaler steps its object, clearing what that holds clears it, too."""
        event = self._events.of(call)
        if event is None or event.kind != "zero_grad" or not self._objects.is_optimizers(event.optimizer or ""):
            return states
        if not any(each.kind == "zero_grad" for each in self._events.below(callee.function.body)):
            return states
        return joined(after for state in states if (after := self.transfer.apply(event, state)) is not None)

    def _after_call(self, call: ir.Call, measure: Event | None, state: State) -> State | None:
        """The state after a call that isn't followed; None where it raises."""
        if self.conditions.reads_none(call, state):
            return None
        event = self._events.of(call) or self.tensors.by_hand_call(call, state) or measure
        after = self.regions.manual(call, state, self.conditions)
        if self.tensors.divides(call, after):
            after = after.havoc_gradients()
        if event is not None:
            return self.transfer.apply(event, after)
        return after if self._events.external_calls.is_harmless(call) else after.havoc_missing_gradients()

    def _replayed(self, call: ir.Call, state: State) -> State:
        """The state after a CUDA graph was replayed: its backwards write the gradients anew, at the present scale."""
        backwards = self._graphs.replayed(call)
        if backwards is None:
            return state.havoc_gradients()
        after: State | None = state.all_gradients(lambda _, held: Gradients(GradientKind.NONE, reported=held.reported))
        for event in backwards:
            after = self.transfer.apply(event, after) if after is not None else None
        return after if backwards and after is not None else state.havoc_gradients()

    def _is_quiet(self, value: ir.Value) -> bool:
        """Whether an expression leaves every state as it is, whatever it calls."""
        known = self._objects.recognised.quiet
        if value.id not in known:
            known[value.id] = (
                not isinstance(value, (ir.Conditional, ir.Bool, ir.Comprehension, ir.Walrus, ir.Suspend))
                and all(map(self._is_quiet, self._effects.operands(value)))
                and read_of(self._module, value) is None
                and not (isinstance(value, ir.Attribute) and self._events.external_calls.runs_by_reading(value))
                and (not isinstance(value, ir.Call) or self._is_quiet_call(value))
            )
        return known[value.id]

    def _is_quiet_call(self, call: ir.Call) -> bool:
        return self.calls.callee(call) is None and (self._is_inert(call) or self.calls.is_idle(call))

    def _is_inert(self, call: ir.Call) -> bool:
        """Whether a call that isn't followed, and measures nothing, leaves every state as it is."""
        known = self._objects.recognised.inert
        if call.id not in known:
            known[call.id] = (
                self._events.of(call) is None
                and not self.regions.may_be_manual(call)
                and not may_divide(call)
                and self._events.external_calls.is_harmless(call)
            )
        return known[call.id]

    def constructs(self, call: ir.Call, targets: tuple[ir.Value, ...]) -> bool:
        """Whether a call makes an object of this file's classes, whose constructor is followed, and keeps it there."""
        callee = self.calls.callee(call)
        if callee is None or callee.function.name != "__init__" or len(targets) != 1:
            return False
        return callee.instance == self._objects.key(targets[0])

    def _follow(self, call: ir.Call, callee: Callee, given: Given, states: list[State]) -> list[State]:
        """Run the callee's body, with the caller's objects in the place of its parameters."""
        function, known = callee.function, self._objects
        sites = self.followed.setdefault(function.id, [])
        if call not in sites:
            sites.append(call)
        found: list[State] = []
        groups: dict[tuple[tuple[str, str], ...], list[State]] = {}
        for state in states:
            aliases, bound = self._bound(function, given.named, state)
            aliases, bound = self._closed_over(callee, aliases, bound)
            bound = self._kept(callee, aliases, bound)
            groups.setdefault(tuple(sorted(aliases.items())), []).append(bound)
        before, self.transfer.site = self.transfer.site, call.id
        work = self.work
        self._handed[function.id] = given
        try:
            for aliases_of_group, group in groups.items():
                with self.within(self._call_context(callee, dict(aliases_of_group)), function):
                    found += self._body(function, group)
        finally:
            self._spent[function.id] += self.work - work
            self.work_in_calls += self.work - work if len(self._active) <= 1 else 0
        self.transfer.site = before
        del self._handed[function.id]  # a function that is being run isn't followed into itself
        lasting = lasting_locals(self._module, function)
        done = [state.without(known.prefix(function.scope), lasting) for state in found]
        if callee.maker is not None:
            done = [state.without(known.prefix(callee.maker.function.scope)) for state in done]
        done = joined(
            state.with_result((call.id, state.result[1])) if state.result is not None else state for state in done
        )
        if len(done) > len(states) and not self.calls.scales(function):
            return without_idle_variables(done)  # in what it asks for itself, its paths need not be kept apart
        return done

    def _closed_over(self, callee: Callee, aliases: dict[str, str], state: State) -> tuple[dict[str, str], State]:
        """What the parameters of the function stand for that made the callee."""
        if callee.maker is None or callee.made is None:
            return aliases, state
        arguments = self.calls.arguments(callee.made, callee.maker)
        outer, state = self._bound(callee.maker.function, arguments or {}, state)
        return {**outer, **aliases}, state

    def _call_context(
        self, callee: Callee, aliases: dict[str, str], values: Mapping[str, Term] | None = None
    ) -> CallContext:
        """The call context of a call: `self` is the instance, in the class that has the method and in its own."""
        classes: dict[str, ir.Class] = {}
        if callee.instance is not None and callee.cls is not None:
            for cls in (callee.cls, callee.function.cls or callee.cls):
                aliases[own_self(cls)] = callee.instance
                classes[own_self(cls)] = callee.cls
            classes[callee.instance] = callee.cls
        return self._objects.call_context.inner(aliases, classes, values)

    def _body(self, function: ir.Function, states: list[State]) -> list[State]:
        opened = self.regions.decorators(function)
        depths = {len(state.regions) for state in states} if opened else set()
        states = [state.with_result(None) for state in states]
        if opened:
            states = [state.replace(regions=(*state.regions, *opened)) for state in states]
        paths = self._run(function.body, states)
        for state in paths.raises:
            self.transfer.end(state)
        at_end = (
            (0, AbstractValue(ValueKind.TRUTH, flag=False)) if returned(function) else None
        )  # None, where there is a choice
        ended = [*(state.with_result(at_end) for state in paths.normal), *paths.exits]
        if len(depths) == 1:
            depth = depths.pop()
            ended = [state.replace(regions=state.regions[:depth]) for state in ended]
        return joined(ended)

    def _bound(
        self, function: ir.Function, arguments: dict[str, ir.Value | None], state: State
    ) -> tuple[dict[str, str], State]:
        """The parameters that are names of the caller's objects, and the state with the others bound."""
        known = self._objects
        aliases: dict[str, str] = {}
        held: list[tuple[str, AbstractValue | None, list[Fact]]] = []
        for name, value in arguments.items():
            own = known.raw_variable(function.scope, name)
            key = known.key(value) if isinstance(value, (ir.Name, ir.Attribute, ir.Subscript)) else None
            if value is None:
                held.append((own, None, []))
            elif key is not None and len(function.scope.bindings.get(name, ())) == 1:
                aliases[own] = state.object_of(key)
            else:
                abstract = self._passed(value, key, state)
                unnamed = key is None and (abstract is None or abstract.kind is ValueKind.MADE)
                container = self._containers.passed(value) if unnamed else None
                if container is not None:
                    aliases[own] = container
                else:
                    held.append((own, abstract, self._facts(own, value, state)))
        for own, abstract, facts in held:
            state = state.bind(own, abstract)
            for fact in facts:
                state = state.with_fact(*fact)
        return aliases, state

    def _kept(self, callee: Callee, aliases: dict[str, str], state: State) -> State:
        """What a constructor keeps in attributes is the caller's object still."""
        known = self._objects
        if callee.instance is None:
            return state
        for param in callee.function.params:
            attr = known.kept(callee.function, param.name)
            key = aliases.get(known.raw_variable(callee.function.scope, param.name))
            if attr is not None and key is not None:
                state = state.bind(attribute_of(callee.instance, attr), AbstractValue(ValueKind.OBJECT, key))
        return state

    def _passed(self, value: ir.Value, key: str | None, state: State) -> AbstractValue | None:
        if key is not None and (self._objects.is_scalers(key) or self._objects.is_optimizers(key)):
            return AbstractValue(ValueKind.OBJECT, state.object_of(key))
        return self.transfer.ownership.parameters(value, state) or self.abstract(value, state)

    def _facts(self, own: str, value: ir.Value, state: State) -> list[Fact]:
        """What the path knows of an argument, said of the parameter."""
        param = path(own)
        if isinstance(value, ir.Constant):
            constant = Fact(param, bool(value.value))
            if value.value is None:
                return [Fact(present(param), holds=False), constant]
            same = Fact(equal(param, literal(value.value)), holds=True)
            return [constant, same] if isinstance(value.value, (str, int, float)) else [constant]
        named = isinstance(value, (ir.Name, ir.Attribute, ir.Subscript))
        argument = self._objects.term(value) if named else None
        asked = [(present(argument), present(param)), (argument, param)] if argument is not None else []
        facts = [Fact(mine, truth) for theirs, mine in asked if (truth := state.known(theirs)) is not None]
        truth_of_all = self.conditions.truth(value, state)
        if truth_of_all is not None and not any(fact.condition == param for fact in facts):
            facts.append(Fact(param, truth_of_all))
        return facts

    def within_round(self, one: Round) -> AbstractContextManager[None]:
        """A context in which a loop's variables stand for the objects of one round."""
        return self.within(self._objects.call_context.inner(one.objects, values=one.places))

    @contextmanager
    def within(self, call_context: CallContext, function: ir.Function | None = None) -> Iterator[None]:
        """A context in which keys are those of a call context, and a function is being run."""
        around = len(self._active)
        self._active += [function] if function is not None else []
        try:
            with self._objects.within(call_context):
                yield
        finally:
            del self._active[around:]

    # --- assignments ------------------------------------------------------------------------------------------------

    def assign(self, target: ir.Value, held: AbstractValue | None, state: State) -> State:
        """A target bound to what `held` says."""
        if isinstance(target, (ir.Sequence, ir.Starred)):
            # Each of several results comes from what all of them come from.
            made = held if held is not None and held.kind is ValueKind.MADE else None
            for child in target.children():
                state = self.assign(child, made, state)
            return state
        key = self._objects.key(target) if isinstance(target, ir.Attribute) else None
        if isinstance(target, ir.Name):
            key = self._objects.own_key(target)
        if held is not None and not self._matters(held, ir.last_name(target), key):
            held = None  # it would only keep paths apart
        return state.bind(key, held) if key is not None else state

    def _matters(self, held: AbstractValue, name: str, key: str | None) -> bool:
        """Whether anything depends on what a variable of that name, and key, holds."""
        if held.kind is ValueKind.MADE:
            owners = self.transfer.ownership
            if (not held.roots and owners.is_single) or (key is not None and owners.is_owned(key)):
                return False
        return self._may_matter(held, name)

    def _may_matter(self, held: AbstractValue | None, name: str) -> bool:
        """The same, of whatever models what it holds may come."""
        if held is None or held.kind is ValueKind.MADE or (held.kind is ValueKind.SCALED and not held.key):
            return makes_loss(self._module, name)
        return held.kind is not ValueKind.TEST or is_asked(self._module, name)

    def held_by(self, targets: tuple[ir.Value, ...], value: ir.Value, state: State) -> AbstractValue | None:
        """What an assignment of `value` to some targets binds, if anything depends on it."""
        names = [ir.last_name(each) for each in targets if isinstance(each, (ir.Name, ir.Attribute))]
        if not names:
            parts = [each for target in targets for each in ir.walk_values(target) if isinstance(each, ir.Name)]
            asked = any(makes_loss(self._module, each.name) for each in parts)
            owned = self.transfer.ownership
            return owned.reach(value, state) if asked and not owned.may_be_scaled(value) else None
        held = self._held(value, state)
        return self._with_roots(held, value, state) if any(self._may_matter(held, name) for name in names) else None

    def abstract(self, value: ir.Value, state: State) -> AbstractValue | None:
        """What is bound to `value`."""
        return self._with_roots(self._held(value, state), value, state)

    def _held(self, value: ir.Value, state: State) -> AbstractValue | None:
        result = state.returned(value)
        return (
            (result if result is not None and result.kind is not ValueKind.TRUTH else None)
            or self.tensors.held(value, state)
            or region_held(self._module, value)
            or self._object(value, state)
            or self.conditions.as_test(value, state)
        )

    def _with_roots(self, held: AbstractValue | None, value: ir.Value, state: State) -> AbstractValue | None:
        """With the models that it comes from."""
        if held is not None and held.roots:
            return held
        reach = self.transfer.ownership.reach(value, state)
        if held is None or reach is None:
            return held or reach
        return held._replace(roots=reach.roots, whole=reach.whole)

    def _object(self, value: ir.Value, state: State) -> AbstractValue | None:
        """A scaler or optimizer that goes by another name."""
        if not isinstance(value, (ir.Name, ir.Attribute, ir.Subscript)):
            return None
        key = self._objects.key(value)
        if key is None or not (self._objects.is_scalers(key) or self._objects.is_optimizers(key)):
            return None
        return AbstractValue(ValueKind.OBJECT, state.object_of(key))
