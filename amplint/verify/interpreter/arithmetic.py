"""Operators and comparisons on numbers, tensors and values out of sight."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.operators import COMPARES, COMPUTES
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.evaluate import Truth
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import (
    MISSING,
    Count,
    Dotted,
    Guessed,
    Key,
    Measured,
    Scale,
    Unknown,
    as_setting,
    computed,
    has_finite,
    is_measured,
    is_of_gradients,
    value_of,
)
from amplint.verify.interpreter.world import Stage

_LARGEST = 1 << 40  # an integer's absolute value, an item's count
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **COMPUTES,
    "Divide": operator.truediv,
    "FloorDivide": operator.floordiv,
    "Power": operator.pow,
    "MatrixMultiply": operator.matmul,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    **COMPARES,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda one, other: one in other,
    "NotIn": lambda one, other: one not in other,
}

# What holds of the right side where a comparison holds of the left one.
SWAPPED = {
    "LessThan": "GreaterThan",
    "GreaterThan": "LessThan",
    "LessThanEqual": "GreaterThanEqual",
    "GreaterThanEqual": "LessThanEqual",
    "Equal": "Equal",
    "NotEqual": "NotEqual",
}


def arithmetic(op: str, left: Any, right: Any) -> Any:
    """What Python makes of two values that are in sight; None: nothing, or more than is good for anybody."""
    numbers = (int, float, bool, torch.Tensor)
    both = isinstance(left, numbers) and isinstance(right, numbers)
    lists = op == "Add" and any(isinstance(left, of) and isinstance(right, of) for of in (list, tuple))
    if not (both or lists) or op not in BINARY:
        return None
    if op == "Power" and not (abs(float(right)) <= 8 if isinstance(right, (int, float)) else False):
        return None
    try:
        found = BINARY[op](left, right)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        return None
    if isinstance(found, int) and abs(found) > _LARGEST:
        return float("inf")
    return None if isinstance(found, (list, tuple)) and len(found) > 1000 else found


_LONGEST_PERIOD = 32  # micro steps of a step that are run as they are
_SHORT_PERIOD = 8  # the same of a counter that is out of sight
_LOSS = re.compile(r"(?i)loss|crit|\berr|objective")
_NAMED = (Unknown, Dotted)
_SUMS = ("Add", "Subtract")
_OF_TRUTHS = ("BitAnd", "BitOr", "BitXor")
_Test = Callable[[bool], bool]
_SAMENESS = ("Equal", "NotEqual", "Is", "IsNot")


@dataclass(eq=False)
class Arithmetic:
    """Computes and compares; what hangs on values out of sight is out of sight, with a test where it can be asked."""

    _state: RunState
    _facts: Facts
    _stage: Stage
    _truth: Truth
    _roles: Roles

    def unary(self, op: str, operand: Any, text: str) -> Any:
        """`op operand`."""
        if op == "BitInvert" and isinstance(operand, Unknown) and operand.test is not None:
            inverted = ~operand.tensor if operand.tensor is not None else None
            return Unknown(
                text,
                inputs=(operand,),
                tensor=inverted,
                test=lambda matters: not self._truth.of(operand, matters=matters),
            )
        if op == "Not":
            operand = as_setting(operand)
            if isinstance(operand, Unknown):
                return Unknown(f"not {operand.text}", test=lambda matters: not self._truth.of(operand, matters=matters))
            return not self._truth.of(operand, matters=False)
        operand = value_of(operand)
        if isinstance(operand, (int, float, torch.Tensor)) and op in ("Minus", "Plus"):
            return computed(-operand, (operand,)) if op == "Minus" else operand
        return Unknown(text, inputs=(operand,))

    def micro_step(self, left: Any, added: int, right: Any, text: str) -> Unknown | None:
        """`left % right` where the left side counts out of sight, with so much `added`; None: it doesn't.

        What counts out of sight goes by one in each iteration.
        """
        if not isinstance(left, Unknown) or left.counts is not None or left.tensor is not None:
            return None
        at = self._state.tick + added
        if isinstance(right, Unknown) and right.text in self._facts.periods:
            return Unknown(text, counts=lambda matters: at % self._facts.number(right, matters=matters))
        if type(right) is int and 0 < right <= _SHORT_PERIOD:
            self._stage.knowledge.learn_period(right)
            return Unknown(text, counts=lambda matters: at % right)
        return None

    def binary(self, op: str, left: Any, right: Any, text: str) -> Any:
        """`left op right`."""
        counter = self._counter(op, left, right, text)
        if counter is not None:
            return counter
        if op in _OF_TRUTHS and any(isinstance(each, Unknown) and each.test is not None for each in (left, right)):
            return self._of_truths(op, left, right, text)
        left, right = self._operand(left), self._operand(right)
        if op in _SUMS:
            for one, other in ((left, right), (right, left)):
                if isinstance(one, torch.Tensor) and one.requires_grad and isinstance(other, Unknown):
                    self._roles.summand(other)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, torch.Tensor) and not one.requires_grad and isinstance(other, Unknown):
                self._roles.factor(other)
        half_seen = _half_seen(op, left, right, text)
        if half_seen is not MISSING:
            return half_seen
        if op == "Subtract" and isinstance(left, list) and isinstance(right, list):
            without = set(map(id, right))
            return [each for each in left if id(each) not in without]
        known = arithmetic(op, left, right)
        if known is None:
            return Unknown(text, inputs=_of_loss(op, left, right))
        counted = _of_counts(op, left, right, known)
        return computed(known, (left, right)) if counted is None else counted

    def _of_truths(self, op: str, left: Any, right: Any, text: str) -> Unknown:
        """`left op right` of two truths, at least one of which is out of sight."""
        tensors = [value_of(each) for each in (left, right)]
        both = all(isinstance(each, (torch.Tensor, bool)) for each in tensors)
        tensor = arithmetic(op, *tensors) if both else None

        def test(matters: bool) -> bool:
            return bool(BINARY[op](self._truth.of(left, matters=matters), self._truth.of(right, matters=matters)))

        tensor = tensor if isinstance(tensor, torch.Tensor) else None
        return Unknown(text, inputs=(left, right), tensor=tensor, test=test)

    def _counter(self, op: str, left: Any, right: Any, text: str) -> Unknown | None:
        """A number that is counted out of sight, or by what is out of sight."""
        if op == "Modulo" and isinstance(left, int):
            if isinstance(right, Unknown):
                return Unknown(text, counts=lambda matters: left % self._facts.number(right, matters=matters))
            if isinstance(right, int) and 0 < right <= _LONGEST_PERIOD:
                self._stage.knowledge.learn_period(right)
        if op in _SUMS and isinstance(left, Unknown) and type(right) is int:
            if left.counts is not None or left.text in self._facts.periods:
                added = right if op == "Add" else -right
                return Unknown(text, counts=lambda matters: self._facts.number(left, matters=matters) + added)
        return None

    def _operand(self, value: Any) -> Any:
        """The tensor that a value is: a loss, or what an optimizer was given as a parameter."""
        if isinstance(value, Unknown) and value.tensor is None and not value.called:
            return self._stage.number(value.identity) if value.identity in self._stage.knowledge.nets else value
        return value_of(value)

    # --- comparisons

    def asked(self, value: Any, text: str) -> Any:
        """A value that is asked for its truth; one that a tensor of the bench has given is out of sight."""
        if isinstance(value, Guessed):
            return self.of_data(text, (), value)
        if isinstance(value, Count):
            return self._counted_number(value, bool, (0,), text)
        if not is_measured(value) or (isinstance(value, torch.Tensor) and value.requires_grad):
            return value
        return self.of_data(text, (value,), value)

    def of_data(self, text: str, of: tuple[Any, ...], found: Any) -> Any:
        """What a program makes of tensors of the bench, which has `found` something true or false.

        What is infinite or NaN in a run is so in training. Gradients are compared with those of the run without AMP,
        and have runs with an overflow: what is asked of them comes out as it does in each run.
        """
        # Two scales are compared to know whether a step was skipped.
        scales = sum(isinstance(each, Scale) for each in of)
        if scales > 1 or any(map(is_of_gradients, of)) or not all(map(has_finite, filter(is_measured, of))):
            return found
        return self._tried(text, found)

    def compared(self, left: Any, op: str, right: Any, text: str) -> Any:
        """`left op right`, a comparison."""
        if isinstance(left, Key) is not isinstance(right, Key):
            left, right = (Unknown(each) if isinstance(each, Key) else each for each in (left, right))
        left, right = _setting(left, right), _setting(right, left)
        if op in ("Is", "IsNot") and not isinstance(left, Unknown) and right is None:
            found = COMPARE[op](left, None)
            # A parameter that takes no part in the loss has no gradient.
            has_gradient = isinstance(left, torch.Tensor) and is_of_gradients(left)
            return self._tried(text, found) if has_gradient else found
        if op not in ("Is", "IsNot") and any(map(is_measured, (left, right))):
            if not any(isinstance(each, Unknown) for each in (left, right)):
                return self._compared_numbers(left, op, right, text)
        if op in COMPARES and any(isinstance(each, Count) for each in (left, right)):
            if all(isinstance(each, (int, float)) for each in (left, right)):
                return self._compared_counts(left, op, right, text)
        if op in ("In", "NotIn") and isinstance(left, Count) and isinstance(right, (list, tuple)):
            if all(isinstance(each, (int, float)) for each in right):
                return self._counted_number(left, lambda count: (count in right) is (op == "In"), right, text)
        numbers = (isinstance(each, (Unknown, int)) and not isinstance(each, bool) for each in (left, right))
        if op in COMPARES and all(numbers):
            counted = self._counted(left, op, right, text)
            if counted is not None:
                return counted
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            inputs, test = self._asked(left, op, right)
            return Unknown(text, test=test, inputs=inputs)
        try:
            return COMPARE[op](left, right)
        except (TypeError, ValueError, RuntimeError):
            return Unknown(text)

    def _tried(self, text: str, found: Any) -> Unknown:
        """What is true or false of the bench, and may be otherwise in training."""
        holds = self._truth.of(found, matters=False)
        return Unknown(
            text,
            tensor=found if isinstance(found, torch.Tensor) else None,
            test=lambda matters: self._facts.measured(text, holds=holds, matters=matters),
        )

    def _compared_counts(self, left: Any, op: str, right: Any, text: str) -> Unknown:
        """A comparison of a number that the program counts with one that is in sight."""
        if not isinstance(left, Count):
            left, op, right = right, SWAPPED[op], left
        bound = right if not isinstance(right, Count) else None  # what is counted as well, or a length of the bench's

        compare = COMPARES[op]
        return self._counted_number(
            left, lambda count: bool(compare(count, right)), () if bound is None else (bound,), text
        )

    def _counted_number(self, count: Count, asked: Callable[[int], bool], near: Sequence[float], text: str) -> Unknown:
        """What is asked of a number that the program counts."""
        return Unknown(
            text,
            test=lambda matters: self._facts.counted(text, count, asked, near, matters=matters),
            counts=_counts,
        )

    def _compared_numbers(self, left: Any, op: str, right: Any, text: str) -> Any:
        """A comparison of what tensors of the bench have given."""
        if sum(isinstance(each, Scale) for each in (left, right)) == 1:
            left, right = (each.compared if isinstance(each, Scale) else each for each in (left, right))
            return self._tried(text, COMPARE[op](left, right))
        try:
            return self.of_data(text, (left, right), COMPARE[op](left, right))
        except (TypeError, ValueError, RuntimeError):
            return Unknown(text)

    def _asked(self, left: Any, op: str, right: Any) -> tuple[tuple[Any, ...], _Test | None]:
        """What a comparison with what is out of sight hangs on, and how it comes out; None: nothing says so."""
        if isinstance(left, Unknown) and _is_plain(right):
            return (left,), lambda matters: self._facts.compare(left, op, right, matters=matters)
        if isinstance(right, Unknown) and _is_plain(left) and op in SWAPPED:
            return (right,), lambda matters: self._facts.compare(right, SWAPPED[op], left, matters=matters)
        if isinstance(left, Unknown) and op in _SAMENESS and isinstance(right, _NAMED):
            # What two names stand for is the same or not; it can't be two things at once.
            name, equal = said(right), {"Is": "Equal", "IsNot": "NotEqual"}.get(op, op)
            return (left, right), lambda matters: self._facts.compare(left, equal, name, matters=matters)
        return (left, right), None

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
            return self._facts.number(value, matters=matters)

        if len(known) == 1 and isinstance(known[0], Count):
            count, bound = known[0], right if known[0] is left else left
            compare = COMPARES[op if known[0] is left else SWAPPED[op]]

            def reached(matters: bool) -> bool:
                most = number(bound, matters)
                return self._facts.counted(text, count, lambda at: bool(compare(at, most)), (most,), matters=matters)

            return Unknown(text, test=reached, counts=_counts)
        return Unknown(
            text, test=lambda matters: bool(COMPARE[op](number(left, matters), number(right, matters))), counts=_counts
        )


def _of_counts(op: str, left: Any, right: Any, found: Any) -> Count | None:
    """What is computed of numbers that are counted; None: what the run counts through, or no such number."""
    if type(found) is not int or not any(isinstance(each, Count) for each in (left, right)):
        return None
    if op == "Modulo" and right <= _LONGEST_PERIOD:
        return None
    by_right = isinstance(right, Count) and (bool(right.of) or not isinstance(left, Count))
    count: Count = right if by_right else left
    other = left if by_right else right
    if op == "Modulo" and not by_right:
        return count.like(found, every=int(right))
    if op == "Multiply" and other:
        return count.like(found, pace=count.pace * other)
    if op == "FloorDivide" and not by_right:
        return count.like(found, pace=count.pace / other)
    if op in _SUMS:
        return count.like(found, pace=-count.pace if by_right and op == "Subtract" else count.pace)
    return None


def _half_seen(op: str, left: Any, right: Any, text: str) -> Any:
    """What is made of a tensor and of a value out of sight; `MISSING`: they are no such two."""
    if isinstance(left, torch.Tensor) and isinstance(right, Unknown):
        return left * 1.0 if op != "Modulo" else Unknown(text)
    if isinstance(right, torch.Tensor) and isinstance(left, Unknown):
        if op == "Divide":  # a number out of sight is 1
            return 1.0 / right
        return -right if op == "Subtract" else right * 1.0
    return MISSING


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
    if isinstance(value, (_Computed, Measured)):
        return False
    return value is None or isinstance(value, (bool, int, float, str, list, tuple))


class _Computed(float):
    """A number that the program has computed: no bound that somebody has chosen."""


class _Literal(int):
    """A number that stands in the text."""


def _setting(value: Any, other: Any) -> Any:
    """A value of a comparison: an attribute of an import out of sight is a setting where it is compared with text."""
    text = isinstance(other, str) or (isinstance(other, (list, tuple)) and all(isinstance(each, str) for each in other))
    foreign = isinstance(value, Dotted) and not value.name.startswith(("torch.", "builtins."))
    return Unknown(value.name) if foreign and text and other else value


def _counts(matters: bool) -> int:
    """Marks a test that counts."""
    return 0


def compared_number(value: Any, node: ir.Value) -> Any:
    """A value of a comparison; numbers in the text and floats that the program computes are told from others."""
    if type(value) is int and isinstance(node, ir.Constant):
        return _Literal(value)
    return _Computed(value) if type(value) is float and isinstance(node, (ir.Call, ir.Name)) else value


def said(value: Any) -> str:
    """What a value is called; "..." where it has no name."""
    if isinstance(value, (Unknown, Dotted)):
        return value.text if isinstance(value, Unknown) else value.name
    return "..."
