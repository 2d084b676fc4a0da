"""Sets of paths of flow analysis: how a test comes out on one of them, and which of their states are one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from amplint.model.flow.event_states import MAX_STATES, TooManyPathsError
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.objects.terms import Fact, Op, Term, names_in


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


def without_finished(states: list[State], keys: frozenset[str]) -> list[State]:
    """States that differ only in what they know of variables that are of no more use, joined."""
    if len(states) < 2 or not any(state.speaks_of_any(keys) for state in states):
        return states
    groups: dict[State, list[State]] = {}
    for state in states:
        env = frozenset(each for each in state.env if each[0] not in keys or each[1].kind is not ValueKind.TEST)
        asked = {name for _, held in env if held.condition is not None for name in names_in(held.condition).split()}
        gone = keys - asked
        facts = frozenset(each for each in state.facts if not _is_about(each.condition, gone))
        groups.setdefault(state.replace(facts=facts, env=env), []).append(state)
    return [group[0] if len(group) == 1 else _shared(bare, group) for bare, group in groups.items()]


def knowing_only(states: list[State], keys: frozenset[str]) -> list[State]:
    """The states with what they know of some variables alone, equal ones once."""
    if len(states) < 2:
        return states
    return list(
        dict.fromkeys(
            state.replace(
                facts=frozenset(each for each in state.facts if _knows_only(each.condition, keys)),
                env=frozenset(each for each in state.env if each[0] in keys or _is_wanted(each[1], keys)),
            )
            for state in states
        )
    )


def _is_wanted(held: AbstractValue, keys: frozenset[str]) -> bool:
    """Whether it matters what a variable holds: it is no condition, or one of some variables alone."""
    return held.kind is not ValueKind.TEST or (held.condition is not None and _knows_only(held.condition, keys))


def _knows_only(condition: Term, keys: frozenset[str]) -> bool:
    """Whether a condition is about some variables alone, whether a scaler is on, or about nothing that has a name."""
    return all(each.name in keys for each in condition.walk() if each.op in (Op.PATH, Op.CALL))


def _is_about(condition: Term, keys: frozenset[str]) -> bool:
    """Whether a condition is about some variables, and nothing else."""
    names = names_in(condition).split("\n")
    return all(name in keys for name in names)


def _shared(bare: State, group: list[State]) -> State:
    """A state with what several states know, which else are alike."""
    facts = frozenset.intersection(*(each.facts for each in group))
    return bare.replace(facts=facts | bare.facts, env=bare.env | frozenset.intersection(*(each.env for each in group)))


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
