"""What targets are bound to: assigned values, and the items that loops and comprehensions go through."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import (
    CannotFollow,
    Counted,
    Frame,
    Instance,
    Unknown,
    key_of,
    made_in,
    text_of,
)
from amplint.verify.interpreter.tensor_calls import TensorCalls
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import TOOLS, Code

INNER = 2  # iterations of a loop inside one over batches, and items of a container out of sight
_MOST = 64


@dataclass(eq=False)
class LoopItems:
    """Says what a value has for a loop; what is out of sight has so many items as a loop is run iterations."""

    _roles: Roles
    _state: RunState

    def of(self, value: Any, frame: Frame, where: ir.Value) -> Counted:
        """What a loop goes through."""
        if isinstance(value, Counted):
            return value
        if isinstance(value, (list, tuple, dict)):
            return Counted([*value][:_MOST], whole=True)
        if not isinstance(value, Unknown):
            return Counted([Unknown(f"{frame.code.text(where)}[...]") for _ in range(self._state.iterations)])
        if frame.code.known(_reads_gradients, where):
            return Counted([*self._roles.as_parameters(value)], whole=True)
        name = _target_name(where) or f"{value.text}[...]"
        tools = bool(TOOLS.search(value.text))
        owner = ir.statement_of(where)
        if isinstance(owner, ir.For) and not tools and frame.code.trains(owner):
            return Counted([value.item(at, name, batch=True) for at in range(self._state.iterations)])
        count = INNER if tools else 1 if value.tensor is not None else self._state.iterations
        return Counted([value.item(at, name) for at in range(count)], whole=tools)


def _target_name(where: ir.Value) -> str | None:
    """The variable of the loop that goes through a value."""
    parent = where.parent
    owner = ir.statement_of(where)
    if parent is None and isinstance(owner, ir.For) and isinstance(owner.target, ir.Name):
        return owner.target.name
    return None


def _reads_gradients(_: Code, where: ir.Value) -> bool:
    """Whether the items of a loop or comprehension are used as parameters are."""
    owner: ir.Node | None = where
    while isinstance(owner, ir.Value) and not isinstance(owner, ir.Comprehension):
        owner = owner.parent
    statement = ir.statement_of(where)
    if isinstance(owner, ir.Comprehension):
        targets = [clause.target for clause in owner.clauses]
        roots = [*owner.elements, *(test for clause in owner.clauses for test in clause.conditions)]
        values = [each for root in roots for each in ir.walk_values(root)]
    elif isinstance(statement, ir.For):
        targets, values = [statement.target], [*ir.values_below(statement.body)]
    else:
        return False
    names = {each.name for target in targets for each in ir.walk_values(target) if isinstance(each, ir.Name)}
    return any(_gradient_of(each) in names for each in values)


def _gradient_of(value: ir.Value) -> str | None:
    """The variable of whose value a gradient is read."""
    if isinstance(value, ir.Attribute) and value.attr == "grad" and isinstance(value.base, ir.Name):
        return value.base.name
    return None


def _is_of_others(value: Unknown) -> bool:
    """Whether a call has returned a value that it wasn't given under the same name: `model = wrap(model)` does."""
    return value.origin is not None and all(text_of(each) != value.identity for each in value.inputs)


@dataclass(eq=False)
class Assignments:
    """Assigns."""

    _evaluator: Evaluator
    _accelerators: Accelerators
    _tensors: TensorCalls
    _stage: Stage

    def bind(self, target: ir.Value, value: Any, frame: Frame) -> None:
        """Assign a value to a target; what a call out of sight has returned is named after its first variable."""
        can_be_named = isinstance(value, Unknown) and value.origin is not None and not value.named
        if can_be_named and isinstance(target, (ir.Name, ir.Attribute)):
            text = frame.code.text(target)
            value.rename(text, text + made_in(frame))
        if isinstance(target, ir.Name):
            home = target.scope.home(target.name)
            found = frame.find(home) if home is not None else None
            variables = (found or frame).variables
            if isinstance(value, Unknown) and value is not variables.get(target.name) and _is_of_others(value):
                self._stage.made_anew(value.identity)
            variables[target.name] = value
        elif isinstance(target, ir.Attribute):
            base = self._evaluator.evaluate(target.base, frame)
            if target.attr == "scaler" and self._accelerators.as_accelerator(base, target.base, frame) is not None:
                raise CannotFollow(f"{frame.code.where(target)}: the scaler of an Accelerator is set")
            if isinstance(base, torch.nn.Parameter) and target.attr == "requires_grad":
                self._tensors.set_trained(base, value, target)
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
