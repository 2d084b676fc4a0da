"""Calls that can't be seen: which of them may do anything to the gradients or the scaler.

Flow analysis goes silent behind such a call. A call is seen where it is certain which function of this file it runs;
what it gets, whose method it is and what it is called tell of the others.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import given, objects
from amplint.model.objects.scaler_holders import holders
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Defined
from amplint.model.syntax.queries import calls_in
from amplint.model.syntax.scopes import LOCAL, NOTHING, UNBOUND, UNKNOWN, owner_class
from amplint.model.torch_facts.modules import RETURNS_ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from amplint.model import Module
    from amplint.model.objects.event import Event

# Methods of common base classes, and of tensors, that leave gradients and scaler alone.
_HARMLESS = {
    "parameters", "named_parameters", "buffers", "modules", "named_modules", "children", "state_dict", "train", "eval",
    "to", "cuda", "cpu", "log", "log_dict", "log_metrics", "print", "info", "forward", "__class__",
    "item", "detach", "backward", "append", "size", "mean", "sum", "float",
}  # fmt: skip
# Methods that leave gradients as they are, whoever has them.
QUIET = {
    "item", "append", "parameters", "named_parameters", "log", "info", "debug", "add_scalar", "set_postfix",
    "get_last_lr", "get_scale", "is_enabled", "update", "train", "eval", "to", "cuda", "cpu", "float", "state_dict",
    "detach", "set_epoch", "size", "view", "mean", "sum", "format", "write", "set_description", "dim", "items",
    "values", "keys", "get",
}  # fmt: skip
# Functions that make one of torch's schedulers, a LambdaLR, of the optimizer that they are given first.
MAKES_SCHEDULER = re.compile(r"(transformers|diffusers)(\.optimization)?\.get_\w*schedule(_with_\w+)?")
# What makes gradients other than `scaler.scale(loss).backward()` left them.
_UNDOES = ("unscale_", "step", "update")
# What modules are asked for, and trainers are not.
_OF_MODULES = ("eval", "parameters", "named_parameters")
# Python runs methods of such names itself; what only begins so is a private one.
_SPECIAL = re.compile(r"__\w+__")
_OF_WITH = ("__enter__", "__exit__", "__aenter__", "__aexit__")


# What a function is called by: its name, and whether it is a method's.
_Called = tuple[str, bool]


class ExternalCalls:
    """Judges the calls of one module that are no events themselves."""

    def __init__(self, module: Module, events_below: Callable[[ir.Block], Iterable[Event]]) -> None:
        self._module = module
        self._events_below = events_below  # an event may be a call out of sight, which is for this class to say
        self._objects = objects(module)
        self._holders = holders(module)
        self._effects: dict[int, bool] = {}
        self._undoing: tuple[set[_Called], set[_Called]] | None = None
        self._by_with = False  # whether a `with` may run one of those

    def is_opaque(self, call: ir.Call) -> bool:
        """Whether a call may do something to the gradients or the scaler that can't be seen here."""
        func = call.func
        name = ir.last_name(func)
        if "backward" in name or "unscale" in name:
            return True
        callee = local_function(self._module, call.func)
        if callee is not None:
            return self.has_events(callee)
        cls = local_class(self._module, func)
        if cls is not None and bases_in_sight(self._module, cls):
            constructor = method(self._module, cls, "__init__")
            return constructor is not None and self.has_events(constructor)
        if any(self._gives_access(value) for value in given(call)):
            return not (any(map(_leaves_alone, self._module.names.of(func))) or self._adds_to_optimizers(func))
        if self._reaches_holder(func):
            return True
        if isinstance(func, ir.Attribute) and (self._is_torchs(func.base) or self._sets_mode(call, func)):
            return False
        return self._may_undo(func, name) or (isinstance(func, ir.Attribute) and self._unseen_method(func))

    def _may_undo(self, func: ir.Value, name: str) -> bool:
        """Whether what is called goes by a name of what unscales, steps or updates."""
        called, anywhere = self._undoing_names()
        if (name, isinstance(func, ir.Attribute)) in called:
            return not (isinstance(func, ir.Attribute) and self._is_of_another_class(func.base))
        # What a function calls does not run that function again, whoever has it.
        return bool(anywhere - _around(self._module, func)) and self._is_unknown(func, name)

    def is_harmless(self, call: ir.Call) -> bool:
        """Whether a call that is no event makes no gradients: torch's own, a model's forward, a criterion."""
        known = self._objects.recognised.harmless
        if call.id not in known:
            known[call.id] = self._makes_none(call)
        return known[call.id]

    def _makes_none(self, call: ir.Call) -> bool:
        func = call.func
        names = self._module.names.of(func)
        if names and all(name.startswith(("torch.", "builtins.", "contextlib.", "time.", "math.")) for name in names):
            return True
        if isinstance(func, ir.Attribute) and (func.attr in QUIET or ir.last_name(func.base) == "grad"):
            return True
        return self._is_a_module(func)

    def _is_a_module(self, value: ir.Value) -> bool:
        """Whether a value was made by a class of torch's, or by a module's class of this file: a model, a criterion."""
        known = self._objects
        key = known.key(value)
        if key is None:
            return False
        made = known.classes_of(key)
        if made and all(name.startswith("torch.") for name in made):
            return True
        cls = known.instance(key) or known.instance(known.original(key))
        return cls is not None and any("torch.nn.Module" in self._module.names.of(base.value) for base in cls.bases)

    def runs_by_reading(self, value: ir.Attribute) -> bool:
        """Whether reading an attribute may run a property of this file that unscales or steps."""
        called = isinstance(value.parent, ir.Call) and value.parent.func is value
        return not called and (value.attr, True) in self._undoing_names()[0]

    def runs_by_entering(self, context: ir.Value) -> bool:
        """Whether `with context:` may run a method of this file that unscales or steps."""
        if isinstance(context, ir.Conditional):
            return self.runs_by_entering(context.then) or self.runs_by_entering(context.other)
        made = context.func if isinstance(context, ir.Call) else context
        anywhere = self._undoing_names()[1]
        if not (anywhere or self._by_with) or not self._is_unknown(made, ""):
            return False
        cls = local_class(self._module, made)
        if anywhere or cls is None or not bases_in_sight(self._module, cls):
            return True
        run = (method(self._module, cls, name) for name in _OF_WITH)
        return any(each is not None and self.has_events(each) for each in run)

    def _gives_access(self, value: ir.Value) -> bool:
        """Whether who is given a value can get at a scaler or optimizer: one itself, or `self` of a class with one."""
        if self._objects.is_scaler(value) is not None or self._objects.is_optimizer(value) is not None:
            return True
        key = self._objects.key(value) if isinstance(value, ir.Name) else None  # of an alias of `self`, too
        return (
            key is not None
            and key.startswith("self")
            and any(each.startswith(f"{key}.") for each in self._objects.every_scaler())
        )

    def _adds_to_optimizers(self, func: ir.Value) -> bool:
        """Whether a call adds to a list of optimizers that its function makes: `optimizers.append(optimizer)`."""
        if not isinstance(func, ir.Attribute) or func.attr != "append" or self._objects.is_optimizer(func.base) is None:
            return False
        bound = self._module.names.bound_once(func.base) if isinstance(func.base, ir.Name) else None
        return bound is not None and isinstance(bound.value, ir.Sequence)

    def _reaches_holder(self, func: ir.Value) -> bool:
        """Whether a call goes to an object that was given a scaler when it was made."""
        if not self._holders:
            return False
        up: ir.Value | None = func
        while up is not None:
            if self._objects.key(up) in self._holders:
                return True
            up = up.base if isinstance(up, (ir.Attribute, ir.Subscript)) else None
        return False

    def _is_torchs(self, value: ir.Value) -> bool:
        """Whether an object is of one of torch's own classes: a scheduler's `step` is none of this file's."""
        made = self._objects.classes_of(self._objects.key(value))
        return bool(made) and all(name.startswith("torch.") for name in made)

    def _is_of_another_class(self, value: ir.Value) -> bool:
        """Whether an object is a container, or of a class of another file: `metrics.update(...)` steps nothing."""
        if not isinstance(value, (ir.Name, ir.Attribute)):
            return False
        made: list[ir.Value | None]
        if isinstance(value, ir.Name):
            made = [each.value if isinstance(each, Assigned) else None for each in self._module.names.bindings(value)]
        else:
            made = [*self._module.names.stored(value)]
        return bool(made) and all(each is not None and self._makes_another(each) for each in made)

    def _makes_another(self, value: ir.Value) -> bool:
        if not isinstance(value, ir.Call):
            return isinstance(value, (ir.Mapping, ir.Sequence, ir.Comprehension))
        names = self._module.names.of(value.func)
        return bool(names) and all(
            (name[0] not in (LOCAL, UNBOUND, UNKNOWN, NOTHING) and name.rpartition(".")[2][:1].isupper())
            or name.startswith(("builtins.", "collections."))
            for name in names
        )

    def _sets_mode(self, call: ir.Call, func: ir.Attribute) -> bool:
        """Whether a call is `model.train()`: of what is asked for parameters, or set to evaluate, as a module is."""
        if func.attr != "train" or len(call.args) > 1 or call.unpacks():
            return False
        key = self._objects.key(func.base)
        return key is not None and key in self._module.once(_modules)

    def _is_unknown(self, func: ir.Value, name: str) -> bool:
        if name in _HARMLESS or self._is_a_module(func):
            return False
        return all(each in (UNKNOWN, NOTHING) or each[0] in (LOCAL, UNBOUND) for each in self._module.names.of(func))

    def _unseen_method(self, func: ir.Attribute) -> bool:
        """A method of a base class that is out of sight, or of what that keeps in `self`: `self.hooks.fire()`."""
        if func.attr in _HARMLESS:
            return False
        if isinstance(func.base, ir.Call) and self._module.names.of(func.base.func) == {"builtins.super"}:
            function = ir.function_of(func)
            return function is not None and function.cls is not None and not bases_in_sight(self._module, function.cls)
        first = func
        while isinstance(first.base, ir.Attribute):
            first = first.base
        cls = owner_class(first)
        if cls is None or cls.stored(first.attr):
            return False
        return method(self._module, cls, first.attr) is None and not bases_in_sight(self._module, cls)

    def has_events(self, function: ir.Function) -> bool:
        """Whether a function of this file, or one that it calls, contains an event."""
        if function.id not in self._effects:
            self._effects[function.id] = False  # a recursive call adds nothing
            self._effects[function.id] = any(event.kind != "scale" for event in self._events_below(function.body))
        return self._effects[function.id]

    # --- functions that unscale or step, and run from where that can't be seen ---------------------------------------

    def _undoing_names(self) -> tuple[set[_Called], set[_Called]]:
        """The names of the file's functions that unscale or step, and of those of them that may run at any call.

        That is so where a function is handed around as a value, decorated, run by an operator, or a lambda. What only a
        `with` runs, no call does, unless the file hands managers to a stack. A function of the file that scales a loss
        as well makes a whole step, as one that is handed to `spawn` does: no call in the midst of a step runs it.
        """
        if self._undoing is None:
            self._undoing = set(), set()  # asked for again while it is being made
            names: set[_Called] = set()
            parts: set[_Called] = set()  # those that make no whole step
            anywhere: set[_Called] = set()
            for value in self._module.own.near(*_UNDOES).values if self._objects.scalers else ():
                if isinstance(value, ir.Attribute) and value.attr in _UNDOES:
                    if not (isinstance(value.parent, ir.Call) and value.parent.func is value):
                        # `partial(scaler.unscale_, optimizer)`
                        if self._objects.is_scaler(value.base) is not None:
                            anywhere.add((value.attr, True))
                    elif self._objects.is_scaler(value.base) is not None:
                        function = ir.function_of(value)
                        if function is not None:
                            names.add(_called(function))
                            in_the_open = function.outer is None and function.cls is None
                            if not in_the_open or not self._scales(function):
                                self._note(function, parts, anywhere)
            self._undoing = names, anywhere | self._passed_around(parts)
        return self._undoing

    def _note(self, function: ir.Function, names: set[_Called], anywhere: set[_Called]) -> None:
        """Add the name of a function; to `anywhere` if calls of it can't be told by a name."""
        called = _called(function)
        names.add(called)
        if self._is_run_unnamed(function):
            anywhere.add(called)

    def _scales(self, function: ir.Function) -> bool:
        """Whether a function itself scales a loss with a scaler in sight."""
        return any(
            isinstance(call.func, ir.Attribute)
            and call.func.attr == "scale"
            and self._objects.is_scaler(call.func.base) is not None
            for call in calls_in(function)
        )

    def _is_run_unnamed(self, function: ir.Function) -> bool:
        """Whether a function that unscales or steps is run where its name need not stand."""
        if self._is_run_by_with(function):
            self._by_with = True
            return "enter_context" in self._module.source.text or "enter_async_context" in self._module.source.text
        if function.name == "__call__" and self._is_given_its_optimizer(function):
            return False  # a call that is given an optimizer can't be seen anyway
        special = function.name == "<lambda>" or (_SPECIAL.fullmatch(function.name) and function.name != "__init__")
        return bool(special) or any(
            not name.startswith(("torch.", "builtins.staticmethod", "builtins.classmethod"))
            for each in function.decorators
            for name in self._module.names.of(each.func if isinstance(each, ir.Call) else each)
        )

    def _is_run_by_with(self, function: ir.Function) -> bool:
        """Whether nothing but a `with` runs a function: a manager's method, a generator that is made one."""
        made = [name for each in function.decorators for name in self._module.names.of(each)]
        if made:
            return set(made) <= {"contextlib.contextmanager", "contextlib.asynccontextmanager"}
        return function.cls is not None and function.name in _OF_WITH

    def _is_given_its_optimizer(self, function: ir.Function) -> bool:
        """Whether who calls a function has to give it an optimizer."""
        known = self._objects
        return any(
            param.default is None
            and param.kind != "*"
            and known.is_optimizers(known.variable(function.scope, param.name))
            for param in function.params
        )

    def _passed_around(self, names: set[_Called]) -> set[_Called]:
        """Those of the functions that are used as values. Other objects' attributes of a method's name count too."""
        found = set()
        for value in self._module.own.near(*sorted(name for name, _ in names)).values:
            of_object = isinstance(value, ir.Attribute)
            if isinstance(value, (ir.Name, ir.Attribute)) and (ir.last_name(value), of_object) in names:
                called = isinstance(value.parent, ir.Call) and value.parent.func is value
                if not called and not (isinstance(value, ir.Name) and value.bound):
                    if isinstance(value, ir.Attribute) or any(
                        isinstance(each, Defined) for each in self._module.names.bindings(value)
                    ):
                        found.add((ir.last_name(value), of_object))
        return found


