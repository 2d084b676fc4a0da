"""Tests that ask whether there is an object: `scaler`, `not scaler`, `scaler is not None`."""

from __future__ import annotations

from typing import NamedTuple

from amplint.model.syntax import ir


class AsksFor(NamedTuple):
    """What a test asks for, and how the test comes out where that is an object."""

    value: ir.Name | ir.Attribute
    there: bool


def asked_for(test: ir.Value) -> AsksFor | None:
    """What a test asks for that only asks whether there is an object; None for any other test."""
    if isinstance(test, ir.Unary) and test.op == "Not":
        found = asked_for(test.operand)
        return AsksFor(found.value, not found.there) if found is not None else None
    there = True
    if isinstance(test, ir.Compare):
        if len(test.ops) != 1 or not ir.is_none(test.rights[0]):
            return None
        there = test.ops[0] in ("IsNot", "NotEqual")
        if not there and test.ops[0] not in ("Is", "Equal"):
            return None
        test = test.left
    return AsksFor(test, there) if isinstance(test, (ir.Name, ir.Attribute)) else None
