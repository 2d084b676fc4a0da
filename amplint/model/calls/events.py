"""The AMP events of a function: which of its calls matter to the scaler, the gradients and the regions.

A view of the IR: nothing is copied, an event names its call and what takes part in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import ExternalCalls, local_function
from amplint.model.objects.amp_objects import Objects, given, objects
from amplint.model.objects.event import OF_SCALER, Event
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.ir import Imported, parameter_of
from amplint.model.torch_facts.names import SCALER
from amplint.model.torch_facts.signatures import CLIPS, SIGNATURES

if TYPE_CHECKING:
    from amplint.model import Module

# Methods of tensors that bound each element; in place, or with the result stored back.
BOUNDS = ("clamp_", "clip_", "clamp", "clip", "clamp_min_", "clamp_max_")
NAMED = "named"  # how a clip clips whose code is out of sight
CLIP_NAME = re.compile(r"(?i)_?clip_?grad(ient)?s?(_(norm|value))?s?_?")
# What torch's own steps take.
_OF_STEP = {"closure", "grad_scaler"}
_INFINITE = {"math.inf", "torch.inf", "numpy.inf"}
# Receivers whose `backward(loss)` belongs to a framework that scales by itself.
_FRAMEWORKS = ("accelerator", "fabric", "engine", "self", "strategy", "deepspeed", "trainer", "booster", "plugin")
# What tensors don't have, and objects that run the training do.
_OF_TRAINERS = {"autocast", "clip_grad_norm_", "optimizer", "prepare", "scaler", "step", "update", "zero_grad"}
# A method that an optimizer of another library has for a part of its step.
_OWN_STEP = re.compile(r"_step|step_|ascent|descent|perturb")


class Events:
    """Recognises the events of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects: Objects = objects(module)
        self._calls: dict[int, list[ir.Call]] = {}  # in the expressions of statements
        self.external_calls = ExternalCalls(module, self.below)

    def of(self, call: ir.Call) -> Event | None:
        """The event that a call is, if it is one."""
        known = self._objects.recognised.events
        if call.id not in known:
            known[call.id] = self._recognise(call)
        return known[call.id]

    def _recognise(self, call: ir.Call) -> Event | None:
        func = call.func
        names = self._module.names.of(func)
        if names & CLIPS and call.args:
            function = min(names & CLIPS)
            how = "measure" if self._is_unbounded(call, function) else function
            return Event("clip", call, subject=argument(call, function, "parameters"), how=how)
        if "torch.autograd.backward" in names and call.args:
            return Event("backward", call, subject=argument(call, "torch.autograd.backward", "tensors"))
        if isinstance(func, ir.Attribute):
            found = self._method(call, func)
            if found is not None:
                return found
        if self._is_called_clip(call):
            return Event("clip", call, subject=call.positional[0], how=NAMED)
        return Event("opaque", call) if self.external_calls.is_opaque(call) else None

    def _is_called_clip(self, call: ir.Call) -> bool:
        """Whether what is called is out of sight, goes by the name of a clip, and is given parameters alone: what gets
        neither a scaler nor an optimizer can't unscale.
        """
        func = call.func
        if not CLIP_NAME.fullmatch(ir.last_name(func)) or not call.positional:
            return False
        if not self._objects.parameters_roots(call.positional[0]) or local_function(self._module, func) is not None:
            return False
        if any(self._objects.is_scaler(each) or self._objects.is_optimizer(each) for each in given(call)):
            return False
        if isinstance(func, ir.Name):
            return any(isinstance(each, Imported) or parameter_of(each) for each in self._module.names.bindings(func))
        return isinstance(func, ir.Attribute) and any(True for _ in self._module.names.stored(func))

    def _is_unbounded(self, call: ir.Call, function: str) -> bool:
        """Whether the bound of a clip is infinity."""
        bound = argument(call, function, SIGNATURES[function][1])
        if bound is None:
            return False
        if isinstance(bound, ir.Call) and self._module.names.of(bound.func) == {"builtins.float"} and bound.positional:
            bound = bound.positional[0]
            return isinstance(bound, ir.Constant) and str(bound.value).lower().lstrip("+") in ("inf", "infinity")
        return bool(self._module.names.of(bound) & _INFINITE)

    def _method(self, call: ir.Call, func: ir.Attribute) -> Event | None:
        scaler = self._objects.is_scaler(func.base)
        if scaler is not None:
            return self._of_scaler(call, func.attr, scaler)
        if func.attr == "backward":
            return self._backward(call, func)
        stepped = self._objects.is_optimizer(func.base) if func.attr == "step" else None
        if stepped is not None:
            if any(self._objects.is_scaler(each) for each in given(call)):
                return Event("opaque", call)  # a wrapper's, which has the scaler step
            if call.keywords.keys() - _OF_STEP and stepped not in self._objects.constructed:
                return Event("opaque", call)  # a wrapper's, which may do anything: `step(skip_optimizer=True)`
            return Event("optimizer_step", call, optimizer=stepped)
        if func.attr == "zero_grad":
            return Event("zero_grad", call, optimizer=self._objects.cleared(func.base))
        if _OWN_STEP.search(func.attr) and self._objects.is_optimizer(func.base) is not None:
            # SAM's `first_step` or `ascent_step`: of a class out of sight, it may use and clear the gradients.
            return Event("opaque", call) if local_function(self._module, func) is None else None
        is_clamp = func.attr in BOUNDS and is_grad(func.base) and (func.attr.endswith("_") or _stored_in_grad(call))
        if not is_clamp or (call.args and all(_is_zero(arg.value) for arg in call.args)):
            return None  # where it bounds by zero, the sign is the same at every scale
        return Event("clip", call, subject=func.base, how="clamp")

    def _of_scaler(self, call: ir.Call, name: str, scaler: str) -> Event | None:
        """The event that a call of a scaler's method is."""
        kind = next((each for each in OF_SCALER if each == name), None)
        if kind == "scale":
            return Event(kind, call, scaler, subject=call.args[0].value) if len(call.args) == 1 else None
        if kind == "update":
            return Event(kind, call, scaler)
        if kind is None or not call.args:
            return None
        optimizer = argument(call, f"{SCALER}.{kind}", "optimizer") or call.args[0].value
        return Event(kind, call, scaler, self._objects.key(optimizer), optimizer)

    def _backward(self, call: ir.Call, func: ir.Attribute) -> Event | None:
        base = func.base
        last = ir.last_name(base)
        names = self._module.names.of(base)
        if isinstance(base, ir.Call) and self._module.names.of(base.func) == {"builtins.super"}:
            return Event("opaque", call)
        if call.positional and any(word in last.lower() for word in _FRAMEWORKS):
            return Event("opaque", call)
        if any("loss" in _name_of(value).lower() for value in call.positional):
            return Event("opaque", call)  # what a tensor's backward takes is a gradient
        if call.positional and self._trains_by_itself(base):
            return Event("opaque", call)
        if last in ("self", "cls", "ctx") or any(name[0] == "." or name.startswith("torch.") for name in names):
            return Event("opaque", call)
        return Event("backward", call, subject=base)

    def _trains_by_itself(self, receiver: ir.Value) -> bool:
        """Whether what `backward` is called on is no tensor: elsewhere the file reads what only a trainer has of it."""
        key = self._objects.key(receiver)
        near = self._module.whole.near(ir.last_name(receiver)).values if key is not None else ()
        return any(
            isinstance(each, ir.Attribute) and each.attr in _OF_TRAINERS and self._objects.key(each.base) == key
            for each in near
        )

    def below(self, block: ir.Block) -> Iterator[Event]:
        """The events of a suite and of what is nested in it, functions' bodies left out."""
        for statement in ir.walk_statements(block, into=False):
            if not isinstance(statement, (ir.Function, ir.Class)):
                yield from self.in_statement(statement)

    def in_statement(self, statement: ir.Statement) -> Iterator[Event]:
        """The events of a statement's own expressions."""
        if statement.id not in self._calls:
            values = (value for each in statement.values() for value in ir.walk_values(each))
            self._calls[statement.id] = [each for each in values if isinstance(each, ir.Call)]
        for call in self._calls[statement.id]:
            if (event := self.of(call)) is not None:
                yield event


def events(module: Module) -> Events:
    """The module's event recogniser."""
    return module.once(Events)


def _name_of(value: ir.Value) -> str:
    """The name of a value, or the text in its brackets: `output["loss"]`."""
    index = value.index if isinstance(value, ir.Subscript) else None
    key = index.value if isinstance(index, ir.Constant) else None
    return key if isinstance(key, str) else ir.last_name(value)


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.value is not None and not value.value


def is_grad(value: ir.Value) -> bool:
    """`p.grad` or `p.grad.data`."""
    if isinstance(value, ir.Attribute) and value.attr == "data":
        value = value.base
    return isinstance(value, ir.Attribute) and value.attr == "grad"


def _stored_in_grad(call: ir.Call) -> bool:
    parent = call.parent
    return isinstance(parent, ir.Assign) and any(is_grad(target) for target in parent.targets)
