"""Looking names and attributes up: in frames, in code that isn't run, in objects, tables and libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.model.calls.external_calls import local_class
from amplint.model.flow.tensors import SCALE_READS
from amplint.model.flow.value_uses import ValueUses, mentions_gradients
from amplint.model.module import Module
from amplint.model.names.tables import MAKES_CONTAINERS
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Defined, Imported, Scope
from amplint.model.syntax.nesting import ifs_round, loop_of
from amplint.model.syntax.scopes import canonical
from amplint.model.torch_facts.names import SCALERS
from amplint.verify.bench.instrument import gradient
from amplint.verify.interpreter.allowed_calls import ATTRIBUTES, METHODS, constant, library
from amplint.verify.interpreter.assumptions import Choices, Facts
from amplint.verify.interpreter.evaluate import Evaluator, Truth
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import (
    MISSING,
    ClassValue,
    Closure,
    DeviceName,
    Dotted,
    Frame,
    Instance,
    Method,
    ModuleValue,
    NoneUsedError,
    Raised,
    Site,
    Unknown,
    defined,
    is_of_gradients,
    is_output,
    of_gradients,
    value_of,
)
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.files import Place, where_all_goes_well
from amplint.verify.program.function_tables import Entry
from amplint.verify.program.program import Code


@dataclass(eq=False)
class UnrunAssignments:
    """Evaluates what is assigned in code that isn't run, as far as its conditions hold."""

    _record: RunRecord
    _evaluator: Evaluator
    _truth: Truth
    _evaluating: set[tuple[int, int]] = field(
        default_factory=set
    )  # what is evaluated now: of a frame or instance, and the value

    def value(self, value: ir.Value, frame: Frame, owner: Frame | Instance, *, matters: bool) -> Any:
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
            self._record.read(frame.code, value)
            return self._evaluator.evaluate(value, frame)
        except Raised as raised:
            if raised.error is not None:
                raise
            # What isn't run doesn't end the step: the program goes another way there.
            return Unknown(frame.code.text(value), origin=value if isinstance(value, ir.Call) else None)
        finally:
            self._evaluating.discard(active)

    def _is_reached(self, value: ir.Value, frame: Frame, *, matters: bool) -> bool:
        """Whether the conditions around an assignment hold, in code that isn't run."""
        statement = ir.statement_of(value)
        while isinstance(statement.block.owner, ir.Statement) and not isinstance(
            statement.block.owner, (ir.Function, ir.Class)
        ):
            owner = statement.block.owner
            if isinstance(owner, ir.If):
                holds = self._truth.of(self._evaluator.evaluate(owner.test, frame), matters=matters)
                if holds is not (statement.block is owner.then):
                    return False
            if isinstance(owner, ir.Try) and any(each.body is statement.block for each in owner.handlers):
                return False
            statement = owner
        return True


def _has_scalers_alone(code: Code, bindings: list[Binding], read: ir.Name) -> bool:
    """Whether a variable only ever gets scalers, under conditions and before a read."""
    made = [each.value for each in bindings if isinstance(each, Assigned) and isinstance(each.value, ir.Call)]
    return len(made) == len(bindings) > 0 and all(
        code.module.names.of(each.func) <= SCALERS and ifs_round(each) and each.id < read.id and not loop_of(each)
        for each in made
    )


def is_filled_later(value: ir.Value, name: str, code: Code) -> bool:
    """A display that says nothing: empty, or defaults that are updated, by code that isn't run."""
    if isinstance(value, ir.Mapping) and name in code.updated:
        return not code.value_matters(value)
    if isinstance(value, ir.Call):
        return not value.positional and bool(code.module.names.of(value.func) & MAKES_CONTAINERS)
    return isinstance(value, (ir.Sequence, ir.Mapping)) and not value.items


