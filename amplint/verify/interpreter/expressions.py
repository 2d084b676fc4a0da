"""Evaluating each kind of expression of the IR but calls, `yield` and `await`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Scope
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.arithmetic import Arithmetic, compared_number, said
from amplint.verify.interpreter.assignments import Assignments, LoopItems
from amplint.verify.interpreter.assumptions import SAID
from amplint.verify.interpreter.evaluate import ByKind, Evaluator, Truth
from amplint.verify.interpreter.lookup import Lookup, TableItems
from amplint.verify.interpreter.standins import MISSING, Closure, Counted, Frame, Guessed, Unknown, as_setting, key_of
from amplint.verify.program.leaving import decides_later
from amplint.verify.program.program import Code


@dataclass(eq=False)
class Expressions:
    """Evaluates expressions on numbers, containers, torch's objects and values out of sight."""

    _evaluator: Evaluator
    _truth: Truth
    _arithmetic: Arithmetic
    _lookup: Lookup
    _tables: TableItems
    _items: LoopItems
    _assignments: Assignments
    _accelerators: Accelerators

    def by_kind(self) -> ByKind:
        """What evaluates each kind of expression."""
        return {
            ir.Constant: lambda value, frame: value.value,
            ir.Name: self._lookup.name,
            ir.Attribute: self._attribute,
            ir.Subscript: self._subscript,
            ir.Slice: lambda value, frame: Unknown(frame.code.text(value)),
            ir.Unary: self._unary,
            ir.Binary: self._binary,
            ir.Bool: self._bool,
            ir.Compare: self._compare,
            ir.Conditional: self._conditional,
            ir.Sequence: self._sequence,
            ir.Mapping: self._mapping,
            ir.Starred: lambda value, frame: self._evaluator.evaluate(value.value, frame),
            ir.Comprehension: self._comprehension,
            ir.Lambda: lambda value, frame: Closure(value.function, frame),
            ir.FString: lambda value, frame: Unknown(frame.code.text(value)),
            ir.Walrus: self._walrus,
            ir.Quoted: lambda value, frame: Unknown(value.text),
        }

    def _attribute(self, value: ir.Attribute, frame: Frame) -> Any:
        found = self._accelerators.attribute(value, frame)
        return self._lookup.attribute_value(value, frame) if found is MISSING else found

    def _subscript(self, value: ir.Subscript, frame: Frame) -> Any:
        base = self._evaluator.evaluate(value.base, frame)
        index = self._evaluator.evaluate(value.index, frame)
        taken = self._tables.taken(value, base, index, frame)
        if taken is not MISSING:
            return taken
        if isinstance(base, (dict, list, tuple)):
            return _item(base, index, Unknown(frame.code.text(value)))
        if isinstance(base, Unknown):
            if isinstance(index, Unknown) and index.identity != index.text:  # which one of a loop's
                index = key_of(index)
            if isinstance(index, str):
                return base.entry(index, f"{base.text}[{index!r}]")
            return base.child(f"[{index!r}]" if isinstance(index, int) else f"[{said(index)}]")
        tensor = base if isinstance(base, torch.Tensor) else None
        return Unknown(frame.code.text(value), inputs=(base,), tensor=tensor)

    def _unary(self, value: ir.Unary, frame: Frame) -> Any:
        operand = self._evaluator.evaluate(value.operand, frame)
        if value.op == "Not":
            operand = self._arithmetic.asked(operand, frame.code.text(value.operand))
        return self._arithmetic.unary(value.op, operand, frame.code.text(value))

    def _binary(self, value: ir.Binary, frame: Frame) -> Any:
        left, right = self._evaluator.evaluate(value.left, frame), self._evaluator.evaluate(value.right, frame)
        text = frame.code.text(value)
        if value.op == "Modulo":
            counted = self._arithmetic.micro_step(left, _offset(value.left), right, text)
            if counted is not None:
                return counted
        return self._arithmetic.binary(value.op, left, right, text)

    def _bool(self, value: ir.Bool, frame: Frame) -> Any:
        left = as_setting(self._asked(value.left, frame))
        wanted = value.op == "and"  # what the left one has to be for the right one to count
        if not isinstance(left, Unknown):
            return (
                self._evaluator.evaluate(value.right, frame) if self._truth.of(left, matters=False) is wanted else left
            )
        right = self._asked(value.right, frame)

        def test(matters: bool) -> bool:
            return self._truth.of(right if self._truth.of(left, matters=matters) is wanted else left, matters=matters)

        if not wanted and not isinstance(right, Unknown):
            return Unknown(left.text, inputs=(left,), test=test)
        return Unknown(frame.code.text(value), inputs=(left, right), test=test)

    def _asked(self, value: ir.Value, frame: Frame) -> Any:
        """The value of an expression that is asked for its truth."""
        return self._arithmetic.asked(self._evaluator.evaluate(value, frame), frame.code.text(value))

    def _compare(self, value: ir.Compare, frame: Frame) -> Any:
        left = self._evaluator.evaluate(value.left, frame)
        text, of = frame.code.text(value), value.left
        found: list[Any] = []
        for op, right_value in zip(value.ops, value.rights, strict=True):
            right = self._evaluator.evaluate(right_value, frame)
            part = f"{frame.code.text(of)} {SAID.get(op, op)} {frame.code.text(right_value)}" if value.ops[1:] else text
            each = self._arithmetic.compared(compared_number(left, of), op, compared_number(right, right_value), part)
            if each is False:
                return False
            found.append(each)
            left, of = right, right_value
        if len(found) == 1 or not any(isinstance(each, Unknown) for each in found):
            return found[-1]
        return Unknown(
            text,
            inputs=(*found,),
            test=lambda matters: all(self._truth.of(each, matters=matters) for each in found),
        )

    def _conditional(self, value: ir.Conditional, frame: Frame) -> Any:
        matters = (
            frame.code.is_tool(value)
            or _names_precision(frame.code, value)
            or self._is_scaler_or_none(value, frame)
            or _is_flag(frame.code, value)
        )
        holds = self._truth.of(self._asked(value.test, frame), matters=matters)
        return self._evaluator.evaluate(value.then if holds else value.other, frame)

    def _is_scaler_or_none(self, value: ir.Conditional, frame: Frame) -> bool:
        """Whether one arm is None, and the other one a variable that has a scaler."""
        arms = [each for each in (value.then, value.other) if not ir.is_none(each)]
        return len(arms) == 1 and all(
            isinstance(each, ir.Name) and isinstance(self._evaluator.evaluate(each, frame), torch.amp.GradScaler)
            for each in arms
        )

    def _sequence(self, value: ir.Sequence, frame: Frame) -> Any:
        found: list[Any] = []
        for item in value.items:
            if isinstance(item, ir.Starred):
                found += self._items.of(self._evaluator.evaluate(item.value, frame), frame, item).items
            else:
                found.append(self._evaluator.evaluate(item, frame))
        return tuple(found) if value.kind == "tuple" else found

    def _mapping(self, value: ir.Mapping, frame: Frame) -> Any:
        found: dict[Any, Any] = {}
        for key, item in value.items:
            known = self._evaluator.evaluate(key, frame) if key is not None else None
            inner = self._evaluator.evaluate(item, frame)
            if key is None and isinstance(inner, dict):
                found |= inner
            elif (own := key_of(known)) is not None:
                found[own] = inner
        return found

    def _comprehension(self, value: ir.Comprehension, frame: Frame) -> Any:
        found: list[Any] = []
        is_guessed = False
        scope = _scope_of(value)
        inner = Frame(frame.code, scope, frame) if scope is not None else frame

        def go(at: int) -> None:
            nonlocal is_guessed
            if at == len(value.clauses):
                if inner is not frame:
                    inner.item = len(found)
                found.append(tuple(self._evaluator.evaluate(each, inner) for each in value.elements))
                return
            clause = value.clauses[at]
            through = self._evaluator.evaluate(clause.iter, inner)
            items = self._items.of(through, inner, clause.iter)
            is_guessed = is_guessed or (isinstance(through, (Unknown, Counted)) and not items.whole)
            for item in items.items:
                self._assignments.bind(clause.target, item, inner)
                if all(
                    self._truth.of(self._evaluator.evaluate(each, inner), matters=False) for each in clause.conditions
                ):
                    go(at + 1)

        go(0)
        if value.kind == "DictComp":
            return {key: item for at, item in found if (key := key_of(at)) is not None}
        values = [each[0] for each in found]
        return Guessed(values) if is_guessed else values

    def _walrus(self, value: ir.Walrus, frame: Frame) -> Any:
        found = self._evaluator.evaluate(value.value, frame)
        self._assignments.bind(value.target, found, frame)
        return found


def _item(base: dict[Any, Any] | list[Any] | tuple[Any, ...], index: Any, unknown: Unknown) -> Any:
    """An item of a container; where the key is out of sight, the first one, if there is any."""
    if isinstance(index, (int, str)):
        try:
            return base[index]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return unknown
    if isinstance(base, dict):
        key = key_of(index)
        return base[key] if key in base else next(iter(base.values()), unknown)
    return next(iter(base), unknown)


def _offset(value: ir.Value) -> int:
    """What is added to a counter: 1 of `step + 1`."""
    if isinstance(value, ir.Binary) and value.op in ("Add", "Subtract") and isinstance(value.right, ir.Constant):
        added = value.right.value
        if type(added) is int:
            return added if value.op == "Add" else -added
    return 0


def _is_flag(code: Code, value: ir.Conditional) -> bool:
    """Whether a variable is set to one of two constants that a later test asks for."""
    statement = ir.statement_of(value)
    return statement is not None and value.parent is statement and decides_later(code, statement)


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
