"""Syntax to IR: all of Python's grammar is lowered, and every value stands where `ast` says it does."""

from __future__ import annotations

import ast
import sysconfig
import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import libcst as cst
import pytest

from amplint.base.target import nothing_declared
from amplint.model import Module, build
from amplint.model.syntax import ir
from amplint.model.syntax.lower_expressions import _LOWER
from amplint.sources.source import Source
from tests import ROOT, some


def lower(text: str) -> Module:
    return build(Source("test.py", text), nothing_declared())


def only(text: str) -> ir.Statement:
    statements = lower(text).program.body.statements
    assert len(statements) == 1
    return statements[0]


# --- everything is lowered --------------------------------------------------------------------------------------------

GRAMMAR = '''\
"""Docstring with é."""
from __future__ import annotations
import a.b.c, d as e
from . import f
from .g.h import (i, j as k,)
from m import *
x: int
x: "list[int]" = 1
self.y: int = 2
x = y = z = 3
a, (b, *c), [d] = e, *f = 1, (2, 3), [4]
x += 1; y -= 2; x **= 3; x @= y; x //= 2; x >>= 1; x <<= 1; x &= 1; x |= 1; x ^= 1; x %= 2; x /= 1; x *= 2
del x, y[0], (z.w)
assert x, "message"
assert y
pass
if a: pass
elif b: x = 1
else: y = 2
for i in range(3): continue
else: pass
for (i, j), *k in x: break
while (n := f(x)): n -= 1
else: pass
with a as b, c() as (d, e): pass
with (a, b as c,): pass
with (
    open(x) as f,
    g,
):
    pass
try: pass
except (A, B) as error: raise
except C: raise D from E
except: pass
else: pass
finally: pass
try: raise X
except* Y as group: pass
@decorator
@a.b(c)
class K(Base, metaclass=M, **kw):
    """Doc."""
    attribute: int = 0
    def method(self, a, /, b: int = 1, *args: str, c, d=2, **kwargs) -> None:
        global g1, g2
        def inner():
            nonlocal a
            a = yield
            b = yield a
            return (yield from c)
        return
    async def later(self):
        async with a as b, c: pass
        async for x in y: await z
        else: pass
        return [x async for x in y if await x]
lambda: 0
lambda a, /, b=1, *c, d, e=2, **f: (a, b)
x = a if b else c
x = not a, -a, +a, ~a, -1, +1
x = a or b and c or not d
x = a < b <= c != d is e is not f in g not in h > i >= j == k
x = a + b - c * d / e // f % g ** h @ i << j >> k & l | m ^ n
x = a[0], a[1:2], a[::3], a[1:2, ...], a[*b], a[b,], a[()], a[:, None]
x = f(), f(a, *b, c=d, **e), f(*a, *b), f(x for x in y), f(a := 1)
x = (), (1,), (1, 2), [], [1, *a], {1, 2}, {*a}, {}, {1: 2, **a}
x = [a for b in c if d if e for f in g], {a for b in c}, {a: b for c in d}, (a for b in c)
x = 1, 0x1F, 0b1, 0o7, 1_000, 1.5, 1e10, .5, 2j, True, False, None, ...
x = "a", 'b', b"c", r"d", f"e{f}g{h!r:>{w}}", f"{i=}", "j" "k", f"l" "m", b"n" b"o", rf"\\{x}", u"p"
x = (yield_ := 1)
match command, other:
    case 1 | -2 | 3 + 4j: pass
    case "a" "b" | None | True: pass
    case [a, b, *rest]: pass
    case (a, *_): pass
    case {"k": v, **rest}: pass
    case K(a, b=c): pass
    case K.attr: pass
    case (x as y) if y > 1: pass
    case z: pass
match x:
    case _: pass
type Alias = list[int]
type Generic[T, *Ts, **P] = dict[T, int]
def generic[T: int](x: T) -> T: return x
class Box[T]: pass
async def comprehension(): return [await x for x in y], {a async for a in b}
print(*a, sep="")
'''
# libcst took these later than the rest.
NEWER = {
    "except without parentheses": "try: pass\nexcept A, B: pass\n",
    "template": 't"a{b}c{d!r:>{w}}"\n',
    "default of a type parameter": "class A[T = int]: pass\n",
    "unpacking comprehension": "{**a for a in b}; [*a for a in b]; f(*a for a in b)\n",
    "lazy import": "lazy import a.b\nlazy from c import d\n",
    "nested quotes": 'f"{a["b"]}"\n',
}


