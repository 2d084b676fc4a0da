"""Inputs made of real programs: the same for the same seed and number."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.fuzz import layout, syntax, tokens
from tests.fuzz.corpus import Program

# Of so many inputs one is a program in two files.
_IN_TWO = 8
_WAYS = ("from helper import {}", "from .helper import {}", "from helper import *", "import helper")


class Input(NamedTuple):
    """A file, and, where it stands in `main.py`, the `helper.py` beside it, from which it imports."""

    path: str
    data: bytes
    helper: bytes | None = None


def made(programs: Sequence[Program], seed: int, number: int) -> Input:
    """An input; its path is that of the program that it was made of."""
    random = Random(f"{seed}:{number}")
    program = min(random.choice(programs), random.choice(programs), key=lambda each: len(each.text))
    other = random.choice(programs)
    parts = in_two(random, program.text) if number % _IN_TWO == 0 else None
    if parts is not None:
        main, helper = parts
        main = _mutant(random, main, other.text, random.choice((0, 0, 1, 2)), 0)
        helper = _mutant(random, helper, other.text, random.choice((0, 1, 2, 3)), random.random() < 0.15)
        return Input(program.path, layout.written(random, main), layout.written(random, helper))
    breaks = random.random() < 0.7
    kind = random.choice((0, 1, 2) if breaks else (1, 2, 3, 5))
    text = _mutant(random, program.text, other.text, kind, random.choice((1, 1, 2, 3)) if breaks else 0)
    return Input(program.path, layout.written(random, text))


def _mutant(random: Random, text: str, other: str, shaped: int, broken: int) -> str:
    """A text with so many mutations that know what it means, and then so many that don't."""
    for _ in range(shaped):
        mutant = syntax.mutate(random, text, other)
        # What is no program never gets to the rules, so only a few of those go on.
        if syntax.shape(mutant) is not None or random.random() < 0.05:
            text = mutant
    for _ in range(broken):
        text = random.choice(tokens.MUTATIONS)(random, text, other) if text else text
    return text


def in_two(random: Random, text: str) -> tuple[str, str] | None:
    """A program that imports some of its functions and classes, and the file that it has them from."""
    if syntax.shape(text) is None:
        return None
    body = ast.parse(text).body
    moved = [
        each
        for each in body
        if isinstance(each, (ast.FunctionDef, ast.ClassDef)) and not each.decorator_list and random.random() < 0.6
    ]
    if not moved:
        return None
    lines = text.split("\n")
    for each in reversed(moved):
        del lines[each.lineno - 1 : each.end_lineno]
    way = random.choice(_WAYS)
    lines.insert(moved[0].lineno - 1, way.format(", ".join(each.name for each in moved)))
    main = "\n".join(lines)
    for each in moved if way == "import helper" else ():
        main = main.replace(f"{each.name}(", f"helper.{each.name}(")
    return main, text
