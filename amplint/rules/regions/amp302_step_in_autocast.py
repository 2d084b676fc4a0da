"""The optimizer steps inside an autocast region.

## What it does
Finds `scaler.step(optimizer)` and `optimizer.step()` that a path reaches while an autocast region is open.

## Why is this bad?
An optimizer that multiplies matrices (Adafactor, Shampoo, Muon) does so in half precision inside a region. And the
region keeps half-precision copies of the weights: a forward after the step, in the same region, still uses the old
weights. It is a suspicion if the file only times its steps, on made-up data.

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
Safe for torch.optim's elementwise optimizers, created in the same file and stepped without a closure, if only calls
that no region changes move with them (see AMP301). Unsafe for any other: the forward in a closure, or SAM's, would lose
autocast. No fix if the region is a decorator, entered by hand, or spans a loop.

## Proof
The fixtures watch autocast's state at each step: enabled before, disabled after. With Adafactor the update differs from
the one outside; with a second forward in the region, the loss is computed with the old weights.

## References
- [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Severity
from amplint.registry.rule import Rule
from amplint.rules.shared.in_region import STEPS, cause, fix, inside, region_line, stale
from amplint.rules.shared.rehearsal import is_measured

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
        offered, withheld = fix(module, found)
        again = stale(module, found.region)
        effect = "a later forward in the region uses the old weights, which autocast caches"
        if again is not None and again.step is found.event:
            effect = again.said(module)
        yield rule.finding(
            module.span(found.event.call),
            "the optimizer steps inside the autocast region on "
            f"{region_line(module, found.region)}: {effect}; end the region first",
            fix=offered,
            withheld=withheld,
            confidence=Confidence.SUSPICION if is_measured(module, found.event.call) else None,
            cause=cause(found.region),
        )
