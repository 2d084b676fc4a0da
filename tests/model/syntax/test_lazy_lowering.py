"""Folding: that nobody can tell it, but for what is never read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from amplint.base.target import nothing_declared
from amplint.engine.reading import read_alone
from amplint.model import Module
from amplint.model.syntax import ir
from amplint.sources.parsing import with_room
from amplint.sources.source import Source
from tests import some
from tests.model.syntax.test_lowering import LIBRARY, SHARE, rest_of_the_package

ODD = {
    "one line": "class A: x = 1; y = 2\ndef f(): pass\nclass B(A): pass\n",
    "decorators": "@a\n@b(\n    1\n)\ndef f(): pass\n@(\n  a\n)\nclass A:\n  @(\n    b\n  )\n  def m(self): pass\n",
    "no end": "class A:\n    def f(self):\n        return 1",
    "windows": "class A:\r\n\tdef f(self):\r\n\t\treturn 1\r\n\r\n\tx = 1\r\ndef g(): return 2",
    "mac": "class A:\r  def f(self):\r    return 1\rx = 1\r",
    "wide": "class Ä:\n    def ü(self):\n        return 'ß', ö\n    é = 'x' ; ñ = 1\n",
    "comments": "class A:  # a\n    # b\n    '''doc'''\n\n    def f(self):  # c\n        pass  # d\n    # e\n# f\n",
    "nested": "class A:\n  class B:\n    x = 1\n  if x:\n    def g(self): self.y = 1\n  def h(self): self.y = 2\n",
    "global": "x = 1\ndef f():\n  global x\n  x = 2\nx = 3\nclass A:\n  def g(self):\n    global x\n    x = 4\n",
    "global behind": "x = 1\ndef f(): 0; global x; x = 2\nclass A:\n  def g(self):\n    if 1: global x\n    x = 3\n",
    "strings": 'class A:\n    def f(self):\n        return """\nclass B:\ndef g(): pass\n"""\n    x = 1\n',
    "empty": "",
    "comment": "# nothing",
}
TEXTS: dict[str, Callable[[], str]] = {
    **{name: text.__str__ for name, text in ODD.items()},
    **{path.name: partial(path.read_text, "utf-8") for path in (*SHARE, *LIBRARY)},
    "rest": rest_of_the_package,
}


def read(text: str, fold: bool) -> Module:
    return with_room(lambda: read_alone(Source("x.py", text), nothing_declared(), fold=fold))


def described(module: Module) -> Iterator[tuple[Any, ...]]:
    """Every node in its order: its kind, where it stands, what it is part of."""
    for each in (*module.statements, *module.values):
        parent = each.parent
        span = module.span(parent) if parent is not None and parent.parent is not None else None
        yield type(each).__name__, module.span(each), type(parent).__name__, span
        if isinstance(each, ir.Function):
            yield each.name, [param.name for param in each.params], each.is_async, each.is_generator
            yield each.cls and each.cls.name, each.outer and each.outer.name
        if isinstance(each, ir.Class):
            yield [(name, len(stored)) for name, stored in sorted(each.stores())]


def scopes(module: Module) -> Iterator[tuple[Any, ...]]:
    """What is bound in every scope, in its order."""
    holders = [module.program, *(each for each in module.statements if isinstance(each, (ir.Function, ir.Class)))]
    for holder in holders:
        for name, bindings in holder.scope.bindings.items():
            yield name, [type(each).__name__ for each in bindings]


@pytest.mark.parametrize("name", [*ODD, *some((name for name in TEXTS if name not in ODD), 10)])
def test_a_text_in_pieces_means_what_it_means_at_once(name: str) -> None:
    text = TEXTS[name]()
    mine, whole = read(text, fold=True), read(text, fold=False)
    shuffled = [each for each in mine.program.body.statements if isinstance(each, (ir.FoldedClass, ir.FoldedFunction))]
    random.Random(len(text)).shuffle(shuffled)
    for each in shuffled:
        assert each.decorators is not None
    assert list(described(mine)) == list(described(whole))
    assert list(scopes(mine)) == list(scopes(whole))
    ids = [each.id for each in mine.statements]
    assert ids == sorted(ids)
    assert len({each.id for each in (*mine.statements, *mine.values)}) == len([*mine.statements, *mine.values])
    assert max([0, *ids]) <= mine.last_id


ASKED = """\
import torch
import torch.optim as O
from torch.amp import autocast as entered
from torch.optim import AdamW

