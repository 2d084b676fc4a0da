"""The AMP events of a function: which of its calls matter to the scaler, the gradients and the regions.

A view of the IR: nothing is copied, an event names its call and what takes part in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model import ir
from amplint.model.objects import Objects, objects
from amplint.model.scopes import LOCAL, Defined, owner_class

if TYPE_CHECKING:
    from amplint.model import Module

CLIPS = {
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.clip_grad_value",
    "torch.nn.utils.clip_grads_with_norm_",
    "timm.utils.dispatch_clip_grad",
    "timm.utils.clip_grad.dispatch_clip_grad",
    "timm.utils.adaptive_clip_grad",
}
# Methods of tensors that bound each element; in place, or with the result stored back.
BOUNDS = ("clamp_", "clip_", "clamp", "clip", "clamp_min_", "clamp_max_")
# Receivers whose `backward(loss)` belongs to a framework that scales by itself.
_FRAMEWORKS = ("accelerator", "fabric", "engine", "self", "strategy", "deepspeed", "trainer", "booster", "plugin")
# Methods of common base classes that leave gradients and scaler alone.
_HARMLESS = {
    "parameters", "named_parameters", "buffers", "modules", "named_modules", "children", "state_dict", "train", "eval",
    "to", "cuda", "cpu", "log", "log_dict", "log_metrics", "print", "info", "forward", "__class__",
}  # fmt: skip


class Event(NamedTuple):
    """One event. `kind`:

    scale, unscale_, step, update (a scaler's), backward, optimizer_step, zero_grad, clip (`how`: the function, or
    "clamp", "norm" where it is written by hand), opaque (a call that can't be seen and may do any of these).
    """

    kind: str
    call: ir.Value
    scaler: str | None = None
    optimizer: str | None = None
    subject: ir.Value | None = None  # the tensor of scale and backward; what clip works on
    how: str = ""


class Events:
    """Recognises the events of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects: Objects = objects(module)
        self._effects: dict[int, bool] = {}
        self._known: dict[int, Event | None] = {}

    def of(self, call: ir.Call) -> Event | None:
        """The event that a call is, if it is one."""
        if call.id not in self._known:
            self._known[call.id] = self._recognise(call)
        return self._known[call.id]

    def _recognise(self, call: ir.Call) -> Event | None:
        func = call.func
        names = self._module.names.of(func)
        if names & CLIPS and call.args:
            return Event("clip", call, subject=call.args[0].value, how=next(iter(names & CLIPS)))
        if "torch.autograd.backward" in names and call.args:
            return Event("backward", call, subject=call.args[0].value)
        if isinstance(func, ir.Attribute):
            found = self._method(call, func)
            if found is not None:
                return found
        return Event("opaque", call) if self._is_opaque(call) else None

    def _method(self, call: ir.Call, func: ir.Attribute) -> Event | None:
        scaler = self._objects.is_scaler(func.base)
        if scaler is not None:
            if func.attr == "scale" and len(call.args) == 1:
                return Event("scale", call, scaler, subject=call.args[0].value)
            if func.attr in ("unscale_", "step") and call.args:
                return Event(func.attr, call, scaler, self._objects.key(call.args[0].value))
            if func.attr == "update":
                return Event("update", call, scaler)
            return None
        if func.attr == "backward":
            return self._backward(call, func)
        optimizer = self._objects.is_optimizer(func.base)
        if func.attr == "step" and optimizer is not None:
            return Event("optimizer_step", call, optimizer=optimizer)
        if func.attr == "zero_grad":
            return Event("zero_grad", call, optimizer=self._objects.key(func.base))
        if func.attr in BOUNDS and _is_grad(func.base) and (func.attr.endswith("_") or _stored_in_grad(call)):
            return Event("clip", call, subject=func.base, how="clamp")
        return None

    def _backward(self, call: ir.Call, func: ir.Attribute) -> Event | None:
        base = func.base
        last = base.attr if isinstance(base, ir.Attribute) else base.name if isinstance(base, ir.Name) else ""
        names = self._module.names.of(base)
        if isinstance(base, ir.Call) and self._module.names.of(base.func) == {"builtins.super"}:
            return Event("opaque", call)
        if call.positional and any(word in last.lower() for word in _FRAMEWORKS):
            return Event("opaque", call)
        if last in ("self", "cls", "ctx") or any(name[0] == "." or name.startswith("torch.") for name in names):
            return Event("opaque", call)
        return Event("backward", call, subject=base)

    def below(self, block: ir.Block) -> Iterator[Event]:
        """The events of a suite and of what is nested in it, functions' bodies left out."""
        for statement in ir.walk_statements(block, into=False):
            if isinstance(statement, (ir.Function, ir.Class)):
                continue
            for each in statement.values():
                for value in ir.walk_values(each):
                    if isinstance(value, ir.Call) and (event := self.of(value)) is not None:
                        yield event

    # --- calls that can't be seen -----------------------------------------------------------------------------------

    def _is_opaque(self, call: ir.Call) -> bool:
        """Whether a call may do something to the gradients or the scaler that can't be seen here."""
        func = call.func
        name = func.attr if isinstance(func, ir.Attribute) else func.name if isinstance(func, ir.Name) else ""
        if "backward" in name or "unscale" in name:
            return True
        callee = self._callee(call)
        if callee is not None:
            return self.has_events(callee)
        if any(self._is_tracked(arg.value) for arg in call.args):
            return not any(name.startswith(("builtins.", "torch.optim.")) for name in self._module.names.of(func))
        return isinstance(func, ir.Attribute) and self._unseen_method(func)

    def _is_tracked(self, value: ir.Value) -> bool:
        return self._objects.is_scaler(value) is not None or self._objects.is_optimizer(value) is not None

    def _callee(self, call: ir.Call) -> ir.Function | None:
        """The function of this file that a call runs, where that is certain."""
        func = call.func
        if isinstance(func, ir.Name):
            bindings = self._module.names.bindings(func)
            if len(bindings) == 1 and isinstance(bindings[0], Defined) and isinstance(bindings[0].what, ir.Function):
                return bindings[0].what
        if isinstance(func, ir.Attribute):
            cls = owner_class(func)
            if cls is not None:
                return method(self._module, cls, func.attr)
        return None

    def _unseen_method(self, func: ir.Attribute) -> bool:
        """`self.method()` of a base class that is out of sight, and no method that everyone knows."""
        cls = owner_class(func)
        if cls is None or func.attr in cls.attributes or func.attr in _HARMLESS:
            return False
        return method(self._module, cls, func.attr) is None and not self._bases_in_sight(cls)

    def _bases_in_sight(self, cls: ir.Class, depth: int = 4) -> bool:
        for base in cls.bases:
            for name in self._module.names.of(base.value) if base.keyword is None else ():
                if name[0] == LOCAL and depth:
                    found = local_class(self._module, base.value)
                    if found is None or not self._bases_in_sight(found, depth - 1):
                        return False
                elif not name.startswith(("torch.", "builtins.", "abc.", "typing.")):
                    return False
        return True

    def has_events(self, function: ir.Function) -> bool:
        """Whether a function of this file, or one that it calls, contains an event."""
        if function.id not in self._effects:
            self._effects[function.id] = False  # a recursive call adds nothing
            self._effects[function.id] = any(event.kind != "scale" for event in self.below(function.body))
        return self._effects[function.id]


def events(module: Module) -> Events:
    """The module's event recogniser."""
    return module.once(Events)


def local_class(module: Module, value: ir.Value) -> ir.Class | None:
    """The class of this file that a name stands for, where that is certain."""
    bindings = module.names.bindings(value) if isinstance(value, ir.Name) else []
    if len(bindings) == 1 and isinstance(bindings[0], Defined) and isinstance(bindings[0].what, ir.Class):
        return bindings[0].what
    return None


def method(module: Module, cls: ir.Class, name: str, depth: int = 4) -> ir.Function | None:
    """The method that `self.name` is, in the class or in its bases in this file."""
    found = module.once(_methods).get((cls.id, name))
    if found is not None:
        return found
    for base in cls.bases:
        parent = local_class(module, base.value)
        if parent is not None and depth:
            found = method(module, parent, name, depth - 1)
            if found is not None:
                return found
    return None


def _methods(module: Module) -> dict[tuple[int, str], ir.Function]:
    """The methods of every class, by the class's id and their name."""
    return {(each.cls.id, each.name): each for each in reversed(module.functions) if each.cls is not None}


def _is_grad(value: ir.Value) -> bool:
    """`p.grad` or `p.grad.data`."""
    if isinstance(value, ir.Attribute) and value.attr == "data":
        value = value.base
    return isinstance(value, ir.Attribute) and value.attr == "grad"


def _stored_in_grad(call: ir.Call) -> bool:
    parent = call.parent
    return isinstance(parent, ir.Assign) and any(_is_grad(target) for target in parent.targets)
