"""Running statements of the IR: assignments, conditions and loops."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.control import EXITS
from amplint.verify.interpreter.arithmetic import Arithmetic
from amplint.verify.interpreter.assignments import Assignments
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.loop_items import INNER, LoopItems
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import Frame, Jump, Jumped, Raised, Returned, Unknown, defined, value_of
from amplint.verify.interpreter.suites import ByStatement, Suites
from amplint.verify.interpreter.tensor_calls import TensorCalls
from amplint.verify.interpreter.truth import Truth
from amplint.verify.program.program import Code

_FEW = 4  # iterations of a loop without events
_MOST_ADDED = 64  # items of a list


class Left(Enum):
    """What a suite leaves at its end."""

    LOOP = "a loop or function"
    PROGRAM = "the program"


class Statements:
    """Runs statements, all but `with` and `try`."""

    def __init__(
        self,
        *,
        state: RunState,
        evaluator: Evaluator,
        suites: Suites,
        truth: Truth,
        arithmetic: Arithmetic,
        items: LoopItems,
        assignments: Assignments,
        tensors: TensorCalls,
    ) -> None:
        self._state = state
        self._evaluator = evaluator
        self._suites = suites
        self._truth = truth
        self._arithmetic = arithmetic
        self._items = items
        self._assignments = assignments
        self._tensors = tensors
        self._loops = 0  # counted ones around

    def by_kind(self) -> ByStatement:
        """What runs each kind of statement."""
        return {
            ir.Expr: lambda statement, frame: self._evaluator.evaluate(statement.value, frame),
            ir.Assign: self._assign,
            ir.AugAssign: self._augmented,
            ir.Delete: lambda statement, frame: None,
            ir.Return: self._return,
            ir.Raise: self._raise,
            ir.Assert: self._assert,
            ir.Jump: self._jump,
            ir.Import: lambda statement, frame: None,
            ir.Declare: lambda statement, frame: None,
            ir.If: self._if,
            ir.For: self._for,
            ir.While: self._while,
            ir.Match: self._match,
            ir.Function: self._define,
            ir.Class: self._define,
        }

    def _assign(self, statement: ir.Assign, frame: Frame) -> None:
        if statement.value is None:
            return
        value = self._evaluator.evaluate(statement.value, frame)
        for target in statement.targets:
            self._assignments.bind(target, value, frame)

    def _augmented(self, statement: ir.AugAssign, frame: Frame) -> None:
        left = self._evaluator.evaluate(statement.target, frame)
        right = self._evaluator.evaluate(statement.value, frame)
        if isinstance(left, list) and isinstance(right, (list, tuple)):
            left.extend(right[:_MOST_ADDED])
            return
        if isinstance(left, torch.Tensor) and isinstance(right, (int, float)) and statement.op == "Divide":
            left /= right
            value: Any = left
        else:
            if statement.op in ("Add", "Subtract"):
                self._tensors.adding(left, value_of(right))
            value = self._arithmetic.binary(statement.op, left, right, frame.code.text(statement.target))
        self._assignments.bind(statement.target, value, frame)

    def _return(self, statement: ir.Return, frame: Frame) -> None:
        raise Returned(self._evaluator.evaluate(statement.value, frame) if statement.value is not None else None)

    def _raise(self, statement: ir.Raise, frame: Frame) -> None:
        raise Raised(frame.code.text(statement), frame.code.where(statement))

    def _assert(self, statement: ir.Assert, frame: Frame) -> None:
        value = self._evaluator.evaluate(statement.test, frame)
        if not isinstance(value, Unknown) and not self._truth.of(value, matters=False):
            raise Raised(f"AssertionError({frame.code.text(statement.test)})", frame.code.where(statement))

    def _jump(self, statement: ir.Jump, frame: Frame) -> None:
        if statement.kind != "pass":
            raise Jumped(Jump(statement.kind))

    def _define(self, statement: ir.Function | ir.Class, frame: Frame) -> None:
        frame.variables[statement.name] = defined(statement, frame)

    def _if(self, statement: ir.If, frame: Frame) -> None:
        value = self._evaluator.evaluate(statement.test, frame)
        decided = self._truth.of(value, matters=False) if not isinstance(value, Unknown) else None
        self._state.record.decided.setdefault(statement.id, set()).add(decided)
        matters = any(map(frame.code.matters, [*statement.blocks()]))
        holds = (
            self._chosen(statement, value, frame, matters=matters)
            if isinstance(value, Unknown)
            else self._truth.of(value, matters=matters)
        )
        if holds:
            self._suites.run(statement.then, frame)
        elif statement.orelse is not None:
            self._suites.run(statement.orelse, frame)

    def _chosen(self, statement: ir.If, value: Unknown, frame: Frame, *, matters: bool) -> bool:
        """Whether a test out of sight holds; `matters`: there are events in what it decides on."""
        left = _left(statement.then, frame)
        if left is Left.PROGRAM and not matters:
            return False  # nothing comes behind it, with AMP or without
        if _returns_instead(statement.then, frame):
            return self._truth.of(value, matters=True)
        if left is not None and not matters:
            # Between events it matters whether the rest of an iteration is left out; how many there are doesn't.
            again = isinstance(last := statement.then.statements[-1], ir.Jump) and last.kind == "continue"
            between = bool(self._state.record.busy and self._loops and (again or value.counts is None))
            return between and self._truth.of(value, matters=True)
        return self._truth.of(value, matters=matters)

    def _match(self, statement: ir.Match, frame: Frame) -> None:
        subject = self._evaluator.evaluate(statement.subject, frame)
        matters = any(frame.code.matters(case.body) for case in statement.cases)
        for case in statement.cases:
            holds = case.irrefutable
            if not holds and case.equals is not None:
                equal = self._arithmetic.compared(
                    subject, "Equal", self._evaluator.evaluate(case.equals, frame), frame.code.text(case.equals)
                )
                holds = self._truth.of(equal, matters=matters)
            elif not holds:
                holds = self._truth.of(
                    Unknown(f"{frame.code.text(statement.subject)} is case {frame.code.row(case.body.statements[0])}"),
                    matters=matters,
                )
            if holds:
                for name in case.binds:
                    frame.variables[name] = subject
                self._suites.run(case.body, frame)
                return

    def _for(self, statement: ir.For, frame: Frame) -> None:
        found = self._items.of(self._evaluator.evaluate(statement.iter, frame), frame, statement.iter)
        items = found.items
        count = self._count(statement, frame)
        if count is not None and not (found.whole and len(items) <= 8 and count != 1):
            items = items[:count]
        broken = False
        counted = count is not None and not _over_parameters(statement)
        around = counted and count != 1  # a loop over epochs is run once, and around nothing
        self._loops += around
        try:
            for at, item in enumerate(items):
                if counted:
                    self._state.record.busy = False
                if around and frame.code.trains(statement):
                    self._state.tick = at
                    self._state.stage.iteration += 1
                self._assignments.bind(statement.target, item, frame)
                try:
                    self._suites.run(statement.body, frame)
                except Jumped as jumped:
                    if jumped.jump is Jump.BREAK:
                        broken = True
                        break
        finally:
            self._loops -= around
        if not broken and statement.orelse is not None:
            self._suites.run(statement.orelse, frame)

    def _while(self, statement: ir.While, frame: Frame) -> None:
        count = self._count(statement, frame) or 1
        self._loops += count > 1
        try:
            for _ in range(count):
                value = self._evaluator.evaluate(statement.test, frame)
                if not isinstance(value, Unknown) and not self._truth.of(value, matters=False):
                    break
                self._state.record.busy = False
                self._state.stage.iteration += count > 1
                try:
                    self._suites.run(statement.body, frame)
                except Jumped as jumped:
                    if jumped.jump is Jump.BREAK:
                        break
        finally:
            self._loops -= count > 1

    def _count(self, statement: ir.For | ir.While, frame: Frame) -> int | None:
        """How often a loop is run at most; None: as often as it has items."""
        code = frame.code
        if not code.matters(statement.body):
            return 1 if isinstance(statement, ir.While) else _FEW
        if _over_parameters(statement):
            return None
        if code.only_loops(statement):
            return 1
        return INNER if self._loops else self._state.iterations


def _left(block: ir.Block, frame: Frame) -> Left | None:
    """What a suite leaves at its end by a jump, or by ending the program; None: nothing."""
    last = block.statements[-1]
    call = last.value if isinstance(last, ir.Expr) else None
    exits = isinstance(call, ir.Call) and bool(frame.code.module.names.of(call.func) & EXITS)
    if exits or isinstance(last, ir.Raise):
        return Left.PROGRAM
    jumps = isinstance(last, ir.Jump) and last.kind != "pass"
    return Left.LOOP if jumps or isinstance(last, ir.Return) else None


def _returns_instead(block: ir.Block, frame: Frame) -> bool:
    """Whether a suite ends a function that returns a scaler or region elsewhere."""
    function = frame.function
    is_return = isinstance(block.statements[-1], ir.Return)
    return is_return and function is not None and frame.code.known(_returns_tool, function)


def _returns_tool(code: Code, function: ir.Function) -> bool:
    return code.returns_tool(function)


def _over_parameters(statement: ir.Statement) -> bool:
    """Whether a loop goes through parameters."""
    return isinstance(statement, ir.For) and any(
        isinstance(each, ir.Attribute) and each.attr in ("parameters", "named_parameters", "param_groups")
        for each in ir.walk_values(statement.iter)
    )
