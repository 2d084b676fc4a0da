"""Squares, exponentials and quotients that exceed float16's range are computed in float16.

## What it does
Finds kinds of arithmetic on a tensor that an autocast region has left in float16, if the op list of the region's device
leaves the result in float16 too:

- a square (`z * z` on cuda; `z**2` and `z.square()` on the CPU, whose list lacks them);
- `exp` on the CPU;
- a quotient by `z + eps`, whose epsilon is not 0 in float16 but below 1.53e-5;
- quotients by constants whose product is below 1.53e-5: a second difference, divided by a step of 0.001 twice.

Also finds a variance that is a difference of two means, `conv2d(x * x, window) - mean * mean`, if the region computes
the convolution in half precision, as in SSIM. In bfloat16 it is found, too. SSIM from a library (`pytorch_msssim`,
`piq`, `kornia`, `torchmetrics`) in such a region is likely computed so.

amplint reports nothing:

- if the device computes the op in float32 (`z**2` and `exp` on cuda);
- after `.float()`;
- in bfloat16, but for variances, and if the dtype is unknown.

The rule is off by default: the code doesn't show whether a number ever gets so large.

## Why is this bad?
float16 ends at 65504. The square of 256 is inf, and so are `exp(11.1)` and `1 / 1e-5`. Variances, distances and norms
written by hand compute such numbers on the way, though their results would be small.

In the smooth parts of an image a variance is smaller than the rounding of the two means. Their difference is noise, or
negative, and SSIM divides by it.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    z = layer(inputs)
    power = (z * z).mean(-1)
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    z = layer(inputs)
    power = z.square().mean(-1)  # float32 on cuda
```

## Fix safety
The fix casts the tensor with `.float()`. Unsafe: later results become float32. There is no fix for variances: the
convolution has to run in float32, under `autocast(enabled=False)`.

## Proof
The test programs train with values of some hundred: the loss is inf or NaN before the fix, and the reference's loss
after it.

## References
- [Autocast op reference](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Severity
from amplint.model.half.observations import Given, Seen
from amplint.model.inference.constructions import constructions
from amplint.model.inference.numbers import number
from amplint.model.inference.tensor_types import HALF, NUMBER
from amplint.model.inference.value_sets import decided
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.regions.regions_at import enabled_at
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import ZERO_FLOAT16, met, shown, up

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.regions.openers import Open

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.NOTE,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast",),
    default=False,
    not_shown="verify doesn't interpret models and criteria",
)

_SQUARES = ("mul", "multiply", "pow", "square")
# Below it, 1 / epsilon is inf in float16.
_SMALL = 1.53e-5
_DIVIDES = ("div", "divide", "true_divide")
# Convolutions, which autocast computes in half precision; libraries whose SSIM is made of them.
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_SSIM = re.compile(
    r"(?i)(pytorch_msssim|pytorch_ssim|piq|kornia)\.(\w+\.)*((ms|multi_scale)_?)?ssim(_?loss)?"
    r"|torchmetrics\.(\w+\.)*(multi_?scale_?)?structural_?similarity_?index_?measure"
)
_HALF = {"float16", "bfloat16"}


class _Prone(NamedTuple):
    """What can overflow, and the tensors to cast."""

    why: str
    tensors: list[ir.Value]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each operation whose result float16 may not hold."""
    done: set[int] = set()
    for seen in met(module, (*_SQUARES, "exp", *_DIVIDES)):
        found = None
        if seen.node.id not in done and seen.result.can_be("float16"):
            found = _square(module, seen) or _exponential(seen) or _quotient(seen) or _steps(module, seen)
        if found is None:
            continue
        done.add(seen.node.id)
        name = shown(module, found.tensors[0])
        yield rule.finding(
            module.span(seen.node),
            f"{name} is float16, and {found.why.format(name)}; call `.float()` on {name}",
            fix=up(module, found.tensors),
        )
    yield from _variances(module)
    yield from _of_libraries(module)


def _half(given: Given) -> ir.Value | None:
    """The operand, if it is written and can be float16."""
    return given[0] if given[1].can_be("float16") else None


def _square(module: Module, seen: Seen) -> _Prone | None:
    if seen.spelling not in _SQUARES or not seen.operands:
        return None
    tensors = [value for value in map(_half, seen.operands) if value is not None]
    product = seen.spelling in ("mul", "multiply")
    squared = (
        len(tensors) == 2 and module.text(tensors[0]) == module.text(tensors[1])
        if product
        else len(tensors) == 1 and (seen.spelling == "square" or seen.operands[1][1].value == 2)
    )
    return _Prone("its square is inf from 256 on", tensors) if squared else None


def _exponential(seen: Seen) -> _Prone | None:
    tensor = _half(seen.operands[0]) if seen.spelling == "exp" and seen.operands else None
    return _Prone("its exponential is inf from 11.1 on", [tensor]) if tensor is not None else None


def _quotient(seen: Seen) -> _Prone | None:
    if seen.spelling not in _DIVIDES or len(seen.operands) < 2:
        return None
    divisor = _half(seen.operands[1])
    if not isinstance(divisor, ir.Binary) or divisor.op != "Add":
        return None
    sides = (divisor.left, divisor.right)
    for tensor, constant in (sides, sides[::-1]):
        value = constant.value if isinstance(constant, ir.Constant) else None
        if isinstance(value, float) and ZERO_FLOAT16 < value < _SMALL:
            return _Prone(f"1 / {value:g} is inf where {{}} is 0", [tensor])
    return None


