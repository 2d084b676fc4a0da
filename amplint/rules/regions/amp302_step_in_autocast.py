"""The optimizer steps inside an autocast region.

## What it does
Finds `scaler.step(optimizer)` and `optimizer.step()` that can run while an autocast region is open.

The finding is only a suspicion if the code looks like a benchmark: steps are timed on made-up data. amplint reports
nothing if this file defines all models whose parameters the optimizer has, and autocast runs none of their operations
in half precision.

## Why is this bad?
- The region caches half-precision copies of the weights. A forward pass after the step, in the same region, still uses
  the old weights.
- Optimizers that multiply matrices (Adafactor, Shampoo, Muon) do so in half precision inside a region.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
The fix ends the region before the step, or before backward if that is in the region, too.

Safe for the elementwise optimizers of torch.optim (SGD, Adam), if they are created in the same file and step without a
closure, and if all code that leaves the region gives the same result without autocast.

Unsafe for other optimizers: a forward pass in a closure, or in SAM's step, would lose autocast.

There is no fix in the cases that AMP301 lists, for example if the region is a decorator or is entered by hand.

## Proof
The test programs watch autocast's state at each step: enabled in the wrong programs, disabled in the corrected
programs.

## References
- [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Severity
from amplint.registry.rule import Rule
from amplint.rules.shared.in_region import STEPS, cause, confidence_in, fix, inside, region_line, stale
from amplint.rules.shared.uncast_models import is_never_cast

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast & step",),
    shown_by=("autocast-state",),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step that a path reaches inside a region."""
    for found in inside(module, STEPS):
        again = stale(module, found.region)
        if again is None and is_never_cast(module, found.event.optimizer):
            continue
        offered, withheld = fix(module, found)
        effect = "a later forward pass in the region would use the cached old weights"
        if again is not None and again.change is found.event.call:
            effect = again.said(module)
        yield rule.finding(
            module.span(found.event.call),
            "the optimizer steps inside the autocast region on "
            f"{region_line(module, found.region)}: {effect}; end the region before the step",
            fix=offered,
            withheld=withheld,
            confidence=confidence_in(module, found),
            cause=cause(found.region),
        )
