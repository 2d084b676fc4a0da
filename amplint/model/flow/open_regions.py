"""Autocast regions as flow analysis sees them: what opens one, and whether it is enabled on a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.state import AbstractValue, Opened, State, ValueKind
from amplint.model.inference.dtypes import HALF, region_dtypes
from amplint.model.inference.formulas import FALSE, TRUE
from amplint.model.inference.value_sets import decided
from amplint.model.names.tables import taken
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region, region_of
from amplint.model.regions.openers import BY_HAND, Opens, entered_by, may_switch, openers
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


class Regions:
    """Opens and closes regions on a path."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._openers = openers(module)

    def decorators(self, function: ir.Function) -> tuple[Opened, ...]:
        """The regions that a function's decorators open; a generator's or coroutine's body runs outside them."""
        found = []
        for each in reversed(self._openers.decorating(function)):
            opened = self._one_of(each.opens, State(), None)
            if opened is not None:
                found.append(opened._replace(at=each.context.id))
        return tuple(found)

    def enter(self, context: ir.Value, state: State, conditions: Conditions, holder: str = "") -> State:
        """The state inside `with context:`; `holder` is the key of what closes it otherwise."""
        opened = self._opened(context, state, conditions)
        if opened is None:
            if not state.regions or not may_switch(context) or self._openers.opens(context).regions:
                return state
            opened = Opened(context.id, False)
        return state.replace(regions=(*state.regions, opened._replace(at=context.id, holder=holder)))

    def flag(self, context: ir.Value) -> ir.Value | None:
        """What a region under construction is given as `enabled`."""
        region = region_of(self._module, context) if isinstance(context, ir.Call) else None
        return region.enabled if region is not None else None

    def may_hide(self, context: ir.Value) -> bool:
        """Whether a context can be a region, or what switches one, though that isn't certain or not in sight."""
        found = self._openers.opens(context)
        kept = isinstance(context, (ir.Name, ir.Attribute))
        hidden = any(not isinstance(each, ir.Call) for each in found.unseen)
        return bool(found.regions) or may_switch(context) or (kept and hidden)

    def _opened(self, value: ir.Value, state: State, conditions: Conditions) -> Opened | None:
        """The region that a context opens on a path: what the path knows of its tests and variables counts."""
        if isinstance(value, ir.Conditional):
            return self._chosen(value, state, conditions)
        found = self._openers.opens(value)
        held = state.returned(value) if isinstance(value, ir.Call) else self._bound(value, state)
        if held is not None and held.kind is ValueKind.REGION:
            known = tuple(each._replace(when=TRUE) for each in found.regions if each.region.call.id == held.call)
            if held.flag and known:
                return self._one_of(Opens(known[:1]), state, conditions)
            if held.flag:
                return self._opened(self._module.value(held.call), state, conditions)
            if not isinstance(value, ir.Call):
                return Opened(held.call, None)
        return self._one_of(found, state, conditions)

    def _chosen(self, value: ir.Conditional, state: State, conditions: Conditions) -> Opened | None:
        """The region that one of two contexts opens; it may be off where the path doesn't know which one it is."""
        truth = conditions.truth(value.test, state)
        then = self._opened(value.then, state, conditions) if truth is not False else None
        other = self._opened(value.other, state, conditions) if truth is not True else None
        opened = then or other
        if opened is None or truth is not None:
            return opened
        return opened._replace(enabled=None if opened.enabled else opened.enabled)

    def _bound(self, value: ir.Value, state: State) -> AbstractValue | None:
        if not isinstance(value, (ir.Name, ir.Attribute)):
            return None
        return state.look_up(self._objects.own_key(value))

    def _one_of(self, found: Opens, state: State, conditions: Conditions | None) -> Opened | None:
        """The region that is opened of several: one that can be on, where there is one."""
        switched = [(each.region, self._switch(each.region, state, conditions)) for each in found.regions]
        on = next((region for region, enabled in switched if enabled is not False), None)
        if on is None:
            off = switched[0][0] if switched else None
            return Opened(off.call.id, False) if off is not None else None
        surely = found.is_sure and all(enabled for _, enabled in switched)
        return Opened(on.call.id, True if surely else None)

    def _switch(self, region: Region, state: State, conditions: Conditions | None) -> bool | None:
        """Whether a region is switched on; None where that hangs on what the path doesn't know.

        One in float32 is as good as off: it casts nothing down.
        """
        if self._module.once(_casts_nothing_down, region):
            return False
        if region.enabled is None:
            return None if region.opaque else True
        truth = conditions.truth(region.enabled, state) if conditions is not None else None
        if truth is not None:
            return truth
        said = decided(self._module).of(region.enabled)
        return said == TRUE if said in (TRUE, FALSE) else None

    def may_be_manual(self, call: ir.Call) -> bool:
        """Whether a call may open or close a region on some path."""
        func = call.func
        return isinstance(func, ir.Attribute) and (func.attr in BY_HAND or self._openers.sets(call))

    def manual(self, call: ir.Call, state: State, conditions: Conditions) -> State:
        """`region.__enter__()`, `stack.enter_context(region)` and `region.__exit__(...)`."""
        func = call.func
        if not isinstance(func, ir.Attribute):
            return state
        key = self._objects.key(func.base) or ""
        entered = entered_by(call)
        if entered is not None:
            return self.enter(entered, state, conditions, key)
        if func.attr in ("__exit__", "close", "pop_all"):
            if key and any(each.holder == key for each in state.regions):
                return state.replace(regions=tuple(each for each in state.regions if each.holder != key))
            if func.attr == "__exit__" and self._opened(func.base, state, conditions) is not None and state.regions:
                return state.replace(regions=state.regions[:-1])
        if state.regions and self._openers.sets(call):
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


def region_held(module: Module, value: ir.Value) -> AbstractValue | None:
    """The region that a variable bound to `value` holds."""
    return module.once(_region_held, value)  # each path asks again


def _region_held(module: Module, value: ir.Value) -> AbstractValue | None:
    if isinstance(value, ir.Call) and region_of(module, value) is not None:
        return AbstractValue(ValueKind.REGION, call=value.id)
    table = taken(module, value)
    arms = tuple(table.items.values()) if table is not None else ()
    if isinstance(value, ir.Conditional):
        arms = value.then, value.other
    held = next((each for arm in arms if (each := region_held(module, arm)) is not None), None)
    return held._replace(flag=False) if held is not None else None


def _casts_nothing_down(module: Module, region: Region) -> bool:
    """Whether a region is given a dtype that is surely no half precision."""
    names = {each.name for each in region_dtypes(module, region)} if region.dtype is not None else set()
    return bool(names) and not names & {None, *HALF}
