"""Running functions of the program: their parameters, decorators and suites, and what generators yield."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from amplint.model.syntax import ir
from amplint.model.syntax.interpreter import Paths
from amplint.verify.interpreter.allowed_calls import CONTEXTS, REGIONS
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import Closure, Frame, Manager, Path, Raised, Site, Unknown

_DEPTH, _RECURSION = 40, 4  # of calls, and of those of one function


@dataclass(eq=False)
class Functions:
    """Runs functions of the program."""

    _state: RunState
    _evaluator: Evaluator

    def apply(self, closure: Closure, args: list[Any], kwargs: dict[str, Any], site: Site | None = None) -> Any:
        """What a function of the program returns to a call; out of sight where the calls are nested too deep."""
        function = closure.function
        running = self._state.running
        if len(running) >= _DEPTH or sum(each.function is function for each in running) >= _RECURSION:
            return Unknown(f"{function.name}(...)")
        given = [closure.own, *args] if closure.bound else args
        wrapper = None if closure.bare else self._decorated(closure)
        if wrapper is not None:
            return self.apply(wrapper, given, kwargs, site)
        frame = Frame(closure.frame.code, function.scope, closure.frame, function=function, site=site)
        frame.variables.update(self.parameters(function, given, kwargs, closure.frame))
        with ExitStack() as contexts:
            for each in function.decorators:
                made = self._decorator(each, closure.frame)
                if made is not None:
                    entered(contexts, made, closure.frame.code.where(each))
            running.append(frame)
            self._state.record.applied.add(function.id)
            try:
                return self._evaluator.run(function.body, frame)
            finally:
                running.pop()

    def _decorated(self, closure: Closure) -> Closure | None:
        """What the program's own decorators make of a function; None where none of them matters."""
        code = closure.frame.code
        bare = Closure(closure.function, closure.frame, closure.own, bare=True)
        found = bare
        for each in reversed(closure.function.decorators):
            if code.decorating(each):
                decorator = self._evaluator.evaluate(each, closure.frame)
                made = self.apply(decorator, [found], {}) if isinstance(decorator, Closure) else None
                found = made if isinstance(made, Closure) else found
        return found if found is not bare else None

    def _decorator(self, decorator: ir.Value, frame: Frame) -> Any:
        """The context that a decorator runs a function in, if it is one of torch's."""
        called = decorator.func if isinstance(decorator, ir.Call) else decorator
        names = frame.code.module.names.of(called)
        if not names & {*CONTEXTS, *REGIONS}:
            return None
        if isinstance(decorator, ir.Call):
            return self._evaluator.evaluate(decorator, frame)
        return CONTEXTS[min(names & {*CONTEXTS})]() if names & {*CONTEXTS} else None

    def parameters(
        self, function: ir.Function, args: list[Any], kwargs: dict[str, Any], outer: Frame
    ) -> dict[str, Any]:
        """The parameters' values."""
        found: dict[str, Any] = {}
        left, named = list(args), dict(kwargs)
        for param in function.params:
            if param.kind == "*":
                found[param.name], left = tuple(left), []
            elif param.kind == "**":
                found[param.name], named = named.get(param.name, named), {}
            elif param.kind == "positional" and left:
                found[param.name] = left.pop(0)
            elif param.name in named:
                found[param.name] = named.pop(param.name)
            elif param.default is not None:
                found[param.name] = self.once(param.default, outer, outer)
            else:
                found[param.name] = Unknown(param.name)
        return found

    def once(self, value: ir.Value, frame: Frame, where: Frame) -> Any:
        """The value of an expression that a `def` or `class` in a frame evaluates: a default, a class's variable."""
        if value.id not in where.once:
            self._state.record.read(frame.code, value)
            where.once[value.id] = self._evaluator.evaluate(value, frame)
        return where.once[value.id]


def entered(left: ExitStack, made: Any, where: str) -> Any:
    """Enter one of torch's contexts; `left` leaves it."""
    try:
        return left.enter_context(made)
    except Exception as error:
        raise Raised(str(error), where, error, of_amp=True) from None


_MOST_YIELDED = 1000


@dataclass(eq=False)
class Generators:
    """Runs functions that yield."""

    _evaluator: Evaluator
    _functions: Functions
    _yields: list[tuple[ir.Function, Callable[[Any], None]]] = field(
        default_factory=list
    )  # what a `yield` of a function does

    def suspend(self, value: ir.Suspend, frame: Frame) -> Any:
        """The value of `yield` and `await`; a manager's `yield` runs the suite of its `with`."""
        found = self._evaluator.evaluate(value.value, frame) if value.value is not None else None
        if value.kind == "await":
            return found
        if self._yields and self._yields[-1][0] is frame.function:
            self._yields[-1][1](found)
            return None
        return Unknown(frame.code.text(value))

    def managed(self, manager: Manager, go: Callable[[Any], Paths[Path]]) -> Paths[Path] | None:
        """Run a `with` whose context is a generator of the program's: `go` runs its suite, at the `yield`.

        How the suite is left; None where that isn't run, or its exception is caught around the `yield`.
        """
        left: list[Paths[Path]] = []

        def run(entered: Any) -> None:
            self._yields.pop()
            try:
                paths = go(entered)
            finally:
                self._yields.append((manager.closure.function, run))
            for path in paths.raises:
                if path.raised is not None:
                    raise path.raised
            left.append(paths)

        self._run(manager.closure, manager.args, manager.kwargs, run)
        return left[0] if left else None

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