def _called(function: ir.Function) -> _Called:
    return function.name, function.cls is not None


def _around(module: Module, value: ir.Value) -> set[_Called]:
    """What the functions are called by in which a value is read; lambdas, and methods that share a name, have none."""
    found, function = set(), ir.function_of(value)
    while function is not None:
        if function.cls is None or len(module.whole.defined(function.name)) == 1:
            found.add(_called(function))
        function = function.outer
    return found - {("<lambda>", False)}


def bases_in_sight(module: Module, cls: ir.Class, depth: int = 4) -> bool:
    """Whether all that a class inherits is in this file, or torch's or Python's."""
    for base in cls.bases:
        found = local_class(module, base.value)
        if found is not None:
            if not depth or not bases_in_sight(module, found, depth - 1):
                return False
        elif base.keyword is None and not all(map(_is_known, module.names.of(base.value))):
            if ir.last_name(base.value) != "object":  # no star import replaces it
                return False
    return True


def inherits(module: Module, cls: ir.Class, other: ir.Class, depth: int = 12) -> bool:
    """Whether a class inherits another one of the code in sight, directly or not."""
    return any(each is other for each in ancestors(module, cls, depth + 1))


def ancestors(module: Module, cls: ir.Class, depth: int = 4) -> Iterator[ir.Class]:
    """The classes in sight that a class inherits, each before those that it inherits itself; `depth` levels of them."""
    for base in cls.bases if depth else ():
        found = local_class(module, base.value)
        if found is not None:
            yield found
            yield from ancestors(module, found, depth - 1)


