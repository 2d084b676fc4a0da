"""The abstract state that flow analysis carries along a path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from amplint.model.protocol import Stage


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


class Opened(NamedTuple):
    """An open region: the call that made it, whether it is enabled (None: that depends), the value entered.

    `holder` is the key of what closes it where no `with` does: an ExitStack, or the region's own variable.
    """

    call: int
    enabled: bool | None
    at: int = 0
    holder: str = ""


_ENTRY = Gradients("entry")


@dataclass(frozen=True, slots=True)
class State:
    """One path's state. Immutable; equal states are joined."""

    gradients: Gradients = _ENTRY
    stages: frozenset[tuple[str, str, Stage]] = frozenset()
    regions: tuple[Opened, ...] = ()
    facts: frozenset[tuple[str, bool]] = frozenset()
    env: frozenset[tuple[str, Abstract]] = frozenset()
    pending: frozenset[int] = field(default=frozenset())  # clips since which no update came

    def but(self, **changes: object) -> State:
        """This state with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def unknown(self) -> State:
        """This state after something that can't be seen."""
        return self.but(gradients=Gradients("unknown"), stages=frozenset())

    # --- variables --------------------------------------------------------------------------------------------------

    def look_up(self, key: str | None) -> Abstract | None:
        """What the variable `key` holds."""
        return next((held for name, held in self.env if name == key), None)

    def bind(self, key: str, held: Abstract | None) -> State:
        """The variable `key` bound anew: what was known of it, and tests that read it, is forgotten."""
        if held is None and not any(key in name or key in old.key for name, old in self.env):
            if not any(key in fact for fact, _ in self.facts):
                return self
        env = {(name, old) for name, old in self.env if name != key and not _reads(old.key, key)}
        if held is not None and not _reads(held.key, key):  # `flag = not flag`: about what was
            env.add((key, held))
        return self.but(env=frozenset(env), facts=frozenset(fact for fact in self.facts if not _reads(fact[0], key)))

    # --- the scaler's protocol --------------------------------------------------------------------------------------

    def stage(self, scaler: str, optimizer: str) -> Stage:
        """How far an optimizer is since the last update."""
        return next((stage for s, o, stage in self.stages if (s, o) == (scaler, optimizer)), Stage.READY)

    def advance(self, scaler: str, optimizer: str, stage: Stage) -> State:
        """The optimizer in another stage."""
        rest = {each for each in self.stages if each[:2] != (scaler, optimizer)}
        return self.but(stages=frozenset(rest | {(scaler, optimizer, stage)}))

    def touched(self, scaler: str | None = None) -> set[str]:
        """The optimizers whose gradients a scaler (None: any) has unscaled since its last update, alone or by a step.

        Two keys may name one scaler, so what asks whether gradients are still scaled asks for any.
        """
        return {o for s, o, stage in self.stages if scaler in (None, s) and stage is not Stage.READY}

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
