"""Running generators of the program: what they yield, and the suites of `with` that run at their `yield`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.standins import Closure, Frame, Jumped, Manager, Returned, Unknown

_MOST_YIELDED = 1000


class Generators:
    """Runs functions that yield."""

    def __init__(self, evaluator: Evaluator, functions: Functions) -> None:
        self._evaluator = evaluator
        self._functions = functions
        self._yields: list[tuple[ir.Function, Callable[[Any], None]]] = []  # what a `yield` of a function does

    def suspend(self, value: ir.Suspend, frame: Frame) -> Any:
        """The value of `yield` and `await`; a manager's `yield` runs the suite of its `with`."""
        found = self._evaluator.evaluate(value.value, frame) if value.value is not None else None
        if value.kind == "await":
            return found
        if self._yields and self._yields[-1][0] is frame.function:
            self._yields[-1][1](found)
            return None
        return Unknown(frame.code.text(value))

    def managed(self, manager: Manager, go: Callable[[Any], None]) -> None:
        """Run a `with` whose context is a generator of the program's: `go` runs its suite, at the `yield`."""
        outcome: list[BaseException] = []

        def run(entered: Any) -> None:
            self._yields.pop()
            try:
                go(entered)
            except (Jumped, Returned) as left:  # of the suite's function, not of the generator's
                outcome.append(left)
            finally:
                self._yields.append((manager.closure.function, run))

        self._run(manager.closure, manager.args, manager.kwargs, run)
        if outcome:
            raise outcome[0]

    def collect(self, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """What a generator yields, all at once."""
        found: list[Any] = []

        def take(value: Any) -> None:
            if len(found) < _MOST_YIELDED:
                found.append(value)

        self._run(closure, args, kwargs, take)
        return found

    def _run(self, closure: Closure, args: list[Any], kwargs: dict[str, Any], take: Callable[[Any], None]) -> None:
        self._yields.append((closure.function, take))
        try:
            self._functions.apply(closure, args, kwargs)
        finally:
            self._yields.pop()
