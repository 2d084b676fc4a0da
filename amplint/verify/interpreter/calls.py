"""Calling what an interpreted program calls: its own functions, methods of its objects, functions of libraries."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from amplint.model.calls.cuda_graphs import CAPTURES, Graphs
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import EXITS
from amplint.model.torch_facts.names import SCALERS
from amplint.model.usage.accelerators import ACCELERATORS
from amplint.verify.interpreter.accelerate_calls import Accelerated
from amplint.verify.interpreter.allowed_calls import (
    CONTEXTS,
    FUNCTIONS,
    METHODS,
    OF_PARAMETERS,
    OPS,
    SAME,
    SAME_METHODS,
    context,
)
from amplint.verify.interpreter.builtin_calls import BUILTINS
from amplint.verify.interpreter.lookup import MISSING
from amplint.verify.interpreter.roles import SHAPES, lasting, text_of
from amplint.verify.interpreter.standins import (
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
    NoneUsedError,
    Partial,
    Raised,
    Site,
    Unknown,
)
from amplint.verify.interpreter.torch_calls import RANDOM, REGIONS
from amplint.verify.program.program import TOOLS

DEPTH, RECURSION = 40, 4  # of calls, and of those of one function
INNER = 2  # iterations of a loop inside one over batches, and items of a container out of sight
SHORT = 15  # statements of a function that is run though nothing in it matters to AMP
_REPLAYED = "a CUDA graph is captured and replayed"
_VIEWS = ("items", "keys", "values")
_CONTAINERS = ("torch.nn.ModuleDict", "torch.nn.ModuleList")
_SCALER_EVENTS = ("scale", "unscale_", "step", "update")


class Caller(Accelerated):
    """Evaluates calls. How a function's suite is run is the subclass's."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._active: list[int] = []
        self.applied: set[int] = set()  # functions that were run, by their ids

    def run_body(self, function: ir.Function, frame: Frame) -> Any:
        """Run a function's suite; its value."""
        raise NotImplementedError

    def collect(self, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a generator yields."""
        raise NotImplementedError

    def call(self, call: ir.Call, frame: Frame) -> Any:
        """The value of a call."""
        site = Site(call, frame)
        func = call.func
        known = self.library(site.code, func)
        if known is not None:
            args, kwargs = self.arguments(site)
            return self._dotted(known.name, args, kwargs, site) if isinstance(known, Dotted) else Unknown(site.text)
        if isinstance(func, ir.Attribute):
            if isinstance(func.base, ir.Call) and site.code.module.names.of(func.base.func) == {"builtins.super"}:
                return self._of_super(func, site)
            base = self.evaluate(func.base, frame)
            if isinstance(base, Unknown) and (base.fixed or base.origin is None) and self.facts.must_be_none(base):
                self.stage.knowledge.there.add(base.text)
                raise Impossible(f"{site.where}: {base.text} is None")
            if base is None:
                raise _none_used(site, f"has no attribute '{func.attr}'")
            args, kwargs = self.arguments(site)
            accelerator = self.as_accelerator(base, func.base, frame)
            if accelerator is not None:
                return self.of_accelerator(accelerator, func.attr, args, kwargs, site)
            return self.method(base, func.attr, args, kwargs, site)
        called = self.evaluate(func, frame)
        if called is None:
            raise _none_used(site, "is not callable")
        args, kwargs = self.arguments(site)
        return self.call_value(called, args, kwargs, site)

    def arguments(self, site: Site) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call's arguments, by place and by name."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for arg in site.call.args:
            value = self.evaluate(arg.value, site.frame)
            if arg.star == "*":
                args += value if isinstance(value, (list, tuple)) else []
            elif arg.star == "**":
                known = value if isinstance(value, dict) else {}
                kwargs |= {key: each for key, each in known.items() if isinstance(key, str)}
            elif arg.keyword is not None:
                kwargs[arg.keyword] = value
            else:
                args.append(value)
        return args, kwargs

    def call_value(self, called: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a value returns."""
        if isinstance(called, Closure):
            return self._closure(called, args, kwargs, site)
        if isinstance(called, ClassValue):
            return self._construct(called, args, kwargs, site)
        if isinstance(called, Partial):
            return self.call_value(called.func, [*called.args, *args], {**called.kwargs, **kwargs}, site)
        if isinstance(called, Method):
            return self.method(called.owner, called.name, args, kwargs, site)
        if isinstance(called, Dotted):
            return self._dotted(called.name, args, kwargs, site)
        if isinstance(called, Instance):
            model = self.is_module(called)
            found = self.of_instance(called, "forward" if model else "__call__")
            if isinstance(found, Closure) and (not model or _trains(found)):
                return self._closure(found, args, kwargs, site)
            return self.unseen(site, [*args, *kwargs.values()], called.text, forward=True)
        if isinstance(called, torch.autocast) and len(args) == 1 and isinstance(args[0], Closure):
            return args[0]
        if isinstance(called, Unknown):
            called.called = True
        forward = isinstance(called, Unknown)
        return self.unseen(site, [*args, *kwargs.values()], text_of(called), forward=forward)

    def _closure(self, called: Closure, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        function, code = called.function, called.frame.code
        short = sum(1 for _ in ir.walk_statements(function.body)) <= SHORT
        names = {name for each in function.decorators for name in code.module.names.of(each)}
        if "contextlib.contextmanager" in names:
            return Manager(called, args, kwargs)
        matters = code.function_matters(function)
        if function.is_generator and short and not matters:
            return self.collect(called, args, kwargs)
        if matters and not function.is_generator:
            return self.apply(called, args, kwargs)
        if short and not function.is_generator:
            try:
                return self.apply(called, args, kwargs)
            except Raised as raised:  # as it hangs on what is out of sight, or is for subclasses to define
                if raised.error is not None:
                    raise
        return self.unseen(site, [called.own, *args, *kwargs.values()], text_of(called.own), trains=matters)

    def _construct(self, cls: ClassValue, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        parent = site.call.parent
        target = parent.targets[0] if isinstance(parent, ir.Assign) and parent.targets else None
        instance = Instance(cls, site.code.text(target if target is not None else site.call))
        found = self.of_instance(instance, "__init__")
        instance.given = (
            self._given(found.function, [instance, *args], kwargs, found.frame) if isinstance(found, Closure) else {}
        )
        instance.attributes.pop("__init__", None)
        return instance

    def _of_super(self, func: ir.Attribute, site: Site) -> Any:
        around = ir.function_of(func)
        while around is not None and around.cls is None:
            around = around.outer
        args, kwargs = self.arguments(site)
        own_frame = site.frame.find(around.scope) if around is not None else None
        own = own_frame.variables.get(around.params[0].name) if own_frame and around and around.params else None
        if isinstance(own, Instance) and around is not None and around.cls is not None:
            for base in [*self.bases(ClassValue(around.cls, own.cls.frame))][1:]:
                found = self.of_class(base, func.attr, own)
                if isinstance(found, Closure):
                    return self._closure(found, args, kwargs, site)
        return self.unseen(site, [own, *args, *kwargs.values()], None)

    def apply(self, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of the program returns; out of sight where the calls are nested too deep."""
        function = closure.function
        if self._depth >= DEPTH or self._active.count(function.id) >= RECURSION:
            return Unknown(f"{function.name}(...)")
        given = [closure.own, *args] if closure.bound else args
        wrapper = None if closure.bare else self._decorated(closure)
        if wrapper is not None:
            return self.apply(wrapper, given, kwargs)
        frame = Frame(closure.frame.code, function.scope, closure.frame, function=function)
        frame.variables.update(self._given(function, given, kwargs, closure.frame))
        with ExitStack() as contexts:
            for each in function.decorators:
                made = self._decorator(each, closure.frame)
                if made is not None:
                    self.entered(contexts, made, closure.frame.code.where(each))
            self._depth += 1
            self._active.append(function.id)
            self.running.append(frame)
            self.applied.add(function.id)
            try:
                return self.run_body(function, frame)
            finally:
                self._depth -= 1
                self._active.pop()
                self.running.pop()

    @staticmethod
    def entered(left: ExitStack, made: Any, where: str) -> Any:
        """Enter one of torch's contexts; `left` leaves it."""
        try:
            return left.enter_context(made)
        except Exception as error:
            raise Raised(str(error), where, error, of_amp=True) from None

    def _decorated(self, closure: Closure) -> Closure | None:
        """What the program's own decorators make of a function; None where none of them matters."""
        code = closure.frame.code
        bare = Closure(closure.function, closure.frame, closure.own, bare=True)
        found = bare
        for each in reversed(closure.function.decorators):
            if code.decorating(each):
                decorator = self.evaluate(each, closure.frame)
                made = self.apply(decorator, [found], {}) if isinstance(decorator, Closure) else None
                found = made if isinstance(made, Closure) else found
        return found if found is not bare else None

    def _decorator(self, decorator: ir.Value, frame: Frame) -> Any:
        """The context that a decorator runs a function in, if it is one of torch's."""
        called = decorator.func if isinstance(decorator, ir.Call) else decorator
        names = frame.code.module.names.of(called)
        if not names & {*CONTEXTS, *REGIONS}:
            return None
        if isinstance(decorator, ir.Call):
            return self.call(decorator, frame)
        return CONTEXTS[min(names & {*CONTEXTS})]() if names & {*CONTEXTS} else None

    def _given(self, function: ir.Function, args: list[Any], kwargs: dict[str, Any], outer: Frame) -> dict[str, Any]:
        """The parameters' values."""
        found: dict[str, Any] = {}
        left, named = list(args), dict(kwargs)
        for param in function.params:
            if param.kind == "*":
                found[param.name], left = tuple(left), []
            elif param.kind == "**":
                found[param.name], named = named.get(param.name, named), {}
            elif param.kind == "positional" and left:
                found[param.name] = left.pop(0)
            elif param.name in named:
                found[param.name] = named.pop(param.name)
            elif param.default is not None:
                found[param.name] = self.once(param.default, outer, outer)
            else:
                found[param.name] = Unknown(param.name)
        return found

    def method(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a method returns."""
        event = site.event
        kind = event.kind if event is not None else ""
        if isinstance(base, Unknown) and isinstance(base.role, (torch.amp.GradScaler, torch.optim.Optimizer)):
            base = base.role
        if isinstance(base, Unknown) and kind in _SCALER_EVENTS:
            base = self.as_scaler(base, site)
        elif isinstance(base, Unknown) and name in ("get_scale", "is_enabled", "_check_inf_per_device"):
            if isinstance(site.call.func, ir.Attribute) and objects(site.code.module).is_scaler(site.call.func.base):
                base = self.as_scaler(base, site)
        if kind == "backward" and isinstance(base, (Unknown, torch.Tensor)) and not self.is_given_tools(site, args):
            return self.backward_of([self.as_loss(base, site)], site)
        if isinstance(base, Unknown) and kind == "optimizer_step":
            base = self.as_optimizer(base, site)
        if isinstance(base, Unknown) and name == "zero_grad":
            func = site.call.func
            if isinstance(func, ir.Attribute) and objects(site.code.module).is_optimizer(func.base):
                base = self.as_optimizer(base, site)
        if isinstance(base, torch.amp.GradScaler):
            return self.of_scaler(base, name, args, kwargs, site)
        if isinstance(base, torch.optim.Optimizer):
            return self.of_optimizer(base, name, args, kwargs, site)
        if isinstance(base, Instance):
            if event is not None:
                self.executed.add(site.call)  # what it does is in the method
            return self._of_own(base, name, args, kwargs, site)
        if isinstance(base, (ClassValue, ModuleValue)):
            return self.call_value(self.attribute(base, name, site.call, site.frame), args, kwargs, site)
        if name == "get" and args and (taken := self.taken(site.call, base, args[0], site.frame)) is not MISSING:
            return taken
        if isinstance(base, Unknown):
            return self._of_unknown(base, name, args, kwargs, site)
        if any(isinstance(base, of) and name in methods for of, methods in METHODS):
            return self.allowed(base, name, args, kwargs, site)
        if isinstance(base, (dict, list)) and name in (*OF_PARAMETERS, "zero_grad", *SAME_METHODS):
            return self._of_container(base, name)
        return self.unseen(site, [base, *args, *kwargs.values()], None)

    def _of_own(self, base: Instance, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if self.is_module(base) and (name in OF_PARAMETERS or name in ("zero_grad", *SAME_METHODS)):
            if not isinstance(self.of_class(base.cls, name, base), Closure):
                return self._of_net(base, name)
        called = base if name == "forward" and self.is_module(base) else self.of_instance(base, name)
        return self.call_value(called, args, kwargs, site)

    def _of_net(self, base: Unknown | Instance, name: str) -> Any:
        """A method of a model."""
        net = text_of(base) or ""
        if name in SAME_METHODS:
            self.stage.convert(net, name)
            return base
        parameters = self.stage.parameters(net, lasting(base))
        if name == "zero_grad":
            for each in parameters:
                each.grad = None
            return None
        return (
            [(f"weight{at}", each) for at, each in enumerate(parameters)] if name == "named_parameters" else parameters
        )

    def _of_container(self, base: dict[Any, Any] | list[Any], name: str) -> Any:
        """A method of a ModuleDict or ModuleList."""
        found = [
            self._of_net(each, name)
            for each in (base.values() if isinstance(base, dict) else base)
            if isinstance(each, (Unknown, Instance))
        ]
        if name in SAME_METHODS or name == "zero_grad":
            return base if name in SAME_METHODS else None
        return [parameter for each in found for parameter in each]

    def _of_unknown(self, base: Unknown, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if name in OF_PARAMETERS or name == "zero_grad":
            return self._of_net(base, name)
        if name == "replay" and site.code.module.once(Graphs).is_replay(site.call):
            raise CannotFollow(f"{site.where}: {_REPLAYED}")
        if name in _VIEWS and base.tensor is None and self._holds_tools(base):
            return [each if name == "items" else each[name == "values"] for each in base.entries(INNER)]
        if base.tensor is not None:
            if any(name in methods for of, methods in METHODS if of is torch.Tensor):
                return self.allowed(base.tensor, name, args, kwargs, site)
            if name in SHAPES:
                return Unknown(site.text, inputs=(base,), tensor=base.tensor)
        if name in SAME_METHODS:
            return self._of_net(base, name)
        # Whose gradients are asked for has to be made of its inputs.
        computed = name in SHAPES or (name in OPS and bool(self.stage.knowledge.leaves))
        forward = not computed and self.stage.may_be_net(base.identity)
        inputs = [*args, *kwargs.values()] if forward else [base, *args, *kwargs.values()]
        return self.unseen(site, inputs, base.identity, forward=forward)

    def _holds_tools(self, base: Unknown) -> bool:
        """Whether a container out of sight is one of models, optimizers or scalers: by its name, or as some are asked.

        Then it is a mapping, where a method of one is called.
        """
        made = base.origin is not None and ir.last_name(base.origin.func) == "ModuleDict"
        return made or bool(TOOLS.search(base.text)) or self.stage.has_nets_in(base.identity)

    def _dotted(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        event = site.event
        if name in REGIONS:
            return self.region(name, args, kwargs, site)
        if name == CAPTURES:
            raise CannotFollow(f"{site.where}: {_REPLAYED}")
        if name in ACCELERATORS:
            return self.accelerator(kwargs)
        if name in SCALERS:
            return self.made_scaler(name, args, kwargs, site)
        if name.startswith("torch.optim.") and name.count(".") == 2 and name.rpartition(".")[2][:1].isupper():
            return self.made_optimizer(name.rpartition(".")[2], args, kwargs, site)
        if event is not None and event.kind == "clip":
            return self.clip(name.rpartition(".")[2], args, kwargs, site)
        if name == "torch.autograd.backward" and args:
            roots = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
            return self.backward_of([self.as_loss(each, site) for each in roots], site)
        if name == "torch.autograd.grad":
            return self.grad(args, kwargs, site)
        if name in CONTEXTS:
            return context(Dotted(name), args)
        if name in EXITS:
            raise Raised("SystemExit", site.where)
        if name == "functools.partial" and args:
            return Partial(args[0], tuple(args[1:]), kwargs)
        if (name in SAME and args) or (name in _CONTAINERS and args and isinstance(args[0], (dict, list))):
            return args[0]
        if name == "torch.device" and args:
            if not isinstance(args[0], (str, torch.device)):
                found = Unknown(site.text)
                found.role = torch.device(self.stage.device)
                return found
            try:
                return torch.device(args[0])
            except RuntimeError:
                return Unknown(site.text)
        if name == "torch.cuda.is_available":
            return torch.cuda.is_available()
        if name in BUILTINS:
            found = BUILTINS[name](self, args, kwargs, site)
            return Unknown(site.text, inputs=tuple(args)) if found is NotImplemented else found
        if name in RANDOM:
            return self.random(name.removeprefix("torch."), args, kwargs, site)
        if name in FUNCTIONS:
            return self.pure(FUNCTIONS[name], args, kwargs, site)
        return self.unseen(site, [*args, *kwargs.values()], None)


def _trains(method: Closure) -> bool:
    """Whether a model's `forward` makes gradients itself: then it is no model's."""
    return "backward" in method.frame.code.kinds_in(method.frame.code.reach(method.function))


def _none_used(site: Site, why: str) -> Raised:
    """What the program raises where it uses None as an object."""
    error = NoneUsedError(f"'NoneType' object {why}")
    return Raised(str(error), site.where, error)
