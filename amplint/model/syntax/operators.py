"""Python's operators on numbers, by their names in the IR."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "LessThan": operator.lt,
    "LessThanEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEqual": operator.ge,
}
COMPARES: dict[str, Callable[[Any, Any], bool]] = {"Equal": operator.eq, "NotEqual": operator.ne, **ORDERS}
COMPUTES: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": operator.mul,
    "Modulo": operator.mod,
}
