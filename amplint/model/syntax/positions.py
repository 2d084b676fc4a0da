"""Where things stand in the text: spans of IR nodes, and of the pieces of syntax that fixes need.

Positions are computed on the first question only, and for the piece that is asked about
(`amplint.model.syntax.lazy_lowering`), so a file without findings never pays for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from amplint.model.syntax import ir
from amplint.model.syntax.lazy_lowering import MOST_TREES, Folded, Piece
from amplint.model.syntax.lower_expressions import Embedded
from amplint.sources.source import Source, starts_of_lines

Span = tuple[int, int]


class _Wrapper(MetadataWrapper):
    """Resolves positions without a walk: they come from writing the code, yet `resolve` visits the tree as well."""

    def visit_batched(self, *args: Any, **kwargs: Any) -> cst.Module:
        """Visit nothing."""
        return self.module


def _positions_in(tree: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
    return _Wrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)


_positions_in_piece = lru_cache(maxsize=MOST_TREES)(_positions_in)


def forget_positions() -> None:
    """Forget what was found out about the trees of pieces."""
    _positions_in_piece.cache_clear()


class _Text:
    """One piece's tree."""

    def __init__(self, piece: Piece, start: int) -> None:
        self.positions = _positions_in_piece(piece.tree)
        # The tree's text is the parsed text: libcst keeps every character.
        self._starts = [start + piece.shift + each for each in starts_of_lines(piece.parsed)]
        self.end = start + piece.end if piece.end is not None else None

    def span(self, node: cst.CSTNode) -> Span:
        found = self.positions[node]
        return self._starts[found.start.line - 1] + found.start.column, self._starts[
            found.end.line - 1
        ] + found.end.column


class Layout:
    """Answers where a node of one module stands; those that it takes from other files stand behind its own text."""

    def __init__(self, source: Source, folded: Folded) -> None:
        self.source = source
        self._files = [(0, folded)]
        self._texts: dict[int, _Text] = {}  # by the first ids of the pieces
        self._quoted: dict[int, Mapping[cst.CSTNode, CodeRange]] = {}

    def add(self, folded: Folded, start: int) -> None:
        """Another text, which stands at `start` of the source's."""
        self._files.append((start, folded))

    def _text(self, node: ir.Node | ir.Arg | ir.Alias | ir.Item) -> _Text:
        of = node.value if isinstance(node, ir.Arg) else node.context if isinstance(node, ir.Item) else node
        start, folded = next(each for each in self._files if of.id <= each[1].last_id)
        piece = folded.piece_of(of.id)
        if piece.first_id not in self._texts:
            self._texts[piece.first_id] = _Text(piece, start)
        return self._texts[piece.first_id]

    def _handle(self, of: ir.Node | ir.Arg | ir.Alias | ir.Item, node: Any) -> Span:
        """Where a node of libcst's stands that belongs to one of ours."""
        text = self._text(of)
        if isinstance(node, Embedded):
            positions = self._quoted.get(id(node.module))
            if positions is None:
                positions = self._quoted[id(node.module)] = _positions_in(node.module)
            inside = positions[node.node]
            start = text.span(node.string)[0] + len(node.string.quote)
            return start + inside.start.column, start + inside.end.column
        return text.span(node)

    def span(self, node: ir.Node | ir.Arg | ir.Alias | ir.Item) -> Span:
        """Start and end of a value, argument, alias, with-item or statement, without surrounding space or parentheses.

        A decorated function or class starts at its first decorator, an elif at `elif`.
        """
        if isinstance(node, (ir.Function, ir.Class)):
            first = node.decorators[0] if node.decorators else None  # asked first: it unfolds
            start, end = self._handle(node, node.node)
            if first is not None:
                start = self._handle(node, node.node.decorators[0])[0]
            text = self._text(node)
            return start, text.end if text.end is not None and isinstance(node, ir.Class) else end
        return self._handle(node, node.node)

    def name(self, node: ir.Function | ir.Class) -> Span:
        """The name in a def or class statement."""
        return self._handle(node, node.node.name)

    def attr(self, node: ir.Attribute) -> Span:
        """The name after the last dot."""
        return self._handle(node, node.node.attr)

    def keyword(self, arg: ir.Arg) -> Span:
        """The name before the `=` of a keyword argument."""
        return self._handle(arg, arg.node.keyword)

    def inside_parens(self, call: ir.Call) -> Span:
        """What stands between the parentheses of a call."""
        start = self._handle(call, call.node.whitespace_before_args)[0]
        end = self.source.text.rindex(")", start, self.span(call)[1])
        return start, end

    def outer(self, value: ir.Value) -> Span:
        """The span of a value with the parentheses written around it."""
        node = value.node
        if isinstance(node, Embedded) or not getattr(node, "lpar", ()):
            return self.span(value)
        return self._handle(value, node.lpar[0])[0], self._handle(value, node.rpar[-1])[1]

    def decorator(self, value: ir.Value, owner: ir.Function | ir.Class) -> Span:
        """The line of the decorator `value`, from its `@`."""
        each = next(d for d in owner.node.decorators if d.decorator is value.node)
        return self._handle(value, each)

    def comma(self, item: ir.Arg | ir.Alias | ir.Item) -> Span | None:
        """The comma behind an argument, an alias or a with-item."""
        comma = item.node.comma
        return self._handle(item, comma) if isinstance(comma, cst.Comma) else None

    def import_module(self, statement: ir.Import) -> Span:
        """The module's name in `from module import ...`."""
        return self._handle(statement, statement.node.module)

    def parenthesised(self, statement: ir.Import | ir.With) -> Span | None:
        """The parentheses round the names of an import or the items of a with statement, themselves included."""
        if statement.node.lpar in (None, cst.MaybeSentinel.DEFAULT):
            return None
        return self._handle(statement, statement.node.lpar)[0], self._handle(statement, statement.node.rpar)[1]

    def star(self, statement: ir.Import) -> Span:
        """The `*` of a star import."""
        return self._handle(statement, statement.node.names)

    def body(self, block: ir.Block) -> Span:
        """From the first statement of a suite to the end of its last."""
        return self.span(block.statements[0])[0], self.span(block.statements[-1])[1]
