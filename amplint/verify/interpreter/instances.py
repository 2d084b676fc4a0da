"""What instances and classes of the program have: methods, properties, what methods store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amplint.model.calls.external_calls import local_class
from amplint.model.syntax import ir
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import MISSING, ClassValue, Closure, Frame, Instance, Site, Unknown
from amplint.verify.interpreter.unrun_code import UnrunAssignments, is_filled_later
from amplint.verify.program.program import Code


class Instances:
    """Looks attributes of instances and classes up."""

    def __init__(
        self,
        record: RunRecord,
        evaluator: Evaluator,
        functions: Functions,
        frames: LazyFrames,
        assignments: UnrunAssignments,
    ) -> None:
        self._record = record
        self._evaluator = evaluator
        self._functions = functions
        self._frames = frames
        self._assignments = assignments

    def attribute(self, instance: Instance, name: str) -> Any:
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
        for each in self.bases(cls):
            for statement in reversed(each.cls.body.statements):
                if isinstance(statement, ir.Function) and statement.name == name:
                    return self._method(statement, each, instance)
                if isinstance(statement, ir.Assign) and statement.value is not None:
                    if each.cls.stored(name):
                        continue  # methods store something else in it
                    if any(isinstance(t, ir.Name) and t.name == name for t in statement.targets):
                        return self._of_body(name, statement.value, each, instance)
        return None

    def _method(self, function: ir.Function, cls: ClassValue, instance: Instance | None) -> Any:
        """A method of a class as an attribute, or the value of a property."""
        decorators = {name for each in function.decorators for name in cls.frame.code.module.names.of(each)}
        closure = Closure(function, cls.frame, instance, bound=True)
        if "builtins.staticmethod" in decorators or instance is None:
            closure.bound = "builtins.classmethod" in decorators
            closure.own = cls
            return closure
        if "builtins.property" in decorators:
            return self._functions.apply(closure, [], {})
        return closure

    def _of_body(self, name: str, value: ir.Value, cls: ClassValue, instance: Instance | None) -> Any:
        """A variable of a class, made once for all instances; what a dataclass makes, once for each."""
        frame = Frame(cls.frame.code, cls.cls.scope, cls.frame, lazy=True)
        factory = _factory(frame.code, value)
        if factory is None or not isinstance(value, ir.Call):
            return self._functions.once(value, frame, cls.frame)
        if instance is None:
            return None
        self._record.read(frame.code, factory)
        made = self._evaluator.call_value(self._evaluator.evaluate(factory, frame), [], {}, Site(value, frame))
        instance.attributes[name] = made
        return made

    def _stored(self, instance: Instance, cls: ClassValue, name: str) -> Any:
        """What the methods of a class store in an attribute, the constructor first; `MISSING`: nothing in sight."""
        for each in self.bases(cls):
            code = each.frame.code
            values = _telling(each.cls.stored(name))[::-1]
            matters = any(map(code.is_tool, values))
            ordered = sorted(values, key=lambda value: _method_name(value) != "__init__")
            for value in ordered:
                function = ir.function_of(value)
                if function is None or is_filled_later(value, name, code):
                    continue
                frame = self._frames.of_function(function, each.frame, instance)
                stored = self._assignments.value(value, frame, instance, matters=matters)
                if stored is not MISSING:
                    return stored
        return MISSING

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
                yield from self.bases(ClassValue(place.what, self._frames.variables_of(place.code)), depth - 1)

    def is_module(self, instance: Instance) -> bool:
        """Whether an instance is a model, by what its class inherits."""
        for each in self.bases(instance.cls):
            names = {name for base in each.cls.bases for name in each.frame.code.module.names.of(base.value)}
            if any(name.startswith("torch.nn.") or name.endswith(("Module", "LightningModule")) for name in names):
                return True
        return False


def _factory(code: Code, value: ir.Value) -> ir.Value | None:
    """What a field of a dataclass is made by for each instance."""
    if isinstance(value, ir.Call) and "dataclasses.field" in code.module.names.of(value.func):
        found = value.keyword("default_factory")
        return found if isinstance(found, ir.Value) else None
    return None


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