@dataclass(eq=False)
class Instances:
    """Looks attributes of instances and classes up."""

    _record: RunRecord
    _evaluator: Evaluator
    _functions: Functions
    _frames: LazyFrames
    _assignments: UnrunAssignments

    def attribute(self, instance: Instance, name: str) -> Any:
        """An attribute of an instance: what was stored, a method, or what the class's methods would store."""
        if name in instance.attributes:
            return instance.attributes[name]
        found = self.of_class(instance.cls, name, instance)
        if found is None:
            found = self._stored(instance, instance.cls, name)
            text, identity = f"{instance.text}.{name}", f"{instance.identity}.{name}"
            if found is MISSING:
                found = Unknown(text)
                found.identity = identity
            elif isinstance(found, Unknown):
                found.rename(text, identity)
                found.fixed = True
            elif isinstance(found, Instance) and found.identity == f"self.{name}":  # each has made its own
                found.text, found.identity = text, identity
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
                    if any(ir.is_variable(t, name) for t in statement.targets):
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
            values = (_telling(each.cls.stored(name)) or _set_with_scalers(code, each.cls.stored(name)))[::-1]
            matters = any(code.is_tool(value) or _is_flag(value) for value in values)
            ordered = sorted(values, key=lambda value: (_is_off(value), _method_name(value) != "__init__"))
            for value in ordered:
                function = ir.function_of(value)
                if function is None or is_filled_later(value, name, code):
                    continue
                frame = self._frames.of_function(function, each.frame, instance)
                stored = self._assignments.value(value, frame, instance, matters=matters)
                if stored is not MISSING:
                    return stored
            if self._unpack(instance, each, name):
                return instance.attributes[name]
        return MISSING

    def _unpack(self, instance: Instance, cls: ClassValue, name: str) -> bool:
        """Store what `self.region, self.scaler = self.made()` gives an instance; whether `name` is a part of it."""
        code = cls.frame.code
        if not cls.cls.stored(name):
            return False
        for function in _methods(cls):
            for statement in ir.walk_statements(function.body, into=False):
                if not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Call):
                    continue
                names = _unpacked(statement, function)
                if name not in names or not code.value_matters(statement.value):
                    continue
                frame = self._frames.of_function(function, cls.frame, instance)
                found = self._assignments.value(statement.value, frame, instance, matters=True)
                if isinstance(found, (list, tuple)) and len(found) == len(names):
                    instance.attributes |= dict(zip(names, found, strict=True))
                    return True
        return False

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

    def is_plain_optimizer(self, cls: ClassValue) -> bool:
        """Whether a class is an optimizer by what it inherits of torch, and all that it has to do is its own `step`."""
        bases = [*self.bases(cls)]
        methods = [each for of in bases for each in _methods(of)]
        is_optimizer = any(name.startswith("torch.optim.") for each in bases for name in _inherited(each))
        if not is_optimizer or "step" not in {each.name for each in methods}:
            return False
        public = {each.name for each in methods if not each.name.startswith("_")}
        calls = (each for of in methods for each in ir.values_below(of.body) if isinstance(each, ir.Call))
        return public <= _OF_OPTIMIZER and not any(ir.last_name(each.func) in ("step", "backward") for each in calls)

    def plain_scaler(self, cls: ClassValue) -> str:
        """The scaler of torch's that a class inherits, where it does only that one's work in its own way; else "".

        What it adds is then nothing of AMP: it caps the scale, or writes it to a log.
        """
        bases = [*self.bases(cls)]
        found = sorted(name for each in bases for name in _inherited(each) & SCALERS)
        if not found or any(_adds_events(of.frame.code, each) for of in bases for each in _methods(of)):
            return ""
        return found[0]

    def is_module(self, instance: Instance) -> bool:
        """Whether an instance is a model, by what its class inherits."""
        return any(
            name.startswith("torch.nn.") or name.endswith(("Module", "LightningModule"))
            for each in self.bases(instance.cls)
            for name in _inherited(each)
        )


def _inherited(cls: ClassValue) -> set[str]:
    """The qualified names of what a class inherits by itself."""
    return {name for base in cls.cls.bases for name in cls.frame.code.module.names.of(base.value)}


