"""What a path knows of conditions: their truth, and what it learns by taking an arm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model.calls.predicates import Predicates
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.operators import COMPARES, COMPUTES, ORDERS, ordered

if TYPE_CHECKING:
    from amplint.model import Module

# Words in the names of flags that decide about something else than AMP.
_OTHER = re.compile(r"(?i)clip|norm|accum|step|iter|epoch|batch|log|finite|nan|skip|warm|sync|boundary|last|first")
_AMPS = re.compile(r"(?i)amp(?!l)|half|16|mixed|precision|scale|cuda|device|dtype|cast|^enabled?$")
_MULTIPLE = re.compile(r"Equal\(Modulo\(([\w.:]+|Add\([\w.:]+,1\)),([\w.:]+)\),0\)")
_ZERO_IS = {"isfinite": True, "isinf": False, "isnan": False}


class Conditions:
    """Reads conditions of one module. A fact is a condition as text (`Objects.render`) and its truth."""

    def __init__(self, module: Module) -> None:
        self._objects = objects(module)
        self._predicates = module.once(Predicates)
        self._by_flag: dict[ir.Value, bool] = {}  # whether a test may be about AMP's own flag
        self._periods: dict[ir.Value, list[ir.Value]] = {}  # what something is taken modulo in a test
        self.asked: dict[str, tuple[ir.Value, bool]] = {}  # fact -> a test that asks for it, and what it is then
        self._facts: dict[int, set[tuple[str, bool]]] = {}  # a test's id -> the facts that it has asked for

    def truth(self, test: ir.Value, state: State) -> bool | None:
        """Whether a condition holds on the path; None where both can be."""
        return truth_of(test, lambda part: self._truth_of(part, state))

    def came_out(self, test: ir.Value, state: State) -> bool | None:
        """How a condition came out on the path, if it was asked for, in whichever function that was."""
        return truth_of(test, lambda part: self._asked_before(part, state))

    def _truth_of(self, test: ir.Value, state: State) -> bool | None:
        result = state.returned(test.value if isinstance(test, ir.Walrus) else test)
        if result is not None and result.kind is ValueKind.TRUTH:
            return result.flag
        fact = self._fact(test, state)
        if fact is not None:
            known = self._known(fact[0], state)
            if known is not None:
                return known is fact[1]
        constant = self._constant(test)
        return constant if constant is not None else self._computed(test, state)

    def _asked_before(self, test: ir.Value, state: State) -> bool | None:
        for key, meant in self._facts.get(test.id, ()):
            known = self._known(key, state)
            if known is not None:
                return known is meant
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
            return state
        fact = self._fact(test, state)
        if fact is None:
            return state
        if fact[0].startswith("present(") and fact[0].endswith(".grad)") and fact[1] is holds:
            state = state.with_some_gradients()
        self.asked.setdefault(fact[0], (test, fact[1]))
        self._facts.setdefault(test.id, set()).add(fact)
        return state.with_fact(fact[0], fact[1] is holds)

    def _known(self, key: str, state: State) -> bool | None:
        """The truth of a fact, told by itself or by another one."""
        known = state.known(key)
        if known is not None:
            return known
        if key.startswith("present("):
            inner = key[8:-1]
            if inner.endswith(".grad"):
                return state.has_gradients()
            return True if state.known(inner) or self._objects.function(inner) else None  # what is true is not None
        if state.known(f"present({key})") is False:
            return False
        if key.startswith("Equal(") and key.endswith(",0)") and state.known(key[6:-3]) is not None:
            return not state.known(key[6:-3])
        if key.startswith("GreaterThan(") and key.endswith(",0)"):
            zero = state.known(f"Equal({key[12:]}")
            return None if zero is None else not zero
        zero = state.known(f"Equal({key},0)")
        if zero is not None:
            return not zero
        if (next_to := _next_to(key)) is not None and state.known(next_to):
            return False  # of two numbers that follow each other only one is a multiple
        if key.startswith("Equal(") and key.endswith("')"):  # `mode == "a"`: then it isn't "b"
            start = key[: key.rindex(",") + 1]
            if any(holds and fact.startswith(start) and fact.endswith("')") for fact, holds in state.facts):
                return False
        return None

    def _computed(self, test: ir.Value, state: State) -> bool | None:
        """The truth of a comparison of numbers that the path knows, or whether one is finite."""
        if isinstance(test, ir.Call) and len(test.positional) == 1 and isinstance(test.positional[0], ir.Name):
            held = state.look_up(self._objects.own_key(test.positional[0]))
            return _ZERO_IS.get(ir.last_name(test.func)) if held is not None and held.kind is ValueKind.ZERO else None
        if isinstance(test, ir.Compare) and len(test.ops) == 1 and test.ops[0] in COMPARES:
            left, right = self._number(test.left, state), self._number(test.rights[0], state)
            return COMPARES[test.ops[0]](left, right) if left is not None and right is not None else None
        number = self._number(test, state) if isinstance(test, ir.Binary) else None
        return bool(number) if number is not None else None

    def _number(self, value: ir.Value, state: State) -> int | None:
        """A number, where it is a literal, or made of literals and of what a counter is in its first iteration."""
        if isinstance(value, ir.Constant):
            return value.value if type(value.value) is int else None
        if isinstance(value, ir.Binary) and value.op in COMPUTES:
            left, right = self._number(value.left, state), self._number(value.right, state)
            if left == 0 and right is None and value.op == "Modulo":
                return 0
            if left is None or right is None or (value.op == "Modulo" and right < 1):
                return None
            found: int = COMPUTES[value.op](left, right)
            return found
        key = self._objects.render(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
        if key is not None and key.isdigit():
            return int(key)  # a literal that was passed
        return next((number for number in (0, 1) if state.known(f"Equal({key},{number})")), None)

    def divides_by_zero(self, test: ir.Value, state: State) -> bool:
        """Whether the path knows that a period is 0, or None: `if k:` came out false, and `(i + 1) % k` is asked."""
        if test not in self._periods:
            modulo = (each for each in ir.walk_values(test) if isinstance(each, ir.Binary) and each.op == "Modulo")
            self._periods[test] = [each.right for each in modulo if isinstance(each.right, (ir.Name, ir.Attribute))]
        return any(self.truth(each, state) is False for each in self._periods[test])

    def _constant(self, test: ir.Value) -> bool | None:
        """The truth of a name that is bound once, to a literal."""
        if not isinstance(test, ir.Name):
            return None
        bindings = self._objects.bindings(test)
        if len(bindings) == 1 and isinstance(bindings[0], Assigned) and isinstance(bindings[0].value, ir.Constant):
            return bool(bindings[0].value.value)
        return None

    def _fact(self, test: ir.Value, state: State) -> tuple[str, bool] | None:
        """The fact that a simple condition asks for, and the truth that makes the condition hold.

        `x is None` and the truth of x are one fact where x is a scaler or optimizer, whose truth is that it is there.
        """
        if isinstance(test, ir.Walrus):
            test = test.target
        if isinstance(test, ir.Compare) and len(test.ops) == 1:
            return self._comparison(test, test.ops[0], test.rights[0], state)
        if isinstance(test, ir.Call):
            func = test.func
            scaler = self._objects.is_scaler(func.base) if isinstance(func, ir.Attribute) else None
            if scaler is None or not isinstance(func, ir.Attribute) or func.attr != "is_enabled":
                return None
            flag = state.look_up(enabling(scaler))  # what it was made with
            return (flag.key, flag.flag) if flag is not None else (f"enabled({scaler})", True)
        if isinstance(test, ir.Name):
            held = state.look_up(self._objects.key(test))
            if held is not None and held.kind is ValueKind.TEST:
                return held.key, held.flag
        rendered = self._objects.render(test)
        if rendered is None:
            return None
        if isinstance(test, ir.Attribute):
            rendered = state.object_of(rendered)  # `self.flag = flag`: one condition, by both names
        if isinstance(test, (ir.Name, ir.Attribute, ir.Subscript)):
            if self._objects.is_scalers(rendered) or self._objects.is_optimizers(rendered):
                return f"present({rendered})", True
        return rendered, True

    def _comparison(self, test: ir.Compare, op: str, right: ir.Value, state: State) -> tuple[str, bool] | None:
        left = test.left
        positive = op.replace("Not", "")
        holds = positive == op
        if isinstance(left, ir.Constant) and positive == "Equal":
            left, right = right, left
        if isinstance(right, ir.Constant):
            if positive == "Is" and right.value is None:
                rendered = self._objects.render(left)
                return (f"present({rendered})", not holds) if rendered is not None else None
            if positive in ("Is", "Equal") and isinstance(right.value, bool):
                fact = self._fact(left, state)
                return (fact[0], fact[1] is (right.value is holds)) if fact is not None else None
        one, other = self._compared(left, state), self._objects.render(right)
        if one is None or other is None:
            return None
        return ordered(op, one, other) if op in ORDERS else (f"{positive}({one},{other})", holds)

    def _compared(self, value: ir.Value, state: State) -> str | None:
        """What is compared, as text: of a variable that keeps a remainder, that one."""
        name = value.target if isinstance(value, ir.Walrus) else value
        held = state.look_up(self._objects.own_key(name)) if isinstance(name, ir.Name) else None
        if held is not None and held.kind is ValueKind.TEST and held.flag and held.key.startswith("Modulo("):
            return held.key
        return self._objects.render(name)

    def reads_none(self, value: ir.Value, state: State) -> bool:
        """Whether an expression reads an attribute of what is None on a path: it raises.

        A scaler or optimizer that is None may be one that is switched off in another way: paths keep those apart.
        """
        absent = state.absent
        return bool(absent) and any(
            rendered in absent and not self._objects.is_scalers(rendered) and not self._objects.is_optimizers(rendered)
            for rendered in map(self._objects.render, _bases(value))
            if rendered is not None
        )

    def counts(self, test: ir.Value, depth: int = 3) -> bool:
        """Whether a test is about a counter (`(i + 1) % k == 0`), so that it is no flag of AMP's."""
        if isinstance(test, ir.Bool):
            return self.counts(test.left, depth) and self.counts(test.right, depth)
        for value in self._predicates.parts(test):
            if isinstance(value, ir.Binary) and value.op == "Modulo":
                return True
            if isinstance(value, ir.Call) and isinstance(value.func, ir.Name) and value.func.name == "len":
                return True
            if isinstance(value, ir.Name) and depth:
                sources = self._objects.sources(value)
                if sources and all(self.counts(source, depth - 1) for source in sources):
                    return True
        return False

    def may_ask_for_amp(self, test: ir.Value) -> bool:
        """Whether a test may be about AMP's own flag, going by its names: not one about clipping or counting."""
        if test not in self._by_flag:
            self._by_flag[test] = not isinstance(test, ir.Constant) and self._may_be_flag(test)
        return self._by_flag[test]

    def _may_be_flag(self, test: ir.Value) -> bool:
        if self.counts(test):
            return False
        names = _names(test)
        if any(map(_AMPS.search, names)):
            return True
        return not names or not (self._has_named_flag or all(map(_OTHER.search, names)))

    @cached_property
    def _has_named_flag(self) -> bool:
        """Whether a flag that is called after AMP decides about each scaler that is optional: no other one does."""
        made = [each for of in self._objects.made.values() for each in of]
        flags = [(each, _names(each.enabled) if each.enabled is not None else []) for each in made]
        for each, names in flags:
            up = each.call.parent
            while isinstance(up, ir.Node) and not isinstance(up, ir.Function):
                if isinstance(up, (ir.If, ir.Conditional)):
                    names.extend(_names(up.test))
                up = up.parent
        return bool(flags) and all(any(map(_AMPS.search, names)) for _, names in flags)

    def learned(self, target: ir.Value, value: ir.Value, before: State) -> tuple[str, bool] | None:
        """The fact that an assignment makes: what `flag = False` or `scaler = GradScaler()` says of its target."""
        key = self._objects.own_key(target) if isinstance(target, ir.Name) else self._objects.key(target)
        if key is None:
            return None
        if isinstance(value, ir.Constant) and type(value.value) is int and value.value == 0:
            return f"Equal({key},0)", True
        if isinstance(value, ir.Constant):
            return (f"present({key})", False) if value.value is None else (key, bool(value.value))
        if any(made.call is value for made in self._objects.made_by(key)) or self._objects.is_norm(value):
            return f"present({key})", True
        result = before.returned(value)
        if isinstance(value, (ir.Name, ir.Attribute, ir.Compare, ir.Unary, ir.Bool)) or result is not None:
            truth = self.truth(value, before)
            return (key, truth) if truth is not None else None
        return None

    def as_test(self, value: ir.Value, state: State) -> AbstractValue | None:
        """A condition kept in a variable (`use_amp = scaler is not None`), or a remainder (`left = n % k`)."""
        flag = True
        while isinstance(value, ir.Unary) and value.op == "Not":
            value, flag = value.operand, not flag
        remainder = isinstance(value, ir.Binary) and value.op == "Modulo"
        if remainder or isinstance(value, (ir.Compare, ir.Name, ir.Attribute, ir.Call)):
            fact = self._fact(value, state)
            if fact is not None:
                return AbstractValue(ValueKind.TEST, fact[0], fact[1] is flag)
        return None


