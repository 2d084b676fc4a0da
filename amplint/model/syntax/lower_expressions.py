"""Expressions, parameters and patterns to IR: the half of the lowering that knows libcst's expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import libcst as cst

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other, Scope

V = TypeVar("V", bound=ir.Value)
# How a file imports `typing.cast`, and where a name `cast` is its own.
_TYPING = re.compile(r"^[ \t]*import typing(?:[ \t]+as[ \t]+(\w+))?[ \t]*$", re.MULTILINE)
_FROM_TYPING = re.compile(r"^[ \t]*from typing(?:_extensions)? import ([^(\n]+|\([^)]*\))", re.MULTILINE)
_CAST = re.compile(r"\bcast\b(?:\s+as\s+(\w+))?")
_OWN_CAST = re.compile(r"^[ \t]*(?:def cast\b|cast\s*=)", re.MULTILINE)
# A quoted annotation is looked into only where it can name something of AMP.
_WORTH_READING = ("autocast", "GradScaler")


class Embedded:
    """The handle of a value inside a quoted annotation: the string, and the node within its own little module."""

    __slots__ = ("module", "node", "string")

    def __init__(self, string: cst.SimpleString, module: cst.Module, node: cst.CSTNode) -> None:
        self.string = string
        self.module = module
        self.node = node


def dotted(node: cst.BaseExpression) -> str:
    """`a.b.c`, as it is written; "" for anything but names and their attributes."""
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return node.value if isinstance(node, cst.Name) else ""


def casts_in(text: str) -> frozenset[str]:
    """How the text of a file spells `typing.cast`, which returns its second argument as it is."""
    if "cast" not in text or _OWN_CAST.search(text) is not None:
        return frozenset()
    found = {f"{each[1] or 'typing'}.cast" for each in _TYPING.finditer(text)}
    for each in _FROM_TYPING.finditer(text):
        found.update(name[1] or "cast" for name in _CAST.finditer(each[1]))
    return frozenset(found)


class ValueLowering:
    """Lowers expressions in the current scope and function."""

    def __init__(self, last_id: int, scope: Scope, casts: frozenset[str] = frozenset()) -> None:
        self._last_id = last_id
        self._casts = casts
        self.scope = scope
        self.function: ir.Function | None = None
        self._annotating = False
        self._embedded: tuple[cst.SimpleString, cst.Module] | None = None

    def next_id(self) -> int:
        """A fresh id."""
        self._last_id += 1
        return self._last_id

    def adopt(self, parent: ir.Node, value: V) -> V:
        """Make `parent` the parent of `value`."""
        value.parent = parent
        return value

    @contextmanager
    def inside(self, function: ir.Function) -> Iterator[None]:
        """Lower what follows as the body of `function`."""
        outer = self.scope, self.function
        self.scope, self.function = function.scope, function
        yield
        self.scope, self.function = outer

    def value(self, node: cst.CSTNode) -> ir.Value:
        """The value of an expression."""
        lowered = _LOWER[type(node)](self, node)
        for child in lowered.children():
            child.parent = lowered
        if self._embedded is not None:
            lowered.node = Embedded(*self._embedded, node)
        return lowered

    def _new(self, node: cst.CSTNode) -> tuple[int, Any, None]:
        return self.next_id(), node, None

    # --- leaves -----------------------------------------------------------------------------------------------------

    def _name(self, node: cst.Name) -> ir.Value:
        if node.value in ("None", "True", "False"):
            return ir.Constant(*self._new(node), {"None": None, "True": True, "False": False}[node.value])
        return ir.Name(*self._new(node), node.value, self.scope)

    def _number(self, node: cst.Integer | cst.Float | cst.Imaginary) -> ir.Value:
        try:
            value = ast.literal_eval(node.value)
        except ValueError:  # more digits than int() takes
            value = float("inf")
        return ir.Constant(*self._new(node), value)

    def _string(self, node: cst.SimpleString) -> ir.Value:
        if self._annotating and self._embedded is None and any(word in node.value for word in _WORTH_READING):
            return self._quoted(node)
        return ir.Constant(*self._new(node), node.evaluated_value)

    def _ellipsis(self, node: cst.Ellipsis) -> ir.Value:
        return ir.Constant(*self._new(node), ...)

    def _concatenated(self, node: cst.ConcatenatedString) -> ir.Value:
        parts = (self.value(node.left), self.value(node.right))
        texts = [part.value for part in parts if isinstance(part, ir.Constant)]
        if len(texts) == 2 and type(texts[0]) is type(texts[1]):
            return ir.Constant(*self._new(node), texts[0] + texts[1])
        return ir.FString(*self._new(node), parts)

    def _fstring(self, node: cst.CSTNode) -> ir.Value:
        # Template strings came with libcst 1.8.3 and have the same parts under other names.
        parts: list[ir.Value] = []
        self._fstring_parts(node.parts, parts)  # type: ignore[attr-defined]
        return ir.FString(*self._new(node), tuple(parts))

    def _fstring_parts(self, nodes: Any, parts: list[ir.Value]) -> None:
        for part in nodes:
            if hasattr(part, "expression"):
                parts.append(self.value(part.expression))
                self._fstring_parts(part.format_spec or (), parts)
            elif part.value:
                parts.append(ir.Constant(*self._new(part), part.value))

    # --- operators --------------------------------------------------------------------------------------------------

    def _attribute(self, node: cst.Attribute) -> ir.Value:
        base = self.value(node.value)
        return ir.Attribute(*self._new(node), base, node.attr.value)

    def _subscript(self, node: cst.Subscript) -> ir.Value:
        base = self.value(node.value)
        items = [self._element(each.slice) for each in node.slice]
        if len(items) == 1 and not isinstance(node.slice[-1].comma, cst.Comma):
            return ir.Subscript(*self._new(node), base, items[0])
        index = ir.Sequence(*self._new(node), "tuple", tuple(items))
        for item in items:
            item.parent = index
        return ir.Subscript(*self._new(node), base, index)

    def _element(self, node: cst.BaseSlice) -> ir.Value:
        if isinstance(node, cst.Index):
            value = self.value(node.value)
            return self._starred_value(node, value) if node.star else value
        node = cst.ensure_type(node, cst.Slice)
        parts = tuple(self.value(part) for part in (node.lower, node.upper, node.step) if part is not None)
        lowered = ir.Slice(*self._new(node), parts)
        for part in parts:
            part.parent = lowered
        return lowered

    def _starred_value(self, node: cst.CSTNode, value: ir.Value) -> ir.Value:
        starred = ir.Starred(*self._new(node), value)
        value.parent = starred
        return starred

    def _call(self, node: cst.Call) -> ir.Value:
        if self._casts and len(node.args) == 2 and dotted(node.func) in self._casts:
            return self.value(node.args[1].value)  # `cast(GradScaler, self.scaler)` is what it is given
        func = self.value(node.func)
        args = tuple(
            ir.Arg(self.value(arg.value), arg.keyword.value if arg.keyword else None, arg.star, arg)
            for arg in node.args
        )
        return ir.Call(*self._new(node), func, args)

    def _unary(self, node: cst.UnaryOperation) -> ir.Value:
        operand = self.value(node.expression)
        if isinstance(node.operator, cst.Minus) and isinstance(operand, ir.Constant):
            if isinstance(operand.value, (int, float, complex)):
                return ir.Constant(*self._new(node), -operand.value)
        return ir.Unary(*self._new(node), type(node.operator).__name__, operand)

    def _binary(self, node: cst.BinaryOperation) -> ir.Value:
        left, right = self.value(node.left), self.value(node.right)
        return ir.Binary(*self._new(node), type(node.operator).__name__, left, right)

    def _bool(self, node: cst.BooleanOperation) -> ir.Value:
        left, right = self.value(node.left), self.value(node.right)
        return ir.Bool(*self._new(node), type(node.operator).__name__.lower(), left, right)

    def _compare(self, node: cst.Comparison) -> ir.Value:
        left = self.value(node.left)
        ops = tuple(type(each.operator).__name__ for each in node.comparisons)
        rights = tuple(self.value(each.comparator) for each in node.comparisons)
        return ir.Compare(*self._new(node), left, ops, rights)

    def _conditional(self, node: cst.IfExp) -> ir.Value:
        test, then, other = self.value(node.test), self.value(node.body), self.value(node.orelse)
        return ir.Conditional(*self._new(node), test, then, other)

    def _walrus(self, node: cst.NamedExpr) -> ir.Value:
        value = self.value(node.value)
        target = cast(ir.Name, self.value(node.target))
        home = self.scope
        while home.kind == "comprehension" and home.parent is not None:
            home = home.parent
        target.bound = True
        home.bind(target.name, Assigned(value, target))
        return ir.Walrus(*self._new(node), target, value)

    def _await(self, node: cst.Await) -> ir.Value:
        return ir.Suspend(*self._new(node), "await", self.value(node.expression))

    def _yield(self, node: cst.Yield) -> ir.Value:
        if self.function is not None:
            self.function.is_generator = True
        if isinstance(node.value, cst.From):
            return ir.Suspend(*self._new(node), "yield from", self.value(node.value.item))
        return ir.Suspend(*self._new(node), "yield", self.value(node.value) if node.value is not None else None)

    # --- displays and comprehensions --------------------------------------------------------------------------------

    def _sequence(self, node: cst.Tuple | cst.List | cst.Set) -> ir.Value:
        items = tuple(
            self._starred_value(each, self.value(each.value))
            if isinstance(each, cst.StarredElement)
            else self.value(each.value)
            for each in node.elements
        )
        return ir.Sequence(*self._new(node), type(node).__name__.lower(), items)

    def _starred_element(self, node: cst.StarredElement) -> ir.Value:
        return ir.Starred(*self._new(node), self.value(node.value))

    def _dict(self, node: cst.Dict) -> ir.Value:
        items = tuple(
            (self.value(each.key) if isinstance(each, cst.DictElement) else None, self.value(each.value))
            for each in node.elements
        )
        return ir.Mapping(*self._new(node), items)

    def _comprehension(self, node: cst.GeneratorExp | cst.ListComp | cst.SetComp | cst.DictComp) -> ir.Value:
        outer = self.scope
        self.scope = Scope("comprehension", outer)
        clauses = []
        clause: cst.CompFor | None = node.for_in
        while clause is not None:
            iterable = self.value(clause.iter)
            target = self.value(clause.target)
            for each in ir.walk_values(target):
                if isinstance(each, ir.Name):
                    each.bound = True
                    self.scope.bind(each.name, Other("loop", each))
            clauses.append(ir.Clause(target, iterable, tuple(self.value(test.test) for test in clause.ifs)))
            clause = clause.inner_for_in
        # `{**each for each in all}`, which libcst 1.9 takes, has a value and no key.
        fields = ("key", "value") if isinstance(node, cst.DictComp) else ("elt", "value")
        elements = tuple(self.value(getattr(node, name)) for name in fields if hasattr(node, name))
        self.scope = outer
        return ir.Comprehension(*self._new(node), type(node).__name__, elements, tuple(clauses))

    def _lambda(self, node: cst.Lambda) -> ir.Value:
        function = ir.Function(self.next_id(), node, None, cast(ir.Block, None), "<lambda>", outer=self.function)
        function.params = self.params(node.params, function)
        lowered = ir.Lambda(self.next_id(), node, None, function)
        function.parent = lowered
        function.body = ir.Block(function, "body")
        with self.inside(function):
            value = self.value(node.body)
        result = ir.Return(self.next_id(), node.body, function, function.body, value)
        value.parent = result
        function.body.statements.append(result)
        return lowered

    # --- parameters, annotations, patterns --------------------------------------------------------------------------

    def params(self, node: cst.Parameters, function: ir.Function) -> tuple[ir.Param, ...]:
        """The parameters; binds them in a new scope of `function`, defaults are evaluated outside it."""
        found: list[ir.Param] = []

        def add(param: object, kind: str) -> None:
            if isinstance(param, cst.Param):
                default = self.adopt(function, self.value(param.default)) if param.default is not None else None
                note = self.adopt(function, self.annotation(param.annotation)) if param.annotation is not None else None
                found.append(ir.Param(param.name.value, kind, default, note))

        for param in (*node.posonly_params, *node.params):
            add(param, "positional")
        add(node.star_arg, "*")
        for param in node.kwonly_params:
            add(param, "keyword")
        add(node.star_kwarg, "**")
        function.scope = Scope("function", self.scope)
        for each in found:
            function.scope.bind(each.name, Other("parameter", function))
        return tuple(found)

    def annotation(self, node: cst.Annotation) -> ir.Value:
        """An annotation; what is written as a string in it is read where it can matter."""
        self._annotating = True
        value = self.value(node.annotation)
        self._annotating = False
        return value

    def _quoted(self, node: cst.SimpleString) -> ir.Value:
        text = node.evaluated_value
        if isinstance(text, str) and not node.prefix and text == node.raw_value and "\n" not in text:
            try:
                expression = cst.parse_expression(text)
            except cst.ParserSyntaxError:
                return ir.Constant(*self._new(node), text)
            wrapped = cst.Module([cst.SimpleStatementLine([cst.Expr(expression)])])
            self._embedded = node, wrapped
            value = self.value(expression)
            self._embedded = None
            quoted = ir.Quoted(*self._new(node), text, value)
            value.parent = quoted
            return quoted
        return ir.Constant(*self._new(node), text)

    def pattern(self, node: cst.CSTNode, values: list[ir.Value], binds: list[str]) -> bool:
        """Collect what a match pattern compares with and binds; true where it matches anything."""
        if isinstance(node, cst.MatchAs):
            if node.name is not None:
                binds.append(node.name.value)
            return node.pattern is None or self.pattern(node.pattern, values, binds)
        if isinstance(node, cst.MatchOr):
            found = [self.pattern(each.pattern, values, binds) for each in node.patterns]  # each of them binds
            return any(found)
        if isinstance(node, (cst.MatchValue, cst.MatchSingleton)):
            values.append(self.value(node.value))
        else:
            self._inner_patterns(node, values, binds)
        return False

    def _inner_patterns(self, node: cst.CSTNode, values: list[ir.Value], binds: list[str]) -> None:
        """Collect the same of a pattern of several parts, or of one that stands for several."""
        if isinstance(node, cst.MatchStar):
            binds.extend([node.name.value] if node.name is not None else [])
        elif isinstance(node, (cst.MatchList, cst.MatchTuple)):
            for element in node.patterns:
                self.pattern(element.value if isinstance(element, cst.MatchSequenceElement) else element, values, binds)
        elif isinstance(node, cst.MatchMapping):
            for item in node.elements:
                values.append(self.value(item.key))
                self.pattern(item.pattern, values, binds)
            binds.extend([node.rest.value] if node.rest is not None else [])
        elif isinstance(node, cst.MatchClass):
            values.append(self.value(node.cls))
            for positional in node.patterns:
                self.pattern(positional.value, values, binds)
            for keyword in node.kwds:
                self.pattern(keyword.pattern, values, binds)


_LOWER: dict[type, Callable[[Any, Any], ir.Value]] = {
    cst.Name: ValueLowering._name,
    cst.Integer: ValueLowering._number,
    cst.Float: ValueLowering._number,
    cst.Imaginary: ValueLowering._number,
    cst.SimpleString: ValueLowering._string,
    cst.ConcatenatedString: ValueLowering._concatenated,
    cst.FormattedString: ValueLowering._fstring,
    cst.Ellipsis: ValueLowering._ellipsis,
    cst.Attribute: ValueLowering._attribute,
    cst.Subscript: ValueLowering._subscript,
    cst.Call: ValueLowering._call,
    cst.UnaryOperation: ValueLowering._unary,
    cst.BinaryOperation: ValueLowering._binary,
    cst.BooleanOperation: ValueLowering._bool,
    cst.Comparison: ValueLowering._compare,
    cst.IfExp: ValueLowering._conditional,
    cst.NamedExpr: ValueLowering._walrus,
    cst.Await: ValueLowering._await,
    cst.Yield: ValueLowering._yield,
    cst.Tuple: ValueLowering._sequence,
    cst.List: ValueLowering._sequence,
    cst.Set: ValueLowering._sequence,
    cst.StarredElement: ValueLowering._starred_element,
    cst.Dict: ValueLowering._dict,
    cst.GeneratorExp: ValueLowering._comprehension,
    cst.ListComp: ValueLowering._comprehension,
    cst.SetComp: ValueLowering._comprehension,
    cst.DictComp: ValueLowering._comprehension,
    cst.Lambda: ValueLowering._lambda,
}
if hasattr(cst, "TemplatedString"):
    _LOWER[cst.TemplatedString] = ValueLowering._fstring
if hasattr(cst, "StarredDictComp"):
    _LOWER[cst.StarredDictComp] = ValueLowering._comprehension
