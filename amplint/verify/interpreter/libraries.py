"""What a name or attribute of a program stands for in a library."""

from __future__ import annotations

from typing import Any

from amplint.model.syntax import ir
from amplint.model.syntax.scopes import NOTHING, UNKNOWN
from amplint.verify.interpreter.allowed_calls import constant
from amplint.verify.interpreter.standins import Dotted
from amplint.verify.program.program import Code


def library(code: Code, value: ir.Value) -> Any:
    """The object of a library that a name or attribute stands for; None: it stands for none."""
    return code.known(_library, value)


def _library(code: Code, value: ir.Value) -> Any:
    base: ir.Value = value
    while isinstance(base, ir.Attribute) and code.files.of(code, base) is None:
        base = base.base
    if code.files.of(code, base) is not None:
        return None  # it is of another file of the program, or of what that has made
    found = code.module.names.of(value)
    if UNKNOWN in found and isinstance(value, ir.Name):
        return None  # or it is something else: its bindings' conditions say
    names = sorted(found - {UNKNOWN, NOTHING})
    names = [each for each in names if each[0] not in ".!"]
    if not names:
        return None
    name = next((each for each in names if each.startswith("torch.amp.")), names[0])
    known = constant(name)
    return Dotted(name) if known is None else known
