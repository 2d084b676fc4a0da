"""The optimizer steps inside an autocast region.

## What it does
Finds `scaler.step(optimizer)` and `optimizer.step()` that a path reaches while an autocast region is open.

## Why is this bad?
An optimizer that multiplies matrices (Adafactor, Shampoo, Muon) does so in half precision there. And the region
keeps half copies of the weights: a forward that follows the step in the same region computes with the weights from
before it. It is a suspicion where the file only times its steps, on data that are made up.

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
Safe for torch.optim's elementwise optimizers, made in the same file and stepped without a closure, where only calls
that no region changes move with them (see AMP301). Unsafe for any other: a closure's forward, or SAM's, would lose
autocast. No fix where the region is a decorator, entered by hand, or spans a loop.

## Proof
The fixtures watch autocast's state at each step: on before, off after. With Adafactor the update differs from the
one outside; with a second forward in the region, the loss is computed with the old weights.

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
        effect = "a later forward in that region would use the old weights, kept in half precision"
        if again is not None and again.step is found.event:
            effect = again.said(module)
        yield rule.finding(
            module.span(found.event.call),
            f"the optimizer steps inside the autocast region of {region_line(module, found.region)}: {effect}; "
            "end the region before it",
            fix=offered,
            withheld=withheld,
            confidence=Confidence.SUSPICION if is_measured(module, found.event.call) else None,
            cause=cause(found.region),
        )