def runs_instead(module: Module, function: ir.Function | None, other: ir.Function | None) -> bool:
    """Whether no object runs both of two methods: they have one name, and one of them overrides the other, or both
    override the same one. A method that calls one of its own name, as by `super()`, runs that too.
    """
    if function is None or other is None or function is other or function.name != other.name:
        return False
    first, second = function.cls, other.cls
    if first is None or second is None or any(map(_calls_its_own_name, (function, other))):
        return False
    above = [*ancestors(module, first)], [*ancestors(module, second)]
    related = any(each is second for each in above[0]) or any(each is first for each in above[1])
    return related or any(each is one for each in above[0] for one in above[1])


def _calls_its_own_name(function: ir.Function) -> bool:
    return any(isinstance(each, ir.Attribute) and each.attr == function.name for each in ir.values_below(function.body))


def storing_class(module: Module, cls: ir.Class, attr: str) -> ir.Class | None:
    """The class whose methods store an attribute of an object: its own one, or the first in sight that it inherits."""
    return next((each for each in chain((cls,), ancestors(module, cls)) if each.stored(attr)), None)


def _is_known(name: str) -> bool:
    return name.startswith(("torch.", "builtins.", "abc.", "typing."))


def local_function(module: Module, value: ir.Value) -> ir.Function | None:
    """The function of this file that a name, or a method that `self.name`, stands for, where that is certain."""
    found = module.names.definition(value)
    if isinstance(found, ir.Function):
        return found
    cls = owner_class(value) if isinstance(value, ir.Attribute) else None
    return method(module, cls, value.attr) if cls is not None and isinstance(value, ir.Attribute) else None


