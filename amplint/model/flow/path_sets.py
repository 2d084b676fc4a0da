"""Sets of paths of flow analysis: how a test comes out on one of them, and which of their states are one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from amplint.model.flow.event_states import MAX_STATES, TooManyPathsError
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.objects.terms import Fact


class Outcome(NamedTuple):
    """One way in which a test comes out.

    `by_flag`: a condition decided that may be AMP's own flag; `guessed`: one of what changes as the program trains.
    """

    state: State
    holds: bool
    by_flag: bool
    guessed: bool = False


def joined(states: Iterable[State]) -> list[State]:
    """The states, equal ones once.

    Raises:
        TooManyPathsError: they are more than are worth keeping apart.
    """
    found = list(dict.fromkeys(states))
    if len(found) > MAX_STATES:
        found = without_idle_facts(found)
    if len(found) > MAX_STATES:
        found = without_idle_variables(found)
    if len(found) > MAX_STATES:
        raise TooManyPathsError
    return found


def without_complements(states: list[State]) -> list[State]:
    """States that differ in how one condition came out only, joined: nothing else is known less of them."""
    groups: dict[State, list[frozenset[Fact]]] = {}
    for state in states:
        groups.setdefault(state.replace(facts=frozenset()), []).append(state.facts)
    return [bare.replace(facts=facts) for bare, every in groups.items() for facts in _reduced(every)]


def _reduced(every: list[frozenset[Fact]]) -> list[frozenset[Fact]]:
    found = dict.fromkeys(every)
    if len(found) == 1:
        return [*found]
    for one in found:
        for alike in _deciding(one):
            other = one ^ {Fact(condition, holds) for condition, truth in alike for holds in (truth, not truth)}
            if other in found:
                rest = [each for each in found if each not in (one, other)]
                return _reduced([*rest, one - alike])
    return [*found]


def _deciding(facts: frozenset[Fact]) -> Iterator[set[Fact]]:
    """The facts that may come of one condition: one by itself, or with the arm that was guessed by it."""
    guesses = [each for each in facts if each.condition.is_guess]
    for each in facts:
        yield {each}
        yield from ({each, guess} for guess in guesses if guess != each)


def without_idle_facts(states: list[State]) -> list[State]:
    """States that differ in what they know of conditions only, joined: both arms of the test did the same."""
    groups: dict[State, frozenset[Fact]] = {}
    for state in states:
        bare = state.replace(facts=frozenset())
        groups[bare] = groups[bare] & state.facts if bare in groups else state.facts
    return [bare.replace(facts=facts) for bare, facts in groups.items()]


def without_idle_variables(states: list[State]) -> list[State]:
    """States that also differ in what variables hold that matters least, joined."""
    groups: dict[State, list[State]] = {}
    for state in states:
        groups.setdefault(state.replace(facts=frozenset(), env=frozenset(filter(_matters, state.env))), []).append(
            state
        )
    found = []
    for bare, group in groups.items():
        facts = frozenset.intersection(*(each.facts for each in group))
        shared = frozenset.intersection(*(each.env for each in group))
        # A loss that may be scaled by something of its own is one on each of the paths.
        doubtful = {
            each for state in group for each in state.env if each[1].kind is ValueKind.SCALED and not each[1].key
        }
        names = {name for name, _ in doubtful}
        kept = {each for each in shared | bare.env if each[0] not in names}
        found.append(bare.replace(facts=facts, env=frozenset(kept | doubtful)))
    return list(dict.fromkeys(found))


def _matters(each: tuple[str, AbstractValue]) -> bool:
    held = each[1]
    return held.kind not in (ValueKind.MADE, ValueKind.TEST) and not (held.kind is ValueKind.SCALED and not held.key)
