"""What flow analysis knows of tensors: which losses are scaled, and which numbers depend on the gradients' size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.conditions import Conditions
from amplint.model.events import Event, is_grad
from amplint.model.objects import objects
from amplint.model.state import Abstract, State

if TYPE_CHECKING:
    from amplint.model import Module

# How the scale is read.
SCALE_READS = ("get_scale", "_scale", "_get_scale_async")
_NORMS = ("norm", "vector_norm", "total_norm", "get_total_norm", "linalg_norm")


class Tensors:
    """Reads tensors in one module."""

    def __init__(self, module: Module, conditions: Conditions) -> None:
        self._module = module
        self._conditions = conditions
        self._objects = objects(module)

    def held(self, value: ir.Value, state: State) -> Abstract | None:
        """What a variable bound to `value` holds, if that matters."""
        if self.is_scale(value, state) and self._is_number(value, state):
            return Abstract("scale")
        scaler = self.scaler_of(value, state)
        if scaler is not None:
            return Abstract("scaled", scaler)
        if self.is_norm(value, state):
            return Abstract("norm")
        if self._objects.is_norm(value) and state.has_gradients() is False:
            return Abstract("zero")
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
        for each in ir.walk_values(value):
            if isinstance(each, ir.Attribute) and each.attr in SCALE_READS:
                return True
            if isinstance(each, ir.Name):
                held = state.look_up(self._objects.own_key(each))
                if held is not None and held.kind == "scale":
                    return True
        return False

    def divides(self, value: ir.Value, state: State) -> bool:
        """Whether gradients are multiplied or divided by the scale by hand: `p.grad.mul_(1 / scale)`."""
        if isinstance(value, ir.Call):
            func = value.func
            in_place = isinstance(func, ir.Attribute) and func.attr in ("mul_", "div_", "copy_") and is_grad(func.base)
            if in_place or "foreach" in ir.last_name(func):
                return any(self.is_scale(arg.value, state) for arg in value.args)
        return False

    def scaler_of(self, value: ir.Value, state: State) -> str | None:
        """The scaler by whose scale a tensor is multiplied; None: by none in sight; "": by something of its own."""
        if isinstance(value, ir.Call):
            func = value.func
            held = state.returned(value)
            if held is not None and held.kind == "scaled":
                return held.key
            if isinstance(func, ir.Attribute):
                scaler = self._objects.is_scaler(func.base)
                if scaler is not None and func.attr == "scale":
                    return scaler
                if func.attr in ("sum", "mean", "to", "float", "clone", "squeeze", "contiguous"):
                    return self.scaler_of(func.base, state)
            return self._own_scale(value)
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
            key = self._objects.own_key(value) if isinstance(value, ir.Name) else self._objects.key(value)
            held = state.look_up(key)
            if held is not None and held.kind == "scaled":
                return held.key
        return self._own_scale(value)

    def _own_scale(self, value: ir.Value) -> str | None:
        """`loss * scaler.get_scale()` and the like: the scale is there, put on by hand."""
        for each in ir.walk_values(value):
            name = ir.last_name(each)
            if "scale" in name.lower() and "scaler" not in name.lower():
                return ""
        return None

    def is_norm(self, value: ir.Value, state: State) -> bool:
        """Whether a number depends on the size of gradients: the norm of `p.grad`, or arithmetic on one."""
        grad = norm = False
        held = state.returned(value)
        if held is not None and held.kind == "norm":
            return True
        for each in ir.walk_values(value):
            if isinstance(each, ir.Attribute):
                grad = grad or each.attr == "grad"
                norm = norm or each.attr in _NORMS
            elif isinstance(each, ir.Name):
                held = state.look_up(self._objects.own_key(each))
                if held is not None and held.kind == "norm":
                    return True
                norm = norm or each.name in _NORMS
        return grad and norm

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
        if isinstance(func, ir.Attribute) and func.attr in ("mul_", "div_", "copy_") and is_grad(func.base):
            if any(self.is_norm(arg.value, state) for arg in call.args):
                return Event("clip", call, subject=func.base, how="norm")
        return None
