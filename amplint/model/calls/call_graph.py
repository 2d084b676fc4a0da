"""Calls within the file: which function a call runs, and what its parameters are for the caller."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import Events
from amplint.model.calls.external_calls import (
    bases_in_sight,
    class_made,
    local_callable,
    local_class,
    local_function,
    method,
)
from amplint.model.calls.relevant_variables import is_asked_attribute
from amplint.model.names.reaching_definitions import returned
from amplint.model.names.tables import arguments_of
from amplint.model.objects.amp_objects import given, objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.call_context import CallContext, Callee
from amplint.model.objects.key_parts import made_key, own_self
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import given_to, with_defaults
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from amplint.model import Module

# Decorators that run the function as it is.
_TRANSPARENT = (
    "builtins.staticmethod",
    "builtins.classmethod",
    "torch.no_grad",
    "torch.enable_grad",
    "torch.compile",
    "functools.wraps",
)
# What a function has to mention to scale or clip gradients, and for its call to matter at all.
_SCALER_WORDS = frozenset({
    "unscale_", "clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grad_value", "clip_grads_with_norm_",
    "dispatch_clip_grad", "adaptive_clip_grad", "GradScaler",
})  # fmt: skip
_WORDS = _SCALER_WORDS | {"step", "backward", "zero_grad", "grad", "autocast", "enter_context", "__enter__", "__exit__"}


class Given(NamedTuple):
    """What a call gives to a function: to its named parameters, and what goes into its `*args` and `**kwargs`."""

    named: dict[str, ir.Value | None]
    positional: tuple[ir.Value, ...]
    keywords: dict[str, ir.Value]


# What functions, by their ids, are given.
Handed = Mapping[int, Given]


class CallGraph:
    """Finds the callees of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._found: dict[tuple[int, CallContext | None], Callee | None] = {}  # what calls run, in a call context
        self._found_with = self._objects.names_known
        self._matters: dict[int, bool] = {}
        self._stores: dict[int, set[str] | None] = {}
        self._scaling: dict[int, bool] = {}
        self._trains: dict[int, bool] = {}
        self._reached: dict[ir.Block, set[int]] = {}

    def callee(self, call: ir.Call) -> Callee | None:
        """What a call runs, where that is certain and matters; an optimizer's own methods are no calls but events."""
        known = self._objects.recognised.callees
        if call.id not in known:
            known[call.id] = self._find_callee(call)
        return known[call.id]

    def _find_callee(self, call: ir.Call) -> Callee | None:
        found = self.find(call)
        if found is not None and found.cls is not None and self._is_optimizer(found.cls):
            return None
        return found if found is not None and self._can_follow(found.function) and self.matters(found) else None

    def is_idle(self, call: ir.Call) -> bool:
        """Whether it is certain that a call runs a function of this file that does nothing to scaler or gradients."""
        known = self._objects.recognised.idle
        if call.id not in known:
            found = self.find(call)
            known[call.id] = (
                found is not None
                and (found.cls is None or not self._is_optimizer(found.cls))
                and self._can_follow(found.function)
                and not _is_left_to_subclasses(found.function)
                and not self.matters(found)
                and not self._module.once(Events).external_calls.has_events(found.function)
            )
        return known[call.id]

    def _is_optimizer(self, cls: ir.Class) -> bool:
        names = {name for base in cls.bases for name in self._module.names.of(base.value)}
        return any(name.startswith("torch.optim.") or name.endswith("Optimizer") for name in names)

    def find(self, call: ir.Call) -> Callee | None:
        """What a call runs, where that is certain."""
        if self._found_with != self._objects.names_known:  # more is known of what objects are
            self._found_with = self._objects.names_known
            self._found.clear()
        context = self._objects.call_context
        question = call.id, context if context.aliases or context.classes else None
        if question not in self._found:
            self._found[question] = self._find(call)
        return self._found[question]

    def _find(self, call: ir.Call) -> Callee | None:
        func = call.func
        if isinstance(func, ir.Name):
            return self._named(func, call)
        if isinstance(func, ir.Attribute):
            return self._method(func, call)
        return self._made(func, call) if isinstance(func, ir.Call) else None

    def find_property(self, value: ir.Attribute) -> Callee | None:
        """What reading an attribute runs, where that is certain: a property of this file's."""
        if not self._module.whole.defines(value.attr):
            return None
        cls = owner_class(value)
        found = (
            self._of_self(value, cls)
            if cls is not None
            else self._of_instance(self._objects.key(value.base), value.attr)
        )
        return found if found is not None and _is(self._module, found.function, "builtins.property") else None

    def may_run(self, call: ir.Call, function: ir.Function, shared: Container[str] = ()) -> bool:
        """Whether a call runs a function, by its name alone where its object is out of sight.

        `shared`: names of methods that objects of other classes have as well, which then tell nothing.
        """
        if ir.last_name(call.func) != function.name:
            return False
        callee = self.find(call)
        return callee.function is function if callee is not None else function.name not in shared

    def run_by(self, call: ir.Call) -> ir.Function | None:
        """The function that a call surely runs; of a module of torch's kind, its `forward`."""
        callee = self.find(call)
        if callee is not None:
            return callee.function
        func = call.func
        sources = self._objects.sources(func) if isinstance(func, (ir.Name, ir.Attribute)) else ()
        cls = class_made(self._module, sources[0]) if len(sources) == 1 and sources[0] is not None else None
        return method(self._module, cls, "forward") if cls is not None else None

    def _named(self, func: ir.Name, call: ir.Call) -> Callee | None:
        what = self._module.names.definition(func)
        if what is not None:
            return self._defined(what, call)
        bound = self._module.names.bound_once(func)
        if bound is not None and isinstance(bound.value, ir.Lambda):
            return Callee(bound.value.function)
        if bound is not None and isinstance(bound.value, ir.Call):
            made = self._made(bound.value, call)
            if made is not None:
                return made
        key = self._objects.key(func)
        function = self._objects.function(key) if key is not None else None
        if function is not None:
            return Callee(function)  # a function that was passed in
        return self._of_instance(key, "__call__")

    def _defined(self, what: ir.Function | ir.Class, call: ir.Call) -> Callee | None:
        if isinstance(what, ir.Function):
            return Callee(what)
        return self._of_class(what, "__init__", self._target(call))

    def _made(self, made: ir.Call, call: ir.Call) -> Callee | None:
        """What a variable stands for that holds `partial(function, ...)`, or a function that one of this file returns.

        Only where it is called in the function that it is made in, behind that, and what it is made of is bound once.
        """
        names = (each for each in given(made) if isinstance(each, ir.Name))
        # `loss = loss(output)` would be made by itself.
        if made.id >= call.id or ir.function_of(made) is not ir.function_of(call):
            return None
        if any(len(self._objects.bindings(each)) != 1 for each in names):
            return None
        if self._module.names.only(made.func) == "functools.partial":
            function = local_function(self._module, made.positional[0]) if made.positional else None
            return Callee(function, made=made) if function is not None and function.cls is None else None
        return self._closure(made)

    def _closure(self, made: ir.Call) -> Callee | None:
        """The function that a call of one of this file's functions makes and returns."""
        maker = self.find(made)
        if maker is None or maker.function.is_generator or maker.function.is_async or maker.function.decorators:
            return None
        returns = returned(maker.function)
        value = returns[0].value if len(returns) == 1 else None
        function = local_callable(self._module, value) if value is not None else None
        nested = function is not None and function.outer is maker.function
        return Callee(function, made=made, maker=maker) if function is not None and nested else None

    def _target(self, call: ir.Call) -> str:
        """The key of what a construction is assigned to."""
        parent = call.parent
        if isinstance(parent, ir.Assign) and len(parent.targets) == 1:
            return self._objects.key(parent.targets[0]) or made_key(call.id)
        return made_key(call.id)

    def _method(self, func: ir.Attribute, call: ir.Call) -> Callee | None:
        cls = owner_class(func)
        if cls is not None:
            found = self._of_self(func, cls)
            return found or self._of_instance(self._objects.key(func), "__call__")
        if isinstance(func.base, ir.Call) and self._module.names.of(func.base.func) == {"builtins.super"}:
            return self._of_super(func)
        if isinstance(func.base, ir.Call):  # `Trainer(...).fit()`
            made = local_class(self._module, func.base.func)
            return self._of_class(made, func.attr, self._target(func.base)) if made is not None else None
        what = self._module.names.definition(func)
        if what is not None:
            return self._defined(what, call)
        named = local_class(self._module, func.base)
        if named is not None:
            found_function = method(self._module, named, func.attr)
            static = found_function is not None and _is(self._module, found_function, "builtins.staticmethod")
            return Callee(found_function) if found_function is not None and static else None
        key = self._objects.key(func.base)
        return self._of_instance(key, func.attr) or self._of_instance(self._objects.key(func), "__call__")

    def _of_self(self, func: ir.Attribute, cls: ir.Class) -> Callee | None:
        own = own_self(cls)
        concrete = self._objects.call_context.classes.get(own)
        if concrete is None and self._is_overridden(cls, func.attr):
            return None
        return self._of_class(concrete or cls, func.attr, self._objects.call_context.translate(own))

    def _of_super(self, func: ir.Attribute) -> Callee | None:
        around = ir.function_of(func)
        while around is not None and around.cls is None:
            around = around.outer
        if around is None or around.cls is None or not bases_in_sight(self._module, around.cls):
            return None
        key = self._objects.call_context.translate(own_self(around.cls))
        for base in around.cls.bases:
            parent = local_class(self._module, base.value)
            found = self._of_class(parent, func.attr, key) if parent is not None else None
            if found is not None:
                return found
        return None

    def _of_instance(self, key: str | None, name: str) -> Callee | None:
        known = self._objects
        if key is None or not self._module.whole.defines(name):
            return None
        cls = known.call_context.classes.get(key) or known.instance(key) or known.instance(known.original(key))
        if cls is None and (own := known.own_class(key)) is not None and not self._is_overridden(own, name):
            cls = own  # `self`, handed to a helper
        return self._of_class(cls, name, key) if cls is not None else None

    def _of_class(self, cls: ir.Class, name: str, instance: str) -> Callee | None:
        found = method(self._module, cls, name)
        if found is None:
            return None
        if _is(self._module, found, "builtins.staticmethod"):
            return Callee(found)
        return Callee(found, instance, cls, bound=True)

    def _is_overridden(self, cls: ir.Class, name: str) -> bool:
        return any(
            each.cls is not None and each.cls is not cls and self.derives(each.cls, cls)
            for each in self._module.whole.defined(name)
        )

    def derives(self, cls: ir.Class, base: ir.Class, depth: int = 4) -> bool:
        """Whether a class inherits another one of this file."""
        parents = [local_class(self._module, each.value) for each in cls.bases]
        return any(each is base or (depth and each and self.derives(each, base, depth - 1)) for each in parents)

    def _can_follow(self, function: ir.Function) -> bool:
        if function.is_generator or function.is_async:
            return False
        for value in function.decorators:
            names = self._module.names.of(value.func if isinstance(value, ir.Call) else value)
            region = isinstance(value, ir.Call) and region_of(self._module, value) is not None
            if not region and not (names and all(name in _TRANSPARENT for name in names)):
                return False
        return True

    def matters(self, callee: Callee) -> bool:
        """Whether a function does something to scaler, gradients or regions, itself or by what it calls."""
        function = callee.function
        if function.id not in self._matters:
            self._matters[function.id] = False  # a recursive call adds nothing
            stores = function.cls is not None and any(
                is_asked_attribute(self._module, attribute) for attribute in _stores(function)
            )
            self._matters[function.id] = stores or any(self._is_word(value) for value in _values(function))
        return self._matters[function.id]

    def only_stores(self, function: ir.Function) -> set[str] | None:
        """The attributes that a function changes, itself or by what it calls; None where it does more to scaler,
        gradients or regions, or may.
        """
        if function.id not in self._stores:
            self._stores[function.id] = set()  # a recursive call adds nothing
            self._stores[function.id] = self._find_stores(function)
        return self._stores[function.id]

    def _find_stores(self, function: ir.Function) -> set[str] | None:
        found = _stores(function)
        for value in _values(function):
            callee = self.find(value) if isinstance(value, ir.Call) else None
            if callee is None and self._is_word(value):
                return None
            more = self.only_stores(callee.function) if callee is not None else set[str]()
            if more is None:
                return None
            found |= more
        return found

    def scales(self, function: ir.Function) -> bool:
        """Whether a function does something to a scaler, or clips, itself or by what it calls."""
        if function.id not in self._scaling:
            self._scaling[function.id] = False  # a recursive call adds nothing
            self._scaling[function.id] = any(map(self._is_scaling, _values(function)))
        return self._scaling[function.id]

    def _is_scaling(self, value: ir.Value) -> bool:
        if self._names_amp(value, _SCALER_WORDS):
            return True
        if not isinstance(value, ir.Call):
            return False
        found = self.find(value)
        return any(map(self.scales, [found.function] if found is not None else self._methods_of_a_parameter(value)))

    def _is_word(self, value: ir.Value) -> bool:
        if self._names_amp(value, _WORDS):
            return True
        if not isinstance(value, ir.Call):
            return False
        found = self.find(value)
        return self.matters(found) if found is not None else bool(self._methods_of_a_parameter(value))

    def _names_amp(self, value: ir.Value, words: frozenset[str]) -> bool:
        """Whether a value has one of some names, or is an attribute of a scaler."""
        if isinstance(value, (ir.Name, ir.Attribute)) and ir.last_name(value) in words:
            return True
        return isinstance(value, ir.Attribute) and self._objects.is_scaler(value.base) is not None

    def _methods_of_a_parameter(self, call: ir.Call) -> list[ir.Function]:
        """What a call of a parameter, or of its method, runs where it is an object of this file's, if that matters."""
        func = call.func.base if isinstance(call.func, ir.Attribute) else call.func
        function = ir.function_of(call)
        if not isinstance(func, ir.Name) or function is None or all(p.name != func.name for p in function.params):
            return []
        name = call.func.attr if isinstance(call.func, ir.Attribute) else "__call__"
        methods = (each for each in self._module.whole.defined(name) if each.cls is not None)
        return [each for each in methods if self.matters(Callee(each))]

    def trains(self, block: ir.Block) -> bool:
        """Whether a suite, or a function that it calls, has events that are more than calls out of sight, or may call a
        library's scaler, which trains.
        """
        for event in self._module.once(Events).below(block):
            call = event.call if isinstance(event.call, ir.Call) else None
            if event.kind != "opaque" or (call is not None and self._objects.may_call_library_scaler(call)):
                return True
        for value in ir.values_below(block):
            callee = self.callee(value) if isinstance(value, ir.Call) else None
            if callee is None and isinstance(value, ir.Call) and self._methods_of_a_parameter(value):
                return True
            if callee is not None:
                known = self._trains.get(callee.function.id)
                if known is None:
                    self._trains[callee.function.id] = False  # a recursive call adds nothing
                    known = self._trains[callee.function.id] = self.trains(callee.function.body)
                if known:
                    return True
        return False

    def reached(self, block: ir.Block) -> set[int]:
        """The functions, by their ids, that the calls of a suite lead to."""
        if block not in self._reached:
            self._reached[block] = self._find_reached(block)
        return self._reached[block]

    def _find_reached(self, block: ir.Block) -> set[int]:
        found: set[int] = set()
        todo = [block]
        while todo:
            for value in ir.values_below(todo.pop()):
                callee = self.callee(value) if isinstance(value, ir.Call) else None
                may_be = [callee.function] if callee is not None else []
                if callee is None and isinstance(value, ir.Call):
                    may_be = self._methods_of_a_parameter(value)
                for function in may_be:
                    if function.id not in found:
                        found.add(function.id)
                        todo.append(function.body)
        return found

    # --- arguments --------------------------------------------------------------------------------------------------

    def arguments(self, call: ir.Call, callee: Callee) -> dict[str, ir.Value | None] | None:
        """What each parameter is given, its default where it is given nothing; None where that can't be told."""
        given = self.given(call, callee)
        return given.named if given is not None and not given.positional else None

    def given_for(self, call: ir.Call, name: str) -> ir.Value | None:
        """What a call gives for a parameter of what it runs, or the default; None where that can't be told."""
        callee = self.find(call)
        given = self.arguments(call, callee) if callee is not None else None
        return given.get(name) if given is not None else None

    def given(self, call: ir.Call, callee: Callee, handed: Handed | None = None) -> Given | None:
        """What a call gives to a function: to its parameters, and to its `*args` and `**kwargs`.

        None where that can't be told. `handed` says it of the functions that are being run, which may hand that on.
        """
        before = callee.made if callee.maker is None else None  # partial's
        given = arguments_of(self._module, _handing_on(call, handed) if handed else call)
        if given is None or (before is not None and before.unpacks()):
            return None
        params = callee.function.params[1 if callee.bound else 0 :]
        values = [*(before.positional[1:] if before is not None else ()), *given[0]]
        places = sum(param.kind == "positional" for param in params)
        keywords = {**(before.keywords if before is not None else {}), **given[1]}
        named = with_defaults(params, given_to(params, values, keywords))
        left = {name: value for name, value in keywords.items() if name not in named}
        return Given(named, tuple(values[places:]), left)


