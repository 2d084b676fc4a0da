"""What assignments give in code that isn't run."""

from __future__ import annotations

from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import MISSING, Frame, Instance
from amplint.verify.interpreter.truth import Truth
from amplint.verify.program.program import Code


class UnrunAssignments:
    """Evaluates what is assigned in code that isn't run, as far as its conditions hold."""

    def __init__(self, record: RunRecord, evaluator: Evaluator, truth: Truth) -> None:
        self._record = record
        self._evaluator = evaluator
        self._truth = truth
        self._evaluating: set[tuple[int, int]] = set()  # what is evaluated now: of a frame or instance, and the value

    def value(self, value: ir.Value, frame: Frame, owner: Frame | Instance, *, matters: bool) -> Any:
        """What an assignment in code that isn't run gives a variable or attribute of `owner`.

        `MISSING` where it isn't reached, and while the same one is evaluated: what is made of the variable itself
        (`model = wrapped(model)`) is made of what it was given before.
        """
        active = id(owner), value.id
        if active in self._evaluating:
            return MISSING
        self._evaluating.add(active)
        try:
            if not self._is_reached(value, frame, matters=matters):
                return MISSING
            self._record.read(frame.code, value)
            return self._evaluator.evaluate(value, frame)
        finally:
            self._evaluating.discard(active)

    def _is_reached(self, value: ir.Value, frame: Frame, *, matters: bool) -> bool:
        """Whether the conditions around an assignment hold, in code that isn't run."""
        statement = ir.statement_of(value)
        while isinstance(statement.block.owner, ir.Statement) and not isinstance(
            statement.block.owner, (ir.Function, ir.Class)
        ):
            owner = statement.block.owner
            if isinstance(owner, ir.If):
                holds = self._truth.of(self._evaluator.evaluate(owner.test, frame), matters=matters)
                if holds is not (statement.block is owner.then):
                    return False
            if isinstance(owner, ir.Try) and any(each.body is statement.block for each in owner.handlers):
                return False
            statement = owner
        return True


def is_filled_later(value: ir.Value, name: str, code: Code) -> bool:
    """A display that says nothing: empty, or defaults that are updated, by code that isn't run."""
    if isinstance(value, ir.Mapping) and name in code.updated:
        return not code.value_matters(value)
    return isinstance(value, (ir.Sequence, ir.Mapping)) and not value.items
