"""What a run has decided about values out of sight, so that its conditions don't contradict each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from amplint.verify.choices import Choices
from amplint.verify.standins import Unknown

# How many micro steps make a step, where the text doesn't say; the first is taken where nothing hangs on it.
PERIODS = (2, 1)
_ORDER = {"GreaterThan", "GreaterThanEqual", "LessThan", "LessThanEqual"}
_SAID = {
    "GreaterThan": ">",
    "GreaterThanEqual": ">=",
    "LessThan": "<",
    "LessThanEqual": "<=",
    "Equal": "==",
    "NotEqual": "!=",
    "In": "in",
    "NotIn": "not in",
}


@dataclass
class _Known:
    """Of one value: whether it is None, whether it is true, what it is, or in which range."""

    none: bool | None = None
    truth: bool | None = None
    value: Any = None  # a number or string that it is, None where that isn't decided
    low: float = 0.0  # numbers that conditions ask for are not negative
    high: float = math.inf
    above_low: bool = False  # it isn't `low` itself


@dataclass
class Facts:
    """Answers questions about values out of sight by what was decided before, else by a choice."""

    choices: Choices
    periods: frozenset[str] = frozenset()  # what the program takes remainders by
    _known: dict[str, _Known] = field(default_factory=dict)

    def of(self, value: Unknown) -> _Known:
        """What is known of a value."""
        return self._known.setdefault(value.text, _Known())

    def is_none(self, value: Unknown, *, matters: bool) -> bool:
        """Whether it is None."""
        known = self.of(value)
        if known.none is None:
            certain = known.truth or known.value is not None or known.low or known.above_low
            if certain or value.tensor is not None or (value.role is not None and not matters):
                known.none = False
            else:
                known.none = self.choices.ask(f"{value.text} is None", (False, True), matters=matters)
        return known.none

    def truth(self, value: Unknown, *, matters: bool) -> bool:
        """Whether it counts as true."""
        if value.test is not None:
            return value.test(matters)
        if value.counts is not None:
            return bool(value.counts(matters))
        known = self.of(value)
        if known.truth is None:
            if known.none:
                known.truth = False
            elif known.value is not None:
                known.truth = bool(known.value)
            elif known.low or known.above_low or value.tensor is not None:
                known.truth = True
            elif value.text in self.periods:
                known.truth = bool(self.number(value, matters=matters))
            else:
                known.truth = self.choices.ask(value.text, (True, False), matters=matters)
        return known.truth

    def number(self, value: Unknown, *, matters: bool) -> int:
        """What it is where it says how many micro steps make a step."""
        if value.counts is not None:
            return value.counts(matters)
        known = self.of(value)
        if isinstance(known.value, (int, float)):
            return int(known.value)
        if known.none or known.truth is False:
            return 1
        options = [each for each in PERIODS if known.low <= each <= known.high] or [max(1, int(known.low))]
        options = [each for each in options if not (known.above_low and each == known.low)] or [int(known.low) + 1]
        found: int = options[0]
        if len(options) > 1:
            found = self.choices.ask(f"{value.text} =", tuple(options), matters=matters)
        known.value = found
        return found

    def compare(self, value: Unknown, op: str, other: Any, *, matters: bool) -> bool:
        """Whether `value op other` holds; `op` is the IR's."""
        if op in ("NotEqual", "IsNot", "NotIn"):
            positive = {"NotEqual": "Equal", "IsNot": "Is", "NotIn": "In"}[op]
            return not self.compare(value, positive, other, matters=matters)
        if other is None and op in ("Is", "Equal"):
            return self.is_none(value, matters=matters)
        if isinstance(other, bool) and op in ("Is", "Equal"):
            return self.truth(value, matters=matters) is other
        if op in _ORDER and isinstance(other, (int, float)):
            return self._order(value, op, other, matters=matters)
        if op == "Equal" and isinstance(other, (int, float, str)):
            return self._equal(value, other, matters=matters)
        if op == "In" and isinstance(other, (list, tuple)) and self.of(value).value is not None:
            return self.of(value).value in other
        said = f"{value.text} {_SAID.get(op, op)} {other!r}"
        return bool(self.choices.ask(said, (True, False), matters=matters))

    def _equal(self, value: Unknown, other: float | str, *, matters: bool) -> bool:
        known = self.of(value)
        if value.text in self.periods and isinstance(other, int):
            return self.number(value, matters=matters) == other
        if known.value is not None:
            return bool(known.value == other)
        if known.none or (known.truth is False and other):
            return False
        if isinstance(other, (int, float)) and not known.low <= other <= known.high:
            return False
        found = bool(self.choices.ask(f"{value.text} == {other!r}", (True, False), matters=matters))
        if found:
            known.value = other
        return found

    def _order(self, value: Unknown, op: str, other: float, *, matters: bool) -> bool:
        known = self.of(value)
        if value.text in self.periods and known.value is None:
            self.number(value, matters=matters)
        if isinstance(known.value, (int, float)):
            return {
                "GreaterThan": known.value > other,
                "GreaterThanEqual": known.value >= other,
                "LessThan": known.value < other,
            }.get(op, known.value <= other)
        if known.none:
            return False
        if op in ("LessThan", "LessThanEqual"):
            return not self._order(
                value, "GreaterThanEqual" if op == "LessThan" else "GreaterThan", other, matters=matters
            )
        if known.low > other or (known.low == other and (op == "GreaterThanEqual" or known.above_low)):
            return True
        if known.high < other or (known.high == other and op == "GreaterThan"):
            return False
        if known.truth is False:
            return False
        found = bool(self.choices.ask(f"{value.text} {_SAID[op]} {other:g}", (True, False), matters=matters))
        if found:
            known.low, known.above_low = float(other), op == "GreaterThan"
        else:
            known.high = float(other)
        known.none = False
        if known.high <= 0:
            known.truth = False
        return found
