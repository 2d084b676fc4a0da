"""Python numbers: which values are surely one, and which one, as far as literals tell."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from amplint.model.inference.tensor_types import A_NUMBER, NUMBER, Kind, join
from amplint.model.inference.values import Doubt, Leaf, asked, parameter_read, values_of
from amplint.model.syntax import ir
from amplint.model.syntax.operators import COMPUTES
from amplint.model.syntax.queries import calls_in

if TYPE_CHECKING:
    from amplint.model import Module

_COMPUTES: dict[str, Callable[[float, float], float]] = {
    **COMPUTES,
    "Divide": operator.truediv,
    "FloorDivide": operator.floordiv,
    "Power": operator.pow,
}
_NAMED = {
    "math.inf": math.inf,
    "numpy.inf": math.inf,
    "torch.inf": math.inf,
    "math.pi": math.pi,
    "torch.pi": math.pi,
    "numpy.pi": math.pi,
}
# The least and the largest finite numbers, by torch's and numpy's names of dtypes.
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
_MAKES = {f"builtins.{name}" for name in ("int", "float", "len", "round")}
# The parameters of torch.nn's layers that are sizes.
_SIZES = ("Linear", "Conv1d", "Conv2d", "Conv3d", "LayerNorm", "Embedding", "BatchNorm1d", "BatchNorm2d", "GroupNorm")


def number(module: Module, value: ir.Value | None) -> Kind | None:
    """The number that a value is, going by what binds its names; None where it may be anything else, or isn't there."""
    return asked(module, _number, value, None) if value is not None else None


def _number(module: Module, value: ir.Value) -> Kind | None:
    found: Kind | None = None
    for leaf in values_of(module, value).leaves:
        if leaf.is_open and _has_default(module, leaf.value):
            continue  # that is a leaf of its own
        kind = _of_leaf(module, leaf)
        if kind is None:
            return None
        found = kind if found is None else join(found, kind)
    return found


def _has_default(module: Module, value: ir.Value) -> bool:
    """Whether a parameter or setting is a number where nothing else is given."""
    return any(leaf.doubt is Doubt.DEFAULT for leaf in values_of(module, value).leaves)


def _of_leaf(module: Module, leaf: Leaf) -> Kind | None:
    value = leaf.value
    if leaf.is_open:
        return _of_open(module, leaf)
    if isinstance(value, ir.Constant):
        return literal(value)
    if isinstance(value, (ir.Name, ir.Attribute)):
        return _named(module, value)
    if isinstance(value, ir.Unary) and value.op in ("Minus", "Plus"):
        return negated(number(module, value.operand), value.op)
    if isinstance(value, ir.Binary):
        left, right = number(module, value.left), number(module, value.right)
        if left is not None and right is not None:
            return computed(value.op, left, right)
        return A_NUMBER if _is_size(module, value, right) else None
    return _of_call(module, value) if isinstance(value, ir.Call) else None


def _of_open(module: Module, leaf: Leaf) -> Kind | None:
    """A parameter, where no call is in sight."""
    read = parameter_read(module, leaf.value)
    if read is None:
        return None
    function, param = read
    if any(test.value is leaf.value and test.truth is True for test in leaf.tests) and ir.is_none(param.default):
        return A_NUMBER  # `x or 1`
    return parameter(module, function, param.name)


def literal(value: ir.Constant) -> Kind | None:
    """A literal number; True and False are none."""
    found = value.value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    return Kind(NUMBER, value=float(found) if abs(found) < 1e300 or isinstance(found, float) else None)


def negated(kind: Kind | None, op: str) -> Kind | None:
    """What a sign makes of a number."""
    if kind is None or kind.value is None or op == "Plus":
        return kind
    return Kind(NUMBER, value=-kind.value)


def computed(op: str, left: Kind, right: Kind) -> Kind:
    """What Python's arithmetic gives."""
    if left.value is None or right.value is None or op not in _COMPUTES:
        return A_NUMBER
    try:
        found = _COMPUTES[op](left.value, right.value)
    except (ArithmeticError, ValueError):
        return A_NUMBER
    return Kind(NUMBER, value=found if isinstance(found, float) else None)


