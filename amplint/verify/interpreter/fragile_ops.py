"""Which op of a criterion of the program float16 may break: the bench has another loss in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.model.calls.external_calls import local_class, local_function, method
from amplint.model.inference.constructions import constructions
from amplint.model.inference.python_types import number
from amplint.model.module import Module
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import UNKNOWN
from amplint.model.torch_facts.op_spellings import CLASSES, LOSSES, spelled

# What gives inf or NaN, or gradients that are inf, for 0 or 1: a small number is 0 in float16, and one near 1 is 1.
_FRAGILE = frozenset(
    (
        "acos", "asin", "binary_cross_entropy", "erfinv", "exp", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt",
        "sqrt",
    )
)  # fmt: skip
# What leaves a loss in range: it computes nothing, or autocast runs it in float32, as it does torch's own losses.
_KEPT: frozenset[str | None] = LOSSES - {"binary_cross_entropy"} | {
    "contiguous", "float", "flatten", "gather", "log_softmax", "long", "mean", "permute", "reshape", "softmax",
    "squeeze", "sum", "to", "transpose", "unsqueeze", "view",
}  # fmt: skip
_CLAMPS = ("clamp", "clamp_min", "clamp_max", "clamp_", "clip")
_ZERO, _ONE = 2**-25, 2**-12  # what rounds to 0 in float16; of what is so near 1 half rounds to it
_RISKY = ("Divide", "FloorDivide", "Power", "MatrixMultiply")
_DEPTH = 3  # functions that call each other


def fragile_op(module: Module, function: ir.Function, depth: int = _DEPTH) -> str:
    """The first op of a function, or of one that it calls in its file, which float16 may break; "": there is none.

    Of a clamp its bound, where that is 0 or 1 in float16.
    """
    for call in (each for each in ir.values_below(function.body) if isinstance(each, ir.Call)):
        ops = [*_ops(module, call)]
        found = next((each for each in ops if each in _FRAGILE), "") or _lost_bound(module, call, ops)
        other = called(module, call) if depth else None
        if other is not None and other[1] is not function:
            found = found or fragile_op(*other, depth - 1)
        if found:
            return found
    return ""


def _lost_bound(module: Module, call: ir.Call, ops: Iterable[str | None]) -> str:
    """The bound of a clamp, with the op, where it rounds to 0 or 1 in float16 and is neither."""
    op = next((each for each in ops if each in _CLAMPS), None)
    for arg in call.args if op else ():
        bound = number(module, arg.value)
        if bound is not None and bound not in (0, 1) and (abs(bound) < _ZERO or 0 < abs(1 - bound) < _ONE):
            return f"{op} at {bound:g}"
    return ""


def called(module: Module, call: ir.Call) -> tuple[Module, ir.Function] | None:
    """The function that a call runs and a module has in sight, with its module; an instance's is a method."""
    func = call.func
    function = local_function(module, func)
    if function is not None:
        return module, function
    made = constructions(module, func) if isinstance(func, (ir.Name, ir.Attribute)) else ()
    classes = {local_class(module, each.func) for each in made}
    cls = classes.pop() if len(classes) == 1 else None
    function = (method(module, cls, "__call__") or method(module, cls, "forward")) if cls is not None else None
    return (module, function) if function is not None else None


def is_made_of_losses(module: Module, function: ir.Function) -> bool:
    """Whether a function has nothing but losses of torch's own, and adds or weights them."""
    values = [*ir.values_below(function.body)]
    ops = [[*_ops(module, each)] for each in values if isinstance(each, ir.Call)]
    risky = any(isinstance(each, ir.Binary) and each.op in _RISKY for each in values)
    return bool(ops) and not risky and all(each and _KEPT.issuperset(each) for each in ops)


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
