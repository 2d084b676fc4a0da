"""Calling what an interpreted program calls: functions and classes of its own, a library's, methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.calls.cuda_graphs import CAPTURES, Graphs
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import OF_SCALER
from amplint.model.syntax import ir
from amplint.model.syntax.control import EXITS
from amplint.model.torch_facts.names import ACCELERATE, SCALERS
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.allowed_calls import (
    CONTEXTS,
    COPIES,
    FUNCTIONS,
    METHODS,
    MODULES,
    OF_PARAMETERS,
    OPS,
    REGIONS,
    SAME,
    SAME_METHODS,
    context,
    library,
)
from amplint.verify.interpreter.amp_calls import GradientCalls, OptimizerCalls, RegionCalls, ScalerCalls
from amplint.verify.interpreter.assignments import INNER
from amplint.verify.interpreter.assumptions import CUDA, Facts
from amplint.verify.interpreter.builtin_calls import BUILTINS, Builtins
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.functions import Functions, Generators
from amplint.verify.interpreter.lookup import Instances, Lookup, TableItems
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import (
    COPY,
    MISSING,
    CannotFollow,
    ClassValue,
    Closure,
    Dotted,
    Frame,
    Impossible,
    Instance,
    Manager,
    Method,
    ModuleValue,
    Partial,
    Raised,
    Site,
    Unknown,
    made_in,
    none_used,
    text_of,
)
from amplint.verify.interpreter.tensor_calls import (
    FINITE,
    HAVE_FINITE,
    RANDOM,
    SAME_TRUTH,
    SAME_TRUTHS,
    NetCalls,
    TensorCalls,
)
from amplint.verify.interpreter.unseen_calls import SHAPES, UnseenCalls, named_after
from amplint.verify.interpreter.unseen_training import is_given_tools
from amplint.verify.interpreter.world import Stage

_SHORT = 15  # statements of a function that is run though nothing in it matters to AMP


@dataclass(eq=False)
class ProgramCalls:
    """Calls what the program defines: runs it, where that matters to AMP or is short."""

    _state: RunState
    _evaluator: Evaluator
    _functions: Functions
    _generators: Generators
    _instances: Instances
    _unseen: UnseenCalls

    def closure(self, called: Closure, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a function of the program returns."""
        function, code = called.function, called.frame.code
        short = sum(1 for _ in ir.walk_statements(function.body)) <= _SHORT
        names = {name for each in function.decorators for name in code.module.names.of(each)}
        if "contextlib.contextmanager" in names:
            return Manager(called, args, kwargs)
        matters = code.function_matters(function) or code.returns_events(function)
        if function.is_generator and short and not matters:
            return self._generators.collect(called, args, kwargs)
        if matters and not function.is_generator:
            return self._functions.apply(called, args, kwargs, site)
        if short and not function.is_generator:
            try:
                return self._functions.apply(called, args, kwargs, site)
            except Raised as raised:  # as it hangs on what is out of sight, or is for subclasses to define
                if raised.error is not None or self._is_caught(raised):
                    raise
        inputs = [called.own, *args, *kwargs.values()]
        return self._unseen.value(site, inputs, text_of(called.own), trains=matters, runs=called)

    def _is_caught(self, raised: Raised) -> bool:
        """Whether the program catches what it raises itself, and goes on: not what subclasses are to define."""
        return "NotImplementedError" not in raised.kinds and any(catches(raised) for catches in self._state.tries)

    def construct(self, cls: ClassValue, args: list[Any], kwargs: dict[str, Any], site: Site) -> Instance:
        """The instance that a call of a class of the program makes."""
        target = named_after(site.call)
        text = site.code.text(target if target is not None else site.call)
        instance = Instance(cls, text, text + made_in(site.frame))
        found = self._instances.attribute(instance, "__init__")
        instance.given = (
            self._functions.parameters(found.function, [instance, *args], kwargs, found.frame)
            if isinstance(found, Closure)
            else {}
        )
        instance.attributes.pop("__init__", None)
        return instance

    def of_scaler(self, cls: ClassValue, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What torch's scaler is given where a class that inherits it is constructed: the scale is out of sight."""
        made_by = self._instances.of_class(cls, "__init__", None)
        if not isinstance(made_by, Closure):
            return args, kwargs
        given = self._functions.parameters(made_by.function, [None, *args], kwargs, made_by.frame)
        return [], {"init_scale": Unknown("init_scale")} | {key: given[key] for key in given if key == "enabled"}

    def of_super(self, func: ir.Attribute, site: Site) -> Any:
        """What a call of a method of `super()` returns."""
        around = ir.function_of(func)
        while around is not None and around.cls is None:
            around = around.outer
        args, kwargs = self._evaluator.arguments(site)
        own_frame = site.frame.find(around.scope) if around is not None else None
        own = own_frame.variables.get(around.params[0].name) if own_frame and around and around.params else None
        if isinstance(own, Instance) and around is not None and around.cls is not None:
            for base in [*self._instances.bases(ClassValue(around.cls, own.cls.frame))][1:]:
                found = self._instances.of_class(base, func.attr, own)
                if isinstance(found, Closure):
                    return self.closure(found, args, kwargs, site)
        return self._unseen.value(site, [own, *args, *kwargs.values()], None)


REPLAYED = "a CUDA graph is captured and replayed"
_CONTAINERS = ("torch.nn.ModuleDict", "torch.nn.ModuleList")


@dataclass(eq=False)
class LibraryCalls:
    """Calls what libraries have, by its qualified name."""

    _stage: Stage
    _facts: Facts
    _roles: Roles
    _regions: RegionCalls
    _scalers: ScalerCalls
    _optimizers: OptimizerCalls
    _gradients: GradientCalls
    _tensors: TensorCalls
    _accelerators: Accelerators
    _builtins: Builtins
    _unseen: UnseenCalls

    def value(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call returns."""
        for call in (self._made, self._with_gradients, self._wrapped):
            found = call(name, args, kwargs, site)
            if found is not MISSING:
                return found
        if name == "torch.device" and args:
            return self._device(args[0], site)
        if name == CUDA:
            return self._has_cuda(site)
        if name in COPIES and args and isinstance(args[0], (Unknown, Instance)):
            return _copy(args[0], site)
        if name in BUILTINS:
            return self._builtins.call(name, args, kwargs, site)
        if name in RANDOM:
            return self._tensors.random(name.removeprefix("torch."), args, kwargs, site)
        owner, _, last = name.rpartition(".")
        if last in FINITE and owner in HAVE_FINITE and site.call.positional and args:
            return self._tensors.is_finite(last, args[0], site.code.text(site.call.positional[0]), site)
        if name in SAME_TRUTHS and args and isinstance(args[0], Unknown) and args[0].test is not None:
            return self._tensors.same_truth(args[0], args[0].tensor, site)
        if name in FUNCTIONS:
            return self._tensors.function(FUNCTIONS[name], args, kwargs, site)
        if (clipped := self._gradients.named_clip(None, args, kwargs, site)) is not MISSING:
            return clipped
        return self._unseen.value(site, [*args, *kwargs.values()], None)

    def _has_cuda(self, site: Site) -> Any:
        """Whether CUDA is available: where it is, the program can be run on a machine without it."""
        if not torch.cuda.is_available() and not self._facts.is_without_cuda():
            return False
        return Unknown(site.text, test=lambda matters: self._facts.has_cuda(matters=matters))

    def _made(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """The region, scaler, optimizer or Accelerator that a call makes; else `MISSING`."""
        if name in REGIONS:
            return self._regions.made(name, args, kwargs, site)
        if name == CAPTURES:
            raise CannotFollow(f"{site.where}: {REPLAYED}")
        if name in ACCELERATE:
            return self._accelerators.made(kwargs)
        if name in SCALERS:
            return self._scalers.made(name, args, kwargs, site)
        home, _, last = name.rpartition(".")
        if home == "torch.optim" and last[:1].isupper():
            return self._optimizers.made(last, args, kwargs, site)
        return MISSING

    def _with_gradients(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call that makes gradients, asks for them or clips them returns; else `MISSING`."""
        if site.event is not None and site.event.kind == "clip":
            return self._gradients.clip(name.rpartition(".")[2], args, kwargs, site)
        if name == "torch.autograd.backward" and args:
            roots = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
            start = next(iter(site.call.positional[1:]), site.call.keyword("grad_tensors"))
            return self._gradients.backward([self._roles.as_loss(each, site) for each in roots], site, start)
        if name == "torch.autograd.grad":
            return self._gradients.grad(args, kwargs, site)
        return MISSING

    @staticmethod
    def _wrapped(name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A context, or what a call makes of something that stays what it is; else `MISSING`."""
        if name in CONTEXTS:
            return context(Dotted(name), args)
        if name in EXITS:
            raise Raised("SystemExit", site.where)
        if name == "functools.partial" and args:
            return Partial(args[0], tuple(args[1:]), kwargs)
        if (name in SAME and args) or (name in _CONTAINERS and args and isinstance(args[0], (dict, list))):
            return args[0]
        return MISSING

    def _device(self, given: Any, site: Site) -> Any:
        """What `torch.device` returns."""
        if not isinstance(given, (str, torch.device)):
            found = Unknown(site.text)
            found.role = torch.device(self._stage.device)
            return found
        try:
            return torch.device(given)
        except RuntimeError:
            return Unknown(site.text)


def _copy(of: Unknown | Instance, site: Site) -> Unknown:
    """The deep copy that a call makes of something out of sight: a model's has parameters of its own."""
    found = Unknown(site.text, origin=site.call, inputs=(of,))
    found.mark = COPY
    found.identity += made_in(site.frame) + COPY
    return found


_VIEWS = ("items", "keys", "values")
_OF_NETS = {*OF_PARAMETERS, *SAME_METHODS, *MODULES, "zero_grad"}
_OF_SCALER = ("get_scale", "is_enabled", "_check_inf_per_device")


@dataclass(eq=False)
class MethodCalls:
    """Calls methods, by what they are of."""

    _state: RunState
    _evaluator: Evaluator
    _lookup: Lookup
    _instances: Instances
    _roles: Roles
    _tables: TableItems
    _scalers: ScalerCalls
    _gradients: GradientCalls
    _tensors: TensorCalls
    _accelerators: Accelerators
    _nets: NetCalls
    _unseen: UnseenCalls

    def value(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a method returns."""
        event = site.event
        kind = event.kind if event is not None else ""
        if isinstance(base, Unknown):
            written, base = base, self._as_tool(base, name, kind, site)
            if not isinstance(base, Unknown):
                self._is_tool(written, site)
        if kind == "backward" and isinstance(base, (Unknown, torch.Tensor)) and not is_given_tools(site, args):
            start = next(iter(site.call.positional), site.call.keyword("gradient"))
            return self._gradients.backward([self._roles.as_loss(base, site)], site, start)
        if isinstance(base, torch.amp.GradScaler):
            return self._scalers.method(base, name, args, kwargs, site)
        if isinstance(base, torch.optim.Optimizer):
            return self._accelerators.of_optimizer(base, name, args, kwargs, site)
        if isinstance(base, Instance):
            if event is not None:
                self._state.record.executed.add(site.call)  # what it does is in the method
            return self._of_instance(base, name, args, kwargs, site)
        if isinstance(base, (ClassValue, ModuleValue, Dotted)):
            called = self._lookup.attribute(base, name, site.call, site.frame)
            return self._evaluator.call_value(called, args, kwargs, site)
        if name == "get" and args:
            taken = self._tables.taken(site.call, base, args[0], site.frame)
            if taken is not MISSING:
                return taken
        return self._of_value(base, name, args, kwargs, site)

    def _as_tool(self, base: Unknown, name: str, kind: str, site: Site) -> Any:
        """The scaler or optimizer that a value out of sight is, where a method is called as one of these has."""
        if isinstance(base.role, (torch.amp.GradScaler, torch.optim.Optimizer)):
            return base.role
        func = site.call.func
        written = func.base if isinstance(func, ir.Attribute) else None
        if kind in OF_SCALER:
            return self._roles.as_scaler(base, site)
        if kind == "optimizer_step":
            return self._roles.as_optimizer(base, site)
        if name in _OF_SCALER and written is not None and objects(site.code.module).is_scaler(written):
            return self._roles.as_scaler(base, site)
        if name == "zero_grad" and written is not None and objects(site.code.module).is_optimizer(written):
            return self._roles.as_optimizer(base, site)
        return base

    def _is_tool(self, value: Unknown, site: Site) -> None:
        """Remember that a value is a scaler or optimizer: in one run of the program it is not None before or after."""
        if not value.fixed and value.origin is not None:
            return
        knowledge = self._state.stage.knowledge
        knowledge.tools.add(value.text)
        if not self._state.facts.take_for_tool(value):
            knowledge.always.add(value.text)
            raise Impossible(f"{site.where}: {value.text} counts as false")

    def _of_value(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of a value out of sight, a tensor, or of one of Python's objects."""
        if name in FINITE and isinstance(base, (Unknown, torch.Tensor)) and isinstance(site.call.func, ir.Attribute):
            return self._tensors.is_finite(name, base, site.code.text(site.call.func.base), site)
        if name in SAME_TRUTH and isinstance(base, Unknown) and base.test is not None:
            return self._tensors.same_truth(base, base.tensor, site)
        if isinstance(base, Unknown):
            return self._of_unknown(base, name, args, kwargs, site)
        if any(isinstance(base, of) and name in methods for of, methods in METHODS):
            return self._tensors.method(base, name, args, kwargs, site)
        if isinstance(base, (dict, list)) and name in (*OF_PARAMETERS, "zero_grad", *SAME_METHODS):
            return self._nets.of_container(base, name)
        if isinstance(base, str):  # a text changes nothing that it is given: `"lr: {}".format(optimizer)`
            return Unknown(site.text)
        return self._unseen.value(site, [base, *args, *kwargs.values()], None)

    def _of_instance(self, base: Instance, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of an instance of the program's; of a model, one that it has from torch."""
        if self._instances.is_module(base) and name in _OF_NETS:
            if not isinstance(self._instances.of_class(base.cls, name, base), Closure):
                return self._nets.method(base, name, [*args, *kwargs.values()], site.call)
        runs = name == "forward" and self._instances.is_module(base)
        called = base if runs else self._instances.attribute(base, name)
        return self._evaluator.call_value(called, args, kwargs, site)

    def _of_unknown(self, base: Unknown, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if name in OF_PARAMETERS or name == "zero_grad" or (name in MODULES and not args):
            return self._nets.method(base, name)
        if name == "replay" and site.code.module.once(Graphs).is_replay(site.call):
            raise CannotFollow(f"{site.where}: {REPLAYED}")
        if name in _VIEWS and base.tensor is None and self._nets.holds_tools(base):
            return [each if name == "items" else each[name == "values"] for each in base.entries(INNER)]
        if base.tensor is not None and _is_of_tensor(name):
            return self._tensors.method(base.tensor, name, args, kwargs, site)
        if base.tensor is not None and name in SHAPES:
            return Unknown(site.text, inputs=(base,), tensor=base.tensor)
        if name == "get" and args and isinstance(args[0], str):
            return base.entry(args[0], site.text)
        if name in SAME_METHODS:
            return self._nets.method(base, name, [*args, *kwargs.values()], site.call)
        if (clipped := self._gradients.named_clip(base, args, kwargs, site)) is not MISSING:
            return clipped
        return self._of_unseen(base, name, [*args, *kwargs.values()], site)

    def _of_unseen(self, base: Unknown, name: str, given: list[Any], site: Site) -> Unknown:
        """A method that can't be seen: a model's, or one that computes with the value itself."""
        # Whose gradients are asked for has to be made of its inputs.
        computed = name in SHAPES or (name in OPS and bool(self._state.stage.knowledge.leaves))
        forward = not computed and self._state.stage.may_be_net(base.identity)
        return self._unseen.value(site, given if forward else [base, *given], base.identity, forward=forward)


def _is_of_tensor(name: str) -> bool:
    """Whether a tensor has a method that a program may call."""
    return any(name in methods for of, methods in METHODS if of is torch.Tensor)


@dataclass(eq=False)
class Calls:
    """Evaluates calls, each by the part that knows what is called."""

    _state: RunState
    _evaluator: Evaluator
    _instances: Instances
    _accelerators: Accelerators
    _programs: ProgramCalls
    _methods: MethodCalls
    _libraries: LibraryCalls
    _gradients: GradientCalls
    _unseen: UnseenCalls

    def call(self, call: ir.Call, frame: Frame) -> Any:
        """The value of a call."""
        site = Site(call, frame)
        func = call.func
        known = library(site.code, func)
        if known is not None:
            args, kwargs = self._arguments_of(known, site)
            return (
                self._libraries.value(known.name, args, kwargs, site)
                if isinstance(known, Dotted)
                else Unknown(site.text)
            )
        if isinstance(func, ir.Attribute):
            return self._of_attribute(func, site)
        called = self._evaluator.evaluate(func, frame)
        if called is None and self._returns_others(func, site):
            called = Unknown(site.code.text(func))
        if called is None:
            raise none_used(site, "is not callable", "TypeError")
        args, kwargs = self._evaluator.arguments(site)
        return self.call_value(called, args, kwargs, site)

    @staticmethod
    def _returns_others(func: ir.Value, site: Site) -> bool:
        """Whether what is called comes of a function of the program that returns something, under other conditions."""
        what = site.code.files.what(site.code, func.func) if isinstance(func, ir.Call) else None
        return isinstance(what, ir.Function) and any(
            each.value is not None and not ir.is_none(each.value) for each in returned(what)
        )

    def _arguments_of(self, known: Any, site: Site) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call of a library; an exception in those of a region or a scaler is of AMP."""
        try:
            return self._evaluator.arguments(site)
        except Raised as raised:
            raised.of_amp = raised.of_amp or (isinstance(known, Dotted) and known.name in {*REGIONS, *SCALERS})
            raise

    def _of_attribute(self, func: ir.Attribute, site: Site) -> Any:
        """The value of `base.name(...)`."""
        if isinstance(func.base, ir.Call) and site.code.module.names.of(func.base.func) == {"builtins.super"}:
            return self._programs.of_super(func, site)
        base = self._evaluator.evaluate(func.base, site.frame)
        if isinstance(base, Unknown) and (base.fixed or base.origin is None) and self._state.facts.must_be_none(base):
            self._state.stage.knowledge.there.add(base.text)
            raise Impossible(f"{site.where}: {base.text} is None")
        if base is None:
            raise none_used(site, f"has no attribute '{func.attr}'")
        args, kwargs = self._evaluator.arguments(site)
        accelerator = self._accelerators.as_accelerator(base, func.base, site.frame)
        if accelerator is not None:
            return self._accelerators.method(accelerator, func.attr, args, kwargs, site)
        return self._methods.value(base, func.attr, args, kwargs, site)

    def call_value(self, called: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a value returns."""
        if isinstance(called, Closure):
            return self._programs.closure(called, args, kwargs, site)
        if isinstance(called, ClassValue):
            scaler = self._instances.plain_scaler(called)
            if scaler:
                self._state.record.note(site.code, site.call, f"{called.cls.name} is a stand-in GradScaler")
                return self._libraries.value(scaler, *self._programs.of_scaler(called, args, kwargs), site)
            if self._instances.is_plain_optimizer(called) and (args or "params" in kwargs):
                self._state.record.note(site.code, site.call, f"{called.cls.name} is a stand-in SGD")
                return self._libraries.value("torch.optim.SGD", args[:1] or [kwargs["params"]], {}, site)
            return self._programs.construct(called, args, kwargs, site)
        if isinstance(called, Partial):
            return self.call_value(called.func, [*called.args, *args], {**called.kwargs, **kwargs}, site)
        if isinstance(called, Method):
            return self._methods.value(called.owner, called.name, args, kwargs, site)
        if isinstance(called, Dotted):
            return self._libraries.value(called.name, args, kwargs, site)
        if isinstance(called, Instance):
            return self._of_instance(called, args, kwargs, site)
        if isinstance(called, torch.autocast) and len(args) == 1 and isinstance(args[0], Closure):
            return args[0]
        forward = isinstance(called, Unknown)
        if isinstance(called, Unknown):
            if (clipped := self._gradients.named_clip(None, args, kwargs, site)) is not MISSING:
                return clipped
            called.called = True
        return self._unseen.value(site, [*args, *kwargs.values()], text_of(called), forward=forward)

    def _of_instance(self, called: Instance, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of an instance returns; a model's is out of sight, where it makes no gradients itself."""
        model = self._instances.is_module(called)
        found = self._instances.attribute(called, "forward" if model else "__call__")
        if isinstance(found, Closure) and (not model or _trains(found)):
            return self._programs.closure(found, args, kwargs, site)
        runs = found if isinstance(found, Closure) else None
        return self._unseen.value(site, [*args, *kwargs.values()], called.identity, forward=True, runs=runs)


def _trains(method: Closure) -> bool:
    """Whether a model's `forward` makes gradients itself: then it is no model's."""
    return "backward" in method.frame.code.kinds_in(method.frame.code.reach(method.function))