def _adds_events(code: Code, method: ir.Function) -> bool:
    """Whether a method of a scaler's class does more with gradients than the method of torch's that it replaces."""
    kinds = code.kinds_in(code.reach(method))
    return bool(kinds & {"clip", "backward"}) or (bool(kinds) and not hasattr(torch.amp.GradScaler, method.name))


def _methods(cls: ClassValue) -> list[ir.Function]:
    """The methods that a class defines itself."""
    return [each for each in cls.cls.body.statements if isinstance(each, ir.Function)]


def _unpacked(statement: ir.Assign, function: ir.Function) -> list[str]:
    """The attributes of `self` that an assignment unpacks its value to; none where it does something else."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    if not isinstance(target, ir.Sequence) or not function.params:
        return []
    own = function.params[0].name
    names = [
        each.attr
        for each in target.items
        if isinstance(each, ir.Attribute) and isinstance(each.base, ir.Name) and each.base.name == own
    ]
    return names if len(names) == len(target.items) else []


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


def _set_with_scalers(code: Code, stored: Sequence[ir.Value | None]) -> list[ir.Value]:
    """The flags that a method stores which turns one on next to a scaler; none where no method does."""
    flags = [each for each in stored if each is not None]
    methods = {
        _method_name(each)
        for each in flags
        if _is_constant(each, True) and any(map(code.is_tool, _stored_below(ir.statement_of(each).block)))
    }
    return [each for each in flags if _method_name(each) in methods]


def _stored_below(block: ir.Block) -> Iterator[ir.Value]:
    """What a suite stores in attributes."""
    for each in ir.walk_statements(block, into=False):
        if isinstance(each, ir.Assign) and each.value is not None and isinstance(each.targets[0], ir.Attribute):
            yield each.value


def _is_off(value: ir.Value) -> bool:
    """Whether a value makes what is off as it is written: a scaler that another method replaces."""
    enabled = value.keyword("enabled") if isinstance(value, ir.Call) else None
    return isinstance(enabled, ir.Value) and _is_constant(enabled, False)


def _is_flag(value: ir.Value) -> bool:
    """Whether a value is True or False, as it is written."""
    return _is_constant(value, True) or _is_constant(value, False)


def _is_constant(value: ir.Value, what: bool | None) -> bool:
    return isinstance(value, ir.Constant) and value.value is what


def _method_name(value: ir.Value) -> str:
    function = ir.function_of(value)
    return function.name if function is not None else ""


def _until(call: ir.Call | None, bindings: list[Binding]) -> list[Binding]:
    """The bindings of a variable that come before a call, whose result may be one; all where none does."""
    if call is None:
        return bindings
    return [each for each in bindings if not (isinstance(each, Assigned) and each.value.id >= call.id)] or bindings


# Methods of a gradient that leave its values, and what tells of its size.
_SAME_SIZE = {"data", "detach", "float", "clone", "view", "flatten", "reshape", "cpu", "double"}
_SIZES = {"norm", "vector_norm", "abs", "max", "min", "mean", "sum", "pow", "square", "item", "std", "var", "clone"}
_OF_OPTIMIZER = {"step", "zero_grad", "state_dict", "load_state_dict", "add_param_group"}
_OF_GRAPH = ("requires_grad", "grad_fn")
_OF_SCALER = ("_per_optimizer_states", "_scale")


@dataclass(eq=False)
class Lookup:
    """Finds what a name or an attribute stands for."""

    _stage: Stage
    _evaluator: Evaluator
    _roles: Roles
    _frames: LazyFrames
    _assignments: UnrunAssignments
    _instances: Instances
    _unbound: dict[tuple[int, str], Unknown] = field(
        default_factory=dict
    )  # names that nothing in sight has bound, by scope

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
            if home is value.scope and _has_scalers_alone(frame.code, home.bindings[value.name], value):
                kind = "NameError" if ir.function_of(value) is None else "UnboundLocalError"
                error = NoneUsedError(f"{value.name} has no value", kind)
                raise Raised(str(error), frame.code.where(value), error)
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
        usual = where_all_goes_well(_until(frame.until, bindings))
        values = [each.value for each in usual if isinstance(each, Assigned)]
        matters = any(map(frame.code.is_tool, values))
        for each in reversed(usual):
            if isinstance(each, Defined):
                again = len(usual) > 1 and isinstance(each.what, ir.Function) and each.what.decorators
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
        base = self._evaluator.evaluate(value.base, frame)
        if isinstance(base, Unknown) and isinstance(value.base, ir.Name) and f".{value.attr}" not in base.children:
            found = self._set_by_callers(base, value.base, value.attr, frame)
            if found is not MISSING:
                base.children[f".{value.attr}"] = found
        return self.attribute(base, value.attr, value, frame)

    def _set_by_callers(self, base: Unknown, name: ir.Name, attribute: str, frame: Frame) -> Any:
        """What an attribute is of an object out of sight, where who gives it has set it to a scaler or region."""
        found = [*frame.code.callers.set_on(name, attribute)]
        if not any(of.is_tool(statement.value) for of, statement, _, _ in found if statement.value is not None):
            return MISSING
        for of, statement, call, given in found:
            around = self._frames.of_call(call, of)
            if around.function is not None:  # what its conditions ask of the object is asked of the same one
                around.variables[given.name] = base
            assert statement.value is not None
            value = self._assignments.value(statement.value, around, around, matters=True)
            if value is not MISSING:
                return value
        return MISSING

    def attribute(self, base: Any, name: str, value: ir.Value, frame: Frame) -> Any:
        """`base.name`."""
        if isinstance(base, Unknown) and name in _OF_SCALER and isinstance(value, ir.Attribute):
            base = self._roles.tool(value.base, base, frame)
        if name in _OF_GRAPH and is_output(value_of(base)) and not self._stage.has_gone_back(value_of(base)):
            return Unknown(frame.code.text(value))  # a loss may have nothing to train behind it: all of it is masked
        if isinstance(base, Unknown):
            if isinstance(base.role, DeviceName) and name in ("type", "index"):
                error = AttributeError(f"'str' object has no attribute '{name}'")
                raise Raised(str(error), frame.code.where(value), error)
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
            found = canonical(f"{base.name}.{name}")
            known = constant(found)
            return Dotted(found) if known is None else known
        if isinstance(base, torch.amp.GradScaler) and name == "_scale":
            return self._stage.scale_of(base)
        return _of_object(base, name, value, frame.code)

    def _of_module(self, base: ModuleValue, name: str, value: ir.Value, code: Code) -> Any:
        """An attribute of a module of the program, as another file writes it."""
        if name in base.frame.scope.bindings:
            return self._lazy(base.frame, name)
        place = code.files.passed_on(base.frame.code, name)
        return self._at(place) if place is not None else Unknown(code.text(value))


def _of_object(base: Any, name: str, value: ir.Value, code: Code) -> Any:
    """An attribute of one of torch's objects or of Python's, as far as a program may have it."""
    if isinstance(base, torch.nn.Parameter) and name == "grad" and not code.known(_measures, value):
        return of_gradients(gradient(base))
    if name == "shape" and is_output(base):
        return Unknown(code.text(value))
    for kind, attributes in ATTRIBUTES:
        if isinstance(base, kind) and name in attributes and hasattr(base, name):
            found = getattr(base, name)
            return of_gradients(found) if name == "grad" or is_of_gradients(base) else found
    if any(isinstance(base, kind) and name in methods for kind, methods in METHODS):
        return Method(base, name)
    return Unknown(code.text(value), inputs=(base,))


def _is_relative(module: Module, value: ir.Value) -> bool:
    """Whether gradients are multiplied or divided by what is made of gradients."""
    child: ir.Node = value
    up = value.parent
    while isinstance(up, ir.Binary) and up.op in ("Multiply", "Divide"):
        if mentions_gradients(module, up.right if child is up.left else up.left):
            return True
        child, up = up, up.parent
    return False


def _is_enum(cls: ClassValue) -> bool:
    return any(name.startswith("enum.") for name in _inherited(cls))


def _measures(code: Code, value: ir.Value) -> bool:
    """Whether `p.grad` is read for its size: not to compare it with None, or to ask whether it is finite.

    Nor to divide gradients by their own norm: that is the same at any scale, and else the steps show it. Nor by the
    scale: what is read then is not what they are.
    """
    if ValueUses(code.module, value).found == {"divisor"} or _is_relative(code.module, value):
        return False
    up: ir.Node = value
    while isinstance(parent := up.parent, ir.Attribute):
        called = isinstance(parent.parent, ir.Call) and parent.parent.func is parent
        if parent.attr not in _SAME_SIZE:
            return called and parent.attr in _SIZES
        up = parent.parent if called and parent.parent is not None else parent
    if isinstance(parent, ir.Call):
        return ir.last_name(parent.func) in _SIZES
    return isinstance(parent, ir.Binary) and not (
        parent.op == "Divide" and parent.left is up and _is_scale(code, parent.right)
    )


def _is_scale(code: Code, value: ir.Value) -> bool:
    """Whether a value is a scaler's scale, as a function may be given it."""
    made = [source for _, source in code.callers.looked_at(code, value)]
    return bool(made) and all(isinstance(each, ir.Call) and ir.last_name(each.func) in SCALE_READS for each in made)


