"""`backward()` is called inside an autocast region.

## What it does
Finds a backward pass, scaled or not, that can run while an autocast region is open. The region may be a `with`, a
decorator, `ExitStack.enter_context`, or `__enter__` called by hand. Regions with `enabled=False` don't count.

These count, too:

- the regions `accelerator.autocast()` of accelerate and `fabric.autocast()` of Lightning;
- the backward passes `accelerator.backward()` and `fabric.backward()`;
- calls of timm's `NativeScaler` and `ApexScaler`, which run backward.

The finding is an error if the region runs a custom `autograd.Function`, or code under `enabled=False`, since gradients
of these lose precision. Otherwise the finding is a warning.

The finding is only a suspicion if the code looks like a benchmark, which doesn't use the gradients:

- the backward pass is timed, and amplint sees no use of its gradients;
- a profiler watches some iterations, and nothing is saved;
- the loss is a plain `sum()` of an output, in a file without an optimizer.

With accelerate and Fabric, amplint reports nothing if the file sets a precision without autocast ("no", "32-true"). If
the file sets no precision, the finding is only `likely`, since the precision may be configured elsewhere.

## Why is this bad?
Outside of autocast, each operation runs backward in the dtype of its forward, so backward needs no region.

In an open region autocast also applies to the operations of backward. Matrix products that should run in float32 are
cast to half precision, and their gradients lose precision. Such products are in layers that the forward pass ran in
float32, and in custom `autograd.Function`s. PyTorch's documentation advises against backward passes under autocast.

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
The fix ends the region before backward. If a forward pass follows in the region, the fix opens a second region for it.

Safe if only these leave the region: backward, calls of the scaler, steps of torch's own elementwise optimizers (SGD,
Adam), schedulers, reports and plain reads.

Unsafe:

- if the step of another optimizer leaves the region;
- if the file has a custom `autograd.Function` without `custom_fwd`, or a hook on gradients: without the region their
  operations may get two dtypes. amplint can't see a Function or hook of another file or an extension.

There is no fix:

- if such a Function or hook multiplies matrices: outside the region, the product may get two dtypes and raise. Add
  `custom_fwd` and `custom_bwd` to the Function first, or cast in the hook;
- if the region is a decorator, is entered by hand, or contains a loop with the forward pass;
- if other contexts of the same `with` would end, too;
- if other code follows in the region.

## Proof
The test programs watch autocast's state at each backward pass: enabled in the wrong programs, disabled in the corrected
programs.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting): "Backward passes under autocast are not
  recommended"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Severity
from amplint.model.objects.autocast_objects import region_of
from amplint.model.regions.framework_regions import framework_region
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import holds_by_default, off_by_default, only_if
from amplint.rules.shared.in_region import (
    BACKWARD,
    Inside,
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
        effect = f"gradients of {part or 'custom Functions and of float32 matmuls'} can lose precision"
        if again is not None:
            effect = f"{effect}, and {again.said(module)}" if part else again.said(module)
        call = found.event.call
        what, end = "backward runs", "backward"
        if isinstance(call, ir.Call) and ir.last_name(call.func) != "backward":
            what, end = f"`{module.on_one_line(call.func)}` runs backward", "this call"
        yield rule.finding(
            module.span(call),
            f"{_if_on(module, found)}{what} inside the autocast region on {region_line(module, found.region)}: "
            f"{effect}; {_first(module)}end the region before {end}",
            fix=offered,
            withheld=withheld,
            severity=Severity.ERROR if part else None,
            confidence=confidence_in(module, found),
            cause=cause(found.region),
        )


def _if_on(module: Module, found: Inside) -> str:
    """The setting without which the region is off, in words, if it is off by default."""
    made = module.value(found.region.call)
    frameworks = framework_region(module, made) if isinstance(made, ir.Call) else None
    if frameworks is not None and not frameworks.is_given:
        return "with mixed precision, "
    region = region_of(module, made) if isinstance(made, ir.Call) else None
    if region is not None and region.enabled is not None and holds_by_default(module, region.enabled) is False:
        return only_if(module, region.enabled, True)
    off = off_by_default(module, made) or off_by_default(module, found.event.call)
    return only_if(module, *off) if off is not None else ""


def _first(module: Module) -> str:
    """What to do before the region can end: outside, a product in backward may get two dtypes."""
    product = module.once(multiplying_in_backward)
    if product is None:
        return ""
    function = ir.function_of(product)
    if function is not None and function.cls is not None and function.name == "backward":
        return f"add `custom_fwd` and `custom_bwd` to `{function.cls.name}`, then "
    return f"give the product on {module.line(product)} one dtype, then "
