"""The abstract state that flow analysis carries along a path."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint.model.flow.gradients import ENTRY, UNKNOWN, GradientKind, Gradients
from amplint.model.objects.key_parts import contains, is_attribute, moved, owner_of
from amplint.model.objects.terms import (
    Fact,
    Op,
    Term,
    added,
    calls_of,
    has_calls,
    implied,
    literal,
    mentions,
    multiple,
    names_in,
    path,
    reads,
)
from amplint.model.torch_facts.grad_scaler import Machine, OptimizerState, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from amplint.model.syntax import ir


class ValueKind(str, Enum):
    """What a variable can hold that matters."""

    SCALED = "scaled"  # a loss times the scale of the scaler `key`; of something of its own, if that is ""
    REGION = "region"  # an autocast object, made by a call; where `flag` is false it is one of several
    NORM = "norm"  # a number that depends on the size of gradients
    ZERO = "zero"  # the norm of none
    SCALE = "scale"  # a number computed from the scale
    TEST = "test"  # a condition, negated where `flag` is false; or a remainder
    TRUTH = "truth"  # what is true, or false, as `flag` says
    PARAMETERS = "parameters"  # those of some models
    OBJECT = "object"  # the scaler or optimizer `key`
    MADE = "made"  # anything else


class AbstractValue(NamedTuple):
    """What a local variable holds, as far as it matters: `kind` and what it is about.

    `call`: the id of what has made a region; `condition`: what a test asks for; `models`: those whose parameters they
    are; `roots`: the models that it comes from, all of them, if `whole`.
    """

    kind: ValueKind
    key: str = ""
    flag: bool = True
    call: int = 0
    condition: Term | None = None
    models: frozenset[str] = frozenset()
    roots: frozenset[str] = frozenset()
    whole: bool = False

    def reads(self, key: str) -> bool:
        """Whether it has to do with a variable or attribute."""
        return (
            mentions(self.key, key)
            or (self.condition is not None and reads(self.condition, key))
            or any(mentions(each, key) for each in self.models)
        )

    @property
    def fact(self) -> Fact | None:
        """What makes a test true."""
        return Fact(self.condition, self.flag) if self.condition is not None else None

    @property
    def names(self) -> str:
        """The keys that it has to do with, a line each."""
        condition = names_in(self.condition) if self.condition is not None else ""
        return "\n".join(filter(None, (self.key, condition, *self.models)))


class Opened(NamedTuple):
    """An open region: the call that made it, whether it is enabled (None: that depends), the value entered.

    `holder` is the key of what closes it where no `with` does: an ExitStack, or the region's own variable.
    """

    call: int
    enabled: bool | None
    at: int = 0
    holder: str = ""


class Clipped(NamedTuple):
    """A clip on a path: the call, that of a helper that led to it (0: none), whether its gradients had their step."""

    clip: int
    site: int
    stepped: bool = False


class ScalerCall(str, Enum):
    """What stands in the place of an optimizer for the last calls of a scaler itself."""

    STEP = "#step"
    UPDATE = "#update"


class Transition(NamedTuple):
    """The call that left an optimizer in its stage, in the eyes of a scaler."""

    scaler: str
    optimizer: str
    call: int

    def is_of(self, scaler: str, optimizer: str) -> bool:
        """Whether it is that of a scaler and an optimizer."""
        return (self.scaler, self.optimizer) == (scaler, optimizer)


class Carried(NamedTuple):
    """An optimizer that an earlier iteration of a loop, by its id, has left in its stage."""

    scaler: str
    optimizer: str
    loop: int

    def is_of(self, scaler: str, optimizer: str) -> bool:
        """Whether it is that of a scaler and an optimizer."""
        return (self.scaler, self.optimizer) == (scaler, optimizer)


_USED_BEFORE = Machine(scaled=True)
_PARTS = 1024  # of as many the keys are remembered


class State(NamedTuple):
    """One path's state. Immutable; equal states are joined."""

    rest: Gradients = ENTRY  # of all parameters whose optimizer was not met yet
    groups: frozenset[tuple[str, Gradients]] = frozenset()  # of each optimizer's
    scalers: frozenset[tuple[str, Machine]] = frozenset()
    carried: frozenset[Carried] = frozenset()
    last_transitions: frozenset[Transition] = frozenset()
    in_sight: frozenset[str] = frozenset()  # scalers all of whose calls since their last update are in sight
    regions: tuple[Opened, ...] = ()
    facts: frozenset[Fact] = frozenset()
    env: frozenset[tuple[str, AbstractValue]] = frozenset()
    pending: frozenset[Clipped] = frozenset()  # clips since which no update came
    result: tuple[int, AbstractValue] | None = None  # what the call that was followed last returned, with its id

    def replace(self, **changes: object) -> State:
        """This state with some fields changed."""
        values: list[Any] = [*self]
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return State._make(values)  # in half the time of `_replace`

    def havoc(self) -> State:
        """This state after something that can't be seen."""
        return self.replace(
            rest=UNKNOWN,
            groups=frozenset(),
            scalers=frozenset(),
            carried=frozenset(),
            last_transitions=frozenset(),
            in_sight=frozenset(),
        )

    def next_iteration(self, loop: int, before: frozenset[Transition] = frozenset()) -> State:
        """This state where a loop, by its id, starts over; `before`: last transitions from before the loop."""
        done = self.last_transitions - before
        touched = {
            Carried(scaler, optimizer, loop)
            for scaler, optimizer, _ in self._touches()
            if any(transition.is_of(scaler, optimizer) for transition in done)
        }
        # A call may say something else now, and what was guessed was of another round.
        facts = frozenset(fact for fact in self.facts if not has_calls(fact.condition) and not fact.condition.is_guess)
        return self.replace(carried=self.carried | touched, facts=facts)

    def behind_loop(self, loop: int) -> State:
        """This state where a loop, by its id, has run to its end."""
        return self.replace(carried=frozenset(each for each in self.carried if each.loop != loop))

    def is_carried(self, scaler: str, optimizer: str) -> bool:
        """Whether it was in an earlier iteration that an optimizer came to its stage."""
        return any(each.is_of(scaler, optimizer) for each in self.carried)

    def has_gradients(self) -> bool | None:
        """Whether parameters have gradients; None where that differs or isn't known."""
        held = [each for _, each in self.groups] or [self.rest]
        if all(
            each.kind
            in (
                GradientKind.SCALED,
                GradientKind.PLAIN,
                GradientKind.MIXED,
                GradientKind.OVER,
                GradientKind.UNSCALED,
                GradientKind.ZEROS,
            )
            for each in held
        ):
            return True
        return False if all(each.kind is GradientKind.NONE for each in held) else None

    def havoc_missing_gradients(self) -> State:
        """This state after a call that may have made gradients where there are none, or new ones where a caller left
        some.
        """
        held = (self.rest, *(each for _, each in self.groups))
        if not any(
            each.is_empty() or each.stepped or (each.kind is GradientKind.ENTRY and each.updated) for each in held
        ):
            return self

        def changed(_: str, before: Gradients) -> Gradients:
            before = before._replace(stepped=0)
            if before.kind is GradientKind.ENTRY:
                return before._replace(updated=0)
            return before._replace(kind=GradientKind.MAYBE) if before.is_empty() else before

        return self.all_gradients(changed)

    def havoc_gradients(self) -> State:
        """This state where it isn't known how the gradients stand; that something was wrong with them stays."""
        return self.all_gradients(lambda _, held: Gradients(GradientKind.UNKNOWN, reported=held.reported))

    def with_some_gradients(self) -> State:
        """This state where it turns out that there are gradients: a call out of sight has made them."""

        def made(_: str, held: Gradients) -> Gradients:
            return Gradients(GradientKind.UNKNOWN, reported=held.reported) if held.kind is GradientKind.MAYBE else held

        return self.all_gradients(made)

    # --- gradients --------------------------------------------------------------------------------------------------

    @property
    def gradients(self) -> Gradients:
        """The gradients where they are told apart by nothing: those of the one optimizer that was met, or of all."""
        found = {each for _, each in self.groups} or {self.rest}
        return found.pop() if len(found) == 1 else self.rest

    def gradients_of(self, optimizer: str) -> Gradients:
        """The gradients of an optimizer's parameters."""
        return next((each for key, each in self.groups if key == optimizer), self.rest)

    def with_gradients(self, optimizer: str, gradients: Gradients) -> State:
        """Those of one optimizer changed."""
        kept = {each for each in self.groups if each[0] != optimizer}
        return self.replace(groups=frozenset(kept | {(optimizer, gradients)}))

    @property
    def optimizers(self) -> str:
        """The optimizers whose gradients are told apart, a line each."""
        return _names_grouped(self.groups)

    def met(self, optimizer: str) -> State:
        """The optimizer's gradients told apart from the rest from here on."""
        if any(key == optimizer for key, _ in self.groups):
            return self
        return self.with_gradients(optimizer, self.rest)

    def all_gradients(self, change: Callable[[str, Gradients], Gradients]) -> State:
        """Every group's gradients changed; the rest's key is ""."""
        return self.replace(
            rest=change("", self.rest), groups=frozenset((key, change(key, each)) for key, each in self.groups)
        )

    # --- variables --------------------------------------------------------------------------------------------------

    def look_up(self, key: str | None) -> AbstractValue | None:
        """What the variable `key` holds."""
        return _variables(self.env).get(key) if key is not None else None

    def holding(self, kind: ValueKind) -> frozenset[str]:
        """The variables that hold something of a kind."""
        return _holding(self.env, kind)

    def holds_numbers(self) -> bool:
        """Whether some variable holds a scaled loss, a scale or a norm."""
        return not _kinds_held(self.env).isdisjoint((ValueKind.SCALED, ValueKind.SCALE, ValueKind.NORM))

    def object_of(self, key: str) -> str:
        """The object that a variable stands for on this path, or the part of it."""
        for name, held in _objects_held(self.env):
            if contains(name, key):
                return moved(key, name, held)
        return key

    def returned(self, call: ir.Value) -> AbstractValue | None:
        """What a call returned that was followed just now."""
        return self.result[1] if self.result is not None and self.result[0] == call.id else None

    def without(self, prefix: str, but: frozenset[str] = frozenset()) -> State:
        """What is known of a function's own variables forgotten, `but` for some: it has ended."""
        met = _names_grouped(self.groups), _names_scaling(self.scalers)
        names = "\n".join((_names_bound(self.env), _names_known(self.facts), *met))
        if prefix not in names:
            return self
        return self.forget(sorted(set(re.findall(rf"(?<![\w:]){prefix}\w+", names)) - but))

    def bind(self, key: str, held: AbstractValue | None) -> State:
        """The variable `key` bound anew: what was known of it, and tests that read it, is forgotten."""
        state = self.forget((key,))
        if held is None or held.reads(key):  # `flag = not flag`: about what was
            return state
        return state.replace(env=state.env | {(key, held)})

    def forget(self, keys: Iterable[str]) -> State:
        """Some variables bound anew, to what isn't known."""
        held, known = _names_held(self.env), _names_known(self.facts)
        calls = _depends_on_calls(self.facts)
        keys = tuple(key for key in keys if calls or key in held or key in known or self._speaks_of(key))
        if not keys:
            return self
        env, facts = _variables_without(self.env, keys), _facts_without(self.facts, keys)
        state = self if env == self.env and facts == self.facts else self.replace(env=env, facts=facts)
        for key in keys:
            state = state._nameless(key)
        return state

    def _speaks_of(self, key: str) -> bool:
        return key in _names_grouped(self.groups) or key in _names_scaling(self.scalers)

    def _nameless(self, key: str) -> State:
        """What was done to the scaler or optimizer that `key` was, kept without its name."""
        if not self._speaks_of(key):
            return self

        def name(old: str) -> str:
            return "" if mentions(old, key) else old

        per_optimizer: dict[str, dict[str, OptimizerState]] = {}
        scaled: dict[str, bool] = {}
        for scaler, machine in self.scalers:
            per_optimizer.setdefault(name(scaler), {}).update((name(each), its) for each, its in machine.per_optimizer)
            scaled[name(scaler)] = machine.scaled
        scalers = {
            (each, Machine(scaled=scaled[each], per_optimizer=frozenset(book.items())))
            for each, book in per_optimizer.items()
        }
        kept = frozenset((each, held) for each, held in self.groups if each == name(each))
        lost = any(held.kind != self.rest.kind for _, held in self.groups - kept)
        return self.replace(
            rest=UNKNOWN if lost else self.rest,
            scalers=frozenset(scalers),
            groups=kept,
            carried=frozenset(each for each in self.carried if each.is_of(name(each.scaler), name(each.optimizer))),
            last_transitions=frozenset(
                each for each in self.last_transitions if each.is_of(name(each.scaler), name(each.optimizer))
            ),
            in_sight=frozenset(each for each in self.in_sight if each == name(each)),
        )

    def with_result(self, result: tuple[int, AbstractValue] | None) -> State:
        """This state behind a call that was followed, and has returned something."""
        return self if result == self.result else self.replace(result=result)

    # --- the scaler's protocol --------------------------------------------------------------------------------------

    def machine(self, scaler: str) -> Machine:
        """The scaler as far as this path knows it: one that comes from elsewhere has scaled before."""
        return next((machine for key, machine in self.scalers if key == scaler), _USED_BEFORE)

    def with_machine(self, scaler: str, machine: Machine) -> State:
        """The scaler after a call."""
        scalers = {each for each in self.scalers if each[0] != scaler}
        if machine != _USED_BEFORE:
            scalers.add((scaler, machine))
        known = dict(machine.per_optimizer)
        return self.replace(
            scalers=frozenset(scalers),
            carried=frozenset(each for each in self.carried if each.scaler != scaler or each.optimizer in known),
            last_transitions=frozenset(
                each
                for each in self.last_transitions
                if each.scaler != scaler or each.optimizer in known or isinstance(each.optimizer, ScalerCall)
            ),
        )

    def with_transition(self, scaler: str, optimizer: str, call: int) -> State:
        """The call that brought an optimizer to its stage, remembered; it is of this iteration."""
        others = {each for each in self.last_transitions if not each.is_of(scaler, optimizer)}
        return self.replace(
            last_transitions=frozenset(others | {Transition(scaler, optimizer, call)}),
            carried=frozenset(each for each in self.carried if not each.is_of(scaler, optimizer)),
        )

    def last_transition(self, scaler: str, optimizer: str) -> int:
        """The call that left an optimizer in its stage; 0 where it isn't known."""
        return next((each.call for each in self.last_transitions if each.is_of(scaler, optimizer)), 0)

    def stage(self, scaler: str, optimizer: str) -> Stage:
        """How far an optimizer is since the last update."""
        return self.machine(scaler).optimizer_state(optimizer).stage

    def touched(self, scaler: str | None = None) -> set[str]:
        """The optimizers whose gradients a scaler (None: any) has unscaled since its last update, alone or by a step.

        Two keys may name one scaler, so what asks whether gradients are still scaled asks for any.
        """
        return {optimizer for key, optimizer, _ in self._touches() if scaler in (None, key)}

    def _touches(self) -> list[tuple[str, str, Stage]]:
        return [
            (scaler, optimizer, its.stage)
            for scaler, machine in self.scalers
            for optimizer, its in machine.per_optimizer
            if its.stage is not Stage.READY
        ]

    # --- conditions -------------------------------------------------------------------------------------------------

    def known(self, condition: Term) -> bool | None:
        """The truth of a condition on this path."""
        return _truths(self.facts).get(condition)

    def implied(self, condition: Term) -> bool | None:
        """The truth of a condition by what the path knows of the same thing; None where that doesn't tell."""
        return _implied(condition, self.facts)

    def speaks_of_any(self, keys: Iterable[str]) -> bool:
        """Whether some variables are in what this path knows of variables and conditions."""
        held, known = _names_held(self.env), _names_known(self.facts)
        return any(key in held or key in known for key in keys)

    @property
    def absent(self) -> frozenset[Term]:
        """The variables and attributes that are None on this path."""
        return _absent(self.facts)

    def known_of_sum(self, key: str, by: Term) -> list[Fact]:
        """What is known of `key + by`, said of `key` as if that were its value, if it asks for nothing else of it."""
        value = path(key)
        total, anything = added(value, by), literal(None)
        about = [fact for fact in self.facts if total in fact.condition.walk()]
        return [
            Fact(condition.replaced(total, value), holds)
            for condition, holds in about
            if not reads(condition.replaced(total, anything), key)
        ]

    def known_of_difference(self, key: str, by: Term) -> list[Fact]:
        """What is known of `key`, said of `key + by` as if `key` had become that much less."""
        value, anything = path(key), literal(None)
        about = [fact for fact in self.facts if value in fact.condition.walk()]
        return [
            Fact(condition.replaced(value, added(value, by)), holds)
            for condition, holds in about
            if not any(each.op == "Add" and each.parts[0] == value for each in condition.walk())
            if not reads(condition.replaced(value, anything), key)
        ]

    def multiples(self, key: str) -> list[Term]:
        """The conditions on this path that say that `key` is a multiple of something."""
        about = [(condition, multiple(condition)) for condition, holds in self.facts if holds]
        return [condition for condition, found in about if found is not None and found[0] == path(key)]

    def with_fact(self, condition: Term, holds: bool) -> State:
        """The condition holds (or doesn't) from here on."""
        fact = Fact(condition, holds)
        if fact in self.facts and Fact(condition, not holds) not in self.facts:
            return self
        return self.replace(facts=frozenset({each for each in self.facts if each.condition != condition} | {fact}))