@dataclass(eq=False)
class TableItems:
    """Chooses what is taken from a table by a key out of sight."""

    _choices: Choices
    _facts: Facts
    _evaluator: Evaluator
    _frames: LazyFrames
    _evaluating: set[int] = field(default_factory=set)  # entries that are evaluated now, by their ids

    def taken(self, value: ir.Value, base: Any, index: Any, frame: Frame) -> Any:
        """The function or region that is taken from a table: a choice, where the key is out of sight; else `MISSING`.

        What has nothing to do with scaler, gradients or regions is left to others, and so is a key that is in sight.
        """
        held: dict[str, Any] = {}
        keys: dict[Any, str] = {}  # of those that are numbers and text: as they are in `held`
        if isinstance(base, (dict, list, tuple)):
            items = [*(base.items() if isinstance(base, dict) else enumerate(base))]
            if isinstance(index, (int, str)) and any(key == index for key, _ in items):
                return MISSING
            if not isinstance(index, (int, str)):
                held = {repr(key): item for key, item in items}
                keys = {key: repr(key) for key, _ in items if type(key) in (int, str)}
        if not held:
            entries = [*frame.code.tables.entries(frame.code, value)]
            # What a table holds may be made of it: `sums[key] = sums[key] + 1`.
            again = any(each.what.id in self._evaluating for each in entries)
            held = {} if again else {each.key: self._of_entry(each) for each in entries}
            keys = {each.constant: each.key for each in entries if each.constant is not None}
        if not any(map(_matters, held.values())):
            return MISSING
        if isinstance(index, Unknown) and len(keys) == len(held) and not _is_computed(index):
            chosen = self._facts.one_of(index, [*keys])
            return held[keys[chosen]] if chosen is not MISSING else MISSING
        return held[self._choices.ask(f"{frame.code.text(value)} is", (*held,), matters=True)]

    def _of_entry(self, entry: Entry[Code]) -> Any:
        frame = self._frames.variables_of(entry.code)
        if not isinstance(entry.what, ir.Function):
            self._evaluating.add(entry.what.id)
            try:
                return self._evaluator.evaluate(entry.what, frame)
            finally:
                self._evaluating.discard(entry.what.id)
        return defined(entry.what, frame) if entry.what.outer is None else Unknown(entry.what.name)


def _matters(held: Any) -> bool:
    if isinstance(held, Closure):
        return held.frame.code.function_matters(held.function)
    return isinstance(held, (torch.autocast, torch.amp.GradScaler, torch.dtype))


def _is_computed(index: Unknown) -> bool:
    """Whether a value hangs on others: it is no setting."""
    return index.test is not None or index.counts is not None or index.tensor is not None
