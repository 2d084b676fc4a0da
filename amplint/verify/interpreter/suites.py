"""Running suites of the IR: each kind of statement by the part that knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.standins import Frame, Returned

ByStatement = Mapping[type[ir.Statement], Callable[[Any, Frame], None]]


class Suites:
    """Runs suites. The parts that run a statement run the suites in it by this one."""

    def __init__(self) -> None:
        self._by_kind: ByStatement = {}

    def attach(self, by_kind: ByStatement) -> None:
        """Let statements be run by these parts."""
        self._by_kind = by_kind

    def run(self, block: ir.Block, frame: Frame) -> None:
        """Run a suite."""
        for statement in block.statements:
            self._by_kind[type(statement)](statement, frame)

    def returned(self, function: ir.Function, frame: Frame) -> Any:
        """Run a function's suite; its value."""
        try:
            self.run(function.body, frame)
        except Returned as returned:
            return returned.value
        return None
