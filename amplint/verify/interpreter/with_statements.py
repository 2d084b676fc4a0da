"""Running `with`."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.assignments import Assignments
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.functions import Functions, entered
from amplint.verify.interpreter.generators import Generators
from amplint.verify.interpreter.instances import Instances
from amplint.verify.interpreter.standins import Closure, Frame, Instance, Manager
from amplint.verify.interpreter.suites import Suites


class WithStatements:
    """Runs `with`."""

    def __init__(
        self,
        *,
        evaluator: Evaluator,
        suites: Suites,
        assignments: Assignments,
        instances: Instances,
        functions: Functions,
        generators: Generators,
    ) -> None:
        self._evaluator = evaluator
        self._suites = suites
        self._assignments = assignments
        self._instances = instances
        self._functions = functions
        self._generators = generators

    def run(self, statement: ir.With, frame: Frame) -> None:
        """Run `with`; a context that can't be seen does nothing."""
        self._enter(statement, 0, frame)

    def _enter(self, statement: ir.With, at: int, frame: Frame) -> None:
        """Enter the contexts from one on, and run the suite."""
        if at == len(statement.items):
            self._suites.run(statement.body, frame)
            return
        item = statement.items[at]
        value = self._evaluator.evaluate(item.context, frame)

        def go(target: Any) -> None:
            if item.target is not None:
                self._assignments.bind(item.target, target, frame)
            self._enter(statement, at + 1, frame)

        if isinstance(value, Manager):
            self._generators.managed(value, go)
        elif isinstance(value, Instance):
            enter, leave = (self._instances.attribute(value, name) for name in ("__enter__", "__exit__"))
            go(self._functions.apply(enter, [], {}) if isinstance(enter, Closure) else value)
            if isinstance(leave, Closure):
                self._functions.apply(leave, [None, None, None], {})
        elif _is_context(value):
            with ExitStack() as left:
                go(entered(left, value, frame.code.where(item.context)))
        else:
            go(value)


def _is_context(value: Any) -> bool:
    kinds = (torch.autocast, torch.no_grad, torch.enable_grad, torch.inference_mode, torch.set_grad_enabled)
    return isinstance(value, (*kinds, contextlib.nullcontext, contextlib.ExitStack))
