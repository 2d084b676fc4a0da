"""An epsilon that should keep a float16 tensor from 0 is itself 0 in float16.

## What it does
Finds a constant below 3e-8 that is added to a tensor which a region has left in float16, or to which such a tensor is
clamped: `x / (x.amax() + 1e-8)`, `p.clamp(min=1e-12)`. The constant may be a literal, a name, an attribute or a
parameter's default.

Silent if the tensor is float32 at that place by the op list of the region's device (on cuda after `norm`, `sum`,
`softmax`, `exp`), after `.float()`, in bfloat16, which has float32's range, and about larger constants.

## Why is this bad?
The smallest positive number of float16 is 6e-8; 1e-8 rounds to 0. The sum is the tensor itself, the clamp lets 0 pass,
and the following division or logarithm gives inf or NaN, which it would not in float32.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    weight = torch.relu(head(features)).detach()
    weight = weight / (weight.mean() + 1e-8)
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    weight = torch.relu(head(features)).detach()
    weight = weight.float() / (weight.mean().float() + 1e-8)
```

## Fix safety
The fix computes the sum or the clamp in float32, and also the division if the divisor has no dimensions: float16
divided by such a number is float16, in which the epsilon is 0 again. Unsafe: later results become float32 too, and a
gradient through `1 / epsilon` may still exceed float16's range; if there is one, a larger epsilon is better. No fix for
in-place operations, and for a number without dimensions if amplint can't see what it divides.

## Proof
The fixtures train with values of 0: a loss of NaN or inf before, the reference's losses after.

## References
- [Half-precision floating-point format](https://en.wikipedia.org/wiki/Half-precision_floating-point_format)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.model.half.observations import Given, Seen
from amplint.model.inference.tensor_types import NUMBER
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import ZERO_FLOAT16, divided_by, is_one_number, met, shown, up

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & e-", "autocast & E-", "autocast & 0.0000000"),
    not_shown="verify doesn't interpret models and criteria",
)

_ADDS = ("add", "add_", "sub", "sub_")
_CLAMPS = ("clamp", "clip", "clamp_min", "clamp_", "clip_", "clamp_min_")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each epsilon that is 0 in the dtype of its tensor."""
    done: set[int] = set()
    for seen in met(module, (*_ADDS, *_CLAMPS)):
        found = _guarded(seen)
        if found is None or seen.node.id in done:
            continue
        done.add(seen.node.id)
        tensor, epsilon = found
        does = "clamping to it doesn't prevent 0" if seen.spelling in _CLAMPS else "adding it has no effect"
        fix, withheld = _fix(module, seen, tensor)
        yield rule.finding(
            module.span(seen.node),
            f"{epsilon:g} is 0 in float16, and {shown(module, tensor)} is float16: {does}; compute it in float32",
            fix=fix,
            withheld=withheld,
        )


def _fix(module: Module, seen: Seen, tensor: ir.Value) -> tuple[Fix | None, str | None]:
    """The cast of the tensor; of what it divides as well, where it has no dimensions: float16 over that is float16."""
    if seen.spelling.endswith("_") or not isinstance(seen.node, (ir.Call, ir.Binary)):
        return None, "it changes a half-precision tensor in place"
    if not is_one_number(module, tensor):
        return up(module, [tensor]), None
    divided = divided_by(seen.node)
    if divided is None:
        return None, "the tensor has no dimensions, so a float16 operand would stay float16: cast both by hand"
    if isinstance(divided, ir.Constant) or is_one_number(module, divided):
        return up(module, [tensor]), None
    return up(module, [divided, tensor]), None


def _guarded(seen: Seen) -> tuple[ir.Value, float] | None:
    """The half tensor and the epsilon that is to keep it from 0."""
    given: list[Given] = list(seen.operands[:2])
    if seen.spelling in _CLAMPS and "min" in seen.keywords:
        given = [seen.operands[0], seen.keywords["min"]]
    tensors = [value for value, kind in given if kind.can_be("float16") and value is not None]
    numbers = [kind.value for _, kind in given if kind.what == NUMBER and kind.value is not None]
    if len(tensors) != 1 or len(numbers) != 1 or not seen.result.can_be("float16"):
        return None
    return (tensors[0], numbers[0]) if 0 < numbers[0] < ZERO_FLOAT16 else None
