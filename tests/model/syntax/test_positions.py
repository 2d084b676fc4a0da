"""Where the pieces of syntax stand that fixes cut and paste."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from amplint.base.target import nothing_declared
from amplint.model import Module, build
from amplint.model.syntax import ir
from amplint.sources.source import Source


def lower(text: str) -> Module:
    return build(Source("test.py", text), nothing_declared())


def first(module: Module, kind: type[ir.Value]) -> ir.Value:
    return next(each for each in module.values if isinstance(each, kind))


def pieces(text: str) -> dict[str, Callable[[], tuple[int, int] | None]]:
    """Each question of the layout, asked of what `text` has of it."""
    module = lower(text)
    layout, found = module.layout, {}
    for statement in module.statements:
        if isinstance(statement, (ir.Function, ir.Class)):
            found[f"name {statement.name}"] = lambda it=statement: layout.name(it)
            for value in statement.decorators:
                found[f"decorator of {statement.name}"] = lambda it=value, of=statement: layout.decorator(it, of)
            found[f"body of {statement.name}"] = lambda it=statement: layout.body(it.body)
        if isinstance(statement, ir.Import):
            found["parentheses of the import"] = lambda it=statement: layout.parenthesised(it)
            if statement.module and statement.aliases[0].name != "*":
                found["module"] = lambda it=statement: layout.import_module(it)
            elif statement.module:
                found["star"] = lambda it=statement: layout.star(it)
            for alias in statement.aliases:
                found[f"alias {alias.bound}"] = lambda it=alias: layout.span(it)
                found[f"comma of {alias.bound}"] = lambda it=alias: layout.comma(it)
        if isinstance(statement, ir.With):
            found["parentheses of the with"] = lambda it=statement: layout.parenthesised(it)
            for number, item in enumerate(statement.items):
                found[f"item {number}"] = lambda it=item: layout.span(it)
                found[f"comma {number}"] = lambda it=item: layout.comma(it)
    for value in module.values:
        if isinstance(value, ir.Call):
            found["arguments"] = lambda it=value: layout.inside_parens(it)
            for arg in value.args:
                if arg.keyword is not None:
                    found[f"keyword {arg.keyword}"] = lambda it=arg: layout.keyword(it)
        if isinstance(value, ir.Attribute):
            found[f"attribute {value.attr}"] = lambda it=value: layout.attr(it)
    return found


def cut(text: str, name: str) -> str | None:
    span = pieces(text)[name]()
    return None if span is None else text[span[0] : span[1]]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("def é ( a ) : return\n", "name é", "é"),
        ("@a\n@ b . c (1) # d\nclass K : x = 1\n", "decorator of K", "@ b . c (1)"),
        ("def f():\n    # c\n    x = 1\n    y = (\n2)  # d\n", "body of f", "x = 1\n    y = (\n2)"),
        ("from a import (b, c as d,)\n", "parentheses of the import", "(b, c as d,)"),
        ("from a import b\n", "parentheses of the import", None),
        ("from . a . b  import  c\n", "module", "a . b"),
        ("from a import *\n", "star", "*"),
        ("from a import b , c as d\n", "alias d", "c as d"),
        ("from a import b , c as d\n", "comma of b", ","),
        ("from a import b , c as d\n", "comma of d", None),
        ("with (\n    a as b,  # c\n    d,\n): pass\n", "parentheses of the with", "(\n    a as b,  # c\n    d,\n)"),
        ("with (a), b: pass\n", "parentheses of the with", None),
        ("with a as b, c: pass\n", "item 0", "a as b"),
        ("with a as b, c: pass\n", "comma 0", ","),
        ("with a as b, c: pass\n", "comma 1", None),
        ("f ( a, (b) , ) # )\n", "arguments", " a, (b) , "),
        ("f(g())\n", "arguments", "g()"),
        ("f()\n", "arguments", ""),
        ("f(a, ß = b)\n", "keyword ß", "ß"),
        ("(a\n  . \\\n b)\n", "attribute b", "b"),
    ],
)
def test_pieces(text: str, name: str, expected: str | None) -> None:
    for newline in ("\n", "\r\n", "\r"):
        found = cut(text.replace("\n", newline), name)
        assert found == (expected.replace("\n", newline) if expected is not None else None)


def test_parentheses_round_a_value() -> None:
    text = "x = ( (a + b) )\n"
    module = lower(text)
    value = first(module, ir.Binary)
    inner, outer = module.layout.span(value), module.layout.outer(value)
    assert (text[inner[0] : inner[1]], text[outer[0] : outer[1]]) == ("a + b", "( (a + b) )")
    name = first(module, ir.Name)
    assert module.layout.outer(name) == module.layout.span(name)


def test_a_decorated_function_starts_at_its_decorator_and_an_elif_at_its_word() -> None:
    text = "@a\ndef f(): pass\nif x: pass\nelif y: pass\n"
    module = lower(text)
    starts = [module.span(each)[0] for each in module.statements if isinstance(each, (ir.Function, ir.If))]
    assert starts == [0, text.index("if x"), text.index("elif")]


def test_positions_are_of_characters_behind_a_form_feed_and_wide_ones() -> None:
    text = 'a = "😀ü"\n\f\nb = "\x85"; c(a)\n'
    module = lower(text)
    call = first(module, ir.Call)
    assert module.text(call) == "c(a)"
    assert module.row(call) == 3


def test_inside_a_quoted_annotation() -> None:
    text = "def f(s: 'torch.amp . GradScaler'): pass\n"
    module = lower(text)
    found = [module.text(each) for each in module.values if isinstance(each, ir.Attribute)]
    assert found == ["torch.amp", "torch.amp . GradScaler"]


AROUND = """\
import torch

LIMIT = 3


@torch.no_grad()
def first(x):
    def inner(y):
        return y

    # noted
    return inner(x)


class Trainer:
    size = 2

    # between
    def step(self):
        if self.size:
            return 1

    class Inner:
        def last(self):
            return 2
"""


@pytest.mark.parametrize("fold", [True, False])
def test_the_statements_round_an_offset_are_those_that_span_it(fold: bool) -> None:
    def read() -> Module:
        return build(Source("test.py", AROUND), nothing_declared(), tree=ast.parse(AROUND) if fold else None)

    every, module = read(), read()
    spans = [(each.id, *every.span(each)) for each in every.statements]
    for offset in range(len(AROUND)):
        expected = [number for number, start, end in spans if start <= offset < end]
        assert [each.id for each in module.statements_round(offset)] == expected
