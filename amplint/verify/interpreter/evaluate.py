"""Evaluating expressions of the IR, each kind by the part that knows it; whether their values count as true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import CannotFollow, Frame, Site, Unknown, as_setting
from amplint.verify.interpreter.unseen_training import UnseenTraining

ByKind = Mapping[type[ir.Value], Callable[[Any, Frame], Any]]


class RunsSuites(Protocol):
    """Runs the suites of functions."""

    def run(self, block: ir.Block, frame: Frame) -> Any:
        """Run a suite; the value that it returns."""


class CallsValues(Protocol):
    """Calls what an expression has given."""

    def call_value(self, called: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a value returns."""


class Evaluator:
    """Evaluates expressions in a frame. The parts that do it evaluate what is inside by this one, and call by it."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._by_kind: ByKind = {}
        self._calls: CallsValues | None = None
        self._statements: RunsSuites | None = None

    def attach(self, by_kind: ByKind, calls: CallsValues, statements: RunsSuites) -> None:
        """Let expressions be evaluated, values called and suites run by these parts."""
        self._by_kind = by_kind
        self._calls = calls
        self._statements = statements

    def evaluate(self, value: ir.Value, frame: Frame) -> Any:
        """The value of an expression.

        Raises:
            CannotFollow: the run takes too long.
            Raised: the program raises.
        """
        self._state.budget -= 1
        if self._state.budget < 0:
            raise CannotFollow(f"{frame.code.where(value)}: the run takes too long")
        return self._by_kind[type(value)](value, frame)

    def arguments(self, site: Site) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call's arguments, by place and by name."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for arg in site.call.args:
            value = self.evaluate(arg.value, site.frame)
            if arg.star == "*":
                args += value if isinstance(value, (list, tuple)) else []
            elif arg.star == "**":
                known = value if isinstance(value, dict) else {}
                kwargs |= {key: each for key, each in known.items() if isinstance(key, str)}
            elif arg.keyword is not None:
                kwargs[arg.keyword] = value
            else:
                args.append(value)
        return args, kwargs

    def run(self, block: ir.Block, frame: Frame) -> Any:
        """Run a suite; the value that it returns."""
        assert self._statements is not None  # attached before anything is run
        return self._statements.run(block, frame)

    def call_value(self, called: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a value returns."""
        assert self._calls is not None  # attached before anything is run
        return self._calls.call_value(called, args, kwargs, site)


@dataclass(eq=False)
class Truth:
    """Says whether values count as true; where that is out of sight, by a choice."""

    _facts: Facts
    _training: UnseenTraining

    def of(self, value: Any, *, matters: bool) -> bool:
        """Whether a value counts as true; a choice is varied where it `matters`."""
        holds = self._of(value, matters=matters)
        if holds and matters:
            self._training.decides(value)
        return holds

    def _of(self, value: Any, *, matters: bool) -> bool:
        value = as_setting(value)
        if isinstance(value, Unknown):
            return self._facts.truth(value, matters=matters)
        if isinstance(value, torch.Tensor):
            return bool(value.any()) if value.numel() > 1 else bool(value)
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
            return bool(value)
        return True
