"""Which constructions a module, or another object, comes from: through variables, attributes and the file's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.inference.values import Leaf, asked, values_of
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.torch_facts.modules import RETURNS_ITSELF, WRAPPERS

if TYPE_CHECKING:
    from amplint.model import Module


def constructions(module: Module, value: ir.Value) -> tuple[ir.Call, ...]:
    """Every call that can have made what a value is, wrappers and `.to(device)` aside; none if one isn't in sight."""
    return asked(module, _constructions, value, ())


def _constructions(module: Module, value: ir.Value) -> tuple[ir.Call, ...]:
    found: list[ir.Call] = []
    if isinstance(value, ir.Attribute) and value.attr == "module":  # what a wrapper keeps
        return constructions(module, value.base)
    leaves = [each for each in values_of(module, value).leaves if not ir.is_none(each.value)]
    for leaf in leaves:
        if _is_itself(value, leaf.value) and len(leaves) > 1:
            continue
        made = _made(module, leaf)
        if not made:
            return ()
        found += made
    return tuple(dict.fromkeys(found))


def _made(module: Module, leaf: Leaf) -> tuple[ir.Call, ...]:
    """The calls that can have made what a leaf is."""
    value = leaf.value
    if leaf.is_open or not isinstance(value, ir.Call):
        return constructions(module, value) if isinstance(value, ir.Attribute) and value.attr == "module" else ()
    func = value.func
    if isinstance(func, ir.Attribute) and func.attr in RETURNS_ITSELF:
        return constructions(module, func.base)
    if module.names.of(func) & WRAPPERS:
        inner = argument(value, "torch.nn.DataParallel", "module")
        return constructions(module, inner) if inner is not None else ()
    return (value,)


def _is_itself(value: ir.Value, source: ir.Value) -> bool:
    """`model = model.to(device)`, `model = DataParallel(model)`: nothing new."""
    while isinstance(source, ir.Call):
        if isinstance(source.func, ir.Attribute) and source.func.attr in RETURNS_ITSELF:
            source = source.func.base
        elif source.positional and _is_wrapped(source):
            source = source.positional[0]
        else:
            return False
    if isinstance(value, ir.Name):
        if not isinstance(source, ir.Name) or source.name != value.name:
            return False
        return source.scope.home(source.name) is value.scope.home(value.name)  # else a parameter is given its namesake
    return isinstance(source, ir.Attribute) and isinstance(value, ir.Attribute) and source.attr == value.attr


def _is_wrapped(call: ir.Call) -> bool:
    return ir.last_name(call.func) in {each.rpartition(".")[2] for each in WRAPPERS}
