"""Looking names and attributes up: in frames, in code that isn't run, in objects and in libraries."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Defined, Imported, Scope
from amplint.verify.bench.instrument import gradient
from amplint.verify.interpreter.allowed_calls import ATTRIBUTES, METHODS, constant
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.instances import Instances
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.libraries import library
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.standins import (
    MISSING,
    ClassValue,
    Dotted,
    Frame,
    Instance,
    Method,
    ModuleValue,
    Unknown,
    defined,
)
from amplint.verify.interpreter.unrun_code import UnrunAssignments, is_filled_later
from amplint.verify.program.files import Place
from amplint.verify.program.program import Code

# Methods of a gradient that leave its values, and what tells of its size.
_SAME_SIZE = {"data", "detach", "float", "clone", "view", "flatten", "reshape", "cpu", "double"}
_SIZES = {"norm", "vector_norm", "abs", "max", "min", "mean", "sum", "pow", "square", "item", "std", "var", "clone"}
_OF_SCALER = ("_per_optimizer_states", "_scale")


class Lookup:
    """Finds what a name or an attribute stands for."""

    def __init__(
        self,
        evaluator: Evaluator,
        roles: Roles,
        frames: LazyFrames,
        assignments: UnrunAssignments,
        instances: Instances,
    ) -> None:
        self._evaluator = evaluator
        self._roles = roles
        self._frames = frames
        self._assignments = assignments
        self._instances = instances
        self._unbound: dict[tuple[int, str], Unknown] = {}  # names that nothing in sight has bound, by scope

    def name(self, value: ir.Name, frame: Frame) -> Any:
        """The value of a variable."""
        home = value.scope.home(value.name)
        if home is None and value.name == "__name__" and frame.code is frame.code.files.main:
            return "__main__"  # the file is run, those that it imports are not
        found = frame.find(home) if home is not None else None
        if found is not None:
            if found.lazy:
                return self._lazy(found, value.name)
            if value.name in found.variables:
                return found.variables[value.name]
        foreign = self._foreign(value, home, frame.code)
        if foreign is not MISSING:
            return foreign
        return library(frame.code, value) or self._unbound.setdefault((id(home), value.name), Unknown(value.name))

    def _foreign(self, value: ir.Name, home: Scope | None, code: Code) -> Any:
        """What a variable has from another file of the program; `MISSING`: nothing."""
        if home is None:
            place = code.files.of(code, value)
            return self._at(place) if place is not None else MISSING
        imports = (each for each in home.bindings[value.name] if isinstance(each, Imported))
        return next((found for each in imports if (found := self._imported(code, each)) is not None), MISSING)

    def _imported(self, code: Code, binding: Imported) -> Any:
        """What an import from another file of the program binds; None: that is none, or has nothing to do with AMP."""
        place = code.files.imported(code, binding)
        return self._at(place) if place is not None else None

    def _at(self, place: Place[Code]) -> Any:
        frame = self._frames.variables_of(place.code)
        if not place.name:
            return ModuleValue(frame)
        return self._lazy(frame, place.name)

    def _lazy(self, frame: Frame, name: str) -> Any:
        """A variable of code that isn't run, by the last of its bindings whose conditions hold."""
        if name in frame.variables:
            return frame.variables[name]
        if name in frame.given:
            return frame.given[name]
        found = self._bound(frame, name, frame.scope.bindings[name])
        frame.variables[name] = found
        return found

    def _bound(self, frame: Frame, name: str, bindings: list[Binding]) -> Any:
        values = [each.value for each in bindings if isinstance(each, Assigned)]
        matters = any(map(frame.code.is_tool, values))
        for each in reversed(bindings):
            if isinstance(each, Defined):
                again = len(bindings) > 1 and isinstance(each.what, ir.Function) and each.what.decorators
                return Unknown(name) if again else defined(each.what, frame)  # a decorator may choose one
            if isinstance(each, Imported):
                return self._imported(frame.code, each) or constant(each.name) or Dotted(each.name)
            if not isinstance(each, Assigned):
                break
            found = self._assigned(each.value, name, frame, matters=matters)
            if found is not MISSING:
                return found
        return Unknown(name)

    def _assigned(self, value: ir.Value, name: str, frame: Frame, *, matters: bool) -> Any:
        """What an assignment gives a variable of code that isn't run."""
        if is_filled_later(value, name, frame.code):
            return MISSING
        found = self._assignments.value(value, frame, frame, matters=matters)
        if isinstance(found, Unknown):
            found.rename(name)
            found.fixed = True
        return found

    def attribute_value(self, value: ir.Attribute, frame: Frame) -> Any:
        """The value of `base.name`, as it stands in the text."""
        known = library(frame.code, value)
        if known is not None:
            return known
        return self.attribute(self._evaluator.evaluate(value.base, frame), value.attr, value, frame)

    def attribute(self, base: Any, name: str, value: ir.Value, frame: Frame) -> Any:
        """`base.name`."""
        if isinstance(base, Unknown) and name in _OF_SCALER and isinstance(value, ir.Attribute):
            base = self._roles.tool(value.base, base, frame)
        if isinstance(base, Unknown):
            return base.child(f".{name}")
        if isinstance(base, Instance):
            return self._instances.attribute(base, name)
        if isinstance(base, ModuleValue):
            return self._of_module(base, name, value, frame.code)
        if isinstance(base, ClassValue):
            if _is_enum(base):
                return Dotted(f"{base.cls.name}.{name}")
            return self._instances.of_class(base, name, None) or Unknown(f"{base.cls.name}.{name}")
        if isinstance(base, Dotted):
            return Dotted(f"{base.name}.{name}")
        return _of_object(base, name, value, frame.code)

    def _of_module(self, base: ModuleValue, name: str, value: ir.Value, code: Code) -> Any:
        """An attribute of a module of the program, as another file writes it."""
        if name in base.frame.scope.bindings:
            return self._lazy(base.frame, name)
        place = code.files.passed_on(base.frame.code, name)
        return self._at(place) if place is not None else Unknown(code.text(value))


def _of_object(base: Any, name: str, value: ir.Value, code: Code) -> Any:
    """An attribute of one of torch's objects or of Python's, as far as a program may have it."""
    if isinstance(base, torch.nn.Parameter) and name == "grad" and not _measures(value):
        return gradient(base)
    for kind, attributes in ATTRIBUTES:
        if isinstance(base, kind) and name in attributes and hasattr(base, name):
            return getattr(base, name)
    if any(isinstance(base, kind) and name in methods for kind, methods in METHODS):
        return Method(base, name)
    return Unknown(code.text(value), inputs=(base,))


def _is_enum(cls: ClassValue) -> bool:
    names = {name for base in cls.cls.bases for name in cls.frame.code.module.names.of(base.value)}
    return any(name.startswith("enum.") for name in names)


def _measures(value: ir.Value) -> bool:
    """Whether `p.grad` is read for its size: not to compare it with None, or to ask whether it is finite."""
    up: ir.Node = value
    while isinstance(parent := up.parent, ir.Attribute):
        called = isinstance(parent.parent, ir.Call) and parent.parent.func is parent
        if parent.attr not in _SAME_SIZE:
            return called and parent.attr in _SIZES
        up = parent.parent if called and parent.parent is not None else parent
    if isinstance(parent, ir.Call):
        return ir.last_name(parent.func) in _SIZES
    return isinstance(parent, ir.Binary)
