"""Evaluating expressions of the IR: on numbers, containers, torch's objects and stand-ins."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.operators import COMPARES
from amplint.model.syntax.scopes import Scope
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.lookup import MISSING, Lookup
from amplint.verify.interpreter.operators import COMPARE, SWAPPED, arithmetic
from amplint.verify.interpreter.standins import (
    CannotFollow,
    Closure,
    Counted,
    Dotted,
    Frame,
    Key,
    Unknown,
    key_of,
    value_of,
)
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.function_tables import Entry
from amplint.verify.program.program import Code

LONGEST_PERIOD = 32  # micro steps of a step that are run as they are
_SHORT_PERIOD = 8  # the same of a counter that is out of sight
_LOSS = re.compile(r"(?i)loss|crit|\berr|objective")
_NAMED = (Unknown, Dotted)
BUDGET = 400_000  # expressions that a run may evaluate


class Evaluator(Lookup):
    """Evaluates expressions in a frame. What calls do is the subclass's."""

    facts: Facts
    stage: Stage
    iterations: int

    def __init__(self) -> None:
        super().__init__()
        self.evaluated = 0
        self.tick = 0  # the iteration of the step, from 0
        self._by_kind: dict[type[ir.Value], Callable[[Any, Frame], Any]] = {
            ir.Constant: lambda value, frame: value.value,
            ir.Name: self.name,
            ir.Attribute: self.attribute_value,
            ir.Subscript: self._subscript,
            ir.Slice: lambda value, frame: Unknown(frame.code.text(value)),
            ir.Call: self.call,
            ir.Unary: self._unary,
            ir.Binary: self._binary,
            ir.Bool: self._bool,
            ir.Compare: self._compare,
            ir.Conditional: self._conditional,
            ir.Sequence: self._sequence,
            ir.Mapping: self._mapping,
            ir.Starred: lambda value, frame: self.evaluate(value.value, frame),
            ir.Comprehension: self._comprehension,
            ir.Lambda: lambda value, frame: Closure(value.function, frame),
            ir.FString: lambda value, frame: Unknown(frame.code.text(value)),
            ir.Suspend: self.suspend,
            ir.Walrus: self._walrus,
            ir.Quoted: lambda value, frame: Unknown(value.text),
        }

    # --- what the subclass does

    def call(self, call: ir.Call, frame: Frame) -> Any:
        """The value of a call."""
        raise NotImplementedError

    def suspend(self, value: ir.Suspend, frame: Frame) -> Any:
        """The value of `yield` and `await`."""
        raise NotImplementedError

    def bind(self, target: ir.Value, value: Any, frame: Frame) -> None:
        """Assign."""
        raise NotImplementedError

    def items(self, value: Any, frame: Frame, where: ir.Value) -> Counted:
        """What a loop goes through."""
        raise NotImplementedError

    def summand(self, value: Unknown) -> None:
        """Learn that a value out of sight is added to one that has gradients."""
        raise NotImplementedError

    # --- expressions

    def evaluate(self, value: ir.Value, frame: Frame) -> Any:
        """The value of an expression.

        Raises:
            CannotFollow: the run takes too long.
            Raised: the program raises.
        """
        self.evaluated += 1
        if self.evaluated > BUDGET:
            raise CannotFollow(f"{frame.code.where(value)}: the run takes too long")
        return self._by_kind[type(value)](value, frame)

    def _subscript(self, value: ir.Subscript, frame: Frame) -> Any:
        base = self.evaluate(value.base, frame)
        index = self.evaluate(value.index, frame)
        taken = self.taken(value, base, index, frame)
        if taken is not MISSING:
            return taken
        if isinstance(base, (dict, list, tuple)) and isinstance(index, (int, str, bool)):
            try:
                return base[index]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return Unknown(frame.code.text(value))
        if isinstance(base, dict) and (key := key_of(index)) in base:
            return base[key]
        if isinstance(base, (dict, list, tuple)):
            return next(iter(base.values() if isinstance(base, dict) else base), Unknown(frame.code.text(value)))
        if isinstance(base, Unknown):
            if isinstance(index, Unknown) and index.identity != index.text:  # which one of a loop's
                index = key_of(index)
            return base.child(f"[{index!r}]" if isinstance(index, (int, str)) else f"[{_said(index)}]")
        if isinstance(base, torch.Tensor):
            return Unknown(frame.code.text(value), inputs=(base,), tensor=base)
        return Unknown(frame.code.text(value), inputs=(base,))

    def taken(self, value: ir.Value, base: Any, index: Any, frame: Frame) -> Any:
        """The function or region that is taken from a table: a choice, where the key is out of sight; else `MISSING`.

        What has nothing to do with scaler, gradients or regions is left to others, and so is a key that is in sight.
        """
        held: dict[str, Any] = {}
        if isinstance(base, (dict, list, tuple)):
            items = base.items() if isinstance(base, dict) else enumerate(base)
            if isinstance(index, (int, str)) and any(key == index for key, _ in items):
                return MISSING
            if not isinstance(index, (int, str)):
                held = {repr(key): item for key, item in items}
        if not held:
            held = {each.key: self._of_entry(each) for each in frame.code.tables.entries(frame.code, value)}
        if not any(map(self._matters, held.values())):
            return MISSING
        return held[self.facts.choices.ask(f"{frame.code.text(value)} is", (*held,), matters=True)]

    @staticmethod
    def _matters(held: Any) -> bool:
        if isinstance(held, Closure):
            return held.frame.code.function_matters(held.function)
        return isinstance(held, (torch.autocast, torch.amp.GradScaler, torch.dtype))

    def _of_entry(self, entry: Entry[Code]) -> Any:
        frame = self.variables_of(entry.code)
        if not isinstance(entry.what, ir.Function):
            return self.evaluate(entry.what, frame)
        return self.defined(entry.what, frame) if entry.what.outer is None else Unknown(entry.what.name)

    def _unary(self, value: ir.Unary, frame: Frame) -> Any:
        operand = self.evaluate(value.operand, frame)
        if value.op == "Not":
            if isinstance(operand, Unknown):
                return Unknown(f"not {operand.text}", test=lambda matters: not self.truth(operand, matters=matters))
            return not self.truth(operand, matters=False)
        if isinstance(operand, (int, float, torch.Tensor)) and value.op in ("Minus", "Plus"):
            return -operand if value.op == "Minus" else operand
        return Unknown(frame.code.text(value), inputs=(operand,))

    def _binary(self, value: ir.Binary, frame: Frame) -> Any:
        left, right = self.evaluate(value.left, frame), self.evaluate(value.right, frame)
        text = frame.code.text(value)
        if value.op == "Modulo" and isinstance(left, Unknown) and left.counts is None and left.tensor is None:
            at = self.tick + _offset(value.left)  # what counts out of sight goes by one in each iteration
            if isinstance(right, Unknown) and right.text in self.facts.periods:
                return Unknown(text, counts=lambda matters: at % self.facts.number(right, matters=matters))
            if type(right) is int and 0 < right <= _SHORT_PERIOD:
                self.stage.knowledge.learn_period(right)
                return Unknown(text, counts=lambda matters: at % right)
        return self.binary(value.op, left, right, text)

    def binary(self, op: str, left: Any, right: Any, text: str) -> Any:
        """`left op right`."""
        if op == "Modulo" and isinstance(left, int):
            if isinstance(right, Unknown):
                period: Unknown = right
                return Unknown(text, counts=lambda matters: left % self.facts.number(period, matters=matters))
            if isinstance(right, int) and 0 < right <= LONGEST_PERIOD:
                self.stage.knowledge.learn_period(right)
        if op in ("Add", "Subtract") and isinstance(left, Unknown) and type(right) is int:
            counter: Unknown = left
            if left.counts is not None or left.text in self.facts.periods:
                sign = 1 if op == "Add" else -1
                return Unknown(text, counts=lambda matters: self.facts.number(counter, matters=matters) + sign * right)
        left, right = self._operand(left), self._operand(right)
        if op in ("Add", "Subtract"):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, torch.Tensor) and one.requires_grad and isinstance(other, Unknown):
                    self.summand(other)
        if isinstance(left, torch.Tensor) and isinstance(right, Unknown):
            return left * 1.0 if op != "Modulo" else Unknown(text)
        if isinstance(right, torch.Tensor) and isinstance(left, Unknown):
            return -right if op == "Subtract" else right * 1.0
        if op == "Subtract" and isinstance(left, list) and isinstance(right, list):
            without = set(map(id, right))
            return [each for each in left if id(each) not in without]
        known = arithmetic(op, left, right)
        return Unknown(text, inputs=_of_loss(op, left, right)) if known is None else known

    def _operand(self, value: Any) -> Any:
        """The tensor that a value is: a loss, or what an optimizer was given as a parameter."""
        if isinstance(value, Unknown) and value.tensor is None and not value.called:
            return self.stage.number(value.identity) if value.identity in self.stage.knowledge.nets else value
        return value_of(value)

    def _bool(self, value: ir.Bool, frame: Frame) -> Any:
        left = self.evaluate(value.left, frame)
        wanted = value.op == "and"  # what the left one has to be for the right one to count
        if not isinstance(left, Unknown):
            return self.evaluate(value.right, frame) if self.truth(left, matters=False) is wanted else left
        right = self.evaluate(value.right, frame)

        def test(matters: bool) -> bool:
            return self.truth(right if self.truth(left, matters=matters) is wanted else left, matters=matters)

        if not wanted and not isinstance(right, Unknown):
            return Unknown(left.text, inputs=(left,), test=test)
        return Unknown(frame.code.text(value), inputs=(left, right), test=test)

    def _compare(self, value: ir.Compare, frame: Frame) -> Any:
        left = self.evaluate(value.left, frame)
        found: Any = True
        for op, right_value in zip(value.ops, value.rights, strict=True):
            right = self.evaluate(right_value, frame)
            found = self._compared(
                _said_number(left, value.left), op, _said_number(right, right_value), frame.code.text(value)
            )
            if found is False:
                return False
            left = right
        return found

    def _compared(self, left: Any, op: str, right: Any, text: str) -> Any:
        if isinstance(left, Key) is not isinstance(right, Key):
            left, right = (Unknown(each) if isinstance(each, Key) else each for each in (left, right))
        if op in ("Is", "IsNot") and not isinstance(left, Unknown) and right is None:
            return COMPARE[op](left, None)
        if op in COMPARES and isinstance(left, (Unknown, int)) and isinstance(right, (Unknown, int)):
            counted = self._counted(left, op, right, text)
            if counted is not None:
                return counted
        if isinstance(left, Unknown) and _is_plain(right):
            return Unknown(
                text, test=lambda matters: self.facts.compare(left, op, right, matters=matters), inputs=(left,)
            )
        if isinstance(right, Unknown) and _is_plain(left) and op in SWAPPED:
            return Unknown(
                text,
                test=lambda matters: self.facts.compare(right, SWAPPED[op], left, matters=matters),
                inputs=(right,),
            )
        if isinstance(left, Unknown) and op in ("Equal", "NotEqual", "Is", "IsNot") and isinstance(right, _NAMED):
            # What two names stand for is the same or not; it can't be two things at once.
            name, test = _said(right), {"Is": "Equal", "IsNot": "NotEqual"}.get(op, op)
            return Unknown(
                text, test=lambda matters: self.facts.compare(left, test, name, matters=matters), inputs=(left, right)
            )
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return Unknown(text, inputs=(left, right))
        try:
            return COMPARE[op](left, right)
        except (TypeError, ValueError, RuntimeError):
            return Unknown(text)

    def _counted(self, left: Any, op: str, right: Any, text: str) -> Unknown | None:
        """A comparison of a number that the program counts with one that it is given: that one is chosen."""
        known = [each for each in (left, right) if not isinstance(each, Unknown)]
        if all(isinstance(each, _Literal) for each in known) and not any(
            isinstance(each, Unknown) and each.counts is not None for each in (left, right)
        ):
            return None

        def number(value: Any, matters: bool) -> int:
            if not isinstance(value, Unknown):
                return int(value)
            return self.facts.number(value, matters=matters)

        return Unknown(
            text, test=lambda matters: bool(COMPARE[op](number(left, matters), number(right, matters))), counts=_counts
        )

    def truth(self, value: Any, *, matters: bool) -> bool:
        """Whether a value counts as true; where that is out of sight, a choice, that is varied where it `matters`."""
        if isinstance(value, Unknown):
            return self.facts.truth(value, matters=matters)
        if isinstance(value, torch.Tensor):
            return bool(value.any()) if value.numel() > 1 else bool(value)
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
            return bool(value)
        return True

    def _conditional(self, value: ir.Conditional, frame: Frame) -> Any:
        matters = frame.code.is_tool(value) or _names_precision(frame.code, value)
        holds = self.truth(self.evaluate(value.test, frame), matters=matters)
        return self.evaluate(value.then if holds else value.other, frame)

    def _sequence(self, value: ir.Sequence, frame: Frame) -> Any:
        found: list[Any] = []
        for item in value.items:
            if isinstance(item, ir.Starred):
                found += self.items(self.evaluate(item.value, frame), frame, item).items
            else:
                found.append(self.evaluate(item, frame))
        return tuple(found) if value.kind == "tuple" else found

    def _mapping(self, value: ir.Mapping, frame: Frame) -> Any:
        found: dict[Any, Any] = {}
        for key, item in value.items:
            known = self.evaluate(key, frame) if key is not None else None
            inner = self.evaluate(item, frame)
            if key is None and isinstance(inner, dict):
                found |= inner
            elif (own := key_of(known)) is not None:
                found[own] = inner
        return found

    def _comprehension(self, value: ir.Comprehension, frame: Frame) -> Any:
        found: list[Any] = []
        scope = _scope_of(value)
        inner = Frame(frame.code, scope, frame) if scope is not None else frame

        def go(at: int) -> None:
            if at == len(value.clauses):
                found.append(tuple(self.evaluate(each, inner) for each in value.elements))
                return
            clause = value.clauses[at]
            for item in self.items(self.evaluate(clause.iter, inner), inner, clause.iter).items:
                self.bind(clause.target, item, inner)
                if all(self.truth(self.evaluate(each, inner), matters=False) for each in clause.conditions):
                    go(at + 1)

        go(0)
        if value.kind == "DictComp":
            return {key: item for at, item in found if (key := key_of(at)) is not None}
        return [each[0] for each in found]

    def _walrus(self, value: ir.Walrus, frame: Frame) -> Any:
        found = self.evaluate(value.value, frame)
        self.bind(value.target, found, frame)
        return found