region = torch.autocast


class Trainer:
    def __init__(self, model):
        self.made = torch.cuda.amp.autocast if model else entered
        self.optimizer = AdamW(model.parameters())

    def step(self):
        with self.made("cuda"):
            pass

    def other(self):
        return [number for number in range(3)]


def first():
    return region("cuda")


def second(model):
    return O.SGD(model.parameters(), lr=0.1)


def third():
    return entered("cpu")


def unasked():
    return range(3)
"""


def unread(module: Module) -> set[str]:
    """The functions and methods that were not read."""
    methods = [each for of in module.program.body.statements if isinstance(of, ir.Class) for each in of.body.statements]
    every = (*module.program.body.statements, *methods)
    return {each.name for each in every if isinstance(each, ir.FoldedFunction)}


SPOKEN = '''\
def documented():
    """Counts global steps; what is global: the model."""
    return 1  # of the global step


# The step that stands between them.
class Counter:
    def count(self):
        """The global batch size."""
        return 2

    # A step, too.
    def declared(self):
        if self: global total
        total = 3
'''


def test_words_of_comments_and_docstrings_read_nothing() -> None:
    module = read(SPOKEN, fold=True)
    assert unread(module) == {"documented", "count"}  # to declare something is to bind a name of the file
    assert [piece.text.strip() for piece in module.whole.near("between", "too").pieces] == []


@pytest.mark.parametrize(
    ("names", "calls", "left"),
    [
        (
            ("torch.amp.autocast",),
            ["self.made('cuda')", "region('cuda')", "entered('cpu')"],
            {"other", "second", "unasked"},
        ),
        (("torch.optim.*",), ["AdamW(model.parameters())", "O.SGD(model.parameters(), lr=0.1)"], {"other", "unasked"}),
        (
            ("torch.optim.SGD",),
            ["O.SGD(model.parameters(), lr=0.1)"],
            {"other", "first", "third", "unasked", "step", "__init__"},
        ),
        (("torch.amp.GradScaler",), [], {"first", "second", "third", "unasked"}),
        (("builtins.range",), ["range(3)", "range(3)"], {"first", "second", "third", "step", "__init__"}),
    ],
)
def test_what_a_name_means_is_found_under_all_that_stands_for_it(
    names: tuple[str, ...], calls: list[str], left: set[str]
) -> None:
    module = read(ASKED, fold=True)
    assert [module.text(each).replace('"', "'") for each in module.calls_of(*names)] == calls
    assert left <= unread(module)
    whole = read(ASKED, fold=False)
    found = [each for each in whole.values if isinstance(each, (ir.Name, ir.Attribute))]
    assert [module.span(each) for each in module.meaning(*names)] == [
        whole.span(each)
        for each in found
        if any(name in whole.names.of(each) for name in names if "*" not in name)
        or any(of.startswith("torch.optim.") for of in whole.names.of(each) for name in names if "*" in name)
    ]


def test_nearness_is_a_matter_of_pieces() -> None:
    module = read(ASKED, fold=True)
    assert [each.name for each in module.whole.near("range").functions] == ["other", "unasked"]
    assert unread(module) == {"__init__", "step", "first", "second", "third"}
    assert module.whole.near("no such word").statements == []
    assert len(module.whole.statements) == len(read(ASKED, fold=False).statements)
    assert unread(module) == set()
