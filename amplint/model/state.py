"""The abstract state that flow analysis carries along a path, and what it knows of conditions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from amplint.model import ir
from amplint.model.objects import Objects
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
    """An open region: the call that made it, whether it is enabled (None: that depends), the value entered."""

    call: int
    enabled: bool | None
    at: int = 0


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

    # --- variables --------------------------------------------------------------------------------------------------

    def look_up(self, key: str | None) -> Abstract | None:
        """What the variable `key` holds."""
        return next((held for name, held in self.env if name == key), None)

    def bind(self, key: str, held: Abstract | None) -> State:
        """The variable `key` bound anew: what was known of it, and tests that read it, is forgotten."""
        env = {(name, old) for name, old in self.env if name != key and not _reads(old.key, key)}
        if held is not None:
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

    def touched(self, scaler: str) -> set[str]:
        """The optimizers whose gradients the scaler has unscaled, alone or by a step, since the last update."""
        return {o for s, o, stage in self.stages if s == scaler and stage is not Stage.READY}

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


class Conditions:
    """Reads conditions: their truth on a path, and what a path knows once it has taken an arm."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def truth(self, test: ir.Value, state: State) -> bool | None:
        """Whether a condition holds on the path; None where both can be."""
        if isinstance(test, ir.Constant):
            return bool(test.value)
        if isinstance(test, ir.Unary) and test.op == "Not":
            inner = self.truth(test.operand, state)
            return None if inner is None else not inner
        if isinstance(test, ir.Bool):
            left, right = self.truth(test.left, state), self.truth(test.right, state)
            decisive = test.op == "or"
            if decisive in (left, right):
                return decisive
            return None if None in (left, right) else not decisive
        for key, flag in self._keys(test, state):
            known = state.known(key)
            if known is not None:
                return known is flag
        return None

    def assume(self, test: ir.Value, holds: bool, state: State) -> State:
        """The state of a path on which a condition holds (or doesn't)."""
        if isinstance(test, ir.Unary) and test.op == "Not":
            return self.assume(test.operand, not holds, state)
        if isinstance(test, ir.Bool):
            if holds is (test.op == "and"):  # both sides are as the whole is
                return self.assume(test.right, holds, self.assume(test.left, holds, state))
            for one, other in ((test.left, test.right), (test.right, test.left)):
                if self.truth(one, state) is (test.op == "and"):
                    return self.assume(other, holds, state)
        for key, flag in self._keys(test, state):
            state = state.with_fact(key, flag if holds else not flag)
        return state

    def _keys(self, test: ir.Value, state: State) -> list[tuple[str, bool]]:
        """The facts that a simple condition asks for, each with the truth that makes it hold.

        `x is None` and the truth of x are one fact where x is a scaler or optimizer, whose truth is that it is there.
        """
        if isinstance(test, ir.Walrus):
            test = test.target
        if isinstance(test, ir.Compare) and len(test.ops) == 1:
            op, right = test.ops[0], test.rights[0]
            if op in ("Is", "IsNot") and isinstance(right, ir.Constant) and right.value is None:
                return self._presence(test.left, op == "IsNot")
            if op in ("NotEqual", "NotIn", "IsNot"):
                positive = ir.Compare(
                    test.id, test.node, test.parent, test.left, (op.replace("Not", "") or op,), test.rights
                )
                rendered = self._objects.render(positive)
                return [(rendered, False)] if rendered is not None else []
        if isinstance(test, ir.Name):
            held = state.look_up(self._objects.key(test))
            if held is not None and held.kind == "test":
                return [(held.key, held.flag)]
        if isinstance(test, (ir.Name, ir.Attribute, ir.Subscript)):
            rendered = self._objects.render(test)
            if rendered is None:
                return []
            role = rendered in self._objects.scalers or rendered in self._objects.optimizers
            return [(f"present({rendered})" if role else rendered, True)]
        rendered = self._objects.render(test)
        return [(rendered, True)] if rendered is not None else []

    def _presence(self, value: ir.Value, there: bool) -> list[tuple[str, bool]]:
        rendered = self._objects.render(value)
        return [(f"present({rendered})", there)] if rendered is not None else []

    def as_test(self, value: ir.Value, state: State) -> Abstract | None:
        """A condition kept in a variable (`use_amp = scaler is not None`)."""
        if isinstance(value, (ir.Compare, ir.Name, ir.Attribute)) or (
            isinstance(value, ir.Unary) and value.op == "Not"
        ):
            flag = True
            while isinstance(value, ir.Unary) and value.op == "Not":
                value, flag = value.operand, not flag
            keys = self._keys(value, state)
            if len(keys) == 1:
                return Abstract("test", keys[0][0], keys[0][1] is flag)
        return None
