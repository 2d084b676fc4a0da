"""What a text says in code and what in words: comments, and strings that are sentences, open no file.

The largest file of transformers names autocast in an error message, and has nothing else to do with AMP.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import takewhile
from keyword import iskeyword

from amplint.sources.source import LINE_END

# The fields that hold the statements of a compound one, or what holds them.
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_NAME = re.compile(r"\w+")


def without_prose(text: str, tree: ast.Module, words: Iterable[str]) -> str:
    """A text with blanks for those of `words` that stand in comments or sentences.

    Where it isn't certain a word stays: if any name in its statement, or a string that could be code, has it in it.
    """
    spoken = _Spoken(tree)
    pieces: list[str] = []
    row, before, done = 1, 0, 0
    for found in _any_of(tuple(words)).finditer(text):
        row += len(LINE_END.findall(text, before, found.start()))
        before = found.start()
        if not spoken.has(found.group(), row):
            pieces += (text[done:before], " " * len(found.group()))
            done = found.end()
    return "".join((*pieces, text[done:]))


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, words)) or r"(?!)")


class _Spoken:
    """The names in the statements of a file, by line."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._known: dict[int, str] = {}  # by line

    def has(self, word: str, row: int) -> bool:
        """Whether a statement that a line is part of has a word's names in its own."""
        if row not in self._known:
            self._known[row] = "\n".join(name for node in _statements(self._tree, row) for name in _names(node))
        return all(part in self._known[row] for part in _NAME.findall(word) if not iskeyword(part))


def _statements(tree: ast.Module, row: int) -> Iterator[ast.AST]:
    """The statements that a line is part of, from the outermost to the innermost."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                todo += _on_row(body, row)


def _on_row(body: list[ast.AST], row: int) -> Iterator[ast.AST]:
    """The statements of a suite that a line is part of: mostly one."""
    at = bisect_right(body, row, key=lambda each: _rows(each)[0])
    return takewhile(lambda each: _rows(each)[1] >= row, reversed(body[:at]))


def _rows(node: ast.AST) -> tuple[int, int]:
    """The first and the last line of a statement, a handler or a case, with its decorators."""
    if isinstance(node, ast.match_case):
        return node.pattern.lineno, node.body[-1].end_lineno or 0
    assert isinstance(node, (ast.stmt, ast.excepthandler))
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno or 0


def _names(node: ast.AST) -> Iterator[str]:
    """The names in a statement, and its strings that could be code; not those of the statements in it."""
    todo = [node]
    while todo:
        each = todo.pop()
        for field, value in ast.iter_fields(each):
            if isinstance(value, str):
                if not isinstance(each, ast.Constant) or _could_be_code(value):
                    yield value
            elif isinstance(value, ast.AST):
                todo.append(value)
            elif isinstance(value, list) and field not in _BODIES:
                todo += (item for item in value if isinstance(item, ast.AST))
                yield from (item for item in value if isinstance(item, str))


def _could_be_code(text: str) -> bool:
    """Whether a string may be a name, a key or an annotation, and not a sentence."""
    if len(text.split(None, 1)) < 2:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    except (RecursionError, MemoryError, ValueError):
        pass
    return True
