"""Where things stand in the text: spans of IR nodes, and of the pieces of syntax that fixes need.

Positions are computed on the first question only, so a file without findings never pays for them.
Spans are in the parsed text's characters, mapped to the original's by `SpanMap`: the one place where folding and
notebook cells have to be undone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from amplint.model import ir
from amplint.model.lower_values import Embedded
from amplint.source import LINE_END, Source

Span = tuple[int, int]


class SpanMap:
    """Maps offsets in the parsed text to the original text; `pieces` are (parsed start, original start), ascending."""

    def __init__(self, pieces: tuple[tuple[int, int], ...] = ((0, 0),)) -> None:
        self._pieces = pieces
        self._starts = [parsed for parsed, _ in pieces]

    def __call__(self, span: Span) -> Span:
        """The span's place in the original text."""
        parsed, original = self._pieces[bisect_right(self._starts, span[0]) - 1]
        shift = original - parsed
        return span[0] + shift, span[1] + shift


class _Wrapper(MetadataWrapper):
    """Resolves positions without a walk: they come from writing the code, yet `resolve` visits the tree as well."""

    def visit_batched(self, *args: Any, **kwargs: Any) -> cst.Module:
        """Visit nothing."""
        return self.module


def _positions_in(tree: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
    return _Wrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)


class _Text:
    """One parsed text and its tree."""

    def __init__(self, tree: cst.Module, text: str, to_original: SpanMap) -> None:
        self._tree = tree
        self._text = text
        self.to_original = to_original

    @cached_property
    def positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        return _positions_in(self._tree)

    @cached_property
    def line_starts(self) -> list[int]:
        # The tree's text is the parsed text: libcst keeps every character.
        return [0, *(end.end() for end in LINE_END.finditer(self._text))]


class Layout:
    """Answers where a node of one module stands; those that it takes from other files stand behind its own text."""

    def __init__(self, tree: cst.Module, source: Source, to_original: SpanMap) -> None:
        self.source = source
        self._texts = [_Text(tree, source.text, to_original)]
        self._quoted: dict[int, Mapping[cst.CSTNode, CodeRange]] = {}

    def add(self, tree: cst.Module, text: str, start: int) -> None:
        """Another text, which stands at `start` of the source's."""
        self._texts.append(_Text(tree, text, SpanMap(((0, start),))))

    def _handle(self, node: Any) -> Span:
        if isinstance(node, Embedded):
            positions = self._quoted.get(id(node.module))
            if positions is None:
                positions = self._quoted[id(node.module)] = _positions_in(node.module)
            inside = positions[node.node]
            start = self._handle(node.string)[0] + len(node.string.quote)
            return start + inside.start.column, start + inside.end.column
        text = next((each for each in self._texts[:-1] if node in each.positions), self._texts[-1])
        found, starts = text.positions[node], text.line_starts
        return text.to_original(
            (starts[found.start.line - 1] + found.start.column, starts[found.end.line - 1] + found.end.column)
        )

    def span(self, node: ir.Node | ir.Arg | ir.Alias | ir.Item) -> Span:
        """Start and end of a value, argument, alias, with-item or statement, without surrounding space or parentheses.

        A decorated function or class starts at its first decorator, an elif at `elif`.
        """
        start, end = self._handle(node.node)
        if isinstance(node, (ir.Function, ir.Class)) and node.decorators:
            start = self._handle(node.node.decorators[0])[0]
        return start, end

    def name(self, node: ir.Function | ir.Class) -> Span:
        """The name in a def or class statement."""
        return self._handle(node.node.name)

    def attr(self, node: ir.Attribute) -> Span:
        """The name after the last dot."""
        return self._handle(node.node.attr)

    def keyword(self, arg: ir.Arg) -> Span:
        """The name before the `=` of a keyword argument."""
        return self._handle(arg.node.keyword)

    def inside_parens(self, call: ir.Call) -> Span:
        """What stands between the parentheses of a call."""
        start = self._handle(call.node.whitespace_before_args)[0]
        end = self.source.text.rindex(")", start, self.span(call)[1])
        return start, end

    def outer(self, value: ir.Value) -> Span:
        """The span of a value with the parentheses written around it."""
        node = value.node
        if isinstance(node, Embedded) or not getattr(node, "lpar", ()):
            return self.span(value)
        return self._handle(node.lpar[0])[0], self._handle(node.rpar[-1])[1]

    def decorator(self, value: ir.Value, owner: ir.Function | ir.Class) -> Span:
        """The line of the decorator `value`, from its `@`."""
        each = next(d for d in owner.node.decorators if d.decorator is value.node)
        return self._handle(each)

    def comma(self, item: ir.Arg | ir.Alias | ir.Item) -> Span | None:
        """The comma behind an argument, an alias or a with-item."""
        comma = item.node.comma
        return self._handle(comma) if isinstance(comma, cst.Comma) else None

    def import_module(self, statement: ir.Import) -> Span:
        """The module's name in `from module import ...`."""
        return self._handle(statement.node.module)

    def parenthesised(self, statement: ir.Import | ir.With) -> Span | None:
        """The parentheses round the names of an import or the items of a with statement, themselves included."""
        if statement.node.lpar in (None, cst.MaybeSentinel.DEFAULT):
            return None
        return self._handle(statement.node.lpar)[0], self._handle(statement.node.rpar)[1]

    def star(self, statement: ir.Import) -> Span:
        """The `*` of a star import."""
        return self._handle(statement.node.names)

    def body(self, block: ir.Block) -> Span:
        """From the first statement of a suite to the end of its last."""
        return self.span(block.statements[0])[0], self.span(block.statements[-1])[1]
