"""Where in a program's text a call is made, and in which iteration of which loops.

Each loop is given a statement before it that tells when it starts, and a first one in its body that ticks, on the line
of what follows, so that no line moves.
"""

from __future__ import annotations

import ast
import sys
from types import CodeType, FrameType
from typing import NamedTuple

from tests.differential.program import FILENAME

TICK = "__tick__"


class Place(NamedTuple):
    line: int
    # The loops round the call, outermost first, those of the callers too, each with the number of its run, and that of
    # the iteration.
    loops: tuple[tuple[int, int], ...]

    def same_iteration(self, other: Place) -> bool:
        """Whether two calls are made in one iteration of the innermost loop that holds both."""
        same = True
        for (mine, my_iteration), (its, its_iteration) in zip(self.loops, other.loops, strict=False):
            if mine != its:
                break
            same = my_iteration == its_iteration
            if not same:
                break
        return same


class Places:
    """One text, compiled, and the iteration that each of its loops is in."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self._loops: dict[int, tuple[int, ...]] = {}  # of each line, in its own function
        self._number = 0
        self._suite(tree.body, ())
        self.code: CodeType = compile(ast.fix_missing_locations(tree), FILENAME, "exec")
        self._runs: dict[tuple[int, int], int] = {}
        self._iterations: dict[tuple[int, int], int] = {}
        self._ticks = 0

    def _suite(self, body: list[ast.stmt], loops: tuple[int, ...]) -> None:
        for statement in list(body):
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                self._loops[line] = loops
            inner = loops
            if isinstance(statement, (ast.For, ast.While)):
                self._number += 1
                inner = (*loops, self._number)
            elif isinstance(statement, ast.FunctionDef):
                inner = ()
            for name in ("body", "orelse", "finalbody"):
                is_behind = name != "body" and isinstance(statement, (ast.For, ast.While))
                self._suite(getattr(statement, name, []), loops if is_behind else inner)
            for handler in getattr(statement, "handlers", []):
                self._suite(handler.body, inner)
            if isinstance(statement, (ast.For, ast.While)):
                statement.body.insert(0, _tick(statement.body[0], inner[-1], starts=False))
                body.insert(body.index(statement), _tick(statement, inner[-1], starts=True))

    def tick(self, loop: int, starts: bool) -> None:
        """A loop starts, or its next iteration."""
        self._ticks += 1
        (self._runs if starts else self._iterations)[id(sys._getframe(1)), loop] = self._ticks

    def here(self) -> Place | None:
        """The innermost line of the text that runs."""
        frame: FrameType | None = sys._getframe(1)
        line, chain = 0, []
        while frame is not None:
            if frame.f_code.co_filename == FILENAME:
                line = line or frame.f_lineno
                loops = self._loops.get(frame.f_lineno, ())
                chain[:0] = [
                    (self._runs.get((id(frame), loop), 0), self._iterations.get((id(frame), loop), 0)) for loop in loops
                ]
            frame = frame.f_back
        return Place(line, tuple(chain)) if line else None


def _tick(before: ast.stmt, loop: int, starts: bool) -> ast.stmt:
    call = ast.Call(ast.Name(TICK, ast.Load()), [ast.Constant(loop), ast.Constant(starts)], [])
    return ast.copy_location(ast.Expr(call), before)
