"""The scaler unscales, steps or updates on a path where `scale()` was never called.

## What it does
Follows each function (or script) that makes a scaler along its paths, and finds `unscale_`, `step` and `update` that
run before the first `scaler.scale(...)`.

It is silent where the scaler comes from elsewhere (it may have scaled in an earlier call), where another function of
the file scales, and where a plain `backward()` stands before: that is AMP403.

## Why is this bad?
The scale is made by the first `scale()`. Before it, the scaler raises "Attempted step but _scale is None."

## Example
```python
scaler = torch.amp.GradScaler("cuda")
for inputs, targets in loader:
    scaler.update()
    ...
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
for inputs, targets in loader:
    ...
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety
There is no fix: what the loss is, and where its backward belongs, is not in the code.

## Proof
The fixtures raise before and run after.

## References
- [GradScaler.scale](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Finding, Severity
from amplint.model.flow import Flow, flows
from amplint.model.objects import objects
from amplint.model.transfer import Visit
from amplint.rules.base import Rule
from amplint.rules.order import calls_of, conditions, used_elsewhere, visits

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("GradScaler",))


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first call of each scaler that comes before any scale."""
    for flow in flows(module):
        told: set[str] = set()
        for visit in visits(flow, "unscale_", "step", "update"):
            scaler = str(visit.event.scaler)
            if (
                scaler not in told
                and _is_early(module, flow, visit)
                and not used_elsewhere(module, flow, scaler, "scale")
            ):
                told.add(scaler)
                yield rule.finding(
                    module.span(visit.event.call),
                    f"{visit.event.kind}() comes before the first scale(), which raises; call `scale(loss).backward()` "
                    "first",
                )


def _is_early(module: Module, flow: Flow, visit: Visit) -> bool:
    """Whether the call comes before any scale: always, or in the first iteration, with no condition to prevent it."""
    early = [state for state, error in visit.errors if "_scale is None" in error.message]
    scaler = str(visit.event.scaler)
    # That the loss of a plain backward is not scaled is AMP403's to say, where the scaler takes its gradients.
    told = calls_of(flow, scaler, "step", "unscale_") and any(s.gradients.kind in ("plain", "mixed") for s in early)
    if not early or told or any(state.gradients.kind == "unknown" for state in early):
        return False
    if len(early) == len(visit.states):
        return True
    made = objects(module).made.get(scaler, [])
    # A scale that stands before it, under a condition of its own, may well come first whenever it matters.
    before = any(each.call.id < visit.event.call.id for each in calls_of(flow, scaler, "scale"))
    return not before and not any(conditions(visit.event.call, each.call) for each in made)
