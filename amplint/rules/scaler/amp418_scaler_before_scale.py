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

from amplint.base.findings import Finding, Severity
from amplint.model.flow.analysis import Flow
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.state import State
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, dominates
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import (
    Misuse,
    asked,
    calls_of,
    dynamic,
    one_for_each,
    side_by_side,
    used_elsewhere,
    where,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    triggers=("GradScaler",),
    shown_by=("exception", "gradient"),
    about_absence=True,
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first call of each scaler that comes before any scale."""
    return one_for_each(module, "AMP418", _judge)


def _judge(module: Module, each: Misuse) -> Finding | None:
    if not _is_early(module, each):
        return None
    return rule.finding(
        module.span(each.node),
        f"{each.reached.event.kind}() comes before the first scale(), which raises; call `scale(loss).backward()` first"
        f"{where(module, each)}",
    )


def _is_early(module: Module, each: Misuse) -> bool:
    """Whether the call comes before any scale: always, or in the first iteration, with no condition to prevent it."""
    flow, scaler, call = each.flow, each.violation.scaler, each.node
    # That the loss of a plain backward is not scaled is AMP403's to say, where the scaler takes its gradients.
    held = [of for state in each.states for of in (state.rest, *(one for _, one in state.groups))]
    reported = calls_of(flow, scaler, "step", "unscale_") and any(
        of.kind in (GradientKind.PLAIN, GradientKind.MIXED) for of in held
    )
    if reported or used_elsewhere(module, flow, scaler, "scale"):
        return False
    enabled = [state for state in each.reached.states if not flow.disabled(scaler, state)]
    if len(each.states) >= len(enabled):
        return True
    made = objects(module).made_by(scaler)
    scales = [scale.call for scale in calls_of(flow, scaler, "scale")]
    constant = not any(dynamic(module, flow, scale, call) for scale in scales)
    if constant and all(
        _never_runs(flow, state, asked(flow, scale, call)) for scale in scales for state in each.states
    ):
        return True
    # A scale that stands before it, under a condition of its own, may well come first whenever it matters.
    pairs = [pair for scale in scales for pair in side_by_side(flow, scale, call)]
    behind = {site for place, site in pairs if place.id < site.id and dominates(place, site)}
    pairs = [(place, site) for place, site in pairs if site not in behind] or pairs
    sites = {site for _, site in pairs} or {call}
    before = [(place, site) for place, site in pairs if place.id < site.id]
    tests = [test for place, site in before for test in conditions(place, site)]
    tests += [test for of in made for site in sites for test in conditions(site, of.call)]
    if any(dynamic(module, flow, place, site) for place, site in before) or any(
        dynamic(module, flow, site, of.call) for of in made for site in sites
    ):
        return False
    return flow.surely_enabled(scaler, each.states) or not any(
        flow.conditions.may_ask_for_amp(test.test) for test in tests
    )


def _never_runs(flow: Flow, state: State, tests: list[ir.Value]) -> bool:
    """Whether one of the tests round a call fails on a path."""
    return any(flow.conditions.came_out(test, state) is False for test in tests)
