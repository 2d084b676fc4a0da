"""What a dtype-like value can be, and in which dtype an autocast region runs.

Values decide, never names: literals, variables, tables of dtypes, choices, `getattr(torch, "bfloat16")`, defaults. What
comes from elsewhere is unknown, and unknown is an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.inference.devices import region_devices, types_of
from amplint.model.inference.python_types import is_bool
from amplint.model.inference.values import Leaf, asked, values_of
from amplint.model.names.tables import is_added_to, items_at, items_of
from amplint.model.objects.autocast_objects import Region, region_of
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import DEFAULT_DTYPE, OLD_AUTOCAST
from amplint.model.torch_facts.op_spellings import DTYPES, SAME_DTYPE

if TYPE_CHECKING:
    from amplint.model import Module

HALF = ("float16", "bfloat16")
# Another release of torch never changed what these classes take where no dtype is given.
_OLD_DTYPE = {"torch.cuda.amp.autocast": "float16", "torch.cpu.amp.autocast": "bfloat16"}

# What changes the default of the regions that are entered behind it.
_SETTERS = ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype")


class Dtype(NamedTuple):
    """One dtype that a value can be.

    `kind` is "dtype", "str" (the dtype's name as text), "none" (None) or "other"; `name` is as torch prints it
    ("float16", never "half"), None where it isn't known. `leaf`: what shows it, and when it is this one.
    """

    kind: str
    name: str | None
    value: ir.Value
    leaf: Leaf


def dtypes(module: Module, value: ir.Value) -> list[Dtype]:
    """What a dtype-like value can be, by where it comes from; never empty."""
    unknown: tuple[Dtype, ...] = (Dtype("other", None, value, Leaf(value, is_open=True)),)
    return list(asked(module, _dtypes, value, unknown))


def _dtypes(module: Module, value: ir.Value) -> tuple[Dtype, ...]:
    return tuple(dict.fromkeys(each for leaf in values_of(module, value).leaves for each in _of_leaf(module, leaf)))


def _of_leaf(module: Module, leaf: Leaf) -> Iterator[Dtype]:
    value = leaf.value
    if leaf.is_open:
        yield Dtype("other", None, value, leaf)
    elif isinstance(value, ir.Constant):
        yield _constant(value, leaf)
    elif isinstance(value, ir.Call):
        names, given = module.names.of(value.func), value.positional
        if names == {"builtins.getattr"} and len(given) >= 2 and module.names.of(given[0]) == {"torch"}:
            for each in dtypes(module, given[1]):
                kind = "dtype" if each.kind == "str" else each.kind
                yield each._replace(kind=kind, leaf=each.leaf.under(leaf))
        else:
            yield Dtype("other", None, value, leaf)
    else:
        name = DTYPES.get(module.names.only(value) or "")
        yield Dtype("dtype" if name else "other", name, value, leaf)


def _constant(value: ir.Constant, leaf: Leaf) -> Dtype:
    if value.value is None:
        return Dtype("none", None, value, leaf)
    if isinstance(value.value, str):
        name = value.value.removeprefix("torch.")
        return Dtype("str", SAME_DTYPE.get(name, name), value, leaf)
    return Dtype("other", None, value, leaf)


def is_old_first(module: Module, value: ir.Value) -> bool:
    """Whether a first argument of autocast is one that the old classes take there: a bool or a dtype."""
    return is_bool(module, value) or all(each.kind == "dtype" for each in dtypes(module, value))


def region_dtypes(module: Module, region: Region) -> list[Dtype]:
    """The dtypes in which a region can run, its device's default where none is given; never empty."""
    if region.opaque:
        return list(_unpacked(module, region.call, "dtype")) or [Dtype("other", None, region.call, Leaf(region.call))]
    none = Dtype("none", None, region.call, Leaf(region.call))
    found: list[Dtype] = []
    for each in dtypes(module, region.dtype) if region.dtype is not None else [none]:
        found += _defaults(module, region, each) if each.kind == "none" else [each]
    return found


def _unpacked(module: Module, call: ir.Call, keyword: str) -> Iterator[Dtype]:
    """What a dict that a call unpacks gives it for a keyword: `autocast(**AMP)`, `AMP = dict(dtype=torch.bfloat16)`.

    The dict may be what a function returns, `autocast(**amp_arguments(args))`.
    """
    for arg in call.args:
        if arg.star == "**":
            written = items_at(module, arg.value, keyword)
            for value in written:
                yield from dtypes(module, value)
            yield from () if written else _returned(module, arg.value, keyword)


def _returned(module: Module, table: ir.Value, keyword: str) -> Iterator[Dtype]:
    """What one of the dicts that a function returns has at a key, where each is written out next to its `return`."""
    found = values_of(module, table)
    dicts = [(leaf, items_of(module, leaf.value)) for leaf in found.leaves if isinstance(leaf.value.parent, ir.Return)]
    if not found.is_closed or len(dicts) != len(found.leaves) or is_added_to(module, table):
        return
    if not all(items is not None and all(isinstance(key, ir.Constant) for key, _ in items) for _, items in dicts):
        return
    for leaf, items in dicts:
        for key, value in items or ():
            if isinstance(key, ir.Constant) and key.value == keyword:
                yield from (each._replace(leaf=each.leaf.under(leaf)) for each in dtypes(module, value))


def _defaults(module: Module, region: Region, none: Dtype) -> list[Dtype]:
    """What a region runs in where its dtype is None: that hangs on its device."""
    old = module.names.only(region.call.func)
    if old in OLD_AUTOCAST and region.dtype is None:
        return [none._replace(kind="dtype", name=_OLD_DTYPE[old])]
    if changes_defaults(module):
        return [none._replace(kind="other", name=None)]
    outer = region_round(module, region)
    if outer is not None:  # the dtype is taken over
        return region_dtypes(module, outer)
    names = dict.fromkeys(
        DEFAULT_DTYPE.get(device or "")
        for each in region_devices(module, region)
        for device in sorted(types_of(module, [each]), key=str)
    )
    return [none._replace(kind="dtype" if name else "other", name=name) for name in names] or [none]


def changes_defaults(module: Module) -> bool:
    """Whether a file sets the dtype that regions run in where they are given none."""
    return module.once(_changes_defaults)


def _changes_defaults(module: Module) -> bool:
    return any(name in module.source.text for name in _SETTERS)


def region_round(module: Module, region: Region) -> Region | None:
    """The region that surely is open round another one for the same device: in its function, or in all its callers."""
    function = ir.function_of(region.call)
    here = _region_of_device(module, region, region.call)
    calls = callers(module, function) if here is None else []
    found = [_region_of_device(module, region, each) for each in calls]
    return here or (found[0] if found and None not in found else None)


def _region_of_device(module: Module, region: Region, place: ir.Value) -> Region | None:
    """The region round a place, in its function, that is for the same one device as another region."""
    up = place.parent
    inner = ir.statement_of(place)
    while up is not None and not isinstance(up, (ir.Function, ir.Class)):
        for item in reversed(up.items) if isinstance(up, ir.With) and up is not inner else ():
            outer = region_of(module, item.context) if isinstance(item.context, ir.Call) else None
            if outer is not None and not outer.opaque:
                devices = [{each.type for each in region_devices(module, each)} for each in (outer, region)]
                return outer if devices[0] == devices[1] and len(devices[0]) == 1 else None
        up = up.parent
    return None