def _handing_on(call: ir.Call, handed: Handed) -> ir.Call:
    """A call with what stands in the `*args` and `**kwargs` that its function hands on by it."""
    function = ir.function_of(call)
    given = handed.get(function.id) if function is not None else None
    if function is None or given is None or not call.unpacks():
        return call
    args: list[ir.Arg] = []
    for arg in call.args:
        if not arg.star or not _is_handed_on(function, arg):
            args.append(arg)
        elif arg.star == "*":
            args += [ir.Arg(value, None, "", value.node) for value in given.positional]
        else:
            args += [ir.Arg(value, name, "", value.node) for name, value in given.keywords.items()]
    return ir.Call(call.id, call.node, call.parent, call.func, tuple(args))


def _is_handed_on(function: ir.Function, arg: ir.Arg) -> bool:
    """Whether what is unpacked is what the function's own parameter of that kind was given, and nothing else."""
    value = arg.value
    param = function.param(value.name) if isinstance(value, ir.Name) else None
    if not isinstance(value, ir.Name) or param is None or param.kind != arg.star:
        return False
    if len(function.scope.bindings.get(value.name, ())) != 1:
        return False
    # A dict may change in between.
    return arg.star == "*" or all(_is_unpacked(each) for each in _values(function) if ir.is_variable(each, value.name))


