"""Autocast objects where they are made, with their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.syntax import ir
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


def regions(module: Module) -> list[Region]:
    """Every construction of an autocast object whose class is certain."""
    return module.once(_regions)


def _regions(module: Module) -> list[Region]:
    made = (region_of(module, call) for call in module.calls_of(AUTOCAST, *OLD_AUTOCAST))
    return [each for each in made if each is not None]


def region_of(module: Module, call: ir.Call) -> Region | None:
    """The autocast object that a call makes, if it makes one."""
    name = module.names.only(call.func)
    order: tuple[str, ...]
    if name == AUTOCAST:
        order, device = ("device_type", "dtype", "enabled", "cache_enabled"), None
    elif name is not None and name in OLD_AUTOCAST:
        order, device = ("enabled", "dtype", "cache_enabled"), OLD_AUTOCAST[name]
    elif name is None and module.names.of(call.func) - {NOTHING} <= {AUTOCAST, *OLD_AUTOCAST}:
        # The new class where torch has it, else the old one: a region, whose arguments mean one thing or another.
        return Region(call, None, None, None, None, None, opaque=True)
    else:
        return None
    given = dict(zip(order, call.positional, strict=False))
    given |= {arg.keyword: arg.value for arg in call.args if arg.keyword is not None}
    opaque = call.unpacks("*") or call.unpacks("**")
    return Region(
        call,
        given.get("device_type"),
        given.get("dtype"),
        given.get("enabled"),
        given.get("cache_enabled"),
        device,
        opaque,
    )


def opened_by(module: Module, statement: ir.With) -> list[Region]:
    """The regions that a `with` makes in its own items, in their order."""
    made = [region_of(module, item.context) for item in statement.items if isinstance(item.context, ir.Call)]
    return [each for each in made if each is not None]
