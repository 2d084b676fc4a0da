"""Looking names and attributes up: in frames, in code that isn't run, in classes and in libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from amplint.model.calls.external_calls import local_class
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import NOTHING, UNKNOWN, Assigned, Binding, Defined, Imported
from amplint.verify.bench.instrument import gradient
from amplint.verify.interpreter.allowed_calls import ATTRIBUTES, METHODS, constant
from amplint.verify.interpreter.standins import (
    ClassValue,
    Closure,
    Dotted,
    Frame,
    Instance,
    Method,
    ModuleValue,
    Site,
    Unknown,
)
from amplint.verify.program.files import Place
from amplint.verify.program.program import Code

# Methods of a gradient that leave its values, and what tells of its size.
_SAME_SIZE = {"data", "detach", "float", "clone", "view", "flatten", "reshape", "cpu", "double"}
_SIZES = {"norm", "vector_norm", "abs", "max", "min", "mean", "sum", "pow", "square", "item", "std", "var", "clone"}


MISSING = object()


class Lookup:
    """Finds what a name or an attribute stands for. How the value of an assignment is found is the subclass's."""

    def __init__(self) -> None:
        self._frames: dict[int, Frame] = {}  # of the variables of files, by their ids
        self._unbound: dict[tuple[int, str], Unknown] = {}  # names that nothing in sight has bound, by scope
        self._evaluating: set[tuple[int, int]] = set()  # what is evaluated now: of a frame or instance, and the value

    def evaluate(self, value: ir.Value, frame: Frame) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def truth(self, value: Any, *, matters: bool) -> bool:
        """Whether a value counts as true."""
        raise NotImplementedError

    def tool(self, value: ir.Value, found: Any, frame: Frame) -> Any:
        """The scaler or optimizer that a value out of sight is, where the text uses it as one."""
        raise NotImplementedError

    def apply(self, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of the program returns."""
        raise NotImplementedError

    def call_value(self, called: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a value returns."""
        raise NotImplementedError

    def constructed(self, function: ir.Function) -> dict[str, Any]:
        """What a constructor is given where its instance comes from out of sight."""
        raise NotImplementedError

    def read(self, code: Code, value: ir.Value) -> None:
        """Remember that a run has taken something from code that isn't run, where that names a region or scaler."""
        raise NotImplementedError

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
        for each in home.bindings[value.name] if home is not None else ():
            if isinstance(each, Imported) and (foreign := self._imported(frame.code, each)) is not None:
                return foreign
        place = frame.code.files.of(frame.code, value) if home is None else None
        if place is not None:
            return self._at(place)
        return self.library(frame.code, value) or self._unbound.setdefault((id(home), value.name), Unknown(value.name))

    def _imported(self, code: Code, binding: Imported) -> Any:
        """What an import from another file of the program binds; None: that is none, or has nothing to do with AMP."""
        place = code.files.imported(code, binding)
        return self._at(place) if place is not None else None

    def _at(self, place: Place[Code]) -> Any:
        frame = self.variables_of(place.code)
        if not place.name:
            return ModuleValue(frame)
        return self._lazy(frame, place.name)

    def variables_of(self, code: Code) -> Frame:
        """The frame of a file's variables; its code isn't run."""
        if id(code) not in self._frames:
            self._frames[id(code)] = Frame(code, code.module.program.scope, None, lazy=True)
        return self._frames[id(code)]

    @staticmethod
    def library(code: Code, value: ir.Value) -> Any:
        """The object of a library that a name or attribute stands for."""
        return code.known(_library, value)

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
                return Unknown(name) if again else self.defined(each.what, frame)  # a decorator may choose one
            if isinstance(each, Imported):
                return self._imported(frame.code, each) or constant(each.name) or Dotted(each.name)
            if not isinstance(each, Assigned):
                break
            found = (
                MISSING
                if _is_filled_later(each.value, name, frame.code)
                else self._from(each.value, frame, frame, matters=matters)
            )
            if found is not MISSING:
                if isinstance(found, Unknown):
                    found.rename(name)
                    found.fixed = True
                return found
        return Unknown(name)

    def _is_reached(self, value: ir.Value, frame: Frame, *, matters: bool) -> bool:
        """Whether the conditions around an assignment hold, in code that isn't run."""
        statement = ir.statement_of(value)
        while isinstance(statement.block.owner, ir.Statement) and not isinstance(
            statement.block.owner, (ir.Function, ir.Class)
        ):
            owner = statement.block.owner
            if isinstance(owner, ir.If):
                holds = self.truth(self.evaluate(owner.test, frame), matters=matters)
                if holds is not (statement.block is owner.then):
                    return False
            if isinstance(owner, ir.Try) and any(each.body is statement.block for each in owner.handlers):
                return False
            statement = owner
        return True

    def defined(self, what: ir.Function | ir.Class, frame: Frame) -> Any:
        """What `def` or `class` binds."""
        return Closure(what, frame) if isinstance(what, ir.Function) else ClassValue(what, frame)

    def attribute_value(self, value: ir.Attribute, frame: Frame) -> Any:
        """The value of `base.name`, as it stands in the text."""
        known = self.library(frame.code, value)
        if known is not None:
            return known
        return self.attribute(self.evaluate(value.base, frame), value.attr, value, frame)

    def attribute(self, base: Any, name: str, value: ir.Value, frame: Frame) -> Any:
        """`base.name`."""
        if (
            isinstance(base, Unknown)
            and name in ("_per_optimizer_states", "_scale")
            and isinstance(value, ir.Attribute)
        ):
            base = self.tool(value.base, base, frame)
        if isinstance(base, Unknown):
            return base.child(f".{name}")
        if isinstance(base, Instance):
            return self.of_instance(base, name)
        if isinstance(base, ModuleValue):
            if name in base.frame.scope.bindings:
                return self._lazy(base.frame, name)
            place = frame.code.files.passed_on(base.frame.code, name)
            return self._at(place) if place is not None else Unknown(frame.code.text(value))
        if isinstance(base, ClassValue):
            if _is_enum(base):
                return Dotted(f"{base.cls.name}.{name}")
            return self.of_class(base, name, None) or Unknown(f"{base.cls.name}.{name}")
        if isinstance(base, Dotted):
            return Dotted(f"{base.name}.{name}")
        if isinstance(base, torch.nn.Parameter) and name == "grad" and not _measures(value):
            return gradient(base)
        for kind, attributes in ATTRIBUTES:
            if isinstance(base, kind) and name in attributes and hasattr(base, name):
                return getattr(base, name)
        if any(isinstance(base, kind) and name in methods for kind, methods in METHODS):
            return Method(base, name)
        return Unknown(frame.code.text(value), inputs=(base,))

    def of_instance(self, instance: Instance, name: str) -> Any:
        """An attribute of an instance: what was stored, a method, or what the class's methods would store."""
        if name in instance.attributes:
            return instance.attributes[name]
        found = self.of_class(instance.cls, name, instance)
        if found is None:
            found = self._stored(instance, instance.cls, name)
            if found is MISSING:
                found = Unknown(f"{instance.text}.{name}")
            elif isinstance(found, Unknown):
                found.rename(f"{instance.text}.{name}")
                found.fixed = True
            instance.attributes[name] = found
        return found

    def of_class(self, cls: ClassValue, name: str, instance: Instance | None) -> Any:
        """A method, property or variable of a class, or of one of its bases in this file."""
        code = cls.frame.code
        for each in self.bases(cls):
            for statement in reversed(each.cls.body.statements):
                if isinstance(statement, ir.Function) and statement.name == name:
                    decorators = {n for d in statement.decorators for n in code.module.names.of(d)}
                    closure = Closure(statement, each.frame, instance, bound=True)
                    if "builtins.staticmethod" in decorators or instance is None:
                        closure.bound = "builtins.classmethod" in decorators
                        closure.own = each
                        return closure
                    if "builtins.property" in decorators:
                        return self.apply(closure, [], {})
                    return closure
                if isinstance(statement, ir.Assign) and statement.value is not None:
                    if each.cls.stored(name):
                        continue  # methods store something else in it
                    if any(isinstance(t, ir.Name) and t.name == name for t in statement.targets):
                        return self._of_body(name, statement.value, each, instance)
        return None

    def _of_body(self, name: str, value: ir.Value, cls: ClassValue, instance: Instance | None) -> Any:
        """A variable of a class, made once for all instances; what a dataclass makes, once for each."""
        frame = Frame(cls.frame.code, cls.cls.scope, cls.frame, lazy=True)
        factory = _factory(frame.code, value)
        if factory is None or not isinstance(value, ir.Call):
            return self.once(value, frame, cls.frame)
        if instance is None:
            return None
        self.read(frame.code, factory)
        made = self.call_value(self.evaluate(factory, frame), [], {}, Site(value, frame))
        instance.attributes[name] = made
        return made

    def once(self, value: ir.Value, frame: Frame, where: Frame) -> Any:
        """The value of an expression that a `def` or `class` in a frame evaluates: a default, a class's variable."""
        if value.id not in where.once:
            self.read(frame.code, value)
            where.once[value.id] = self.evaluate(value, frame)
        return where.once[value.id]

    def _stored(self, instance: Instance, cls: ClassValue, name: str) -> Any:
        """What the methods of a class store in an attribute, the constructor first; `MISSING`: nothing in sight."""
        for each in self.bases(cls):
            code = each.frame.code
            values = _telling(each.cls.stored(name))[::-1]
            matters = any(map(code.is_tool, values))
            ordered = sorted(values, key=lambda value: _method_name(value) != "__init__")
            for value in ordered:
                function = ir.function_of(value)
                if function is None or _is_filled_later(value, name, code):
                    continue
                frame = self.lazy_frame(function, each.frame, instance)
                stored = self._from(value, frame, instance, matters=matters)
                if stored is not MISSING:
                    return stored
        return MISSING

    def _from(self, value: ir.Value, frame: Frame, owner: Frame | Instance, *, matters: bool) -> Any:
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
            self.read(frame.code, value)
            return self.evaluate(value, frame)
        finally:
            self._evaluating.discard(active)

    def bases(self, cls: ClassValue, depth: int = 5) -> Iterator[ClassValue]:
        """A class and what it inherits in the program, in the order in which names are looked up."""
        yield cls
        code = cls.frame.code
        for base in cls.cls.bases if depth else ():
            found = local_class(code.module, base.value)
            if found is not None:
                yield from self.bases(ClassValue(found, cls.frame), depth - 1)
                continue
            place = code.files.of(code, base.value)
            if place is not None and isinstance(place.what, ir.Class):
                yield from self.bases(ClassValue(place.what, self.variables_of(place.code)), depth - 1)

    def is_module(self, instance: Instance) -> bool:
        """Whether an instance is a model, by what its class inherits."""
        for each in self.bases(instance.cls):
            names = {name for base in each.cls.bases for name in each.frame.code.module.names.of(base.value)}
            if any(name.startswith("torch.nn.") or name.endswith(("Module", "LightningModule")) for name in names):
                return True
        return False

    def lazy_frame(self, function: ir.Function, outer: Frame, instance: Instance | None) -> Frame:
        """The frame of a function that isn't run."""
        frame = Frame(outer.code, function.scope, outer, lazy=True, function=function)
        if instance is not None and function.params:
            frame.variables[function.params[0].name] = instance
            if function.name == "__init__":
                frame.given = dict(self.constructed(function) if instance.given is None else instance.given)
        return frame


def _library(code: Code, value: ir.Value) -> Any:
    base: ir.Value = value
    while isinstance(base, ir.Attribute) and code.files.of(code, base) is None:
        base = base.base
    if code.files.of(code, base) is not None:
        return None  # it is of another file of the program, or of what that has made
    found = code.module.names.of(value)
    if UNKNOWN in found and isinstance(value, ir.Name):
        return None  # or it is something else: its bindings' conditions say
    names = sorted(found - {UNKNOWN, NOTHING})
    names = [each for each in names if each[0] not in ".!"]
    if not names:
        return None
    name = next((each for each in names if each.startswith("torch.amp.")), names[0])
    known = constant(name)
    return Dotted(name) if known is None else known


def _factory(code: Code, value: ir.Value) -> ir.Value | None:
    """What a field of a dataclass is made by for each instance."""
    if isinstance(value, ir.Call) and "dataclasses.field" in code.module.names.of(value.func):
        found = value.keyword("default_factory")
        return found if isinstance(found, ir.Value) else None
    return None


def _is_enum(cls: ClassValue) -> bool:
    names = {name for base in cls.cls.bases for name in cls.frame.code.module.names.of(base.value)}
    return any(name.startswith("enum.") for name in names)


def _telling(stored: Sequence[ir.Value | None]) -> list[ir.Value]:
    """The values of an attribute that say what it is: None doesn't, nor a flag where methods set something else."""
    values = [each for each in stored if each is not None and not _is_constant(each, None)]
    flags = [each for each in values if any(_is_constant(each, flag) for flag in (True, False))]
    if len(flags) == len(stored) and len({each.value for each in flags if isinstance(each, ir.Constant)}) == 1:
        return values
    return [each for each in values if each not in flags]


def _is_constant(value: ir.Value, what: bool | None) -> bool:
    return isinstance(value, ir.Constant) and value.value is what


def _method_name(value: ir.Value) -> str:
    function = ir.function_of(value)
    return function.name if function is not None else ""


def _is_filled_later(value: ir.Value, name: str, code: Code) -> bool:
    """A display that says nothing: empty, or defaults that are updated, by code that isn't run."""
    if isinstance(value, ir.Mapping) and name in code.updated:
        return not code.value_matters(value)
    return isinstance(value, (ir.Sequence, ir.Mapping)) and not value.items


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
