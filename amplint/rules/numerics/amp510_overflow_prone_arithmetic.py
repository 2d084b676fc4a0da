"""Squares, exponentials and quotients that exceed float16's range are computed in float16.

## What it does
Finds three kinds of arithmetic on a tensor that a region has left in float16, if the op list of the region's device
leaves the result in float16 too: a square (`z * z` on cuda; `z**2` and `z.square()` on the CPU, whose list lacks them),
`exp` on the CPU, and a quotient by `z + eps` whose epsilon is not 0 in float16 but below 1.53e-5.

Silent if the device computes in float32 (`z**2` and `exp` on cuda), after `.float()`, in bfloat16, and if the dtype is
unknown. The rule is off by default: the code doesn't show whether a number ever gets so large.

## Why is this bad?
float16 ends at 65504. The square of 256 is inf, and so are `exp(11.1)` and `1 / 1e-5`. Variances, distances and norms
written by hand pass through such numbers, though their results would be small.

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
The fix casts the tensor with `.float()`. Unsafe: later results become float32.

## Proof
The fixtures train with values of some hundred: a loss of inf or NaN before, the reference's losses after.

## References
- [Autocast op reference](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Finding, Severity
from amplint.model.half.observations import Given, Seen
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import ZERO_FLOAT16, met, shown, up

if TYPE_CHECKING:
    from amplint.model import Module

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


class _Prone(NamedTuple):
    """What can overflow, and the tensors to cast."""

    why: str
    tensors: list[ir.Value]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each operation whose result float16 may not hold."""
    done: set[int] = set()
    for seen in met(module, (*_SQUARES, "exp", "div", "divide", "true_divide")):
        found = None
        if seen.node.id not in done and seen.result.can_be("float16"):
            found = _square(module, seen) or _exponential(seen) or _quotient(seen)
        if found is None:
            continue
        done.add(seen.node.id)
        name = shown(module, found.tensors[0])
        yield rule.finding(
            module.span(seen.node),
            f"{name} is float16, and {found.why.format(name)}; call `.float()` on {name}",
            fix=up(module, found.tensors),
        )


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
    if seen.spelling not in ("div", "divide", "true_divide") or len(seen.operands) < 2:
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
