"""Edits that several rules need, made of spans: arguments, statements on lines of their own, indentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.base.findings import Edit
from amplint.model.syntax import ir
from amplint.sources.source import lines_of

if TYPE_CHECKING:
    from amplint.model import Module


def insert(at: int, content: str) -> Edit:
    """Insert `content` at an offset."""
    return Edit(at, at, content)


def written(module: Module, value: ir.Value) -> str:
    """A value as it is written, with the parentheses around it."""
    start, end = module.layout.outer(value)
    return module.source.text[start:end]


def add_first_argument(module: Module, call: ir.Call, content: str) -> Edit:
    """Put `content` in front of a call's arguments, in the layout that they have."""
    start, _ = module.layout.inside_parens(call)
    if not call.args:
        return insert(start, content)
    first = module.layout.span(call.args[0])[0]
    lines = lines_of(module.source.text[start:first])
    # On a line of its own where the first argument is.
    behind = module.source.newline + lines[-1] if len(lines) > 1 and not lines[0].endswith("\\") else " "
    return insert(first, f"{content},{behind}")


def add_last_argument(module: Module, call: ir.Call, content: str) -> Edit:
    """Put `content` behind a call's arguments."""
    if not call.args:
        return insert(module.layout.inside_parens(call)[0], content)
    return insert(module.layout.span(call.args[-1])[1], f", {content}")


def line_start(module: Module, offset: int) -> int:
    """Where the line that holds `offset` starts."""
    source = module.source
    return source.line_starts[source.row(offset) - 1]


def line_end(module: Module, offset: int) -> int:
    """Where the line that holds `offset` ends, its line end included."""
    source = module.source
    row = source.row(offset)
    return source.line_starts[row] if row < len(source.line_starts) else len(source.text)


def indentation(module: Module, statement: ir.Statement) -> str | None:
    """The white space before a statement; None where something else stands before it on its line."""
    start = module.span(statement)[0]
    before = module.source.text[line_start(module, start) : start]
    return before if not before.strip(" \t\f") else None


def alone_on_lines(module: Module, statement: ir.Statement) -> bool:
    """Whether nothing but the statement stands on its lines, not even a comment."""
    end = module.span(statement)[1]
    return indentation(module, statement) is not None and not module.source.text[end : line_end(module, end)].strip()


def remove_lines(module: Module, statement: ir.Statement) -> Edit:
    """Delete the lines of a statement that stands alone on them."""
    start, end = module.span(statement)
    return Edit(line_start(module, start), line_end(module, end), "")


def has_comment(module: Module, start: int, end: int) -> bool:
    """Whether a stretch of text without string literals holds a comment."""
    return "#" in module.source.text[start:end]
