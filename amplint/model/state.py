"""The abstract state that flow analysis carries along a path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from amplint.model.protocol import Machine, Stage, Standing


class Abstract(NamedTuple):
    """What a local variable holds, as far as it matters: `kind` and what it is about.

    "scaled": a loss times the scale of the scaler `key`; "region": an autocast object, made by the call with id `key`;
    "norm": a number that depends on the size of gradients; "test": the condition `key`, negated where `flag` is false.
    """

    kind: str
    key: str = ""
    flag: bool = True


class Gradients(NamedTuple):
    """The gradients' condition: entry (as the caller left them), none, plain, scaled, mixed, unscaled, unknown."""

    kind: str
    scaler: str = ""
    origin: int = 0  # id of the backward call
    updated: int = 0  # id of the update() that came since, in the same iteration


class Opened(NamedTuple):
    """An open region: the call that made it, whether it is enabled (None: that depends), the value entered.

    `holder` is the key of what closes it where no `with` does: an ExitStack, or the region's own variable.
    """

    call: int
    enabled: bool | None
    at: int = 0
    holder: str = ""


_ENTRY = Gradients("entry")
_USED_BEFORE = Machine(scaled=True)


@dataclass(frozen=True, slots=True)
class State:
    """One path's state. Immutable; equal states are joined."""

    gradients: Gradients = _ENTRY
    scalers: frozenset[tuple[str, Machine]] = frozenset()
    carried: frozenset[tuple[str, str]] = frozenset()  # (scaler, optimizer) left as they are by an earlier iteration
    in_sight: frozenset[str] = frozenset()  # scalers all of whose calls since their last update are in sight
    regions: tuple[Opened, ...] = ()
    facts: frozenset[tuple[str, bool]] = frozenset()
    env: frozenset[tuple[str, Abstract]] = frozenset()
    pending: frozenset[int] = field(default=frozenset())  # clips since which no update came

    def but(self, **changes: object) -> State:
        """This state with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def unknown(self) -> State:
        """This state after something that can't be seen."""
        return self.but(gradients=Gradients("unknown"), scalers=frozenset(), carried=frozenset(), in_sight=frozenset())

    def next_iteration(self, loop: int) -> State:
        """This state where a loop, by its id, starts over."""
        carried = frozenset((scaler, optimizer) for scaler, optimizer, _ in self._touches())
        return self._without_update(loop).but(carried=carried)

    def behind_loop(self, loop: int) -> State:
        """This state where a loop, by its id, has run to its end."""
        return self._without_update(loop).but(carried=frozenset())

    def _without_update(self, loop: int) -> State:
        """An update within the loop is one of an earlier iteration."""
        inside = self.gradients.updated > loop
        return self.but(gradients=self.gradients._replace(updated=0)) if inside else self

    # --- variables --------------------------------------------------------------------------------------------------

    def look_up(self, key: str | None) -> Abstract | None:
        """What the variable `key` holds."""
        return next((held for name, held in self.env if name == key), None)

    def bind(self, key: str, held: Abstract | None) -> State:
        """The variable `key` bound anew: what was known of it, and tests that read it, is forgotten."""
        untouched = held is None and not any(key in name or key in old.key for name, old in self.env)
        if untouched and not any(key in fact for fact, _ in self.facts) and not self._speaks_of(key):
            return self
        env = {(name, old) for name, old in self.env if name != key and not _reads(old.key, key)}
        if held is not None and not _reads(held.key, key):  # `flag = not flag`: about what was
            env.add((key, held))
        facts = frozenset(fact for fact in self.facts if not _reads(fact[0], key))
        return self._nameless(key).but(env=frozenset(env), facts=facts)

    def _speaks_of(self, key: str) -> bool:
        return any(key in each for scaler, machine in self.scalers for each in (scaler, *dict(machine.books)))

    def _nameless(self, key: str) -> State:
        """What was done to the scaler or optimizer that `key` was, kept without its name."""
        if not self._speaks_of(key):
            return self

        def name(old: str) -> str:
            return "" if _reads(old, key) else old

        books: dict[str, dict[str, Standing]] = {}
        scaled: dict[str, bool] = {}
        for scaler, machine in self.scalers:
            books.setdefault(name(scaler), {}).update((name(each), standing) for each, standing in machine.books)
            scaled[name(scaler)] = machine.scaled
        scalers = {(each, Machine(scaled=scaled[each], books=frozenset(book.items()))) for each, book in books.items()}
        return self.but(
            scalers=frozenset(scalers),
            carried=frozenset(each for each in self.carried if each == (name(each[0]), name(each[1]))),
            in_sight=frozenset(each for each in self.in_sight if each == name(each)),
        )

    # --- the scaler's protocol --------------------------------------------------------------------------------------

    def machine(self, scaler: str) -> Machine:
        """The scaler as far as this path knows it: one that comes from elsewhere has scaled before."""
        return next((machine for key, machine in self.scalers if key == scaler), _USED_BEFORE)

    def with_machine(self, scaler: str, machine: Machine) -> State:
        """The scaler after a call."""
        scalers = {each for each in self.scalers if each[0] != scaler}
        if machine != _USED_BEFORE:
            scalers.add((scaler, machine))
        carried = frozenset(each for each in self.carried if each[0] != scaler or each[1] in dict(machine.books))
        return self.but(scalers=frozenset(scalers), carried=carried)

    def stage(self, scaler: str, optimizer: str) -> Stage:
        """How far an optimizer is since the last update."""
        return self.machine(scaler).standing(optimizer).stage

    def touched(self, scaler: str | None = None) -> set[str]:
        """The optimizers whose gradients a scaler (None: any) has unscaled since its last update, alone or by a step.

        Two keys may name one scaler, so what asks whether gradients are still scaled asks for any.
        """
        return {optimizer for key, optimizer, _ in self._touches() if scaler in (None, key)}

    def stages(self) -> set[Stage]:
        """How far the optimizers are that a scaler has touched since its last update."""
        return {stage for _, _, stage in self._touches()}

    def _touches(self) -> list[tuple[str, str, Stage]]:
        return [
            (scaler, optimizer, standing.stage)
            for scaler, machine in self.scalers
            for optimizer, standing in machine.books
            if standing.stage is not Stage.READY
        ]

    # --- conditions -------------------------------------------------------------------------------------------------

    def known(self, key: str) -> bool | None:
        """The truth of a rendered condition on this path."""
        return next((truth for fact, truth in self.facts if fact == key), None)

    def with_fact(self, key: str, truth: bool) -> State:
        """The condition `key` holds (or doesn't) from here on."""
        facts = {fact for fact in self.facts if fact[0] != key}
        return self.but(facts=frozenset(facts | {(key, truth)}))


def _reads(rendered: str, key: str) -> bool:
    """Whether a rendered condition mentions the variable or attribute `key`."""
    start = rendered.find(key)
    while start >= 0:
        end = start + len(key)
        before, after = rendered[start - 1 : start], rendered[end : end + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        start = rendered.find(key, end)
    return False