def truth_of(test: ir.Value, of: Callable[[ir.Value], bool | None]) -> bool | None:
    """The truth of a condition, from that of its parts."""
    if isinstance(test, ir.Constant):
        return bool(test.value)
    if isinstance(test, ir.Unary) and test.op == "Not":
        inner = truth_of(test.operand, of)
        return None if inner is None else not inner
    if isinstance(test, ir.Bool):
        left, right = truth_of(test.left, of), truth_of(test.right, of)
        decisive = test.op == "or"
        if decisive in (left, right):
            return decisive
        return None if None in (left, right) else not decisive
    return of(test)


def _next_to(key: str) -> str | None:
    """That a number is a multiple, for the fact that the one behind it is; the other way round too."""
    found = _MULTIPLE.fullmatch(key)
    if found is None:
        return None
    number, period = found[1], found[2]
    other = number[4:-3] if number.startswith("Add(") and number.endswith(",1)") else f"Add({number},1)"
    return f"Equal(Modulo({other},{period}),0)"


def enabling(scaler: str) -> str:
    """The key under which a path keeps the condition that switches a scaler on."""
    return f"{scaler}.#enabled"


def _bases(value: ir.Value) -> Iterator[ir.Value]:
    """What an expression reads attributes of, whatever its conditions are."""
    if isinstance(value, (ir.Conditional, ir.Bool)):
        yield from _bases(value.test if isinstance(value, ir.Conditional) else value.left)
        return
    if isinstance(value, (ir.Comprehension, ir.Lambda)):
        return
    if isinstance(value, ir.Attribute):
        yield value.base
    for child in value.children():
        yield from _bases(child)


def _names(test: ir.Value) -> list[str]:
    """The last words of the names that a condition reads."""
    return [
        ir.last_name(each)
        for each in ir.walk_values(test)
        if isinstance(each, (ir.Name, ir.Attribute)) and not isinstance(each.parent, ir.Attribute)
    ]
