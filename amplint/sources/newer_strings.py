"""Texts with f-strings and type parameters of Python 3.12, for the parser of an older Python.

Since 3.12 the fields of an f-string can have the string's own quotes, backslashes, comments and line breaks (PEP 701),
functions and classes can have type parameters, and `type` is a statement (PEP 695). libcst reads these under any
Python; `ast` and `tokenize` read them only since 3.12.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from functools import lru_cache

IS_NEEDED = sys.version_info < (3, 12)

_TOKEN = re.compile(r"""#[^\r\n]*|(?P<prefix>(?:\b[A-Za-z]{1,2})?)(?P<quote>'''|\"""|'|")|[^\W\d]\w*|.""", re.DOTALL)
_NAMED = re.compile(r"\\N\{[^{}]*\}")  # a character by its name
_SPECIAL = re.compile(r"""['"\\{}#]""")


# `type Batch = tuple[int]`, and what has type parameters: `def first[T](items)`.
_ALIAS = re.compile(r"(?m)^([ \t]*)type (?=[ \t]*[^\W\d]\w*[ \t]*[=\[])")
_WITH_PARAMETERS = re.compile(
    r"(?m)^([ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+[^\W\d]\w*)(\[[^\r\n]*?\])(?=[ \t]*[(:])"
)


@lru_cache(maxsize=2)
def for_older_python(text: str) -> str:
    """The text with plain characters in the f-strings that only a newer Python reads, with assignments for the
    statement `type`, and without type parameters; all else keeps its place.
    """
    if IS_NEEDED:
        text = _ALIAS.sub(r"\1ty = ", text)
        text = _WITH_PARAMETERS.sub(lambda found: found[1] + " " * len(found[2]), text)
    parts, end = [], 0
    for start, stop in _f_strings(text) if IS_NEEDED else ():
        if not _is_read(text[start:stop]):
            parts += [text[end:start], _plain(text[start:stop])]
            end = stop
    return "".join([*parts, text[end:]])


def _is_read(string: str) -> bool:
    """Whether this Python reads an f-string."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(f"({string})")
    except SyntaxError:
        return False
    except (ValueError, RecursionError, MemoryError):  # the text as a whole is refused for it
        pass
    return True


def _plain(string: str) -> str:
    """A string that is as long on each line, without fields."""
    token = _TOKEN.match(string)
    assert token is not None
    quote = token["quote"]
    inner = _SPECIAL.sub("x", string[token.end() : len(string) - len(quote)])
    if len(quote) == 1 and re.search(r"[\r\n]", inner):
        return _over_lines(string, quote)
    return f"{token.group()}{inner}{quote}"


def _over_lines(string: str, mark: str) -> str:
    """A string in three quotes in the place of one that goes on over lines, if the lines have room for them."""
    ends = string[:3], string[-3:]
    if len(string) < 6 or any(re.search(r"[\r\n]", each) or not each.isascii() for each in ends):
        return string
    return f"{mark * 3}{_SPECIAL.sub('x', string[3:-3])}{mark * 3}"


def _f_strings(text: str) -> list[tuple[int, int]]:
    """The first and last offset of the f-strings that are not inside another one."""
    found, at = [], 0
    while (token := _TOKEN.match(text, at)) is not None:
        at = token.end()
        if quote := token["quote"]:
            at = _string_end(text, token)
            if "f" in token["prefix"].lower() and text.startswith(quote, max(at - len(quote), token.end())):
                found.append((token.start(), at))
    return found


def _string_end(text: str, token: re.Match[str]) -> int:
    """Where the string ends that begins with a token: behind its last quote, or at the text's end."""
    quote, at = token["quote"], token.end()
    has_fields = "f" in token["prefix"].lower()
    while at < len(text):
        if text.startswith(quote, at):
            return at + len(quote)
        if text[at] == "\\":
            name = _NAMED.match(text, at) if "r" not in token["prefix"].lower() else None
            at = name.end() if name else at + 2
        elif has_fields and text.startswith("{{", at):
            at += 2
        elif has_fields and text[at] == "{":
            at = _field_end(text, at + 1)
        else:
            at += 1
    return len(text)


def _field_end(text: str, at: int) -> int:
    """Where a field ends whose content begins at an offset: behind its brace."""
    depth = 0
    while (token := _TOKEN.match(text, at)) is not None:
        at = token.end()
        word = token.group()
        if token["quote"]:
            at = _string_end(text, token)
        elif word in "([{":
            depth += 1
        elif word in ")]" or (word == "}" and depth):
            depth -= 1
        elif word == "}":
            return at
        elif word == ":" and not depth:
            return _format_end(text, at)
    return len(text)


def _format_end(text: str, at: int) -> int:
    """Where a field ends whose format begins at an offset."""
    while at < len(text) and text[at] != "}":
        at = _field_end(text, at + 1) if text[at] == "{" else at + 1
    return min(at + 1, len(text))
