"""What a path knows of conditions: their truth, and what it learns by taking an arm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model.calls.predicates import Predicates
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import attribute_of, is_named
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
    multiple,
    on_device,
    ordered,
    path,
    present,
)
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.operators import COMPARES, COMPUTES, ORDERS

if TYPE_CHECKING:
    from amplint.model import Module

# Words in the names of flags that decide about something else than AMP.
_OTHER = re.compile(r"(?i)clip|norm|accum|step|iter|epoch|batch|log|finite|nan|skip|warm|sync|boundary|last|first")
_AMPS = re.compile(r"(?i)amp(?!l)|half|16|mixed|precision|apex|(?<!un)scale|cuda|device|dtype|cast|^enabled?$")
_ZERO_IS = {"isfinite": True, "isinf": False, "isnan": False}


class Conditions:
    """Reads conditions of one module."""

    def __init__(self, module: Module) -> None:
        self._objects = objects(module)
        self._names = module.names
        self._predicates = module.once(Predicates)
        self._by_flag: dict[ir.Value, bool] = {}  # whether a test may be about AMP's own flag
        self._periods: dict[ir.Value, list[ir.Value]] = {}  # what something is taken modulo in a test
        self._read: dict[int, list[ir.Value]] = {}  # what an expression reads attributes of
        self.asked: dict[Term, tuple[ir.Value, bool]] = {}  # condition -> a test that asks for it, and what it is then
        self._facts: dict[int, set[Fact]] = {}  # a test's id -> the facts that it has asked for

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
            known = self._known(fact.condition, state)
            if known is not None:
                return known is fact.holds
        constant = self._constant(test)
        return constant if constant is not None else self._computed(test, state)

    def _asked_before(self, test: ir.Value, state: State) -> bool | None:
        for condition, meant in self._facts.get(test.id, ()):
            known = self._known(condition, state)
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
        condition, meant = fact
        if condition.op == Op.PRESENT and _is_grad(condition.parts[0]) and meant is holds:
            state = state.with_some_gradients()
        self.asked.setdefault(condition, (test, meant))
        self._facts.setdefault(test.id, set()).add(fact)
        return state.with_fact(condition, meant is holds)

    def _known(self, condition: Term, state: State) -> bool | None:
        """The truth of a condition, said by itself or by another one."""
        known = state.known(condition)
        if known is not None:
            return known
        if condition.op == Op.PRESENT:
            value = condition.parts[0]
            if _is_grad(value):
                return state.has_gradients()
            if value.is_path and self._objects.function(value.name) is not None:
                return True
        known = state.implied(condition)
        return known if known is not None else _of_number(condition, state)

    def _computed(self, test: ir.Value, state: State) -> bool | None:
        """The truth of a comparison of numbers that the path knows, whether one is finite, or what a scaler has."""
        if isinstance(test, ir.Call) and self._objects.has_method(test):
            return True
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
            return self._computed_number(value, state)
        term = self._objects.term(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
        if term is None:
            return None
        if term.op == Op.LITERAL:
            return int(term.name) if term.name.isdigit() else None  # one that was passed
        return next((number for number in (0, 1) if state.known(equal(term, literal(number)))), None)

    def _computed_number(self, value: ir.Binary, state: State) -> int | None:
        """What arithmetic gives, where its operands are known, or 0 is divided."""
        left, right = self._number(value.left, state), self._number(value.right, state)
        if left == 0 and right is None and value.op == "Modulo":
            return 0
        if left is None or right is None or (value.op == "Modulo" and right < 1):
            return None
        number: int = COMPUTES[value.op](left, right)
        return number

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

    def _fact(self, test: ir.Value, state: State) -> Fact | None:
        """The fact that a simple condition asks for, and the truth that makes the condition hold.

        `x is None` and the truth of x are one fact where x is a scaler or optimizer, whose truth is that it is there.
        """
        if isinstance(test, ir.Walrus):
            test = test.target
        if isinstance(test, ir.Compare) and len(test.ops) == 1:
            return self._comparison(test, test.ops[0], test.rights[0], state)
        if (scaler := self._objects.asked_if_enabled(test)) is not None:
            key = str(self._objects.is_scaler(scaler))
            flag = state.look_up(enabling(key))  # what it was made with
            return (flag.fact if flag is not None else None) or Fact(enabled(key), holds=True)
        if isinstance(test, ir.Call):
            return self._fact_of_call(test)
        if isinstance(test, ir.Name):
            held = state.look_up(self._objects.key(test))
            if held is not None and held.fact is not None:
                return held.fact
        condition = self._objects.term(test)
        if condition is None:
            return None
        if isinstance(test, ir.Attribute) and condition.is_path:
            condition = path(state.object_of(condition.name))  # `self.flag = flag`: one condition, by both names
        if self._is_object(condition):
            return Fact(present(condition), holds=True)
        return Fact(condition, holds=True)

    def _fact_of_call(self, call: ir.Call) -> Fact | None:
        """What `torch.cuda.is_available()` asks for, which is the same in all of a run.

        Only where this file makes a scaler, which CUDA switches: elsewhere it would only part the paths.
        """
        asks = self._objects.made and self._names.of(call.func) == {"torch.cuda.is_available"}
        return Fact(on_device("cuda"), holds=True) if asks else None

    def _is_object(self, term: Term) -> bool:
        """Whether a term is a scaler or an optimizer."""
        return term.is_path and (self._objects.is_scalers(term.name) or self._objects.is_optimizers(term.name))

    def _comparison(self, test: ir.Compare, op: str, right: ir.Value, state: State) -> Fact | None:
        left = test.left
        positive = op.replace("Not", "")
        holds = positive == op
        if isinstance(left, ir.Constant) and positive == "Equal":
            left, right = right, left
        if isinstance(right, ir.Constant):
            if positive == "Is" and right.value is None:
                term = self._objects.term(left)
                return Fact(present(term), not holds) if term is not None else None
            if positive in ("Is", "Equal") and isinstance(right.value, bool):
                fact = self._fact(left, state)
                return Fact(fact.condition, fact.holds is (right.value is holds)) if fact is not None else None
        one, other = self._compared(left, state), self._objects.term(right)
        if one is None or other is None:
            return None
        return ordered(op, one, other) if op in ORDERS else Fact(Term(positive, parts=(one, other)), holds)

    def _compared(self, value: ir.Value, state: State) -> Term | None:
        """What is compared: of a variable that keeps a remainder, that one."""
        name = value.target if isinstance(value, ir.Walrus) else value
        held = state.look_up(self._objects.own_key(name)) if isinstance(name, ir.Name) else None
        fact = held.fact if held is not None else None
        if fact is not None and fact.holds and fact.condition.op == "Modulo":
            return fact.condition
        return self._objects.term(name)

    def reads_none(self, value: ir.Value, state: State) -> bool:
        """Whether an expression reads an attribute of what is None on a path: it raises.

        A scaler or optimizer that is None may be one that is switched off in another way: paths keep those apart.
        """
        absent = state.absent
        if not absent:
            return False
        if value.id not in self._read:
            self._read[value.id] = list(_bases(value))
        terms = map(self._objects.term, self._read[value.id])
        return any(term in absent and not self._is_object(term) for term in terms if term is not None)

    def counts(self, test: ir.Value, depth: int = 3) -> bool:
        """Whether a test is about a counter (`(i + 1) % k == 0`), so that it is no flag of AMP's."""
        if isinstance(test, ir.Bool):
            left, right = self.counts(test.left, depth), self.counts(test.right, depth)
            return (left and right) or self._ends_counting(test.right if left else test.left, test, left or right)
        return any(self._is_count(value, depth) for value in self._predicates.parts(test))

    def _is_count(self, value: ir.Value, depth: int) -> bool:
        """Whether a part of a test is `i % k`, a length, or a variable that is set to tests about counters only, or to
        True where each iteration steps.
        """
        if isinstance(value, ir.Binary):
            return value.op == "Modulo"
        if isinstance(value, ir.Call):
            return isinstance(value.func, ir.Name) and value.func.name == "len"
        sources = self._objects.sources(value) if isinstance(value, ir.Name) and depth else ()
        tests = [each for each in sources if not isinstance(each, ir.Constant)]
        return bool(tests) and all(self.counts(each, depth - 1) for each in tests)

    def _ends_counting(self, test: ir.Value, whole: ir.Bool, other_counts: bool) -> bool:
        """Whether a part of a test compares the counter of the other part: `i % k == 0 or i == last`."""
        if not other_counts or not isinstance(test, ir.Compare):
            return False
        other = whole.left if test is whole.right else whole.right
        modulo = (each for each in self._predicates.parts(other) if isinstance(each, ir.Binary) and each.op == "Modulo")
        counters = set[str]().union(*(map(names_read, modulo)))
        return bool(counters & set(names_read(test)))

    def names_amp(self, test: ir.Value) -> bool:
        """Whether a test is about AMP's own flag, or about a scaler, going by its names."""
        return not self.counts(test) and any(map(_AMPS.search, names_read(test)))

    def may_ask_for_amp(self, test: ir.Value) -> bool:
        """Whether a test may be about AMP's own flag, going by its names: not one about clipping or counting."""
        if test not in self._by_flag:
            self._by_flag[test] = not isinstance(test, ir.Constant) and self._may_be_flag(test)
        return self._by_flag[test]

    def _may_be_flag(self, test: ir.Value) -> bool:
        names = names_read(test)
        return not self.counts(test) and names != ["__name__"] and self.may_be_called_amp(names)

    @staticmethod
    def is_weight(test: ir.Value) -> bool:
        """Whether a test compares how much something weighs: `gan_weight != 0.0`."""
        if not isinstance(test, ir.Compare) or any(map(_AMPS.search, names_read(test))):
            return False
        numbers = [each.value for each in (test.left, *test.rights) if isinstance(each, ir.Constant)]
        return any(type(number) is float for number in numbers)

    def may_be_called_amp(self, names: list[str]) -> bool:
        """Whether a condition on variables and attributes of some names may be about AMP's own flag."""
        if any(map(_AMPS.search, names)):
            return True
        return not names or not (self._has_named_flag or all(map(_OTHER.search, names)))

    @cached_property
    def _has_named_flag(self) -> bool:
        """Whether a flag that is called after AMP decides about each scaler that is optional: no other one does."""
        made = [each for of in self._objects.made.values() for each in of]
        flags = [(each, names_read(each.enabled) if each.enabled is not None else []) for each in made]
        for each, names in flags:
            up = each.call.parent
            while isinstance(up, ir.Node) and not isinstance(up, ir.Function):
                if isinstance(up, (ir.If, ir.Conditional)):
                    names.extend(names_read(up.test))
                up = up.parent
        return bool(flags) and all(any(map(_AMPS.search, names)) for _, names in flags)

    def learned(self, target: ir.Value, value: ir.Value, before: State) -> Fact | None:
        """The fact that an assignment makes: what `flag = False` or `scaler = GradScaler()` says of its target."""
        key = self._objects.own_key(target)
        if key is None:
            return None
        if isinstance(value, ir.Constant) and type(value.value) is int and value.value == 0:
            return Fact(equal(path(key), ZERO), holds=True)
        if isinstance(value, ir.Constant):
            absent = Fact(present(path(key)), holds=False)
            return absent if value.value is None else Fact(path(key), bool(value.value))
        if isinstance(value, ir.Call) and self._is_there(key, value):
            return Fact(present(path(key)), holds=True)
        result = before.returned(value)
        if isinstance(value, (ir.Name, ir.Attribute, ir.Compare, ir.Unary, ir.Bool)) or result is not None:
            truth = self.truth(value, before)
            return Fact(path(key), truth) if truth is not None else None
        return None

    def _is_there(self, key: str, call: ir.Call) -> bool:
        """Whether a call gives something that is not None to the variable with a key: a scaler, or a norm."""
        return any(made.call is call for made in self._objects.made_by(key)) or self._objects.is_norm(call)

    def as_test(self, value: ir.Value, state: State) -> AbstractValue | None:
        """A condition kept in a variable (`use_amp = scaler is not None`), or a remainder (`left = n % k`)."""
        flag = True
        while isinstance(value, ir.Unary) and value.op == "Not":
            value, flag = value.operand, not flag
        remainder = isinstance(value, ir.Binary) and value.op == "Modulo"
        if remainder or isinstance(value, (ir.Compare, ir.Name, ir.Attribute, ir.Call)):
            fact = self._fact(value, state)
            if fact is not None:
                return AbstractValue(ValueKind.TEST, flag=fact.holds is flag, condition=fact.condition)
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


