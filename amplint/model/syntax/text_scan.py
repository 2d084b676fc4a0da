"""What a text mentions and calls, by patterns where these will do: to walk Python's tree takes longer."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

_ARGUMENTS = 2_000  # characters of a call that are looked at
_MOST_TEXTS = 64  # of which is remembered what is asked more than once
# What a call that is out of sight may do something to, by its name.
_HANDED = re.compile(r"(?i)optim|^opt$|scaler|loss")
# What a text has in which such a name stands, or a method hands on its object.
MAY_BE_HANDED = re.compile(r"(?i)opt|scaler|loss|\bself\s*[,)]")
# A name, with its attribute, that is read, and what only looks like one: texts and comments, without those few texts
# in which something is escaped.
_MENTION = re.compile(r"(?<![\w.])([^\W\d]\w*)(?:[ \t]*\.[ \t]*([^\W\d]\w*))?(?![\w.]|[ \t]*=(?!=))")
_PROSE = re.compile(r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\\\r\n]*"|'[^'\\\r\n]*'|\#[^\r\n]*""", re.DOTALL | re.VERBOSE)
# The same with strings that have escapes.
_STRINGS = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*'|\#[^\r\n]*""", re.DOTALL | re.VERBOSE
)
_ISINSTANCE = re.compile(r"\bisinstance\s*\(")
_GLOBAL = re.compile(r"(?m)(?:^|[;:\r])[ \t\f]*global\b")
_BRACKETS = re.compile(r"[][(){},]")
_CALLED = re.compile(r"(?<![\w.])([^\W\d]\w*)(?:[ \t]*\.[ \t]*([^\W\d]\w*))?(?:[\s\\)]|#[^\n]*\n)*\(")


def has(text: str, words: re.Pattern[str], roots: tuple[str, ...]) -> bool:
    """Whether a text has one of some words; each has one of the `roots` in it, which are quicker to look for."""
    return any(root in text for root in roots) and words.search(text) is not None


def has_global(text: str) -> bool:
    """Whether a text may have a `global` statement, which starts a line or stands behind another: no mere word."""
    return has(text, _GLOBAL, ("global",))


def mentions(text: str) -> frozenset[tuple[str, str]]:
    """The names that a text reads, and the attributes of names: (name, attribute or "")."""
    found = _MENTION.findall(code_of(text))
    return frozenset((*found, *((name, "") for name, _ in found)))


def called(text: str) -> frozenset[tuple[str, str]]:
    """Those that it calls, and those that it asks for by `isinstance`."""
    code = code_of(text)
    asked = (found for each in _ISINSTANCE.finditer(code) for found in _MENTION.findall(_second(code, each.end())))
    return frozenset((*_CALLED.findall(code), *asked))


@lru_cache(maxsize=_MOST_TEXTS)
def code_of(text: str) -> str:
    """A text without its strings and comments."""
    return _PROSE.sub("", text)


def without_sentences(text: str) -> str:
    """A text without its comments, and without strings of more than one word: what a person reads."""
    return _STRINGS.sub(lambda found: "" if found[0][0] == "#" or " " in found[0] else found[0], text)


def _second(text: str, start: int) -> str:
    """What stands behind the first comma of the arguments that start at an offset."""
    depth, comma = 0, None
    for found in _BRACKETS.finditer(text, start):
        if found[0] == ",":
            comma = found.end() if comma is None and depth == 0 else comma
        elif found[0] in "([{":
            depth += 1
        elif depth == 0:
            return text[comma : found.start()] if comma is not None else ""
        else:
            depth -= 1
    return ""


def handed_to(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What is called with an optimizer, a scaler or a loss, or with the object that keeps them."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and is_handed(call):
            for each in ast.walk(call.func):
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                    yield each.value.id, each.attr
                elif isinstance(each, ast.Name):
                    yield each.id, ""


def may_hand(text: str, mentioned: Collection[tuple[str, str]]) -> bool:
    """Whether a text may call one of some names with an optimizer, a scaler or a loss: to be sure takes longer."""
    return bool(mentioned) and any(
        MAY_BE_HANDED.search(text, found.end(), found.end() + _ARGUMENTS)
        for found in _CALLED.finditer(text)
        if found.groups("") in mentioned
    )


def is_handed(call: ast.Call) -> bool:
    """Whether a call is given what it may do something to."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    if any(isinstance(arg, ast.Name) and arg.id == "self" for arg in given):
        return True  # what keeps them
    return any(_HANDED.search(last_word(value)) for arg in given for value in ast.walk(arg))


def last_word(value: ast.AST) -> str:
    """The last word of a name or dotted name."""
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""


class Gap(ast.Pass):
    """Stands where a statement is left out."""