def _offset(value: ir.Value) -> int:
    """What is added to a counter: 1 of `step + 1`."""
    if isinstance(value, ir.Binary) and value.op in ("Add", "Subtract") and isinstance(value.right, ir.Constant):
        added = value.right.value
        if type(added) is int:
            return added if value.op == "Add" else -added
    return 0


def _of_loss(op: str, left: Any, right: Any) -> tuple[Any, ...]:
    """The operands that a loss comes from: a weight is none."""
    if op in ("Divide", "FloorDivide"):
        return (left,)
    if op == "Multiply":
        named = [each for each in (left, right) if isinstance(each, Unknown) and _LOSS.search(each.text)]
        if len(named) == 1:
            return (named[0],)
    return left, right


def _is_plain(value: Any) -> bool:
    if isinstance(value, _Computed):
        return False
    return value is None or isinstance(value, (bool, int, float, str, list, tuple))


class _Computed(float):
    """A number that the program has computed: no bound that somebody has chosen."""


class _Literal(int):
    """A number that stands in the text."""


def _counts(matters: bool) -> int:
    """Marks a test that counts."""
    return 0


def _said_number(value: Any, node: ir.Value) -> Any:
    """A value of a comparison; floats are told apart that the program computes."""
    if type(value) is int and isinstance(node, ir.Constant):
        return _Literal(value)
    return _Computed(value) if type(value) is float and isinstance(node, (ir.Call, ir.Name)) else value


def _said(value: Any) -> str:
    if isinstance(value, (Unknown, Dotted)):
        return value.text if isinstance(value, Unknown) else value.name
    return "..."


def _names_precision(code: Code, value: ir.Conditional) -> bool:
    """Whether an arm names a dtype of torch's or something that makes a region."""
    names = {
        name for arm in (value.then, value.other) for each in ir.walk_values(arm) for name in code.module.names.of(each)
    }
    return any(
        name.startswith(("torch.amp.", "torch.cuda.amp.", "torch.cpu.amp.", "torch.float", "torch.bfloat"))
        for name in names
    )


def _scope_of(value: ir.Comprehension) -> Scope | None:
    """The comprehension's own scope: that of its targets."""
    for each in ir.walk_values(value.clauses[0].target):
        if isinstance(each, ir.Name):
            return each.scope
    return None
