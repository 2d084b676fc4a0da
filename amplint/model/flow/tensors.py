"""What flow analysis knows of tensors: which losses are scaled, and which numbers depend on the gradients' size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import is_grad
from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

# How the scale is read.
SCALE_READS = ("get_scale", "_scale", "_get_scale_async")
_NORMS = ("norm", "vector_norm", "total_norm", "get_total_norm", "linalg_norm")


class _Parts(NamedTuple):
    """What a value is made of: whether it reads the scale, names one of its own, or takes a norm of gradients; the
    variables in it; and whether it is nothing in particular, unless they are.
    """

    reads_scale: bool
    own_scale: bool
    norm_of_grad: bool
    names: list[ir.Name]
    is_plain: bool


class Tensors:
    """Reads tensors in one module."""

    def __init__(self, module: Module, conditions: Conditions) -> None:
        self._module = module
        self._conditions = conditions
        self._objects = objects(module)
        self._parts: dict[int, _Parts] = {}

    def held(self, value: ir.Value, state: State) -> AbstractValue | None:
        """What a variable bound to `value` holds, if that matters."""
        if state.result is None and self._parts_of(value).is_plain and not state.holds_numbers():
            return None
        if self.is_scale(value, state) and self._is_number(value, state):
            return AbstractValue(ValueKind.SCALE)
        scaler = self.scaler_of(value, state)
        if scaler is not None:
            return AbstractValue(ValueKind.SCALED, scaler)
        if self.is_norm(value, state):
            return AbstractValue(ValueKind.NORM)
        if self._objects.is_norm(value) and state.has_gradients() is False:
            return AbstractValue(ValueKind.ZERO)
        return None

    def _is_number(self, value: ir.Value, state: State) -> bool:
        """Whether nothing but the scale and literals takes part in a computation."""
        if isinstance(value, ir.Call):
            return isinstance(value.func, ir.Attribute) and value.func.attr in SCALE_READS
        if isinstance(value, (ir.Name, ir.Attribute, ir.Constant)):
            return isinstance(value, ir.Constant) or self.is_scale(value, state)
        return all(self._is_number(child, state) for child in value.children())

    def is_scale(self, value: ir.Value, state: State) -> bool:
        """Whether a number is the scale, or computed from it."""
        parts = self._parts_of(value)
        return parts.reads_scale or self._is_any(parts, ValueKind.SCALE, state)

    def divides(self, call: ir.Call, state: State) -> bool:
        """Whether gradients are multiplied or divided by the scale by hand: `p.grad.mul_(1 / scale)`."""
        return may_divide(call) and any(self.is_scale(arg.value, state) for arg in call.args)

    def scaler_of(self, value: ir.Value, state: State) -> str | None:
        """The scaler by whose scale a tensor is multiplied; None: by none in sight; "": by something of its own."""
        if isinstance(value, ir.Call):
            return self._scaler_of_call(value, state)
        if isinstance(value, ir.Binary):
            sides = self.scaler_of(value.left, state), self.scaler_of(value.right, state)
            return "" if "" in sides else sides[0] or sides[1]
        if isinstance(value, ir.Conditional):
            truth = self._conditions.truth(value.test, state)
            if truth is not None:
                return self.scaler_of(value.then if truth else value.other, state)
        if isinstance(value, ir.Subscript):
            return self.scaler_of(value.base, state)
        if isinstance(value, (ir.Name, ir.Attribute)):
            key = self._objects.own_key(value)
            held = state.look_up(key)
            if held is not None and held.kind is ValueKind.SCALED:
                return held.key
        return self._own_scale(value)

    def _scaler_of_call(self, call: ir.Call, state: State) -> str | None:
        """The same, of what a call gives."""
        func = call.func
        held = state.returned(call)
        if held is not None and held.kind is ValueKind.SCALED:
            return held.key
        if isinstance(func, ir.Attribute):
            scaler = self._objects.is_scaler(func.base)
            if scaler is not None and func.attr == "scale":
                return scaler
            if func.attr in ("sum", "mean", "to", "float", "clone", "squeeze", "contiguous"):
                return self.scaler_of(func.base, state)
        return self._own_scale(call)

    def _own_scale(self, value: ir.Value) -> str | None:
        """`loss * scaler.get_scale()` and the like: the scale is there, put on by hand."""
        return "" if self._parts_of(value).own_scale else None

    def is_norm(self, value: ir.Value, state: State) -> bool:
        """Whether a number depends on the size of gradients: the norm of `p.grad`, or arithmetic on one."""
        held = state.returned(value)
        if held is not None and held.kind is ValueKind.NORM:
            return True
        parts = self._parts_of(value)
        return parts.norm_of_grad or self._is_any(parts, ValueKind.NORM, state)

    def _is_any(self, parts: _Parts, kind: ValueKind, state: State) -> bool:
        """Whether a variable that takes part in a value holds something of a kind."""
        keys = state.holding(kind) if parts.names else ()
        return bool(keys) and any(self._objects.own_key(each) in keys for each in parts.names)

    def _parts_of(self, value: ir.Value) -> _Parts:
        """What a value is made of, whatever the path."""
        if value.id not in self._parts:
            every = list(ir.walk_values(value))
            words = {ir.last_name(each) for each in every}
            read = {each.attr for each in every if isinstance(each, ir.Attribute)}
            found = (
                not read.isdisjoint(SCALE_READS),
                any(map(self._is_of_scale, every)),
                "grad" in read and not words.isdisjoint(_NORMS),
            )
            plain = not any(found) and "scale" not in read and not self._objects.is_norm(value)
            self._parts[value.id] = _Parts(*found, [each for each in every if isinstance(each, ir.Name)], plain)
        return self._parts[value.id]

    def _is_of_scale(self, value: ir.Value, depth: int = 4) -> bool:
        """Whether a value may be a loss scale by its name: `self.loss_scale`, `scaled`. Where all that a variable can
        be is arithmetic of names, these decide: `scaled_loss = loss / accumulation_steps` has no scale.
        """
        word = ir.last_name(value).lower()
        if "scale" not in word or "scaler" in word:
            return False
        if not isinstance(value, ir.Name) or value.bound or not depth:
            return True
        found = values_of(self._module, value)
        return not found.is_closed or any(
            not _is_arithmetic(each) or self._is_of_scale(each, depth - 1)
            for leaf in found.leaves
            for each in ir.walk_values(leaf.value)
        )

    def by_hand(self, statement: ir.AugAssign, state: State) -> Event | None:
        """`p.grad *= max_norm / total_norm`: clipping written by hand."""
        if (
            statement.op in ("Multiply", "Divide")
            and is_grad(statement.target)
            and self.is_norm(statement.value, state)
        ):
            return Event("clip", statement.target, subject=statement.target, how="norm")
        return None

    def by_hand_call(self, call: ir.Call, state: State) -> Event | None:
        """`p.grad.mul_(max_norm / total_norm)`, likewise."""
        func = call.func
        if isinstance(func, ir.Attribute) and _is_in_place(func):
            if any(self.is_norm(arg.value, state) for arg in call.args):
                return Event("clip", call, subject=func.base, how="norm")
        return None


def _is_arithmetic(value: ir.Value) -> bool:
    return isinstance(value, (ir.Name, ir.Attribute, ir.Constant, ir.Binary, ir.Unary))


def may_divide(call: ir.Call) -> bool:
    """Whether a call multiplies or divides gradients, or, going by its name, lists of tensors."""
    return _is_in_place(call.func) or "foreach" in ir.last_name(call.func)


def _is_in_place(func: ir.Value) -> bool:
    return isinstance(func, ir.Attribute) and func.attr in ("mul_", "div_", "copy_") and is_grad(func.base)
