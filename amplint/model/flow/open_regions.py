"""Autocast regions as flow analysis sees them: what opens one, and whether it is enabled on a path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import local_function
from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.state import AbstractValue, Opened, State, ValueKind
from amplint.model.names.tables import Taken, taken
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module

_PRECISION = re.compile(r"(?i)autocast|amp(?![a-z])|fp32|float32|precision")
_MANAGER = "contextlib.contextmanager"
# Methods that open or close a region by hand.
MANUAL = ("enter_context", "__enter__", "__exit__", "close", "pop_all")
# Switches the state behind the regions' backs.
_SETS = re.compile(r"torch\.set_autocast_(\w+_)?enabled")


class Regions:
    """Opens and closes regions on a path."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)

    def decorators(self, function: ir.Function) -> tuple[Opened, ...]:
        """The regions that a function's decorators open; a generator's or coroutine's body runs outside them."""
        if function.is_generator or function.is_async:
            return ()
        found = []
        for value in reversed(function.decorators):
            if isinstance(value, ir.Call) and (region := region_of(self._module, value)) is not None:
                enabled = region.enabled.value if isinstance(region.enabled, ir.Constant) else None
                found.append(Opened(value.id, True if region.enabled is None else enabled, value.id))
        return tuple(reversed(found))

    def enter(self, context: ir.Value, state: State, conditions: Conditions, holder: str = "") -> State:
        """The state inside `with context:`; `holder` is the key of what closes it otherwise."""
        opened = self._opened(context, state, conditions)
        if opened is None:
            if not state.regions or not self.may_switch(context):
                return state
            opened = Opened(context.id, False)
        return state.replace(regions=(*state.regions, opened._replace(at=context.id, holder=holder)))

    def flag(self, context: ir.Value) -> ir.Value | None:
        """What a region under construction is given as `enabled`."""
        region = region_of(self._module, context) if isinstance(context, ir.Call) else None
        return region.enabled if region is not None else None

    @staticmethod
    def may_switch(context: ir.Value) -> bool:
        """Whether a context that can't be seen is about precision, going by its name: `with disable_autocast():`."""
        return any(_PRECISION.search(ir.last_name(each)) for each in ir.walk_values(context))

    def may_hold(self, context: ir.Value) -> bool:
        """Whether a variable that is entered can hold a region: one that is off, one of several, one out of sight."""
        if not isinstance(context, (ir.Name, ir.Attribute)):
            return False
        sources = self._objects.sources(context)
        made = [each for source in sources for each in ir.walk_values(source) if isinstance(each, ir.Call)]
        return not made or any(region_of(self._module, each) is not None for each in made)

    def _opened(self, value: ir.Value, state: State, conditions: Conditions) -> Opened | None:
        if (found := taken(self._module, value)) is not None:
            return self._of_table(found, state, conditions)
        if isinstance(value, ir.Call):
            region = region_of(self._module, value)
            if region is None and (inside := self._in_manager(value) or self._of_partial(value)) is not None:
                return inside
            if region is None:
                held = state.returned(value)
                known = held is not None and held.kind is ValueKind.REGION and held.flag
                return self._opened(self._module.value(held.call), state, conditions) if held and known else None
            if region.enabled is None or region.opaque:
                return Opened(value.id, True if not region.opaque else None)
            if is_false(region.enabled):
                return Opened(value.id, False)
            return Opened(value.id, conditions.truth(region.enabled, state))
        if isinstance(value, ir.Conditional):
            truth = conditions.truth(value.test, state)
            then = self._opened(value.then, state, conditions) if truth is not False else None
            other = self._opened(value.other, state, conditions) if truth is not True else None
            opened = then or other
            if opened is None or truth is not None:
                return opened
            return Opened(opened.call, None if opened.enabled else opened.enabled)
        if isinstance(value, (ir.Name, ir.Attribute)):
            key = self._objects.own_key(value) if isinstance(value, ir.Name) else self._objects.key(value)
            held = state.look_up(key)
            if held is not None and held.kind is ValueKind.REGION:
                return (
                    self._opened(self._module.value(held.call), state, conditions)
                    if held.flag
                    else Opened(held.call, None)
                )
            return self._stored(value, state, conditions)
        return None

    def _of_table(self, found: Taken, state: State, conditions: Conditions) -> Opened | None:
        """The region that a dict of contexts has: it is open for sure where all that it can have are."""
        items = [*found.items.values(), *([found.other] if found.other is not None else [])]
        opened = [self._opened(each, state, conditions) for each in items]
        first = next((each for each in opened if each is not None and each.enabled is not False), None)
        if first is None or all(each is not None and each.enabled for each in opened):
            return first or next(filter(None, opened), None)
        return Opened(first.call, None)

    def _in_manager(self, call: ir.Call) -> Opened | None:
        """The region round the one `yield` of a function of this file that is a `@contextmanager`.

        Only one whose arguments the function doesn't get from its caller.
        """
        function = local_function(self._module, call.func)
        if function is None or not function.is_generator or len(function.decorators) != 1:
            return None
        if self._module.names.only(function.decorators[0]) != _MANAGER:
            return None
        suspends = [each for each in ir.values_below(function.body) if isinstance(each, ir.Suspend)]
        if len(suspends) != 1:
            return None
        up: ir.Node | None = ir.statement_of(suspends[0])
        while isinstance(up, (ir.Statement, ir.Block)) and up is not function:
            if isinstance(up, (ir.If, ir.For, ir.While, ir.Match)):
                return None
            for item in reversed(up.items) if isinstance(up, ir.With) else ():
                region = region_of(self._module, item.context) if isinstance(item.context, ir.Call) else None
                if region is not None:
                    known = region.enabled is None or isinstance(region.enabled, ir.Constant)
                    enabled = region.enabled is None or not is_false(region.enabled)
                    return Opened(region.call.id, enabled) if known and not region.opaque else None
            up = up.parent
        return None

    def _of_partial(self, call: ir.Call) -> Opened | None:
        """The region that `made()` is where `made = partial(torch.autocast, ...)`."""
        func = call.func
        sources = self._objects.sources(func) if isinstance(func, (ir.Name, ir.Attribute)) else ()
        bound = self._objects.bindings(func) if isinstance(func, ir.Name) else sources
        made = sources[0] if len(sources) == len(bound) == 1 else None
        if not isinstance(made, ir.Call) or self._module.names.only(made.func) != "functools.partial":
            return None
        if not made.positional or self._module.names.only(made.positional[0]) not in (AUTOCAST, *OLD_AUTOCAST):
            return None
        given = [each.keyword("enabled") for each in (call, made) if each.keyword("enabled") is not None]
        if any(each.unpacks("*") or each.unpacks("**") for each in (call, made)) or len(made.positional) > 1:
            return None
        if call.positional or not all(isinstance(each, ir.Constant) for each in given):
            return None
        return Opened(call.id, not given or not is_false(given[0]))

    def _stored(self, value: ir.Name | ir.Attribute, state: State, conditions: Conditions) -> Opened | None:
        """A region made in another method or at module level and kept in an attribute or a variable."""
        sources = self._objects.sources(value)
        opened = [
            self._opened(each, state, conditions) for each in sources if isinstance(each, (ir.Call, ir.Conditional))
        ]
        found = [each for each in opened if each is not None]
        if not found or any(each.enabled is False for each in found):
            return None
        return found[0] if len(found) == len(sources) else Opened(found[0].call, None)

    def held(self, value: ir.Value, state: State) -> AbstractValue | None:
        """The region that a variable bound to `value` holds."""
        if isinstance(value, ir.Call) and region_of(self._module, value) is not None:
            return AbstractValue(ValueKind.REGION, call=value.id)
        table = taken(self._module, value)
        arms = tuple(table.items.values()) if table is not None else ()
        if isinstance(value, ir.Conditional):
            arms = value.then, value.other
        if arms:
            for arm in arms:
                held = self.held(arm, state)
                if held is not None:
                    return held._replace(flag=False)
        return None

    def may_be_manual(self, call: ir.Call) -> bool:
        """Whether a call may open or close a region on some path."""
        func = call.func
        return isinstance(func, ir.Attribute) and (func.attr in MANUAL or self._sets(func))

    def _sets(self, func: ir.Value) -> bool:
        return any(_SETS.fullmatch(name) for name in self._module.names.of(func))

    def manual(self, call: ir.Call, state: State, conditions: Conditions) -> State:
        """`region.__enter__()`, `stack.enter_context(region)` and `region.__exit__(...)`."""
        func = call.func
        if not isinstance(func, ir.Attribute):
            return state
        key = self._objects.key(func.base) or ""
        if func.attr == "enter_context" and call.positional:
            return self.enter(call.positional[0], state, conditions, key)
        if func.attr == "__enter__":
            return self.enter(func.base, state, conditions, key)
        if func.attr in ("__exit__", "close", "pop_all"):
            if key and any(each.holder == key for each in state.regions):
                return state.replace(regions=tuple(each for each in state.regions if each.holder != key))
            if func.attr == "__exit__" and self._opened(func.base, state, conditions) is not None and state.regions:
                return state.replace(regions=state.regions[:-1])
        if state.regions and self._sets(func):
            return state.replace(regions=(*state.regions[:-1], state.regions[-1]._replace(enabled=False)))
        return state

    def innermost(self, state: State, conditions: Conditions) -> Opened | None:
        """The open region that decides whether autocast is, or can be, on; None where it is off.

        What the path has learned since the region was entered counts: `enabled=use_amp` is off in `if not use_amp:`.
        """
        if not state.regions or state.regions[-1].enabled is False:
            return None
        opened = state.regions[-1]
        if opened.enabled is None:
            made = self._module.value(opened.call)
            region = region_of(self._module, made) if isinstance(made, ir.Call) else None
            if region is not None and region.enabled is not None and conditions.truth(region.enabled, state) is False:
                return None
        return opened