_PLACES = {name: place for place, name in enumerate(State._fields)}

# What is asked of parts of a state, many times on the way to the next one that differs.


@lru_cache(maxsize=_PARTS)
def _variables(env: frozenset[tuple[str, AbstractValue]]) -> dict[str, AbstractValue]:
    return dict(reversed([*env]))  # of two of a name the first


@lru_cache(maxsize=_PARTS)
def _truths(facts: frozenset[Fact]) -> dict[Term, bool]:
    return dict(reversed([*facts]))


@lru_cache(maxsize=_PARTS)
def _implied(condition: Term, facts: frozenset[Fact]) -> bool | None:
    return implied(condition, _truths(facts))


@lru_cache(maxsize=_PARTS)
def _absent(facts: frozenset[Fact]) -> frozenset[Term]:
    return frozenset(condition.parts[0] for condition, holds in facts if not holds and condition.op == Op.PRESENT)


@lru_cache(maxsize=_PARTS)
def _holding(env: frozenset[tuple[str, AbstractValue]], kind: ValueKind) -> frozenset[str]:
    return frozenset(name for name, held in env if held.kind == kind)


@lru_cache(maxsize=_PARTS)
def _kinds_held(env: frozenset[tuple[str, AbstractValue]]) -> frozenset[ValueKind]:
    return frozenset(held.kind for _, held in env)


