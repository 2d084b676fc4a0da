"""What stands between a file and libcst, which dies on some of what Python accepts, where no `except` helps.

`refusal` lets Python's own parser read the text first, then bounds how deep its syntax is nested: libcst needs time in
the square or cube of the depth (1,000 chained calls: 4 s) and overflows the stack beyond. `with_room` gives what runs
below the bound the stack that it needs.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from amplint.base.paths import TooLargeError
from amplint.sources.newer_strings import for_older_python
from amplint.sources.source import Source, starts_of_lines

T = TypeVar("T")

# Levels of the syntax tree; a term of a sum is one, a chained call two. libcst takes up to a second for these.
DEPTH = 1000
# Characters of a file. libcst and what follows it need half a minute for these.
LENGTH = 2_000_000
RECURSION = 50_000
# 512 MiB is address space, not memory; 64 MiB, where that is limited, still holds what DEPTH allows.
STACKS = (512 << 20, 64 << 20)
# Words of a frame, which Python reserves and doesn't touch.
_LARGE_FRAME = 1 << 20

_PYTHON = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
_STRING = re.compile(r"""#[^\r\n]*|('''|\"""|'|")(?:\\.|(?!\1).)*\1""", re.DOTALL)
# The nodes that have a place in the text.
_Placed = ast.stmt | ast.expr | ast.excepthandler | ast.keyword | ast.pattern
_one_at_a_time = threading.Lock()
_room: int | None = None  # the thread that runs in it
_before: tuple[int, bool] | None = None  # the recursion limit, and whether garbage is collected, where one has it


class Refusal(NamedTuple):
    """Why a text can't be read, and the characters that show it."""

    message: str
    start: int
    end: int


def refusal(source: Source) -> Refusal | None:
    """Why `source` can't be parsed, by Python or, as far as that is known without trying, by libcst."""
    tree = parse(source)
    return tree if isinstance(tree, Refusal) else None


def parse(source: Source) -> ast.Module | Refusal:
    """What Python makes of `source`, or why it can't be parsed, by Python or, as far as that is known, by libcst."""
    tree = python_tree(source)
    return tree if isinstance(tree, Refusal) else too_deep(tree, source) or tree


def python_tree(source: Source) -> ast.Module | Refusal:
    """What Python makes of `source`, or why it can't parse it; libcst may die of what it can."""
    if (nul := source.text.find("\0")) >= 0:
        return Refusal("source code cannot contain null bytes", nul, nul + 1)
    if (length := len(source.text)) > LENGTH:
        return _at(source, 1, 1, _too_large(length))
    try:
        tree = parsed(source.text)
    except SyntaxError as error:
        # Which syntax is newer than the interpreter can't be told from what is wrong, so the version is always said.
        said = f"{error.msg} (as {_PYTHON} reads it; for code of a newer Python run amplint on that)"
        return _at(source, error.lineno, error.offset, said)
    except UnicodeEncodeError as error:
        return Refusal("source code cannot contain lone surrogates", error.start, error.end)
    except (RecursionError, MemoryError, ValueError) as error:
        what = str(error) or "too complex to parse"
        return _at(source, 1, 1, f"{_PYTHON} can't read it: {what}")
    return tree


