"""Which constructions a module, or another object, comes from: through variables, attributes and the file's calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import passed
from amplint.model.names.reaching_definitions import reaching
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other

if TYPE_CHECKING:
    from amplint.model import Module

# Methods of a module that give the module itself.
GIVES_ITSELF = ("to", "cuda", "train", "eval", "float", "requires_grad_", "xpu", "cpu")
_WRAPPERS = {
    "torch.compile",
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
}
_FOLLOW = 6


def constructions(module: Module, value: ir.Value, depth: int = _FOLLOW) -> tuple[ir.Call, ...]:
    """Every call that can have made what a value is, wrappers and `.to(device)` aside; none if one isn't in sight."""
    found: list[ir.Call] = []
    for each in _made(module, value, depth):
        if each is None:
            return ()
        found.append(each)
    return tuple(dict.fromkeys(found))


def _made(module: Module, value: ir.Value, depth: int) -> Iterator[ir.Call | None]:
    if depth == 0:
        yield None
    elif isinstance(value, ir.Call):
        func = value.func
        if isinstance(func, ir.Attribute) and func.attr in GIVES_ITSELF:
            yield from _made(module, func.base, depth - 1)
        elif module.names.of(func) & _WRAPPERS:
            inner = value.positional[0] if value.positional else value.keyword("module")
            yield from _made(module, inner, depth - 1) if inner is not None else [None]
        else:
            yield value
    elif isinstance(value, ir.Conditional):
        yield from _made(module, value.then, depth - 1)
        yield from _made(module, value.other, depth - 1)
    elif isinstance(value, ir.Name):
        yield from _of_name(module, value, depth)
    elif isinstance(value, ir.Attribute):
        yield from _of_attribute(module, value, depth)
    else:
        yield None


def _of_name(module: Module, value: ir.Name, depth: int) -> Iterator[ir.Call | None]:
    bindings = reaching(module.names, value)
    if not bindings:
        yield None
    for binding in bindings:
        if isinstance(binding, Assigned) and not _is_itself(value, binding.value):
            yield from _made(module, binding.value, depth - 1)
        elif isinstance(binding, Other) and isinstance(binding.node, ir.Function):
            yield from _given(module, binding.node, value.name, depth)
        elif not isinstance(binding, Assigned):
            yield None


def _of_attribute(module: Module, value: ir.Attribute, depth: int) -> Iterator[ir.Call | None]:
    if value.attr == "module":  # what a wrapper keeps
        yield from _made(module, value.base, depth - 1)
        return
    stored = list(module.names.stored(value))
    if not stored:
        yield None
    for each in stored:
        if each is None:
            yield None
        elif not _is_itself(value, each) and not (isinstance(each, ir.Constant) and each.value is None):
            yield from _made(module, each, depth - 1)


def _is_itself(value: ir.Value, source: ir.Value) -> bool:
    """`model = model.to(device)`, `model = DataParallel(model)`: nothing new."""
    while isinstance(source, ir.Call):
        if isinstance(source.func, ir.Attribute) and source.func.attr in GIVES_ITSELF:
            source = source.func.base
        elif source.positional and _is_wrapped(source):
            source = source.positional[0]
        else:
            return False
    if isinstance(value, ir.Name):
        return isinstance(source, ir.Name) and source.name == value.name
    return isinstance(source, ir.Attribute) and isinstance(value, ir.Attribute) and source.attr == value.attr


def _is_wrapped(call: ir.Call) -> bool:
    return ir.last_name(call.func) in {each.rpartition(".")[2] for each in _WRAPPERS}


def _given(module: Module, function: ir.Function, name: str, depth: int) -> Iterator[ir.Call | None]:
    """What the calls of a function in this file give for a parameter; None where there is no call in sight."""
    for value in passed(module, function, name) or [None]:
        yield from _made(module, value, depth - 1) if value is not None else [None]
