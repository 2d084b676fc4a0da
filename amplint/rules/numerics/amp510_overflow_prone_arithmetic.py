"""Arithmetic that can exceed float16's range is computed in float16.

## What it does
Finds arithmetic on a tensor that an autocast region has left in float16, if autocast computes the result in float16
too:

- a square (`z * z` on cuda; `z**2` and `z.square()` on the CPU, where autocast doesn't run them in float32);
- `exp` on the CPU;
- a division by `z + eps`, if the epsilon is between 3e-8 and 1.53e-5: `1 / eps` is then more than float16 can hold
  (AMP501 reports smaller ones, which are 0 in float16);
- divisions by several constants whose product is below 1.53e-5, such as `/ 0.001 / 0.001` in a second difference;
- a variance that is the difference of two means, `conv2d(x * x, window) - mean * mean`, if the region computes a mean
  in float16, as in SSIM. For SSIM of a library (`pytorch_msssim`, `piq`, `kornia`, `torchmetrics`) the finding is only
  `likely`. AMP511 reports the same in bfloat16, where the errors are larger.

The rule is off by default: the code doesn't show whether a number ever gets so large.

amplint reports nothing:

- if the device computes the op in float32 (`z**2` and `exp` on cuda);
- after `.float()`;
- in bfloat16, and if the dtype is unknown.

## Why is this bad?
The largest number of float16 is 65,504. The square of 256 is inf, and so are `exp(11.1)` and `1 / 1e-5`. Variances,
distances and norms that are written by hand compute such numbers on the way, though their results would be small.

In the smoothest parts of an image, a variance is smaller than the rounding errors of the two means. The difference of
the means is then noise, or negative, and SSIM divides by it. The page of AMP511 has measurements.

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
The fix casts the tensor with `.float()`. Unsafe: later results may become float32. There is no fix for a difference of
two means: call `.float()` on the inputs of both means, and compute both under `autocast(enabled=False)`.

## Proof
The test programs train with values of a few hundred. The loss of the wrong programs becomes NaN, or changes by another
amount than in float32. The corrected programs have the loss of float32.

## References
- [Autocast op reference](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Severity
from amplint.model.half.observations import Given, Seen
from amplint.model.inference.numbers import number
from amplint.model.inference.tensor_types import NUMBER
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import LARGEST_FLOAT16, ZERO_FLOAT16, met, shown, up
from amplint.rules.shared.variances import (
    MEANS_BY_HAND,
    SSIM_BY_HAND,
    said_of,
    said_of_ssim,
    ssim_of_libraries,
    variances,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.NOTE,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast",),
    default=False,
    not_shown="verify uses a small model and criterion of its own instead of yours",
)

_SQUARES = ("mul", "multiply", "pow", "square")
# Below it, 1 / epsilon is inf in float16.
_SMALL = 1.53e-5
_DIVIDES = ("div", "divide", "true_divide")


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
            f"{name} is float16: {found.why.format(name)}; call `.float()` on {name}",
            fix=up(module, found.tensors),
        )
    yield from _variances(module)


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
    return _Prone("the square of 256 or more is inf", tensors) if squared else None


def _exponential(seen: Seen) -> _Prone | None:
    tensor = _half(seen.operands[0]) if seen.spelling == "exp" and seen.operands else None
    return _Prone("`exp` of more than 11.09 is inf", [tensor]) if tensor is not None else None


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
            rounded = struct.unpack("e", struct.pack("e", value))[0]
            return _Prone(f"if {{}} is 0, a dividend above {LARGEST_FLOAT16 * rounded:.2g} gives inf", [tensor])
    return None


def _steps(module: Module, seen: Seen) -> _Prone | None:
    """A quotient by a constant, of differences of what was divided by constants before."""
    tensor = _half(seen.operands[0]) if seen.spelling in _DIVIDES and len(seen.operands) > 1 else None
    if tensor is None or seen.operands[1][1].what != NUMBER:
        return None
    divisor = abs((seen.operands[1][1].value or 1.0) * (_divided_by(module, tensor) or 1.0))
    return (
        _Prone(f"the divisions by constants divide by {divisor:g} in all, which can give inf", [tensor])
        if 0 < divisor < _SMALL
        else None
    )


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


def _written(module: Module, value: ir.Value) -> ir.Value:
    """What a variable is assigned, if that is one thing; else the value itself."""
    found = only_assignment(module.names, value) if isinstance(value, ir.Name) else None
    return found.value if found is not None else value


# --- variances ------------------------------------------------------------------------------------------------------


def _variances(module: Module) -> Iterator[Finding]:
    """Each variance that is a difference of means which float16 rounds, SSIM of libraries included."""
    for each in variances(module):
        if each.dtypes == {"float16"}:
            function = ir.function_of(each.mean)
            yield rule.finding(
                module.span(each.mean),
                said_of(module, each, "float16"),
                withheld=MEANS_BY_HAND,
                cause=f"variance {function.id if function is not None else 0}",
                confidence=Confidence.LIKELY if each.likely else Confidence.CERTAIN,
            )
    for found in ssim_of_libraries(module):
        if found.dtypes == {"float16"}:
            yield rule.finding(
                module.span(found.call),
                said_of_ssim("float16"),
                withheld=SSIM_BY_HAND,
                confidence=Confidence.LIKELY,
            )
