"""Autocast objects where they are made, with their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.syntax import ir
from amplint.model.syntax.arguments import arguments
from amplint.model.syntax.scopes import NOTHING
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module


class Region(NamedTuple):
    """An autocast object under construction. None for what is not given."""

    call: ir.Call
    device_type: ir.Value | None
    dtype: ir.Value | None
    enabled: ir.Value | None
    cache_enabled: ir.Value | None
    device: str | None  # the old classes' own device
    opaque: bool  # some arguments are unpacked and can't be seen
    chosen: ir.Value | None = None  # what is called, where it is one of several old classes

    @property
    def is_old(self) -> bool:
        """Whether it is an object of an old class, which takes no device."""
        return self.device is not None or self.chosen is not None


def regions(module: Module) -> list[Region]:
    """Every construction of an autocast object whose class is certain."""
    return module.once(_regions)


def _regions(module: Module) -> list[Region]:
    made = (region_of(module, call) for call in module.calls_of(AUTOCAST, *OLD_AUTOCAST))
    return [each for each in made if each is not None]


def region_of(module: Module, call: ir.Call, prefilled: ir.Call | None = None) -> Region | None:
    """The autocast object that a call makes, if it makes one: of a class of torch's, or of a `partial` of one.

    `prefilled`: that partial, where it is one of several things that are called.
    """
    prefilled = prefilled if prefilled is not None else _partial(module, call.func)
    name = _class(module, prefilled.positional[0] if prefilled is not None else call.func)
    classes = module.names.of(call.func) - {NOTHING} if name is None else frozenset[str]()
    chosen = call.func if len(classes) > 1 and classes <= OLD_AUTOCAST.keys() and prefilled is None else None
    if chosen is not None:
        name = min(classes)  # all of them take the same arguments
    elif classes and classes <= {AUTOCAST, *OLD_AUTOCAST}:
        # The new class where torch has it, else the old one: a region, whose arguments may mean one thing or another.
        name = _suited(module, call)
        if name is None:
            return Region(call, None, None, None, None, None, opaque=True)
    if name is None or name not in (AUTOCAST, *OLD_AUTOCAST):
        return None
    given = arguments(call, name, prefilled)
    return Region(
        call,
        given.get("device_type"),
        given.get("dtype"),
        given.get("enabled"),
        given.get("cache_enabled"),
        OLD_AUTOCAST.get(name) if chosen is None else None,
        opaque=call.unpacks() or (prefilled is not None and prefilled.unpacks()),
        chosen=chosen,
    )


def _class(module: Module, func: ir.Value) -> str | None:
    """The one class that is called; a stand-in of the file that does nothing is none: torch has the class."""
    name = module.names.only(func)
    if name is None and isinstance(func, ir.Name) and any(map(_does_nothing, module.names.bindings(func))):
        name = next(iter(found)) if len(found := module.names.of(func) & {AUTOCAST, *OLD_AUTOCAST}) == 1 else None
        others = (each for each in module.names.bindings(func) if not _does_nothing(each))
        return name if module.names.of(func) - found <= {f".{func.name}", NOTHING} and any(others) else None
    return name


def _does_nothing(binding: ir.Binding) -> bool:
    """Whether a class has empty methods alone: `class autocast: def __enter__(self): pass`."""
    cls = binding.what if isinstance(binding, ir.Defined) else None
    methods = (
        [each for each in cls.body.statements if isinstance(each, ir.Function)] if isinstance(cls, ir.Class) else []
    )
    return any(each.name == "__enter__" for each in methods) and all(
        _is_idle(each) for function in methods for each in function.body.statements
    )


def _is_idle(statement: ir.Statement) -> bool:
    """`pass`, a docstring, or `return self`."""
    if isinstance(statement, ir.Return):
        return statement.value is None or isinstance(statement.value, (ir.Constant, ir.Name))
    if isinstance(statement, ir.Expr):
        return isinstance(statement.value, ir.Constant)
    return isinstance(statement, ir.Jump)  # pass


def _suited(module: Module, call: ir.Call) -> str | None:
    """Which of several autocast classes takes the arguments of a call; None where that can't be told by them."""
    first = call.positional[0] if call.positional else None
    if call.unpacks() or call.keyword("device"):
        return None
    if call.keyword("device_type") is not None or (isinstance(first, ir.Constant) and isinstance(first.value, str)):
        return AUTOCAST
    old = module.names.of(call.func) & OLD_AUTOCAST.keys()
    return next(iter(old)) if first is None and len(old) == 1 else None


def _partial(module: Module, func: ir.Value) -> ir.Call | None:
    """The call of `functools.partial`, with something to call, that a variable or attribute is only ever set to."""
    made: ir.Value | None = None
    if isinstance(func, ir.Name):
        bound = module.names.bound_once(func)
        made = bound.value if bound is not None else None
    elif isinstance(func, ir.Attribute):
        stored = list(module.names.stored(func))
        made = stored[0] if len(stored) == 1 else None
    return made if made is not None and is_partial(module, made) and isinstance(made, ir.Call) else None


def is_partial(module: Module, made: ir.Value) -> bool:
    """Whether a value is a call of `functools.partial` with something to call."""
    return isinstance(made, ir.Call) and module.names.only(made.func) == "functools.partial" and bool(made.positional)