def local_callable(module: Module, value: ir.Value) -> ir.Function | None:
    """The same, or the function of a lambda: of one that stands there, or that a name is only ever bound to."""
    bound = module.names.bound_once(value) if isinstance(value, ir.Name) else None
    held = bound.value if bound is not None and isinstance(bound.value, ir.Lambda) else value
    return held.function if isinstance(held, ir.Lambda) else local_function(module, held)


def local_class(module: Module, value: ir.Value) -> ir.Class | None:
    """The class of this file that a name stands for, where that is certain."""
    found = module.names.definition(value)
    return found if isinstance(found, ir.Class) else None


def class_made(module: Module, value: ir.Value) -> ir.Class | None:
    """The class of this file of which a value is a new object: `Net()`, `Net().cuda()`."""
    made = ir.before_calls(value, *RETURNS_ITSELF)
    return local_class(module, made.func) if isinstance(made, ir.Call) else None


def method(module: Module, cls: ir.Class, name: str, depth: int = 4) -> ir.Function | None:
    """The method that `self.name` is, in the class or in its bases in this file."""
    found = module.once(_methods, cls).get(name)
    if found is not None:
        return found
    for base in cls.bases:
        parent = local_class(module, base.value)
        if parent is not None and depth:
            found = method(module, parent, name, depth - 1)
            if found is not None:
                return found
    return None


def _methods(_module: Module, cls: ir.Class) -> dict[str, ir.Function]:
    """The methods of a class by their names; of several of a name the first."""
    functions = [each for each in ir.walk_statements(cls.body, into=False) if isinstance(each, ir.Function)]
    return {each.name: each for each in reversed(functions) if each.cls is cls}


def function_named(module: Module, name: str) -> ir.Function | None:
    """The function or method of a name, of several the last."""
    return next(reversed(module.whole.defined(name)), None)


def _leaves_alone(name: str) -> bool:
    """Whether what goes by a qualified name may have a scaler or optimizer, and does nothing to the gradients."""
    return name.startswith(("builtins.", "torch.optim.")) or MAKES_SCHEDULER.fullmatch(name) is not None


def _modules(module: Module) -> set[str]:
    """The keys of what is used as only a module is."""
    found = {
        objects(module).key(call.func.base)
        for call in module.whole.near(*_OF_MODULES).calls
        if isinstance(call.func, ir.Attribute) and call.func.attr in _OF_MODULES
    }
    return {key for key in found if key is not None}
