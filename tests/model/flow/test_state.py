"""What a path's state forgets, and what it is asked many times."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from amplint.model.flow.gradients import GradientKind, Gradients
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.objects.call_context import CallContext
from amplint.model.objects.terms import (
    ONE,
    ZERO,
    Fact,
    Op,
    Term,
    added,
    enabled,
    equal,
    literal,
    path,
    present,
)
from amplint.model.torch_facts.grad_scaler import Machine, OptimizerState

KEYS = ("1:a", "1:ab", "1:a.b", "2:a", "self3.a", "self3.a.b", "1:a[0]", "#12")
FORMS: tuple[Callable[[str], Term], ...] = (
    path,
    lambda key: present(path(key)),
    lambda key: equal(path(key), ZERO),
    lambda key: Term("and", parts=(path(key), path("2:c"))),
    lambda key: Term(Op.CALL, "self3.f", (path(key),)),
    lambda key: Term(Op.CALL, f"{key}.f"),
    enabled,
)

KINDS = (ValueKind.TEST, ValueKind.OBJECT, ValueKind.SCALED, ValueKind.MADE, ValueKind.NORM)

keys = st.sampled_from(KEYS)
conditions = st.builds(lambda form, key: form(key), st.sampled_from(FORMS), keys)
held = st.builds(AbstractValue, st.sampled_from(KINDS), keys, st.booleans()) | st.builds(
    lambda condition, flag: AbstractValue(ValueKind.TEST, flag=flag, condition=condition), conditions, st.booleans()
)
machines = st.builds(lambda key: Machine(per_optimizer=frozenset({(key, OptimizerState())})), keys)
states = st.builds(
    State,
    rest=st.sampled_from([Gradients(GradientKind.ENTRY), Gradients(GradientKind.SCALED, "1:a")]),
    groups=st.dictionaries(
        keys, st.sampled_from([Gradients(GradientKind.NONE), Gradients(GradientKind.PLAIN)]), max_size=3
    ).map(lambda found: frozenset(found.items())),
    scalers=st.dictionaries(keys, machines, max_size=2).map(lambda found: frozenset(found.items())),
    in_sight=st.frozensets(keys, max_size=2),
    facts=st.dictionaries(conditions, st.booleans(), max_size=6).map(
        lambda found: frozenset(Fact(*each) for each in found.items())
    ),
    env=st.dictionaries(keys, held, max_size=4).map(lambda found: frozenset(found.items())),
)


@given(states, st.lists(keys, max_size=4))
def test_what_is_forgotten_together_is_forgotten_one_by_one(state: State, some: list[str]) -> None:
    assert state.forget(some) == reduce(lambda before, key: before.forget([key]), some, state)


@given(states, keys, st.none() | held)
def test_a_variable_holds_what_it_is_bound_to(state: State, key: str, value: AbstractValue | None) -> None:
    after = state.bind(key, value)
    assert after.look_up(key) in (value, None)
    assert not any(fact in (path(key), present(path(key)), equal(path(key), ZERO)) for fact, _ in after.facts)
    assert value is None or after.look_up(key) == value or key in value.names


@given(states, conditions, keys)
def test_what_is_asked_is_what_is_there(state: State, condition: Term, key: str) -> None:
    assert state.known(condition) is dict(state.facts).get(condition)
    assert state.look_up(key) == dict(state.env).get(key)
    for kind in (ValueKind.SCALED, ValueKind.OBJECT):
        assert state.holding(kind) == {name for name, value in state.env if value.kind is kind}


def test_equal_frames_are_one() -> None:
    outer = CallContext().inner({"1:a": "2:b"}, {})
    inner = outer.inner({"3:c": "2:d"}, {})
    assert inner is CallContext.inner(outer, {"3:c": "2:d"}, {}) is inner.inner({}, {})
    assert inner is not outer
    assert inner.translate("1:a.x[3:c]") == "2:b.x[2:d]"
    both = Term("and", parts=(path("1:a"), path("3:c")))
    assert inner.translated(both) == Term("and", parts=(path("2:b"), path("2:d")))
    assert outer.translate("3:c") == "3:c"


def test_a_name_may_stand_for_what_is_computed() -> None:
    outer = CallContext().inner({}, values={"1:a": literal(4)})
    assert outer.translated(equal(path("1:a"), ZERO)) == equal(literal(4), ZERO)
    assert outer.translate("2:b[1:a]") == "2:b[4]"
    assert outer.inner({"1:a": "2:b"}).translated(path("1:a")) == path("2:b")


def test_what_is_known_of_a_number_is_known_of_the_next_one() -> None:
    number, period = path("1:n"), path("1:k")
    ends = equal(Term("Modulo", parts=(added(number, ONE), period)), ZERO)
    state = State().with_fact(ends, holds=True).with_fact(path("1:k"), holds=True)
    assert state.known_of_sum("1:n", ONE) == [Fact(equal(Term("Modulo", parts=(number, period)), ZERO), holds=True)]
    assert not state.known_of_sum("1:k", ONE)
    assert state.known_of_difference("1:k", ONE) == [
        Fact(condition.replaced(period, added(period, ONE)), holds) for condition, holds in state.facts
    ]
    assert not state.known_of_difference("1:n", ONE)
    assert not state.multiples("1:n")
    assert state.with_fact(ends.replaced(added(number, ONE), number), holds=True).multiples("1:n")
