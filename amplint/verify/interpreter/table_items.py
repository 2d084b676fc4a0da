"""What is taken from tables of functions, dtypes and regions."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.condition_values import Choices
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.standins import MISSING, Closure, Frame, Unknown, defined
from amplint.verify.program.function_tables import Entry
from amplint.verify.program.program import Code


class TableItems:
    """Chooses what is taken from a table by a key out of sight."""

    def __init__(self, choices: Choices, evaluator: Evaluator, frames: LazyFrames) -> None:
        self._choices = choices
        self._evaluator = evaluator
        self._frames = frames

    def taken(self, value: ir.Value, base: Any, index: Any, frame: Frame) -> Any:
        """The function or region that is taken from a table: a choice, where the key is out of sight; else `MISSING`.

        What has nothing to do with scaler, gradients or regions is left to others, and so is a key that is in sight.
        """
        held: dict[str, Any] = {}
        if isinstance(base, (dict, list, tuple)):
            items = base.items() if isinstance(base, dict) else enumerate(base)
            if isinstance(index, (int, str)) and any(key == index for key, _ in items):
                return MISSING
            if not isinstance(index, (int, str)):
                held = {repr(key): item for key, item in items}
        if not held:
            held = {each.key: self._of_entry(each) for each in frame.code.tables.entries(frame.code, value)}
        if not any(map(_matters, held.values())):
            return MISSING
        return held[self._choices.ask(f"{frame.code.text(value)} is", (*held,), matters=True)]

    def _of_entry(self, entry: Entry[Code]) -> Any:
        frame = self._frames.variables_of(entry.code)
        if not isinstance(entry.what, ir.Function):
            return self._evaluator.evaluate(entry.what, frame)
        return defined(entry.what, frame) if entry.what.outer is None else Unknown(entry.what.name)


def _matters(held: Any) -> bool:
    if isinstance(held, Closure):
        return held.frame.code.function_matters(held.function)
    return isinstance(held, (torch.autocast, torch.amp.GradScaler, torch.dtype))
