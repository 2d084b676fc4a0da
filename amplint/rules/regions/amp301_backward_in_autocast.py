"""`backward()` is called inside an autocast region.

## What it does
Finds a backward pass, scaled or not, that a path reaches while an autocast region is open: in a `with`, under a
decorator, by `ExitStack.enter_context`, or by hand with `__enter__`. A region with `enabled=False` doesn't count; a
backward inside such a region is outside of autocast.

The region may also be `accelerator.autocast()` of accelerate or `fabric.autocast()` of Lightning, and the backward
`accelerator.backward()` or `fabric.backward()`; not if the file sets a precision without autocast ("no", "32-true"). If
the file sets no precision, the finding is only `likely`: accelerate's precision may be configured elsewhere. A call of
timm's `NativeScaler` or `ApexScaler` is a backward, too.

## Why is this bad?
Backward runs each operation in the dtype of its forward, so the autocast region adds nothing. If a backward has matrix
products of its own (custom `autograd.Function`s, parts of the forward that were kept in float32), an open region casts
them to half precision, and gradients lose precision. PyTorch's documentation advises against it.

The finding is an error if the region itself runs a custom Function or a float32 part. It is a suspicion if the code
looks like a benchmark: the backward is timed and amplint sees no use of its gradients, or the loss is a plain `sum()`
of an output in a file without an optimizer.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
    scaler.scale(loss).backward()
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Fix safety
Safe if only these are moved out of the region: backward, calls of the scaler, steps of torch's own elementwise
optimizers (SGD, Adam), schedulers, reports and plain reads. Other contexts of the same `with` stay open around the
moved code if they have to.

Unsafe if another optimizer's step moves too, or if the file has a custom `autograd.Function` without `custom_fwd`, or a
hook, that may multiply matrices: it also runs in backward, and without the region its matrix product may get float32
and float16 inputs and raise. amplint can't see a Function or hook of another file or an extension.

There is no fix:

- if such a Function or hook surely multiplies matrices;
- if the region is a decorator, is entered by hand, or spans a loop;
- if other contexts of the same `with` can't stay open around the moved code;
- if code follows that has to stay in the region, unless it runs a forward (then the fix opens a second region around
  it).

## Proof
The test programs watch autocast's state at each backward: enabled before the fix, disabled after it. If a part of the
model is kept in float32, its gradients are closer to the float32 reference after the fix.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting): "Backward passes under autocast are not
  recommended"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Severity
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.in_region import (
    BACKWARD,
    cause,
    confidence_in,
    differs,
    fix,
    inside,
    multiplying_in_backward,
    region_line,
    stale,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast & backward", "autocast & timm & Scaler"),
    shown_by=("autocast-state",),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each backward that a path reaches inside a region."""
    for found in inside(module, BACKWARD):
        offered, withheld = fix(module, found)
        part = differs(module, found)
        again = stale(module, found.region)  # a step may be reported here, as of the same cause
        effect = f"gradients of {part or 'custom Functions and of float32 parts'} can lose precision"
        if again is not None:
            effect = f"{effect}, and {again.said(module)}" if part else again.said(module)
        call = found.event.call
        what, end = "backward runs", "backward"
        if isinstance(call, ir.Call) and ir.last_name(call.func) != "backward":
            what, end = f"`{module.on_one_line(call.func)}` runs backward", "this call"
        yield rule.finding(
            module.span(call),
            f"{what} inside the autocast region on {region_line(module, found.region)}: {effect}; "
            f"{_first(module)}end the region before {end}",
            fix=offered,
            withheld=withheld,
            severity=Severity.ERROR if part else None,
            confidence=confidence_in(module, found),
            cause=cause(found.region),
        )


def _first(module: Module) -> str:
    """What to do before the region can end: outside, a product in backward may get two dtypes."""
    product = module.once(multiplying_in_backward)
    if product is None:
        return ""
    function = ir.function_of(product)
    if function is not None and function.cls is not None and function.name == "backward":
        return f"add `custom_fwd` and `custom_bwd` to `{function.cls.name}`, then "
    return f"cast both operands on {module.line(product)} to one dtype, then "