def parameter(module: Module, function: ir.Function, name: str) -> Kind | None:
    """The number that a parameter is where nothing else is given, or by its annotation."""
    param = function.param(name)
    if param is None or param.kind in ("*", "**"):
        return None
    default = number(module, param.default) if param.default is not None else None
    if default is not None:
        return default
    if is_said_to_be_number(module, function, name):
        return A_NUMBER
    return A_NUMBER if function.name == "__init__" and _is_given_as_size(function, name) else None


def is_said_to_be_number(module: Module, function: ir.Function, name: str) -> bool:
    """Whether a parameter's annotation is that of a number."""
    param = function.param(name)
    annotation = param.annotation if param is not None else None
    return annotation is not None and bool(module.names.of(annotation) & {"builtins.int", "builtins.float"})


def _is_given_as_size(function: ir.Function, name: str) -> bool:
    """Whether a constructor gives a parameter as a size to a layer of torch's."""
    return any(
        ir.is_variable(each, name)
        for call in calls_in(function)
        if ir.last_name(call.func) in _SIZES
        for arg in call.args
        for each in ir.walk_values(arg.value)
    )


def _named(module: Module, value: ir.Name | ir.Attribute) -> Kind | None:
    """`math.inf`, `torch.finfo(torch.float32).min`."""
    named = _NAMED.get(module.names.only(value) or "")
    if named is not None:
        return Kind(NUMBER, value=named)
    if isinstance(value, ir.Attribute) and value.attr in ("min", "max", "eps", "tiny"):
        return _of_finfo(module, value.base, value.attr) if isinstance(value.base, ir.Call) else None
    return None


def _of_finfo(module: Module, call: ir.Call, attr: str) -> Kind | None:
    """`torch.finfo(torch.float32).min`: a number, known where the dtype is a literal."""
    if not module.names.of(call.func) & {"torch.finfo", "numpy.finfo"}:
        return None
    given = call.positional[0] if call.positional else None
    name = (module.names.only(given) or "").rpartition(".")[2] if given is not None else ""
    if isinstance(given, ir.Constant):
        name = str(given.value)
    largest = LARGEST.get({"half": "float16", "float": "float32"}.get(name, name))
    if largest is None or attr not in ("min", "max"):
        return A_NUMBER
    return Kind(NUMBER, value=largest if attr == "max" else -largest)


def _of_call(module: Module, call: ir.Call) -> Kind | None:
    names, given = module.names.of(call.func), call.positional
    if names == {"builtins.float"} and len(given) == 1:
        return _as_float(module, given[0])
    if _make_numbers(names):
        return A_NUMBER
    if names & {"numpy.sqrt", "numpy.log", "numpy.prod"} and given:
        return A_NUMBER if number(module, given[0]) is not None else None
    if names & {"builtins.max", "builtins.min", "builtins.abs"} and len(given) == len(call.args):
        known = [number(module, each) for each in given]
        return A_NUMBER if known and None not in known else None
    return A_NUMBER if _is_told_by_tensor(call) else None


def _make_numbers(names: frozenset[str]) -> bool:
    """Whether functions of some names all give a number, whatever they are given."""
    return bool(names) and all(each in _MAKES or each.startswith("math.") for each in names)


def _as_float(module: Module, value: ir.Value) -> Kind:
    """`float(value)`, of a text too."""
    if not isinstance(value, ir.Constant) or not isinstance(value.value, str):
        return number(module, value) or A_NUMBER
    try:
        return Kind(NUMBER, value=float(value.value))
    except ValueError:
        return A_NUMBER


def _is_told_by_tensor(call: ir.Call) -> bool:
    """Whether a call asks a tensor for a number: `x.numel()`, `x.dim()`, `x.size(0)`, `x.item()`."""
    if not isinstance(call.func, ir.Attribute):
        return False
    if call.func.attr == "size":
        return bool(call.positional)
    return call.func.attr in ("numel", "dim") or (call.func.attr == "item" and not call.args)


def _is_size(module: Module, value: ir.Binary, right: Kind | None) -> bool:
    """`dim // heads`, `head_dim ** -0.5` in a constructor: sizes, which are no tensors."""
    function = ir.function_of(value)
    if function is None or function.name != "__init__":
        return False
    return value.op == "FloorDivide" or (value.op == "Power" and right is not None and right.value in (-0.5, 0.5))
