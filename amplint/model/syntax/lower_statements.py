"""The libcst visitor: one walk over a module, statements to IR.

It returns early from everything it has lowered itself, so libcst's own traversal never goes below a module's top.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import cast

import libcst as cst

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Defined, Imported, Other, Scope
from amplint.model.syntax.lower_expressions import ValueLowering, dotted


class Lowering(ValueLowering, cst.CSTVisitor):
    """Lowers one piece of a file by `tree.visit(lowering)`.

    What stands in it goes into `block`, in `scope`; with `known`, a function or class that was not lowered yet, into
    that. `casts`: how the file spells `typing.cast`. The lines of a class's body come in a class around them.
    """

    def __init__(
        self,
        last_id: int,
        scope: Scope,
        block: ir.Block,
        known: ir.Function | ir.Class | None = None,
        casts: frozenset[str] = frozenset(),
    ) -> None:
        cst.CSTVisitor.__init__(self)
        ValueLowering.__init__(self, last_id, scope, casts)
        self._block = block
        self._known = known
        self.importing: list[Scope] = []  # the scopes that import something, as often as they do

    def visit_Module(self, node: cst.Module) -> bool:  # noqa: N802
        """Lower the whole piece; libcst need not go further."""
        nodes: Sequence[cst.CSTNode] = node.body
        if isinstance(self._block.owner, ir.Class):
            nodes = cst.ensure_type(nodes[0], cst.ClassDef).body.body
        if self._known is None:
            self._statements(cast("Sequence[cst.BaseStatement]", nodes), self._block)
        elif isinstance(self._known, ir.Function):
            self._fill_function(cst.ensure_type(nodes[0], cst.FunctionDef), self._known)
        else:
            self._fill_class(cst.ensure_type(nodes[0], cst.ClassDef), self._known)
        return False

    def _suite(self, suite: cst.BaseSuite, owner: ir.Node, role: str) -> ir.Block:
        block = ir.Block(owner, role)
        if isinstance(suite, cst.IndentedBlock):
            self._statements(suite.body, block)
        elif isinstance(suite, cst.SimpleStatementSuite):
            self._simple(suite.body, block)
        return block

    def _statements(self, nodes: Iterable[cst.BaseStatement], block: ir.Block) -> None:
        for node in nodes:
            if isinstance(node, cst.SimpleStatementLine):
                self._simple(node.body, block)
            else:
                getattr(self, f"_{type(node).__name__.lower()}")(node, block)

    def _simple(self, nodes: Sequence[cst.BaseSmallStatement], block: ir.Block) -> None:
        for node in nodes:
            getattr(self, f"_{type(node).__name__.lower()}")(node, block)

    # --- simple statements ------------------------------------------------------------------------------------------

    def _expr(self, node: cst.Expr, block: ir.Block) -> None:
        value = self.value(node.value)
        self._add(ir.Expr(self.next_id(), node, None, block, value), block)

    def _assign(self, node: cst.Assign, block: ir.Block) -> None:
        value = self.value(node.value)
        targets = tuple(self.target(each.target, value) for each in node.targets)
        self._add(ir.Assign(self.next_id(), node, None, block, targets, value), block)

    def _annassign(self, node: cst.AnnAssign, block: ir.Block) -> None:
        value = self.value(node.value) if node.value is not None else None
        annotation = self.annotation(node.annotation)
        if value is None and isinstance(node.target, cst.Name):
            # A bare `x: T` binds nothing.
            targets: tuple[ir.Value, ...] = ()
        else:
            targets = (self.target(node.target, value),)
        self._add(ir.Assign(self.next_id(), node, None, block, targets, value, annotation), block)

    def _augassign(self, node: cst.AugAssign, block: ir.Block) -> None:
        value = self.value(node.value)
        target = self.target(node.target, None, why="augmented assignment")
        op = type(node.operator).__name__.removesuffix("Assign")
        self._add(ir.AugAssign(self.next_id(), node, None, block, target, op, value), block)

    def _del(self, node: cst.Del, block: ir.Block) -> None:
        target = self.value(node.target)
        targets = target.items if isinstance(target, ir.Sequence) else (target,)
        for each in targets:
            if isinstance(each, ir.Name):
                each.bound = True
                self.scope.bind(each.name, Other("del", each))
        self._add(ir.Delete(self.next_id(), node, None, block, targets), block)

    def _return(self, node: cst.Return, block: ir.Block) -> None:
        value = self.value(node.value) if node.value is not None else None
        self._add(ir.Return(self.next_id(), node, None, block, value), block)

    def _raise(self, node: cst.Raise, block: ir.Block) -> None:
        parts = [self.value(node.exc)] if node.exc is not None else []
        if node.cause is not None:
            parts.append(self.value(node.cause.item))
        self._add(ir.Raise(self.next_id(), node, None, block, tuple(parts)), block)

    def _assert(self, node: cst.Assert, block: ir.Block) -> None:
        test = self.value(node.test)
        message = self.value(node.msg) if node.msg is not None else None
        self._add(ir.Assert(self.next_id(), node, None, block, test, message), block)

    def _jump(self, node: cst.Break | cst.Continue | cst.Pass, block: ir.Block) -> None:
        self._add(ir.Jump(self.next_id(), node, None, block, type(node).__name__.lower()), block)

    _break = _continue = _pass = _jump

    def _declare(self, node: cst.Global | cst.Nonlocal, block: ir.Block) -> None:
        kind = type(node).__name__.lower()
        names = tuple(item.name.value for item in node.names)
        if self.scope.parent is not None:
            self.scope.outside.update(dict.fromkeys(names, kind))
        self._add(ir.Declare(self.next_id(), node, None, block, kind, names), block)

    _global = _nonlocal = _declare

    def _typealias(self, node: cst.TypeAlias, block: ir.Block) -> None:
        value = self.value(node.value)
        self.scope.bind(node.name.value, Other("type alias", None))
        self._add(ir.Expr(self.next_id(), node, None, block, value), block)

    def _import(self, node: cst.Import, block: ir.Block) -> None:
        aliases = tuple(self._alias(each) for each in node.names)
        statement = ir.Import(self.next_id(), node, None, block, None, aliases)
        self.importing.append(self.scope)
        for alias in aliases:
            name = alias.name if alias.asname else alias.bound
            self.scope.bind(alias.bound, Imported(name, statement, alias))
        self._add(statement, block)

    def _importfrom(self, node: cst.ImportFrom, block: ir.Block) -> None:
        module = "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
        if isinstance(node.names, cst.ImportStar):
            aliases: tuple[ir.Alias, ...] = (ir.Alias(self.next_id(), "*", None, node.names),)
        else:
            aliases = tuple(self._alias(each) for each in node.names)
        statement = ir.Import(self.next_id(), node, None, block, module, aliases)
        self.importing.append(self.scope)
        for alias in aliases:
            if alias.name == "*":
                self.scope.module.stars.append(statement)
            else:
                self.scope.bind(alias.asname or alias.name, Imported(f"{module}.{alias.name}", statement, alias))
        self._add(statement, block)

    _lazyimport, _lazyimportfrom = _import, _importfrom  # Python 3.15's, which libcst 1.9 takes

    def _alias(self, node: cst.ImportAlias) -> ir.Alias:
        asname = node.asname.name if node.asname is not None else None
        return ir.Alias(self.next_id(), dotted(node.name), asname.value if isinstance(asname, cst.Name) else None, node)

    # --- compound statements ----------------------------------------------------------------------------------------

    def _if(self, node: cst.If, block: ir.Block, elif_: bool = False) -> None:
        statement = ir.If(self.next_id(), node, None, block, elif_=elif_)
        self._add(statement, block)
        statement.test = self.adopt(statement, self.value(node.test))
        statement.then = self._suite(node.body, statement, "then")
        if isinstance(node.orelse, cst.If):
            statement.orelse = ir.Block(statement, "orelse")
            self._if(node.orelse, statement.orelse, elif_=True)
        elif node.orelse is not None:
            statement.orelse = self._suite(node.orelse.body, statement, "orelse")

    def _for(self, node: cst.For, block: ir.Block) -> None:
        statement = ir.For(self.next_id(), node, None, block)
        self._add(statement, block)
        statement.iter = self.adopt(statement, self.value(node.iter))
        statement.target = self.adopt(statement, self.target(node.target, None, why="loop"))
        statement.body = self._suite(node.body, statement, "body")
        if node.orelse is not None:
            statement.orelse = self._suite(node.orelse.body, statement, "orelse")

    def _while(self, node: cst.While, block: ir.Block) -> None:
        statement = ir.While(self.next_id(), node, None, block)
        self._add(statement, block)
        statement.test = self.adopt(statement, self.value(node.test))
        statement.body = self._suite(node.body, statement, "body")
        if node.orelse is not None:
            statement.orelse = self._suite(node.orelse.body, statement, "orelse")

    def _with(self, node: cst.With, block: ir.Block) -> None:
        statement = ir.With(self.next_id(), node, None, block, is_async=node.asynchronous is not None)
        self._add(statement, block)
        items = []
        for item in node.items:
            context = self.adopt(statement, self.value(item.item))
            target = None
            if item.asname is not None:
                target = self.adopt(statement, self.target(item.asname.name, None, why="with"))
            items.append(ir.Item(context, target, item))
        statement.items = tuple(items)
        statement.body = self._suite(node.body, statement, "body")

    def _try(self, node: cst.Try | cst.TryStar, block: ir.Block) -> None:
        statement = ir.Try(self.next_id(), node, None, block)
        self._add(statement, block)
        statement.body = self._suite(node.body, statement, "body")
        handlers = []
        for handler in node.handlers:
            caught = self.adopt(statement, self.value(handler.type)) if handler.type is not None else None
            name = handler.name.name.value if handler.name and isinstance(handler.name.name, cst.Name) else None
            if name is not None:
                self.scope.bind(name, Other("except", None))
            handlers.append(ir.Handler(caught, name, self._suite(handler.body, statement, "handler")))
        statement.handlers = tuple(handlers)
        if node.orelse is not None:
            statement.orelse = self._suite(node.orelse.body, statement, "orelse")
        if node.finalbody is not None:
            statement.final = self._suite(node.finalbody.body, statement, "final")

    _trystar = _try

    def _match(self, node: cst.Match, block: ir.Block) -> None:
        statement = ir.Match(self.next_id(), node, None, block)
        self._add(statement, block)
        statement.subject = self.adopt(statement, self.value(node.subject))
        cases = []
        for case in node.cases:
            values: list[ir.Value] = []
            binds: list[str] = []
            irrefutable = self.pattern(case.pattern, values, binds)
            for name in binds:
                self.scope.bind(name, Other("match", None))
            for value in values:
                self.adopt(statement, value)
            guard = self.adopt(statement, self.value(case.guard)) if case.guard is not None else None
            body = self._suite(case.body, statement, "case")
            equals = values[0] if isinstance(case.pattern, (cst.MatchValue, cst.MatchSingleton)) else None
            cases.append(ir.Case(tuple(values), tuple(binds), irrefutable, equals, guard, body))
        statement.cases = tuple(cases)

    def _functiondef(self, node: cst.FunctionDef, block: ir.Block) -> None:
        function = ir.Function(self.next_id(), None, None, block, node.name.value)
        self._add(function, block)
        function.cls = block.owner if isinstance(block.owner, ir.Class) else self.class_around(block)
        function.outer = self.function
        function.is_async = node.asynchronous is not None
        self.scope.bind(function.name, Defined(function))
        self._fill_function(node, function)

    def _fill_function(self, node: cst.FunctionDef, function: ir.Function) -> None:
        function.node = node
        function.decorators = tuple(self.adopt(function, self.value(each.decorator)) for each in node.decorators)
        function.returns = self.adopt(function, self.annotation(node.returns)) if node.returns is not None else None
        function.params = self.params(node.params, function)
        with self.inside(function):
            function.body = self._suite(node.body, function, "body")

    def _classdef(self, node: cst.ClassDef, block: ir.Block) -> None:
        cls = ir.Class(self.next_id(), None, None, block, node.name.value)
        self._add(cls, block)
        self.scope.bind(cls.name, Defined(cls))
        self._fill_class(node, cls)
        outer, self.scope = self.scope, cls.scope
        cls.body = self._suite(node.body, cls, "body")
        self.scope = outer

    def _fill_class(self, node: cst.ClassDef, cls: ir.Class) -> None:
        """All but the body."""
        cls.node = node
        cls.decorators = tuple(self.adopt(cls, self.value(each.decorator)) for each in node.decorators)
        cls.bases = tuple(
            ir.Arg(self.adopt(cls, self.value(arg.value)), arg.keyword.value if arg.keyword else None, arg.star, arg)
            for arg in (*node.bases, *node.keywords)
        )
        cls.scope = Scope("class", self.scope)

    @staticmethod
    def class_around(block: ir.Block) -> ir.Class | None:
        """The class whose body holds `block` through conditional statements only."""
        owner: ir.Node | None = block.owner
        while isinstance(owner, (ir.If, ir.Try, ir.With, ir.For, ir.While)):
            owner = owner.parent
        return owner if isinstance(owner, ir.Class) else None

    # --- binding ----------------------------------------------------------------------------------------------------

    def target(self, node: cst.CSTNode, value: ir.Value | None, why: str = "assignment") -> ir.Value:
        """Lower what an assignment, loop or with binds; `value` where it is a plain `target = value`."""
        target = self.value(node)
        self._bind(target, value, why)
        return target

    def _bind(self, target: ir.Value, value: ir.Value | None, why: str) -> None:
        if isinstance(target, ir.Name):
            target.bound = True
            self.scope.bind(target.name, Assigned(value, target) if value is not None else Other(why, target))
        elif isinstance(target, ir.Sequence):
            pairs = value.items if isinstance(value, ir.Sequence) else ()
            plain = len(pairs) == len(target.items) and not any(
                isinstance(p, ir.Starred) for p in (*pairs, *target.items)
            )
            for index, item in enumerate(target.items):
                self._bind(item, pairs[index] if plain else None, why)
        elif isinstance(target, ir.Starred):
            self._bind(target.value, None, why)
        elif isinstance(target, ir.Attribute) and isinstance(target.base, ir.Name):
            self._store(target, value)

    def _store(self, target: ir.Attribute, value: ir.Value | None) -> None:
        function = self.function
        while function is not None:
            if function.params and isinstance(target.base, ir.Name) and function.params[0].name == target.base.name:
                if function.cls is not None:
                    insort(function.cls.attributes.setdefault(target.attr, []), (target.id, value), key=_first)
                return
            function = function.outer

    def _add(self, statement: ir.Statement, block: ir.Block) -> None:
        statement.parent = block.owner
        for value in statement.values() if not isinstance(statement, _FILLED_LATER) else ():
            value.parent = statement
        block.statements.append(statement)


def _first(stored: tuple[int, ir.Value | None]) -> int:
    return stored[0]


_FILLED_LATER = (ir.If, ir.For, ir.While, ir.With, ir.Try, ir.Match, ir.Function, ir.Class)
