"""Mutations that know tokens and lines, but not what they mean; most make a text that is no program."""

from __future__ import annotations

import keyword
import re
from random import Random

# A tokenizer that takes any text.
_TOKEN = re.compile(
    r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*|\w+|[ \t]+|\n|.", re.DOTALL
)
_ODD = [
    "(", ")", "[", "]", "{", "}", ":", ";", ",", ".", "=", ":=", "->", "@", "*", "**", "\\", "\\\n", "\n", "\n\n", "#",
    "'", '"', '"""', "f'{", "}'", "rb'", "t'", "0x", "1_", "1e400", "...", "async ", "await ", "yield ", "lambda: ",
    "not ", "match ", "type ", "global ", "nonlocal ", "del ", "import ", "from . import ", "\t", "\f", "\xa0",
    "\u2028",
    "\ufeff", "\0", "\x1a", "é", "ß", "\N{GRINNING FACE}", "\N{COMBINING ACUTE ACCENT}", "$", "?", "!", "`", "<>",
]  # fmt: skip


def split(text: str) -> list[str]:
    """The tokens of any text; together they are the text."""
    return _TOKEN.findall(text)


def names(text: str) -> list[str]:
    """The names in a text, in their order, each as often as it stands there."""
    return [each for each in split(text) if each.isidentifier() and not keyword.iskeyword(each)]


def drop(random: Random, text: str, other: str) -> str:
    tokens = split(text)
    at = _at(random, tokens)
    return "".join(tokens[:at] + tokens[at + random.choice((1, 1, 1, 2, 5)) :])


def swap(random: Random, text: str, other: str) -> str:
    tokens = split(text)
    one, two = _at(random, tokens), _at(random, tokens)
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return "".join(tokens)


def repeat(random: Random, text: str, other: str) -> str:
    tokens = split(text)
    at = _at(random, tokens)
    return "".join(tokens[: at + 1] + tokens[at:])


def replace(random: Random, text: str, other: str) -> str:
    tokens = split(text)
    from_them = split(random.choice((text, other)))
    tokens[_at(random, tokens)] = from_them[_at(random, from_them)]
    return "".join(tokens)


def put_in(random: Random, text: str, other: str) -> str:
    tokens = split(text)
    tokens.insert(_at(random, tokens), random.choice(_ODD))
    return "".join(tokens)


def drop_lines(random: Random, text: str, other: str) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    return "\n".join(lines[:at] + lines[at + random.choice((1, 1, 2, 5)) :])


def swap_lines(random: Random, text: str, other: str) -> str:
    lines = text.split("\n")
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return "\n".join(lines)


def repeat_lines(random: Random, text: str, other: str) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    size = random.choice((1, 1, 2, 5))
    return "\n".join(lines[: at + size] + lines[at:])


def shift_lines(random: Random, text: str, other: str) -> str:
    """Indent or dedent some lines."""
    lines = text.split("\n")
    at = random.randrange(len(lines))
    end = at + random.choice((1, 1, 2, 5, len(lines)))
    indent = random.choice(("    ", "    ", " ", "\t"))
    further = random.random() < 0.5
    lines[at:end] = [indent + each if further else each.removeprefix(indent) for each in lines[at:end]]
    return "\n".join(lines)


def join_lines(random: Random, text: str, other: str) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    between = random.choice(("", " ", "; ", ", ", " + ", " if x else ", "\\\n"))
    lines[at : at + 2] = [between.join(each.strip() if n else each for n, each in enumerate(lines[at : at + 2]))]
    return "\n".join(lines)


def cut(random: Random, text: str, other: str) -> str:
    """The text ends, or starts, somewhere."""
    at = random.randrange(len(text) + 1)
    return random.choice((text[:at], text[at:], text[:at] + other[at:]))


def _at(random: Random, tokens: list[str]) -> int:
    """The number of a token that is no space."""
    at = random.randrange(len(tokens)) if tokens else 0
    return at + 1 if at + 1 < len(tokens) and tokens[at].isspace() else at


MUTATIONS = (
    drop, swap, repeat, replace, put_in, drop_lines, swap_lines, repeat_lines, shift_lines, join_lines, cut,
)  # fmt: skip
