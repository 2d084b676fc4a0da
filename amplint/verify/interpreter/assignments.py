"""Assigning values to names, attributes and items."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.standins import CannotFollow, Counted, Frame, Instance, Unknown, key_of


class Assignments:
    """Assigns."""

    def __init__(self, evaluator: Evaluator, accelerators: Accelerators) -> None:
        self._evaluator = evaluator
        self._accelerators = accelerators

    def bind(self, target: ir.Value, value: Any, frame: Frame) -> None:
        """Assign a value to a target; what a call out of sight has returned is named after its first variable."""
        if isinstance(value, Unknown) and value.origin is not None and isinstance(target, (ir.Name, ir.Attribute)):
            value.rename(frame.code.text(target))
        if isinstance(target, ir.Name):
            home = target.scope.home(target.name)
            found = frame.find(home) if home is not None else None
            (found or frame).variables[target.name] = value
        elif isinstance(target, ir.Attribute):
            base = self._evaluator.evaluate(target.base, frame)
            if target.attr == "scaler" and self._accelerators.as_accelerator(base, target.base, frame) is not None:
                raise CannotFollow(f"{frame.code.where(target)}: the scaler of an Accelerator is set")
            _store(base, target.attr, value)
        elif isinstance(target, ir.Subscript):
            _store_item(
                self._evaluator.evaluate(target.base, frame), self._evaluator.evaluate(target.index, frame), value
            )
        elif isinstance(target, ir.Starred):
            self.bind(target.value, value, frame)
        elif isinstance(target, ir.Sequence):
            self._unpack(target, value, frame)

    def _unpack(self, target: ir.Sequence, value: Any, frame: Frame) -> None:
        if isinstance(value, Counted):
            value = value.items
        count = len(target.items)
        starred = next((at for at, each in enumerate(target.items) if isinstance(each, ir.Starred)), None)
        if isinstance(value, (list, tuple)) and starred is not None and len(value) >= count - 1:
            after = count - starred - 1
            middle = value[starred : len(value) - after]
            value = [*value[:starred], [*middle], *value[len(value) - after :]]
        for at, each in enumerate(target.items):
            if isinstance(value, (list, tuple)) and len(value) == count:
                item = value[at]
            elif isinstance(value, Unknown):
                item = value.child(f"[{at}]")
            else:
                item = Unknown(frame.code.text(each))
            self.bind(each, item, frame)


def _store_item(base: Any, index: Any, value: Any) -> None:
    """Set an item of a container of the program's; what an optimizer keeps of its parameters stays as it is."""
    if isinstance(base, dict):
        key = key_of(index)
        if "params" not in base and key is not None:
            base[key] = value
    elif isinstance(base, list):
        if isinstance(index, int) and -len(base) <= index < len(base):
            base[index] = value
    elif isinstance(base, Unknown) and isinstance(index, (str, int)):
        base.children[f"[{index!r}]"] = value


def _store(base: Any, name: str, value: Any) -> None:
    if isinstance(base, Instance):
        base.attributes[name] = value
    elif isinstance(base, Unknown):
        base.children[f".{name}"] = value
    elif isinstance(base, torch.Tensor) and name in ("grad", "data"):
        if value is None or isinstance(value, torch.Tensor):
            with contextlib.suppress(RuntimeError, TypeError):
                setattr(base, name, value if value is None or name == "data" else value.detach())