def _steps(module: Module, seen: Seen) -> _Prone | None:
    """A quotient by a constant, of differences of what was divided by constants before."""
    tensor = _half(seen.operands[0]) if seen.spelling in _DIVIDES and len(seen.operands) > 1 else None
    if tensor is None or seen.operands[1][1].what != NUMBER:
        return None
    divisor = abs((seen.operands[1][1].value or 1.0) * (_divided_by(module, tensor) or 1.0))
    return _Prone(f"all in all it is divided by {divisor:g}", [tensor]) if 0 < divisor < _SMALL else None


def _divided_by(module: Module, value: ir.Value, depth: int = 6) -> float | None:
    """The product of the constants by which a value is divided, as far as differences and slices show it; else None."""
    value = _written(module, value)
    if depth and isinstance(value, ir.Binary) and value.op == "Divide":
        found, before = number(module, value.right), _divided_by(module, value.left, depth - 1)
        return found.value * (before or 1.0) if found is not None and found.value is not None else None
    if depth and isinstance(value, ir.Binary) and value.op == "Subtract":
        return _divided_by(module, value.left, depth - 1)
    if depth and isinstance(value, ir.Subscript):
        return _divided_by(module, value.base, depth - 1)
    if depth and isinstance(value, ir.Call) and ir.last_name(value.func) == "diff" and value.positional:
        return _divided_by(module, value.positional[0], depth - 1)
    return None


# --- variances ------------------------------------------------------------------------------------------------------


def _variances(module: Module) -> Iterator[Finding]:
    """Each difference of the mean of squares, which a convolution in half precision computes, and a squared mean."""
    done: set[int] = set()
    for seen in met(module, _CONVOLUTIONS):
        mean = seen.operands[0][0] if seen.operands and seen.result.what == HALF else None
        if mean is None or seen.node.id in done or not _is_square(module, mean):
            continue
        if any(_is_square(module, each.right) for each in _differences(module, seen.node)):
            done.add(seen.node.id)
            dtype, function = " or ".join(sorted(seen.result.names)), ir.function_of(seen.node)
            yield rule.finding(
                module.span(seen.node),
                f"the variance is the difference of two means, and {dtype} rounds this one by more than small "
                "variances; compute it in float32, under `autocast(enabled=False)`",
                withheld="the convolution has to run in float32; put it into a region with `enabled=False`",
                cause=f"variance {function.id if function is not None else 0}",
            )


def _differences(module: Module, value: ir.Value) -> Iterator[ir.Binary]:
    """The differences whose first operand a value is, also by way of a variable."""
    statement = ir.statement_of(value)
    names = (
        [each for each in statement.targets if isinstance(each, ir.Name)] if isinstance(statement, ir.Assign) else []
    )
    whole = isinstance(statement, ir.Assign) and statement.value is value
    for each in [value, *(_reads(module, names[0]) if names and whole else ())]:
        if isinstance(each.parent, ir.Binary) and each.parent.op == "Subtract" and each.parent.left is each:
            yield each.parent


def _reads(module: Module, name: ir.Name) -> Iterator[ir.Value]:
    """Where a variable is read that is assigned once."""
    for each in module.whole.within(ir.function_of(name)).values:
        if isinstance(each, ir.Name) and each.name == name.name and not each.bound:
            found = only_assignment(module.names, each)
            if found is not None and found.target is name:
                yield each


def _written(module: Module, value: ir.Value) -> ir.Value:
    """What a variable is assigned, if that is one thing; else the value itself."""
    found = only_assignment(module.names, value) if isinstance(value, ir.Name) else None
    return found.value if found is not None else value


def _is_square(module: Module, value: ir.Value) -> bool:
    """`x * x`, `x**2`, `x.pow(2)`, `torch.square(x)`, or a variable that is assigned that."""
    value = _written(module, value)
    if isinstance(value, ir.Binary):
        if value.op == "Multiply":
            return module.text(value.left) == module.text(value.right)
        return value.op == "Power" and isinstance(value.right, ir.Constant) and value.right.value == 2
    if not isinstance(value, ir.Call):
        return False
    power = value.positional[-1] if value.positional else None
    is_two = isinstance(power, ir.Constant) and power.value == 2
    return ir.last_name(value.func) == "square" or (ir.last_name(value.func) == "pow" and is_two)


def _of_libraries(module: Module) -> Iterator[Finding]:
    """Each SSIM of a library that runs in a region of half precision."""
    for call in module.whole.near("ssim", "SSIM", "structural_similarity", "StructuralSimilarity").calls:
        if _is_ssim(module, call) and any(_is_half(module, each) for each in enabled_at(module, call)):
            yield rule.finding(
                module.span(call),
                "the region computes the convolutions of SSIM in half precision, which rounds by more than small "
                "variances; compute it in float32, outside the region",
                withheld="move the call out of the region, or put it into one with `enabled=False`",
                confidence=Confidence.LIKELY,
            )


def _is_ssim(module: Module, call: ir.Call) -> bool:
    """Whether a call computes SSIM: a library's function, or an object of its class."""
    made = constructions(module, call.func) if isinstance(call.func, (ir.Name, ir.Attribute)) else ()
    computes = {each for each in module.names.of(call.func) if not each.rpartition(".")[2][:1].isupper()}
    return any(map(_SSIM.fullmatch, computes.union(*(module.names.of(each.func) for each in made))))


def _is_half(module: Module, opened: Open) -> bool:
    return bool(_HALF & {each.name for each in decided(module).region_dtypes(opened.region)})
