"""Reader 3, dtypes: what a dtype-like value can be, and in which dtype an autocast region runs.

Values decide, never names: literals, variables, tables of dtypes, choices, `getattr(torch, "bfloat16")`, defaults. What
comes from elsewhere is unknown, and unknown is an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.devices import region_devices
from amplint.model.names.reaching_definitions import function_named, reaching, returned
from amplint.model.names.tables import items_at, sources, tells
from amplint.model.objects.autocast_objects import Region, region_of
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Imported, Other
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import DEFAULT_DTYPE, OLD_AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module

HALF = ("float16", "bfloat16")
_SAME = {"half": "float16", "float": "float32", "double": "float64"}
_NAMES = (
    "float16", "half", "bfloat16", "float32", "float", "float64", "double", "float8_e4m3fn", "float8_e5m2",
    "complex32", "complex64", "complex128", "int8", "uint8", "int16", "int32", "int64", "int", "long", "short", "bool",
)  # fmt: skip
BY_QUALIFIED = {f"torch.{name}": _SAME.get(name, name) for name in _NAMES}
_FOLLOW = 6
# Another release of torch never changed what these classes take where no dtype is given.
_OLD_DTYPE = {"torch.cuda.amp.autocast": "float16", "torch.cpu.amp.autocast": "bfloat16"}

# What changes the default of the regions that are entered behind it.
_SETTERS = ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype")


class Test(NamedTuple):
    """A condition of the code, and how it comes out where a value is taken; or a table's index, and the key."""

    value: ir.Value
    truth: bool | str | None


class Dtype(NamedTuple):
    """One dtype that a value can be.

    `kind` is "dtype", "str" (the dtype's name as text), "none" (None) or "other"; `name` is as torch prints it
    ("float16", never "half"), None where it isn't known. `tests` are the choices that lead to it.
    """

    kind: str
    name: str | None
    value: ir.Value
    tests: tuple[Test, ...] = ()


def dtypes(module: Module, value: ir.Value, depth: int = _FOLLOW) -> list[Dtype]:
    """What a dtype-like value can be, by where it comes from; never empty."""
    return list(_dtypes(module, value, depth)) or [Dtype("other", None, value)]


def _dtypes(module: Module, value: ir.Value, depth: int) -> Iterator[Dtype]:
    if depth == 0:
        yield Dtype("other", None, value)
    elif isinstance(value, ir.Constant):
        yield _constant(value)
    elif isinstance(value, ir.Conditional):
        for arm, truth in ((value.then, True), (value.other, False)):
            yield from (_under(each, value.test, truth) for each in _dtypes(module, arm, depth - 1))
    elif isinstance(value, ir.Bool) and value.op == "or":
        yield from (each for each in _dtypes(module, value.left, depth - 1) if each.kind != "none")
        yield from _dtypes(module, value.right, depth - 1)
    elif isinstance(value, ir.Subscript):
        yield from _items(module, value.base, value.index, depth)
    elif isinstance(value, ir.Call):
        yield from _called(module, value, depth)
    elif isinstance(value, ir.Name) and not _is_import(module, value):
        yield from _bound(module, value, depth)
    elif isinstance(value, ir.Attribute) and owner_class(value) is not None:
        for stored in module.names.stored(value):
            yield from _dtypes(module, stored, depth - 1) if stored is not None else [Dtype("other", None, value)]
    else:
        name = BY_QUALIFIED.get(module.names.only(value) or "")
        yield Dtype("dtype" if name else "other", name, value)


def _is_import(module: Module, name: ir.Name) -> bool:
    return all(isinstance(each, Imported) for each in module.names.bindings(name))


def _under(each: Dtype, test: ir.Value, truth: bool | str | None) -> Dtype:
    return each._replace(tests=(Test(test, truth), *each.tests))


def _constant(value: ir.Constant) -> Dtype:
    if value.value is None:
        return Dtype("none", None, value)
    if isinstance(value.value, str):
        name = value.value.removeprefix("torch.")
        return Dtype("str", _SAME.get(name, name), value)
    return Dtype("other", None, value)


def _items(module: Module, base: ir.Value, index: ir.Value, depth: int) -> Iterator[Dtype]:
    """`{"fp16": torch.float16, ...}[name]`: the item, where the key is a literal, else any of them."""
    tables = [each for each in sources(module, base) if isinstance(each, ir.Mapping)]
    if not tables:
        yield Dtype("other", None, index)
    for table in tables:
        for key, item in table.items:
            if isinstance(key, ir.Constant) and isinstance(index, ir.Constant) and key.value != index.value:
                continue
            told = isinstance(key, ir.Constant) and not isinstance(index, ir.Constant) and tells(key.value)
            for each in _dtypes(module, item, depth - 1):
                yield _under(each, index, key.value) if told and isinstance(key, ir.Constant) else each


