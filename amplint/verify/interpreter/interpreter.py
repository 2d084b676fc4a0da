"""Interpreting a training step of the IR on the bench. Nothing of the program's executes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

import torch

from amplint.model.syntax import ir
from amplint.verify.fixtures.proof import said
from amplint.verify.interpreter.assumptions import Choices, Facts
from amplint.verify.interpreter.calls import Calls
from amplint.verify.interpreter.evaluate import ByKind, Evaluator
from amplint.verify.interpreter.expressions import Expressions
from amplint.verify.interpreter.failures import no_memory
from amplint.verify.interpreter.functions import Functions, Generators
from amplint.verify.interpreter.handlers import caught_by_callers
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.run_state import RunRecord, RunState
from amplint.verify.interpreter.standins import Closure, DeviceName, Frame, Raised, Unknown
from amplint.verify.interpreter.statements import Statements
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import Code, Step
from amplint.verify.program.scalers_again import makes_in_calls

T = TypeVar("T")

_ITERATIONS = 4  # of a loop over batches, and calls of a step that has no loop
_MOST_ITERATIONS = 64


class _Parts:
    """The parts of one run: one of each kind, made of the parts that its fields name."""

    def __init__(self, given: tuple[Any, ...]) -> None:
        self._made: dict[type, Any] = {type(each): each for each in given}

    def get(self, kind: type[T]) -> T:
        """The part of a kind."""
        part: Any = kind
        if kind not in self._made:
            self._made[kind] = part(**{name: self.get(of) for name, of in _needs(part)})
        made: T = self._made[kind]
        return made


@cache
def _needs(kind: Any) -> list[tuple[str, Any]]:
    """The fields of a kind of part that have no default, with their types."""
    hints = get_type_hints(kind)
    own = (each for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING)
    return [(each.name, hints[each.name]) for each in own]


class Interpreter:
    """One run of a step, put together of its parts. What the run has shown is in `record` when it is over.

    The step is run as a method of `cls`, where that is given.
    """

    def __init__(self, step: Step, code: Code, stage: Stage, choices: Choices, cls: ir.Class | None = None) -> None:
        self._step = step
        self._code = code
        self.stage = stage
        stage.clears_itself = not step.clears or stage.knowledge.cleared
        known = stage.knowledge
        facts = Facts(choices, code.periods, known.there, known.tools, known.always)
        facts.iteration, facts.period = lambda: stage.iteration, lambda: known.period
        self.record = record = RunRecord(code)
        iterations = min(_MOST_ITERATIONS, max(_ITERATIONS, stage.knowledge.period * 2))
        self._state = state = RunState(stage, facts, record, iterations, not step.has_loop)
        self._evaluator = evaluator = Evaluator(state)
        self._frames = LazyFrames(code, step.function, cls, stage.knowledge, evaluator)
        parts = _Parts((choices, stage, facts, record, state, evaluator, self._frames))
        self._functions = parts.get(Functions)
        expressions, calls, generators = parts.get(Expressions), parts.get(Calls), parts.get(Generators)
        by_kind: ByKind = {**expressions.by_kind(), ir.Call: calls.call, ir.Suspend: generators.suspend}
        evaluator.attach(by_kind, calls, parts.get(Statements))

    def run(self) -> None:
        """Run the step, several times where it has no loop of its own.

        Raises:
            CannotFollow: it can't be interpreted.
        """
        try:
            if self._step.function is None:
                frame = Frame(self._code, self._code.module.program.scope, None)
                self._evaluator.run(self._code.module.program.body, frame)
            else:
                self._call(self._step.function)
        except Raised as raised:
            self.record.ended = raised

    def _call(self, function: ir.Function) -> None:
        """Call the step as often as a loop over batches would."""
        outer, own = self._frames.around(function)
        closure = Closure(function, outer, own, bound=own is not None)
        known = self._frames.given_by_callers(function, bound=own is not None)
        is_caught = caught_by_callers(self._code, function) if not self._step.has_loop else lambda _: False
        self._state.tries.append(is_caught)
        self._state.catching += is_caught(no_memory(""))
        given: dict[str, Any] = {}
        for at in self._calls_of(function):
            self.record.busy, self._state.tick, self.record.scalers.call = False, at, at
            self.stage.iteration += 1
            # Each call has a batch of its own; what is a scaler or an optimizer is the same in all of them.
            lasting = {name: value for name, value in given.items() if self._step.has_loop or _has_tool(value)}
            given = self._unknown_arguments(function, bound=own is not None)
            given |= {name: known[name] for name in given if name in known} | lasting
            try:
                self._functions.apply(closure, [], given)
            except Raised as raised:
                if not is_caught(raised):
                    raise
                if raised.error is not None:
                    self.record.caught.append(f"{raised.where}: {said(raised.error)}")
            self.stage.clear_used()

    def _calls_of(self, function: ir.Function) -> Iterator[int]:
        """The calls of the step, from 0: of one that has a loop only one.

        Two are made where it leaves a step unfinished, or makes a scaler in each.
        """
        if not self._step.has_loop:
            yield from range(self._state.iterations)
            return
        yield 0
        unfinished = self.record.leaves_steps(set()) and self._code.callers.may_repeat(function)
        if unfinished or makes_in_calls(self._code, function):
            yield 1

    def _unknown_arguments(self, function: ir.Function, *, bound: bool) -> dict[str, Any]:
        """Values for a function's parameters, but for those whose default is a scaler or a region."""
        found = {
            each.name: Unknown(each.name)
            for each in function.params[bound:]
            if each.kind != "*" and not (each.default is not None and self._code.naming(each.default))
        }
        for name, value in found.items():
            value.batch = not self._step.has_loop
            if self._code.callers.is_device_name(function, name):
                value.role = DeviceName(self.stage.device)
            elif self._code.callers.is_device(function, name):
                value.role = torch.device(self.stage.device)
        return found


def _has_tool(value: Any) -> bool:
    """Whether a value out of sight is used as a scaler or an optimizer, or a part of it is."""
    if not isinstance(value, Unknown):
        return False
    is_tool = isinstance(value.role, (torch.amp.GradScaler, torch.optim.Optimizer))
    return is_tool or any(map(_has_tool, value.children.values()))
