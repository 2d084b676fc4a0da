"""Mutations that know statements and expressions: what most of them make still is a program, and reaches the rules."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import NamedTuple

from tests.fuzz.tokens import names, split

_HEADERS = [
    "if flag:", "if not use_amp:", "for _ in range(2):", "while True:", "with torch.autocast('cuda'):",
    "with autocast(), other() as z:", "with (torch.no_grad(), torch.amp.autocast('cpu')):",
    "try:\n{}    pass\n{}finally:",
    "try:\n{}    pass\n{}except E as scaler:", "if x:\n{}    pass\n{}elif y:", "if x:\n{}    pass\n{}else:",
    "match x:\n{} case [1, *_] | {'a': 2}:", "def inner(scaler=None, *args, **kwargs):", "async def f():",
    "class Inner(nn.Module):", "@torch.no_grad()\n{}def decorated(self):", "@autocast()\n{}@other\n{}class D:",
]  # fmt: skip
_DRESSES = [
    "({})", "(({}))", "(\n{}\n)", "(  # round it\n{}  # behind it\n)", "({} if flag else None)", "(lambda: {})()",
    "(named := {})", "f'{{{}}}'", "f'{{{}!r:>{{width}}}}'", "[{}][0]", "{{'a': {}}}['a']", "({},)[0]", "not {}", "-{}",
    "{}.half()", "{}.attr", "{}[0]", "{}[1:2, ...]", "{}()", "{}(*args, **kwargs)", "[{} for x in y]", "print({})",
    "({} and x)", "({} or y)", "({}\n + 1)", "await {}", "(yield {})", "*{}", "{}.float()", "'ä\N{GRINNING FACE}', {}",
    "'{}'", "{} == 1 < 2", "{}; x = 1",
]  # fmt: skip
_SIMPLE = [
    "pass", "return", "break", "continue", "yield x", "del scaler", "global scaler", "scaler.update()",
    "loss.backward()",
    "scaler = None", "scaler = GradScaler()", "scaler: GradScaler = GradScaler()", "scaler, x = x, scaler", "x += 1",
    "scaler.step(optimizer); scaler.update()", "optimizer.zero_grad(set_to_none=True)", "raise ValueError",
    "from torch.cuda.amp import *", "from torch.cuda.amp import (autocast, GradScaler,)", "import torch.cuda.amp as a",
    "scaler.unscale_(optimizer)", "assert (scaler)", "'''doc\n  string'''", "(x) = 1", "x = y = scaler",
    "self.scaler = x",
    "with torch.autocast('cuda'): loss = model(x)", "if flag: scaler.scale(loss).backward()", "exec('x = 1')",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "torch.cuda.amp.autocast(enabled=False)",
]  # fmt: skip
_COMMENTS = [
    "# why", "# noqa", "# noqa: AMP401", "# noqa: AMP101,AMP4", "# amplint: ignore[AMP4]", "# amplint: ignore[AMP2, X]",
    "# type: ignore  # noqa: AMP", "# ä\N{GRINNING FACE}", "#", "# '''", "# (", "#: AMP", "# fmt: skip",
]  # fmt: skip
_INDENT = re.compile(r"[ \t]*")


class Statement(NamedTuple):
    """A statement that has its lines to itself: where they start and end, and how far it is indented."""

    start: int
    end: int
    indent: str


class Shape(NamedTuple):
    """What stands where in a program."""

    statements: tuple[Statement, ...]
    expressions: tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def shape(text: str) -> Shape | None:
    """The statements and expressions of a text; None where it is no program."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(row: int, column: int) -> int:
        line = lines[row - 1]
        return starts[row - 1] + (column if line.isascii() else len(line.encode()[:column].decode("utf-8", "replace")))

    statements, expressions = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            last = node.end_lineno or node.lineno
            alone = text[offset(last, node.end_col_offset or 0) : starts[last]].strip()
            indent = _INDENT.match(lines[first - 1])
            started = text[starts[node.lineno - 1] : offset(node.lineno, node.col_offset)].strip()
            if indent and not started and (not alone or alone.startswith("#")):
                statements.append(Statement(starts[first - 1], starts[last], indent.group()))
        elif isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            span = offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)
            if span[0] < span[1]:  # in an f-string they mean nothing before Python 3.12
                expressions.append(span)
    return Shape(tuple(statements), tuple(expressions)) if statements and expressions else None


Mutation = Callable[[Random, str, Shape, str, Shape], str]


