"""Statements put under a condition, as edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.base.findings import Edit
from amplint.fixes.edits import indentation, insert
from amplint.fixes.statements import stands_alone
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


def guarded(module: Module, statement: ir.Statement, test: str) -> Edit | None:
    """Put a statement of one line under `if test:`; None where it spans several, or shares its line."""
    if not stands_alone(module, statement) or "\n" in module.text(statement):
        return None
    below = f"{module.source.newline}{indentation(module, statement)}{unit(module, statement)}"
    return insert(module.span(statement)[0], f"if {test}:{below}")


def unit(module: Module, statement: ir.Statement) -> str:
    """One level of the indentation that a statement stands in; four spaces at the module's level."""
    outer = statement.parent
    if isinstance(outer, ir.Statement):
        line = module.source.line(module.row(outer))
        before = line[: len(line) - len(line.lstrip())]
        return (indentation(module, statement) or "").removeprefix(before) or "    "
    return "    "
