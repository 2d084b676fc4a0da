"""The autocast context of code: no region, one for these devices and dtypes, one that is switched off, or unknown."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.devices import region_devices
from amplint.model.inference.dtypes import HALF, changes_defaults, region_dtypes
from amplint.model.inference.formulas import contradict, negated
from amplint.model.inference.tensor_types import SOME_HALF
from amplint.model.inference.value_sets import ON_CUDA, decided
from amplint.model.objects.autocast_objects import Region, region_of
from amplint.model.regions.cpu_training import does_nothing
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.autocast_ops import OP_LISTS, Cast
from amplint.model.torch_facts.names import DEFAULT_DTYPE

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.flow.state import Opened

_BY_BASE = {
    device: {op.partition(".")[0]: cast for op, cast in ops.items()}
    for device, ops in OP_LISTS.items()
    if device != "mtia"
}


class Autocast(Enum):
    """How autocast stands: no region is open, the innermost is or can be on, it is off within another, or unknown."""

    OUTSIDE = auto()
    ON = auto()
    DISABLED = auto()
    UNKNOWN = auto()


class AutocastContext(NamedTuple):
    """How autocast stands, and in which region: the value that is entered (0: none).

    `devices` and `low` are what the region can be for, and the half dtypes that it can run in (none: not known).
    `is_open`: the dtype comes from out of sight, or is one of several, and is a half dtype wherever the region is on.
    """

    state: Autocast
    region: int = 0
    devices: tuple[str, ...] = ()
    low: frozenset[str] = frozenset()
    is_open: bool = False

    @property
    def likely_low(self) -> frozenset[str]:
        """The half dtypes that layers likely give in the region."""
        return self.low or (SOME_HALF if self.is_open else frozenset())

    def casts(self, ops: tuple[str, ...]) -> list[Cast | None]:
        """What the region does with an op, on each of its devices: the first of `ops` that is listed decides."""
        return [next((_BY_BASE[each][op] for op in ops if op in _BY_BASE[each]), None) for each in self.devices]


def is_listed(ops: tuple[str, ...], *devices: str) -> bool:
    """Whether the list of one of the devices (of any, where none is given) has one of the ops."""
    return any(op in _BY_BASE[device] for device in devices or _BY_BASE for op in ops)


def autocast_context(module: Module, opened: tuple[Opened, ...]) -> AutocastContext:
    """How autocast stands inside these regions, the last of which is the innermost."""
    if not opened:
        return AutocastContext(Autocast.OUTSIDE)
    last = opened[-1]
    region = _region(module, last.call)
    if region is None or region.opaque or does_nothing(module, region):
        return AutocastContext(Autocast.UNKNOWN)
    devices = _devices(module, last.call)
    if any(_devices(module, each.call) != devices for each in opened[:-1]):
        return AutocastContext(Autocast.UNKNOWN)
    if last.enabled is False:
        return AutocastContext(
            Autocast.DISABLED if is_false(region.enabled) else Autocast.UNKNOWN, last.at or last.call, devices
        )
    if last.enabled is None and len(opened) > 1 and not _is_on(region):
        # A part that a flag can switch off: `autocast("cuda", enabled=not self.in_float32)`.
        return AutocastContext(Autocast.UNKNOWN)
    state = Autocast.ON if devices else Autocast.UNKNOWN
    dtypes = _dtypes(module, region)
    low = dtypes if dtypes <= set(HALF) else frozenset()
    is_open = region.dtype is not None and not low and not dtypes.isdisjoint((None, *HALF))
    return AutocastContext(state, last.at or last.call, devices, frozenset(map(str, low)), is_open)


def _region(module: Module, call: int) -> Region | None:
    """The region that a call makes, by its id."""
    made = module.value_of(call)
    return region_of(module, made) if isinstance(made, ir.Call) else None


def _dtypes(module: Module, region: Region) -> frozenset[str | None]:
    """The dtypes that a region can be given, by their names; None: one that isn't known."""
    found = region_dtypes(module, region)
    names = {each.name for each in found}
    if None in names and not changes_defaults(module) and all(each.name or each.value is region.call for each in found):
        devices = listed_devices(module, region)
        if "cuda" in devices:  # the default of the device, whichever that is
            names = (names - {None}) | {DEFAULT_DTYPE[each] for each in devices}
    if region.enabled is not None:
        names -= {"float32", "float64"}  # it is off there: `enabled=dtype != torch.float32`
    return frozenset(names)


def _is_on(region: Region) -> bool:
    return region.enabled is None or (isinstance(region.enabled, ir.Constant) and region.enabled.value is True)


def _devices(module: Module, call: int) -> tuple[str, ...]:
    region = _region(module, call)
    return listed_devices(module, region) if region is not None else ()


def listed_devices(module: Module, region: Region) -> tuple[str, ...]:
    """The devices that a region can be on for: all that torch has lists for, where that isn't known."""
    found = {each.type for each in region_devices(module, region)}
    if not found or None in found:
        on = decided(module).of(region.enabled)
        if region.enabled is not None and contradict(on, negated(ON_CUDA)):
            return ("cuda",)
        return tuple(each for each in _BY_BASE if each != "cuda" or not contradict(on, ON_CUDA))
    return tuple(sorted(each for each in found if each)) if found <= set(_BY_BASE) else ()