def parsed(text: str) -> ast.Module:
    """What Python makes of a text; f-strings that only a newer Python reads have no fields in it.

    Raises:
        SyntaxError, UnicodeEncodeError, RecursionError, MemoryError, ValueError: it can't parse it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SyntaxError:
            older = for_older_python(text)
            if older == text:
                raise
            return ast.parse(older)


def require_size(source: Source) -> None:
    """See that a text is not too large to be parsed.

    Raises:
        TooLargeError: it is.
    """
    if (length := len(source.text)) > LENGTH:
        raise TooLargeError(_too_large(length))


def _too_large(length: int) -> str:
    return f"not linted: too large, {length:,} characters of code; the limit is {LENGTH:,}"


def _at(source: Source, row: int | None, column: int | None, message: str) -> Refusal:
    """A refusal at a place as Python gives it: possibly absent, or beyond the end of the line or the text."""
    row = min(max(row or 1, 1), len(source.line_starts))
    start = source.offset(row, 1)
    width = len(source.line(row))
    column = min(max(column or 1, 1) - 1, width)
    return Refusal(message, start + column, start + min(column + 1, width))


def too_deep(tree: ast.Module, source: Source) -> Refusal | None:
    """Where the syntax is nested deeper than DEPTH.

    A node with n characters is at most about n levels deep, so only long nodes are entered: that makes it cheap.
    """
    if len(source.text) <= DEPTH:
        return None
    data = source.text.encode()
    starts = starts_of_lines(data)

    def size(node: ast.AST) -> int:
        if not isinstance(node, _Placed):
            return DEPTH  # comprehensions, arguments, with items, match cases
        if getattr(node, "decorator_list", None):
            return DEPTH  # decorators stand outside of what they decorate
        start, end = _span(node, starts)
        return end - start

    todo: list[tuple[ast.AST, int, bool]] = [(tree, 0, False)]
    while todo:
        node, depth, entire = todo.pop()
        if isinstance(node, _Placed):
            depth += _levels(node, data, starts)
            if depth > DEPTH:
                line = data[starts[node.lineno - 1] :][: node.col_offset]
                column = len(line.decode()) + 1
                return _at(
                    source,
                    node.lineno,
                    column,
                    f"amplint can't read this code yet: nested more than {DEPTH} levels deep",
                )
        # Before Python 3.12 the parts of an f-string have places that mean nothing.
        entire = entire or isinstance(node, ast.JoinedStr)
        todo += [
            (child, depth, entire) for child in ast.iter_child_nodes(node) if entire or size(child) + depth >= DEPTH
        ]
    return None


def _levels(node: _Placed, data: bytes, starts: list[int]) -> int:
    """How many levels a node is in libcst's tree, which nests some of what ast keeps flat."""
    if isinstance(node, ast.BoolOp):
        return len(node.values)
    if isinstance(node, (ast.Constant, ast.JoinedStr)) and isinstance(getattr(node, "value", ""), (str, bytes)):
        text = data[slice(*_span(node, starts))]
        if text.count(b'"') + text.count(b"'") > DEPTH:  # strings in a row
            return sum(1 for quote in _STRING.findall(text.decode("utf-8", "replace")) if quote)
    if isinstance(node, ast.Import):
        return max(alias.name.count(".") for alias in node.names) + 1
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").count(".") + 1
    return 1


def _span(node: _Placed, starts: list[int]) -> tuple[int, int]:
    """Where a node stands in the bytes of the text."""
    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
    return starts[node.lineno - 1] + node.col_offset, end


def with_room(function: Callable[[], T]) -> T:
    """Call `function` in a thread with a large stack and a raised recursion limit, and return what it returns.

    Raises:
        BaseException: whatever `function` raises.
    """
    global _before  # noqa: PLW0603 - these settings are the whole process's
    if threading.get_ident() == _room:  # a rule has asked about a text of its own
        return function()
    answers: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        global _room  # noqa: PLW0603
        _room = threading.get_ident()
        try:
            answers.append(function())
        except BaseException as error:  # raised again below
            errors.append(error)
        finally:
            _room = None if _room == threading.get_ident() else _room

    # Python takes room for frames from the system 16 KiB at a time, and gives it back at once: where calls in a loop
    # pass the end of a piece, that costs more than they do. A frame that is larger than that gets a piece of its own,
    # with as much room behind it for the frames of what it calls.
    call.__code__ = call.__code__.replace(co_stacksize=_LARGE_FRAME)
    with _one_at_a_time:
        _before = sys.getrecursionlimit(), gc.isenabled()
        sys.setrecursionlimit(max(_before[0], RECURSION))
        # A syntax tree is many objects and no garbage: looking for some takes a sixth of the time.
        gc.disable()
        try:
            _start(call).join()
        finally:
            _as_before()
    if errors:
        raise errors[0]
    return answers[0]


def is_busy() -> bool:
    """Whether a thread is at work, which Ctrl-C doesn't end: only who waits for it has been interrupted."""
    return _room is not None


def _as_before() -> None:
    """Give the process back its settings."""
    global _before  # noqa: PLW0603
    if _before is not None:
        limit, collects = _before
        sys.setrecursionlimit(limit)
        if collects:
            gc.enable()
        _before = None


def _in_a_child() -> None:
    """A process that was forked while a thread had the room has neither the thread nor what would end its turn."""
    global _one_at_a_time, _room  # noqa: PLW0603
    _one_at_a_time = threading.Lock()
    _room = None
    _as_before()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_child)


def _start(call: Callable[[], None]) -> threading.Thread:
    """Start a thread with the largest of STACKS that there is room for."""
    for size in STACKS:
        before = threading.stack_size(size)
        try:
            thread = threading.Thread(target=call, name="amplint", daemon=True)
            thread.start()
            return thread
        except RuntimeError:  # the address space is limited (ulimit -v)
            if size == STACKS[-1]:
                raise
        finally:
            threading.stack_size(before)
    raise AssertionError("unreachable")