@lru_cache(maxsize=_PARTS)
def _objects_held(env: frozenset[tuple[str, AbstractValue]]) -> list[tuple[str, str]]:
    return [(name, held.key) for name, held in env if held.kind is ValueKind.OBJECT]


# The keys in a part, in one text: most assignments are to what no state knows of.


@lru_cache(maxsize=_PARTS)
def _names_held(env: frozenset[tuple[str, AbstractValue]]) -> str:
    return "\n".join(each for name, held in env for each in (name, held.names))


@lru_cache(maxsize=_PARTS)
def _names_bound(env: frozenset[tuple[str, AbstractValue]]) -> str:
    return "\n".join(name for name, _ in env)


@lru_cache(maxsize=_PARTS)
def _names_known(facts: frozenset[Fact]) -> str:
    return "\n".join(names_in(condition) for condition, _ in facts)


@lru_cache(maxsize=_PARTS)
def _depends_on_calls(facts: frozenset[Fact]) -> bool:
    return any(has_calls(condition) for condition, _ in facts)


@lru_cache(maxsize=_PARTS)
def _names_grouped(groups: frozenset[tuple[str, Gradients]]) -> str:
    return "\n".join(key for key, _ in groups)


@lru_cache(maxsize=_PARTS)
def _names_scaling(scalers: frozenset[tuple[str, Machine]]) -> str:
    return "\n".join(each for scaler, machine in scalers for each in (scaler, *dict(machine.per_optimizer)))


@lru_cache(maxsize=_PARTS)
def _variables_without(
    env: frozenset[tuple[str, AbstractValue]], keys: tuple[str, ...]
) -> frozenset[tuple[str, AbstractValue]]:
    """What variables hold, but for some, and for what has to do with those."""
    return frozenset(each for each in env if not _is_about(*each, keys))


@lru_cache(maxsize=_PARTS)
def _facts_without(facts: frozenset[Fact], keys: tuple[str, ...]) -> frozenset[Fact]:
    """What is known of conditions, but for those that some variables have a part in."""
    # A method may read what is stored in its object.
    owners = set(filter(None, map(owner_of, keys)))
    return frozenset(
        fact
        for fact in facts
        if not any(reads(fact.condition, key) for key in keys)
        and not (has_calls(fact.condition) and any(calls_of(fact.condition, owner) for owner in owners))
    )


def _is_about(name: str, held: AbstractValue, keys: tuple[str, ...]) -> bool:
    """Whether a variable is one of some keys, an attribute of one, or holds something that has to do with one."""
    return any((key in name and (name == key or is_attribute(name, key))) or held.reads(key) for key in keys)