def _called(module: Module, call: ir.Call, depth: int) -> Iterator[Dtype]:
    names = module.names.of(call.func)
    given = call.positional
    if names == {"builtins.getattr"} and len(given) >= 2 and module.names.of(given[0]) == {"torch"}:
        yield from (
            each._replace(kind="dtype") if each.kind == "str" else each for each in _dtypes(module, given[1], depth - 1)
        )
    elif isinstance(call.func, ir.Attribute) and call.func.attr == "get" and given:
        yield from _items(module, call.func.base, given[0], depth)
        if len(given) > 1:
            yield from _dtypes(module, given[1], depth - 1)
    elif isinstance(call.func, ir.Name) and (function := function_named(module, call.func)) is not None:
        for each in returned(function):
            found = _dtypes(module, each.value, depth - 1) if each.value is not None else [Dtype("none", None, call)]
            yield from found
    else:
        yield Dtype("other", None, call)


def _bound(module: Module, name: ir.Name, depth: int) -> Iterator[Dtype]:
    for binding in reaching(module.names, name):
        if isinstance(binding, Assigned):
            yield from (_chosen(each, binding.target) for each in _dtypes(module, binding.value, depth - 1))
        elif isinstance(binding, Other) and isinstance(binding.node, ir.Function):
            param = binding.node.param(name.name)
            yield Dtype("other", None, name)
            if param is not None and param.default is not None:
                yield from _dtypes(module, param.default, depth - 1)
        else:
            yield Dtype("other", None, name)


def _chosen(each: Dtype, target: ir.Value) -> Dtype:
    """A dtype with the ifs of its assignment's function around it: `if bf16: dtype = torch.bfloat16`."""
    child: ir.Node = target
    up = target.parent
    while up is not None and not isinstance(up, ir.Function):
        if isinstance(up, ir.If) and child is not up.test:
            each = _under(each, up.test, isinstance(child, ir.Statement) and child.block is up.then)
        child, up = up, up.parent
    return each


def region_dtypes(module: Module, region: Region) -> list[Dtype]:
    """The dtypes in which a region can run, its device's default where none is given; never empty."""
    if region.opaque:
        return list(_unpacked(module, region.call, "dtype")) or [Dtype("other", None, region.call)]
    found: list[Dtype] = []
    for each in dtypes(module, region.dtype) if region.dtype is not None else [Dtype("none", None, region.call)]:
        found += _defaults(module, region, each) if each.kind == "none" else [each]
    return found


def _unpacked(module: Module, call: ir.Call, keyword: str) -> Iterator[Dtype]:
    """What a dict that a call unpacks gives it for a keyword: `autocast(**AMP)`, `AMP = dict(dtype=torch.bfloat16)`."""
    for arg in call.args:
        for value in items_at(module, arg.value, keyword) if arg.star == "**" else ():
            yield from _dtypes(module, value, _FOLLOW)


def _defaults(module: Module, region: Region, none: Dtype) -> list[Dtype]:
    """What a region runs in where its dtype is None: that hangs on its device."""
    old = module.names.only(region.call.func)
    if old in OLD_AUTOCAST and region.dtype is None:
        return [none._replace(kind="dtype", name=_OLD_DTYPE[old])]
    if any(name in module.source.text for name in _SETTERS):
        return [none._replace(kind="other", name=None)]
    outer = region_round(module, region)
    if outer is not None:  # the dtype is taken over
        return region_dtypes(module, outer)
    names = dict.fromkeys(DEFAULT_DTYPE.get(each.type or "") for each in region_devices(module, region))
    return [none._replace(kind="dtype" if name else "other", name=name) for name in names] or [none]


def region_round(module: Module, region: Region) -> Region | None:
    """The region that surely is open round another one for the same device, in the same function."""
    up = region.call.parent
    inner = ir.statement_of(region.call)
    while up is not None and not isinstance(up, (ir.Function, ir.Class)):
        for item in reversed(up.items) if isinstance(up, ir.With) and up is not inner else ():
            outer = region_of(module, item.context) if isinstance(item.context, ir.Call) else None
            if outer is not None and not outer.opaque:
                devices = [{each.type for each in region_devices(module, each)} for each in (outer, region)]
                return outer if devices[0] == devices[1] and len(devices[0]) == 1 else None
        up = up.parent
    return None