def _of_number(condition: Term, state: State) -> bool | None:
    """The truth of a condition by what the path knows of the same number: none that is counted is less than 0."""
    if condition.op == "Equal":
        one, other = condition.parts
        if other == ZERO and (known := state.known(one)) is not None:
            return not known
        if (next_to := _next_to(condition)) is not None and state.known(next_to):
            return False  # of two numbers that follow each other only one is a multiple
    is_more = condition.op == "GreaterThan" and condition.parts[1] == ZERO
    zero = state.known(equal(condition.parts[0] if is_more else condition, ZERO))
    return None if zero is None else not zero


def _next_to(condition: Term) -> Term | None:
    """That a number is a multiple, for the condition that the one behind it is; the other way round too."""
    found = multiple(condition)
    if found is None:
        return None
    number, period = found
    follows = number.op == "Add" and number.parts[1] == ONE
    other = number.parts[0] if follows else added(number, ONE)
    return equal(Term("Modulo", parts=(other, period)), ZERO)


def _is_grad(value: Term) -> bool:
    """Whether a term is the gradient of something."""
    return value.is_path and is_named(value.name, "grad")


def enabling(scaler: str) -> str:
    """The key under which a path keeps the condition that switches a scaler on."""
    return attribute_of(scaler, "#enabled")


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


def names_read(test: ir.Value) -> list[str]:
    """The last words of the names that a condition reads: of `cfg["train"]["amp"]` amp."""
    found = []
    for each in ir.walk_values(test):
        up = each.parent
        if isinstance(up, ir.Attribute) or (isinstance(up, ir.Subscript) and up.base is each and _key(up)):
            continue
        if isinstance(each, (ir.Name, ir.Attribute)):
            found.append(ir.last_name(each))
        elif isinstance(each, ir.Subscript) and (key := _key(each)):
            found.append(key)
    return found


def _key(item: ir.Subscript) -> str:
    """The text in the brackets of an item; "" for another index."""
    index = item.index.value if isinstance(item.index, ir.Constant) else None
    return index if isinstance(index, str) else ""
