"""Python's operators on what an interpreted program computes with: by their names in the IR, and within bounds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from amplint.model.syntax.operators import COMPARES, COMPUTES

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
    lists = op == "Add" and type(left) is type(right) and isinstance(left, (list, tuple))
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