def only_hands_on(function: ir.Function) -> bool:
    """Whether a function has `*args`, and does nothing with them but hand them on."""
    names = [each.name for each in function.params if each.kind == "*"]
    return bool(names) and all(_is_unpacked(each) for each in _values(function) if ir.is_variable(each, names[0]))


def _is_unpacked(value: ir.Value) -> bool:
    """Whether a value is an argument that a call unpacks."""
    call = value.parent
    return isinstance(call, ir.Call) and any(arg.star and arg.value is value for arg in call.args)


def parameter_for(module: Module, value: ir.Value) -> tuple[ir.Function, str] | None:
    """The function, and the name of its parameter, that take a value which is an argument; None: out of sight."""
    call, calls = value.parent, module.once(CallGraph)
    callee = calls.find(call) if isinstance(call, ir.Call) and call.func is not value else None
    if not isinstance(call, ir.Call) or callee is None:
        return None
    arguments = calls.arguments(call, callee) or {}
    return next(((callee.function, name) for name, each in arguments.items() if each is value), None)


def _stored(statement: ir.Statement) -> set[str]:
    """The attributes that a statement changes."""
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    if isinstance(statement, ir.AugAssign):
        targets = (statement.target,)
    return {target.attr for target in targets if isinstance(target, ir.Attribute)}


def _stores(function: ir.Function) -> set[str]:
    """The attributes that a function's own statements change."""
    return {name for each in ir.walk_statements(function.body, into=False) for name in _stored(each)}


def _values(function: ir.Function) -> list[ir.Value]:
    statements = [each for each in ir.walk_statements(function.body) if not isinstance(each, ir.Class)]
    return [value for each in statements for root in each.values() for value in ir.walk_values(root)]


def _is(module: Module, function: ir.Function, name: str) -> bool:
    """Whether a function is decorated with `name`."""
    return any(name in module.names.of(each) for each in function.decorators)


def _is_left_to_subclasses(function: ir.Function) -> bool:
    """Whether a method is abstract, or does nothing but raise NotImplementedError: what its objects run is another."""
    if any(ir.last_name(each) in ("abstractmethod", "abstractproperty") for each in function.decorators):
        return True
    raised = [each for each in function.body.statements if not ir.is_docstring(each)]
    return (
        function.cls is not None
        and bool(raised)
        and all(
            isinstance(each, ir.Raise)
            and any(
                ir.last_name(value) == "NotImplementedError" for root in each.values() for value in ir.walk_values(root)
            )
            for each in raised
        )
    )
