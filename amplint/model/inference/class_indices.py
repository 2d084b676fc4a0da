"""Parameters that surely hold whole numbers: what a function does with them refuses anything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.torch_facts.op_spellings import RESHAPES, spelled

if TYPE_CHECKING:
    from amplint.model import Module

# What takes an index after a dimension: `x.gather(1, y)`, `torch.gather(x, 1, y)`.
_INDEXED = ("gather", "index_select", "scatter", "scatter_", "scatter_add_")
_ONE_HOT = "one_hot"


def index_parameters(module: Module, function: ir.Function) -> frozenset[str]:
    """The names of a function's parameters that it gives, as they come in, to what takes indices alone."""
    return module.once(_index_parameters, function)


def _index_parameters(module: Module, function: ir.Function) -> frozenset[str]:
    calls = (each for each in ir.values_below(function.body) if isinstance(each, ir.Call))
    given = (ir.before_calls(each, *RESHAPES) for call in calls for each in _indices(module, call))
    return frozenset(
        each.name
        for each in given
        if isinstance(each, ir.Name) and ir.parameter_of(module.names.only_binding(each)) is function
    )


def _indices(module: Module, call: ir.Call) -> Iterator[ir.Value]:
    """What a call is given as indices."""
    names = module.names.of(call.func)
    of_torch = bool(names) and all(each.startswith("torch.") for each in names)
    if of_torch and {spelled(each) for each in names} == {_ONE_HOT}:
        yield from call.positional[:1]
    elif isinstance(call.func, ir.Attribute) and call.func.attr in _INDEXED:
        yield from call.positional[2:3] if of_torch else call.positional[1:2]
        index = call.keyword("index")
        if isinstance(index, ir.Value):
            yield index
