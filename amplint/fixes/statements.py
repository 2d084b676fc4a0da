"""Whole statements taken out, put in and moved, as edits on lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.base.findings import Edit
from amplint.fixes.edits import indentation, insert, line_end, line_start
from amplint.fixes.region_end import last_offset
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import node_of

if TYPE_CHECKING:
    from amplint.model import Module


def own_statement(call: ir.Node) -> ir.Expr | None:
    """The statement that is this call and nothing else."""
    statement = ir.statement_of(call)
    return statement if isinstance(statement, ir.Expr) and statement.value is call else None


def stands_alone(module: Module, statement: ir.Statement) -> bool:
    """Whether nothing but a comment shares the lines of a statement."""
    if indentation(module, statement) is None or (isinstance(statement, ir.If) and statement.elif_):
        return False
    end = last_offset(module, statement)
    return module.source.text[end : line_end(module, end)].strip()[:1] in ("", "#")


def text_with_comment(module: Module, statement: ir.Statement) -> str:
    """A statement as it is written, with the comment on its line."""
    end = line_end(module, last_offset(module, statement))
    return module.source.text[module.span(statement)[0] : end].rstrip("\r\n")


def comment_above(module: Module, statement: ir.Statement, word: str) -> tuple[int, list[str]]:
    """The comment right above a statement that is about it alone: where it begins, and its lines.

    It is, if it has a word, in small letters, or if nothing of the suite stands right below the statement.
    """
    text, indent = module.source.text, indentation(module, statement)
    start = begins = line_start(module, module.span(statement)[0])
    lines: list[str] = []
    while start:
        above = line_start(module, start - 1)
        line = text[above:start].rstrip()
        if indent is None or not line.startswith(f"{indent}#"):
            break
        lines.insert(0, line.strip())
        start = above
    end = line_end(module, last_offset(module, statement))
    below = text[end : line_end(module, end)].strip() if end < len(text) else ""
    followed = bool(below) and not below.startswith("#") and statement is not statement.block.statements[-1]
    if not lines or (followed and not any(word in line.lower() for line in lines)):
        return begins, []
    return start, lines


def removed(module: Module, statement: ir.Statement) -> Edit | None:
    """Delete a statement with the comment on its line, and the if that would be left empty; None if it can't be."""
    top = _without_empty_ifs(statement)
    if top is None or not stands_alone(module, top):
        return None
    return Edit(line_start(module, module.span(top)[0]), line_end(module, last_offset(module, top)), "")


def _without_empty_ifs(statement: ir.Statement) -> ir.Statement | None:
    """What goes with a statement so that no block is left empty; None where one would be."""
    while len(statement.block.statements) == 1:
        parent = statement.parent
        if not isinstance(parent, ir.If) or parent.orelse is not None:
            return None
        if any(isinstance(value, (ir.Call, ir.Walrus)) for value in ir.walk_values(parent.test)):
            return None  # to ask may do something
        statement = parent
    return statement


def call_removed(module: Module, call: ir.Node) -> Edit | None:
    """Delete a statement that is a call and nothing else; None if it is part of one, or can't be."""
    statement = own_statement(call)
    return removed(module, statement) if statement is not None else None


def why_not_removed(what: str, statement: ir.Statement | None) -> str:
    """Why there is no edit that deletes `what`, a call or a statement, for which `statement` is None in another one."""
    if statement is None:
        return f"{what} is part of a larger statement"
    if _without_empty_ifs(statement) is None:
        return f"{what} is the only statement of its block"
    return f"{what} is on one line with other code"


def line_behind(module: Module, statement: ir.Statement, code: str) -> Edit | None:
    """Put a line of code behind a statement, in its suite; None where the statement shares its line."""
    if not stands_alone(module, statement):
        return None
    newline, at = module.source.newline, line_end(module, last_offset(module, statement))
    line = f"{indentation(module, statement)}{code}"
    ends = module.source.text[:at].endswith(("\n", "\r"))
    return insert(at, f"{line}{newline}" if ends else f"{newline}{line}")


def line_before(module: Module, statement: ir.Statement, code: str) -> Edit | None:
    """Put a line of code before a statement, in its suite; None where the statement shares its line."""
    indent = indentation(module, statement)
    if indent is None or (isinstance(statement, ir.If) and statement.elif_):
        return None
    return insert(module.span(statement)[0], f"{code}{module.source.newline}{indent}")


def says_the_same(module: Module, value: ir.Value, place: ir.Node, there: ir.Node) -> bool:
    """Whether a name or attribute says at `place` what it says at `there`: bound before both, not anew in between."""
    root = value
    while isinstance(root, (ir.Attribute, ir.Subscript)):
        root = root.base
    if not isinstance(root, ir.Name):
        return False
    first, second = sorted((place.id, there.id))
    home = root.scope.home(root.name)
    nodes = [node_of(each) for each in objects(module).bindings(root)]
    if any(node is not None and first < node.id < second for node in nodes):
        return False
    container = ir.function_of(place) or module.program
    return home is not container.scope or any(node is None or node is container or node.id < first for node in nodes)