def test_all_of_the_grammar_is_lowered() -> None:
    module = lower(GRAMMAR)
    kinds = {type(each) for each in (*module.statements, *module.values)}
    missing = {
        each
        for each in (getattr(ir, name) for name in ir.__all__)
        if isinstance(each, type) and issubclass(each, (ir.Statement, ir.Value)) and each not in kinds
    }
    assert missing <= {ir.Statement, ir.Value, ir.Quoted, ir.FoldedFunction, ir.FoldedClass}
    lowered: set[str] = set()

    class Visitor(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            lowered.add(type(node).__name__)
            return True

    cst.parse_module(GRAMMAR).visit(Visitor())
    expressions = {
        name
        for name in dir(cst)
        if isinstance(cls := getattr(cst, name), type)
        and issubclass(cls, (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement))
        and not name.startswith("Base")
    }
    # What not every libcst takes stands in `NEWER`.
    newer = {
        "TemplatedString",
        "TemplatedStringExpression",
        "TemplatedStringText",
        "StarredDictComp",
        "LazyImport",
        "LazyImportFrom",
    }
    assert expressions - lowered <= newer, "a kind of syntax that the test's grammar lacks"


def test_each_expression_of_libcst_has_a_lowering() -> None:
    concrete = {
        cls
        for name in dir(cst)
        if isinstance(cls := getattr(cst, name), type)
        and issubclass(cls, cst.BaseExpression)
        and not name.startswith("Base")
    }
    assert concrete == set(_LOWER)


@pytest.mark.parametrize("name", NEWER)
def test_newer_syntax(name: str) -> None:
    try:
        cst.parse_module(NEWER[name])
    except cst.ParserSyntaxError:
        pytest.skip("this libcst does not take it")
    assert lower(NEWER[name]).statements


# --- the tree is consistent -------------------------------------------------------------------------------------------


def _nodes(module: Module) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Every node with its parent, by the children that nodes name."""

    def values(parent: ir.Node, roots: Iterator[ir.Value]) -> Iterator[tuple[ir.Node, ir.Node]]:
        for value in roots:
            yield value, parent
            yield from values(value, value.children())
            if isinstance(value, ir.Lambda):
                yield value.function, value
                yield from block(value.function.body)

    def block(suite: ir.Block) -> Iterator[tuple[ir.Node, ir.Node]]:
        for statement in suite.statements:
            assert statement.block is suite
            yield statement, suite.owner
            yield from values(statement, statement.values())
            for inner in statement.blocks():
                assert inner.owner is statement
                yield from block(inner)

    yield from block(module.program.body)


SOURCES = sorted(ROOT.glob("amplint/**/*.py"))
# Of the package's files the largest and each 24th below it; of the others `rest_of_the_package` has what these lack.
SHARE = sorted(sorted(SOURCES, key=lambda path: (path.stat().st_size, path), reverse=True)[::24])
STDLIB = Path(sysconfig.get_path("stdlib"))
LIBRARY = [
    STDLIB / name
    for name in ("argparse.py", "asyncio/tasks.py", "contextlib.py", "dataclasses.py", "textwrap.py", "typing.py")
]


def _shapes(tree: ast.AST) -> set[tuple[type[ast.AST], str, type[ast.AST]]]:
    """Which kind of node stands as what in which other."""
    return {
        (type(node), name, type(each))
        for node in ast.walk(tree)
        for name, child in ast.iter_fields(node)
        for each in (child if isinstance(child, list) else [child])
        if isinstance(each, ast.AST)
    }


@cache
def rest_of_the_package() -> str:
    """The statements of its other files in which a node stands in another as in none before; short ones come first."""
    seen = {each for path in SHARE for each in _shapes(ast.parse(path.read_text("utf-8")))}
    found = []
    for path in sorted({*SOURCES} - {*SHARE}):
        text = path.read_text("utf-8")
        lines, start = text.splitlines(keepends=True), 0
        tree = ast.parse(text)
        inside = {id(each): each.body for each in tree.body if isinstance(each, ast.ClassDef)}
        for statement in (one for each in tree.body for one in inside.get(id(each), [each])):
            end = statement.end_lineno or 0
            found.append((textwrap.dedent("".join(lines[start:end])), _shapes(statement)))
            start = end
    kept = []
    for statement_text, shapes in sorted(found, key=lambda each: len(each[0])):
        if shapes - seen:
            seen |= shapes
            kept.append(statement_text)
    return "".join(kept)


def test_every_node_knows_its_parent_and_has_an_id_of_its_own() -> None:
    for text in (GRAMMAR, rest_of_the_package(), *(path.read_text("utf-8") for path in SHARE)):
        module = lower(text)
        seen: Counter[int] = Counter()
        for node, parent in _nodes(module):
            # A lambda's parameters' defaults are evaluated where the lambda is, and belong to its function.
            inside_lambda = isinstance(parent, ir.Lambda) and node.parent is parent.function
            assert node.parent is parent or inside_lambda, f"{node} has the parent {node.parent}, not {parent}"
            seen[node.id] += 1
        assert max(seen.values()) == 1
        ids = [each.id for each in module.statements]
        assert ids == sorted(ids)


# --- spans ------------------------------------------------------------------------------------------------------------

_SAME: dict[type[ir.Value], tuple[type[ast.AST], ...]] = {
    ir.Name: (ast.Name,),
    ir.Attribute: (ast.Attribute,),
    ir.Subscript: (ast.Subscript,),
    ir.Call: (ast.Call,),
    ir.Compare: (ast.Compare,),
    ir.Binary: (ast.BinOp,),
    ir.Conditional: (ast.IfExp,),
    ir.Lambda: (ast.Lambda,),
    ir.Mapping: (ast.Dict,),
    ir.Walrus: (ast.NamedExpr,),
    ir.Suspend: (ast.Await, ast.Yield, ast.YieldFrom),
    ir.FString: (ast.JoinedStr,),
}
_STATEMENTS: dict[type[ir.Statement], tuple[type[ast.AST], ...]] = {
    ir.Return: (ast.Return,),
    ir.AugAssign: (ast.AugAssign,),
    ir.Assert: (ast.Assert,),
    ir.Raise: (ast.Raise,),
    ir.Delete: (ast.Delete,),
    ir.Import: (ast.Import, ast.ImportFrom),
    ir.Declare: (ast.Global, ast.Nonlocal),
    ir.Jump: (ast.Pass, ast.Break, ast.Continue),
}


def _of_ast(text: str) -> Counter[tuple[str, int, int]]:
    starts = Source("test.py", text).line_starts
    lines = text.encode().splitlines(keepends=True)

    def offset(row: int, column: int) -> int:
        return starts[row - 1] + len(lines[row - 1][:column].decode())

    found: Counter[tuple[str, int, int]] = Counter()

    def walk(node: ast.AST, formatted: bool) -> None:
        for table in (_SAME, _STATEMENTS):
            for mine, theirs in table.items():
                if isinstance(node, theirs) and not formatted:
                    span = offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)
                    found[(mine.__name__, *span)] += 1
        bare = isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
        alias = type(node).__name__ == "TypeAlias"  # Python 3.12 has it
        for name, child in ast.iter_fields(node):
            # `x: int` binds nothing, and the name in `type x = int` is no value.
            if (bare and name == "target") or (alias and name == "name"):
                continue
            # Type parameters bind nothing that a rule asks for; in f-strings old Pythons have no positions.
            if name != "type_params":
                for each in child if isinstance(child, list) else [child]:
                    if isinstance(each, ast.AST):
                        walk(each, formatted or isinstance(node, ast.JoinedStr))

    walk(ast.parse(text), False)
    return found


def _is_formatted(node: ir.Node) -> bool:
    """Whether a node stands inside an f-string."""
    up = node.parent
    while up is not None and not isinstance(up, ir.FString):
        up = up.parent
    return up is not None


def _of_ir(module: Module) -> Counter[tuple[str, int, int]]:
    return Counter(
        (type(each).__name__, *module.span(each))
        for each in (*module.values, *module.statements)
        if type(each) in _SAME | _STATEMENTS and not _is_formatted(each)
    )


@pytest.mark.parametrize(
    "path", [*some(SHARE, 5), *some(LIBRARY, 2), None], ids=lambda path: path.name if path else "rest"
)
def test_spans_are_those_of_ast(path: Path | None) -> None:
    text = path.read_text("utf-8") if path else rest_of_the_package()
    mine, theirs = _of_ir(lower(text)), _of_ast(text)
    assert mine - theirs == Counter()
    assert theirs - mine == Counter()


def test_spans_count_characters_and_leave_parentheses_out() -> None:
    text = 'é = "ü" ; (wörter . größe) (\n    "ß" , k = (1) )\n'
    mine = _of_ir(lower(text))
    assert mine == _of_ast(text)
    assert mine["Attribute", text.index("wörter"), text.index(")")] == 1


# --- kinds that are easily got wrong ----------------------------------------------------------------------------------


def test_lambda_has_a_function_with_parameters_and_one_return() -> None:
    value = next(each for each in lower("f = lambda a, *b, c=1: a + c\n").values if isinstance(each, ir.Lambda))
    assert [(each.name, each.kind) for each in value.function.params] == [
        ("a", "positional"),
        ("b", "*"),
        ("c", "keyword"),
    ]
    (returned,) = value.function.body.statements
    assert isinstance(returned, ir.Return)
    assert isinstance(returned.value, ir.Binary)
    assert ir.function_of(returned.value) is value.function


def test_a_walrus_in_a_comprehension_binds_outside_of_it() -> None:
    module = lower("def f(xs):\n    return [y for x in xs if (y := x)]\n")
    assert set(module.functions[0].scope.bindings) == {"xs", "y"}


def test_match_cases() -> None:
    statement = only(
        "match x:\n    case 1: pass\n    case [1]: pass\n    case K(a=b): pass\n    case 2 | 3: pass\n"
        "    case {'k': v, **rest}: pass\n    case _ if y: pass\n    case None: pass\n"
    )
    assert isinstance(statement, ir.Match)
    assert [case.equals is not None for case in statement.cases] == [True, False, False, False, False, False, True]
    assert [case.irrefutable for case in statement.cases] == [False] * 5 + [True, False]
    assert [case.binds for case in statement.cases] == [(), (), ("b",), (), ("v", "rest"), (), ()]
    assert [len(case.pattern) for case in statement.cases] == [1, 1, 1, 2, 1, 0, 1]


def test_an_elif_is_an_if_alone_in_the_other_suite() -> None:
    statement = only("if a: pass\nelif b: pass\nelse: pass\n")
    assert isinstance(statement, ir.If)
    assert statement.orelse is not None
    (inner,) = statement.orelse.statements
    assert isinstance(inner, ir.If)
    assert inner.elif_
    assert not statement.elif_
    assert inner.orelse is not None


@pytest.mark.parametrize("word", ["try: pass\nexcept{} A as e: x = 1\n"])
def test_handlers_of_groups_are_handlers(word: str) -> None:
    for star in ("", "*"):
        statement = only(word.format(star))
        assert isinstance(statement, ir.Try)
        assert [(each.name, len(each.body.statements)) for each in statement.handlers] == [("e", 1)]


def test_async_forms_are_marked() -> None:
    module = lower("async def f():\n    async with a: await b\n    async for x in y: yield x\n")
    function = module.functions[0]
    assert function.is_async
    assert function.is_generator
    assert any(isinstance(each, ir.With) and each.is_async for each in module.statements)


def test_a_yield_in_a_lambda_is_the_lambdas() -> None:
    assert not lower("def f():\n    return lambda: (yield)\n").functions[0].is_generator


def test_a_quoted_annotation_is_looked_into_where_it_speaks_of_amp() -> None:
    text = 'def f(s: "torch.amp.GradScaler | None", t: "Other"): pass\n'
    module = lower(text)
    quoted = [each for each in module.values if isinstance(each, ir.Quoted)]
    assert [each.text for each in quoted] == ["torch.amp.GradScaler | None"]
    attribute = next(each for each in module.values if isinstance(each, ir.Attribute) and each.attr == "GradScaler")
    assert module.text(attribute) == "torch.amp.GradScaler"


def test_negative_numbers_and_joined_strings_are_literals() -> None:
    statement = only('x = -1, "a" "b", b"c" b"d"\n')
    assert isinstance(statement, ir.Assign)
    assert isinstance(statement.value, ir.Sequence)
    assert [getattr(each, "value", None) for each in statement.value.items] == [-1, "ab", b"cd"]


def test_arguments_keep_their_kind() -> None:
    call = next(each for each in lower("f(1, *a, 2, k=3, **b)\n").values if isinstance(each, ir.Call))
    assert [(arg.keyword, arg.star) for arg in call.args] == [
        (None, ""),
        (None, "*"),
        (None, ""),
        ("k", ""),
        (None, "**"),
    ]
    assert len(call.positional) == 1, "behind a star no position is certain"
    assert call.unpacks("*")
    assert call.unpacks("**")
    assert isinstance(call.keyword("k"), ir.Constant)


def test_what_methods_store_belongs_to_their_class() -> None:
    module = lower(
        "class A:\n"
        "    def __init__(this, x):\n"
        "        this.a = x\n"
        "        this.b, this.c = 1, x\n"
        "        def later(): this.d = 2\n"
        "        def other(this): this.e = 3\n"
        "    @staticmethod\n"
        "    def f(x): x.g = 4\n"
    )
    (cls,) = [each for each in module.statements if isinstance(each, ir.Class)]
    assert {"a", "b", "c", "d"} <= set(cls.attributes)
    assert "e" not in cls.attributes


@pytest.mark.parametrize(
    "line",
    [
        "[(a if b else c)for d in e]",
        "[d for d in(a if b else c)if(a if b else c)]",
        "(a if b else c)if(a if b else c)else(a if b else c)",
        "not(a if b else c)",
        "(a if b else c)in(a if b else c)is(a if b else c)",
        "(a if b else c)and(a if b else c)",
    ],
)
def test_a_conditional_expression_in_parentheses_next_to_a_keyword(line: str) -> None:
    (statement,) = lower(f"{line}\n").program.body.statements
    assert isinstance(statement, ir.Expr)
