"""Which op of a criterion of the program float16 may break: the bench has another loss in its place."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.model.calls.external_calls import local_function
from amplint.model.inference.constructions import constructions
from amplint.model.module import Module
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import UNKNOWN
from amplint.model.torch_facts.op_spellings import CLASSES, spelled

# What gives inf or NaN, or gradients that are inf, for 0 or 1: a small number is 0 in float16, and one near 1 is 1.
_FRAGILE = frozenset(
    (
        "acos", "asin", "binary_cross_entropy", "erfinv", "exp", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt",
        "sqrt",
    )
)  # fmt: skip
_DEPTH = 3  # functions that call each other


def fragile_op(module: Module, function: ir.Function, depth: int = _DEPTH) -> str:
    """The first op of a function, or of one that it calls in its file, which float16 may break; "": there is none."""
    for call in (each for each in ir.values_below(function.body) if isinstance(each, ir.Call)):
        found = next((each for each in _ops(module, call) if each in _FRAGILE), "")
        other = local_function(module, call.func) if depth else None
        if other is not None and other is not function:
            found = found or fragile_op(module, other, depth - 1)
        if found:
            return found
    return ""


def _ops(module: Module, call: ir.Call) -> Iterator[str | None]:
    """The ops that a call can be: a function's, a method's, or those of torch's modules that can be what is called."""
    func = call.func
    names = module.names.of(func)
    yield from (spelled(each) for each in names if each.startswith("torch."))
    made = constructions(module, func) if isinstance(func, (ir.Name, ir.Attribute)) else ()
    for each in made:
        yield CLASSES.get((module.names.only(each.func) or "").rpartition(".")[2])
    if isinstance(func, ir.Attribute) and names <= {UNKNOWN} and not made and not _is_self(func):
        yield func.attr


def _is_self(func: ir.Attribute) -> bool:
    """Whether a method is one of the object itself, whatever its name says."""
    function = ir.function_of(func)
    return (
        isinstance(func.base, ir.Name)
        and function is not None
        and function.cls is not None
        and bool(function.params)
        and func.base.name == function.params[0].name
    )
