"""`backward()` is called inside an autocast region.

## What it does
Finds a backward pass, scaled or not, that a path reaches while an autocast region is open: in a `with`, under a
decorator, by `ExitStack.enter_context`, or by hand with `__enter__`. A region with `enabled=False` doesn't count; a
backward inside one is outside of autocast.

## Why is this bad?
Backward runs each operation in the dtype of its forward; the region adds nothing. If a backward has matrix products of
its own (custom `autograd.Function`s, parts of the forward that were kept in float32), an open region casts them to half
and gradients lose precision. PyTorch's documentation advises against it. It is an error if the code in the region is
seen to have such a Function or part; one elsewhere in the file changes nothing. It is a suspicion if the backward is
only timed: clocks are read around it, and amplint sees no use of its gradients.

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
Safe if only backward, calls of the scaler and the optimizer, schedulers, reports and plain reads leave the region.
Custom `autograd.Function`s without `custom_fwd` and hooks that compute also run in backward, and may meet two dtypes
that only the open region had hidden. If the file has one that multiplies matrices, there is no fix; if it has one that
may, the fix is unsafe; amplint can't see one of another file or an extension. Unsafe if an optimizer's step moves too
and is not known to be elementwise. No fix if the region is a decorator, entered by hand, or spans a loop. Other
contexts of the same `with` stay open around what moves, otherwise there is no fix. A region is opened again only around
code that is seen to run a forward; if other code follows that can't move, there is no fix.

## Proof
The fixtures watch autocast's state at each backward: enabled before, disabled after. If a part of the model is kept in
float32, its gradients come nearer to the float32 reference.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting): "Backward passes under autocast are not
  recommended"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Severity
from amplint.registry.rule import Rule
from amplint.rules.shared.in_region import (
    BACKWARD,
    cause,
    differs,
    fix,
    inside,
    region_line,
    stale,
)
from amplint.rules.shared.rehearsal import is_measured

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast & backward",),
    shown_by=("autocast-state",),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each backward that a path reaches inside a region."""
    for found in inside(module, BACKWARD):
        offered, withheld = fix(module, found)
        surely = differs(module, found)
        again = stale(module, found.region)  # a step may be reported here, as of the same cause
        effect = (
            "a custom Function or a float32 part computes its gradients in half precision"
            if surely
            else "any custom Function or float32 part computes its gradients in half precision"
        )
        if again is not None:
            effect = f"{effect}, and {again.said(module)}" if surely else again.said(module)
        yield rule.finding(
            module.span(found.event.call),
            f"backward runs inside the autocast region on {region_line(module, found.region)}: {effect}; "
            "end the region first",
            fix=offered,
            withheld=withheld,
            severity=Severity.ERROR if surely else None,
            confidence=Confidence.SUSPICION if is_measured(module, found.event.call) else None,
            cause=cause(found.region),
        )