def mutate(random: Random, text: str, other: str) -> str:
    """One mutation of a program that takes from another one; the text itself where one of them is none."""
    mine, theirs = shape(text), shape(other)
    if mine is None or theirs is None:
        return text
    return random.choice(MUTATIONS)(random, text, mine, other, theirs)


def _block(text: str, statement: Statement, indent: str) -> str:
    """The lines of a statement, indented otherwise, with an end."""
    lines = text[statement.start : statement.end].rstrip("\n").split("\n")
    return "".join(f"{indent}{each.removeprefix(statement.indent)}\n" if each.strip() else "\n" for each in lines)


def _drop(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    at = random.choice(mine.statements)
    return f"{text[: at.start]}{at.indent}pass\n{text[at.end :]}"


def _repeat(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    at = random.choice(mine.statements)
    return text[: at.start] + _block(text, at, at.indent) + text[at.start :]


def _copy(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """A statement stands in another place too."""
    at, what = random.choice(mine.statements), random.choice(mine.statements)
    return text[: at.start] + _block(text, what, at.indent) + text[at.start :]


def _exchange(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """Two statements swap places."""
    one, two = sorted((random.choice(mine.statements), random.choice(mine.statements)))
    if two.start < one.end:
        return text
    between = text[one.end : two.start]
    return text[: one.start] + _block(text, two, one.indent) + between + _block(text, one, two.indent) + text[two.end :]


def _splice(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """A statement of another program, often a whole function or class."""
    at = random.choice(mine.statements)
    what = max(random.choices(theirs.statements, k=3), key=lambda each: each.end - each.start)
    return text[: at.start] + _block(other, what, at.indent) + text[at.start :]


def _put_in(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    at = random.choice(mine.statements)
    return f"{text[: at.start]}{at.indent}{random.choice(_SIMPLE)}\n{text[at.start :]}"


def _wrap(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    at = random.choice(mine.statements)
    header = random.choice(_HEADERS)
    header = header.replace("{}", at.indent) if "{}" in header else header
    deeper = at.indent + ("  " if " case " in header else "    ")
    return f"{text[: at.start]}{at.indent}{header}\n{_block(text, at, deeper)}{text[at.end :]}"


def _expression(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """An expression of this program or of the other one stands for another."""
    start, end = random.choice(mine.expressions)
    source, taken = random.choice(((text, mine), (other, theirs)))
    new = source[slice(*random.choice(taken.expressions))]
    return text[:start] + new + text[end:]


def _dress(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    start, end = random.choice(mine.expressions)
    return text[:start] + random.choice(_DRESSES).format(text[start:end]) + text[end:]


def _comment(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """A comment at the end of a statement, or on a line of its own before it."""
    at, comment = random.choice(mine.statements), random.choice(_COMMENTS)
    if random.random() < 0.3:
        return f"{text[: at.start]}{at.indent}{comment}\n{text[at.start :]}"
    end = at.end - 1 if text[at.start : at.end].endswith("\n") else at.end
    return f"{text[:end]}  {comment}{text[end:]}"


def _break_lines(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """Line breaks and comments inside of brackets."""
    depth, out = 0, []
    often = random.choice((0.1, 0.5, 1.0))
    for token in split(text):
        depth += (token in "([{") - (token in ")]}")
        out.append(token)
        if depth > 0 and token in "([{,=.+" and random.random() < often:
            out.append(f"  {random.choice(_COMMENTS)}\n" if random.random() < 0.3 else "\n      ")
    return "".join(out)


def _one_line(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """Two statements share a line."""
    pairs = [
        (one, two)
        for one, two in zip(mine.statements, mine.statements[1:], strict=False)
        if one.end == two.start and one.indent == two.indent
    ]
    if not pairs:
        return text
    one, two = random.choice(pairs)
    return text[: one.end - 1] + random.choice(("; ", ";", " ;  ")) + text[two.start :].lstrip(" ")


def _rename(random: Random, text: str, mine: Shape, other: str, theirs: Shape) -> str:
    """One name becomes another one, once or wherever it stands."""
    known = names(text)
    old = random.choice(known)
    new = random.choice(random.choice((known, names(other))))
    new = f"{new}é" if random.random() < 0.1 else new
    tokens = split(text)
    places = [at for at, each in enumerate(tokens) if each == old]
    for at in places if random.random() < 0.5 else [random.choice(places)]:
        tokens[at] = new
    return "".join(tokens)


MUTATIONS: tuple[Mutation, ...] = (
    _drop, _repeat, _copy, _exchange, _splice, _put_in, _put_in, _wrap, _wrap, _expression, _expression, _dress, _dress,
    _comment, _break_lines, _one_line, _rename, _rename,
)  # fmt: skip
