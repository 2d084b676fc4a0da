"""The scaler unscales, steps or updates on a path where `scale()` was never called.

## What it does
Finds `unscale_`, `step` and `update` of a scaler that run before its first `scaler.scale(...)`, in the function or
script that creates the scaler.

The message names the condition under which the code misbehaves. That condition decides how certain the finding is:

- *certain*: always, or with the default values of the program's options;
- *likely*: under one condition that changes during training, or with options of the program whose defaults amplint
  can't see;
- *suspicion*: only with an option that is not at its default, or only under two conditions that change during
  training.

Exception: if only the reported call is under a condition that changes during training (`step % 10 == 0`), the finding
stays *certain*: sooner or later the condition is true.

amplint reports nothing:

- if the scaler comes from elsewhere: it may have scaled before;
- if another function of the file scales with this scaler;
- if a plain `backward()` comes first: that is AMP403.

## Why is this bad?
The first `scale()` initializes the scale. Before that call, the scaler raises "Attempted step but _scale is None."

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
There is no fix: amplint can't tell where the loss and its backward pass belong.

## Proof
The wrong programs raise, and the corrected programs run.

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
    confidence_of,
    dynamic,
    one_for_each,
    side_by_side,
    used_elsewhere,
    when,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
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
        f"{when(module, each)}this `{each.reached.event.kind}()` raises: the scaler's `scale()` has not run yet; call "
        "`scale(loss).backward()` first",
        confidence=confidence_of(module, each),
    )


def _is_early(module: Module, each: Misuse) -> bool:
    """Whether the call comes before any scale: always, or in the first iteration, with no condition to prevent it."""
    flow, scaler, call = each.flow, each.violation.scaler, each.node
    if _is_about_the_loss(each) or used_elsewhere(module, flow, scaler, "scale", call):
        return False
    enabled = [state for state in each.reached.states if not flow.disabled(scaler, state)]
    if len(each.states) >= len(enabled):
        return True
    scales = [scale.call for scale in calls_of(flow, scaler, "scale")]
    constant = not any(dynamic(module, flow, scale, call) for scale in scales)
    if constant and all(
        _never_runs(flow, state, asked(flow, scale, call)) for scale in scales for state in each.states
    ):
        return True
    return not _is_prevented(module, each, scales)


def _is_about_the_loss(each: Misuse) -> bool:
    """Whether a plain backward made the gradients that the scaler takes: that its loss is not scaled is AMP403's."""
    held = (of for state in each.states for of in (state.rest, *(group for _, group in state.groups)))
    plain = any(of.kind in (GradientKind.PLAIN, GradientKind.MIXED) for of in held)
    return plain and bool(calls_of(each.flow, each.violation.scaler, "step", "unscale_"))


def _is_prevented(module: Module, each: Misuse, scales: list[ir.Value]) -> bool:
    """Whether a condition may see to it that a scale comes first: a count, or one that asks for AMP.

    A scale that stands before the call, under a condition of its own, may well come first whenever it matters.
    """
    flow, scaler = each.flow, each.violation.scaler
    pairs = [pair for scale in scales for pair in side_by_side(flow, scale, each.node)]
    behind = {site for place, site in pairs if place.id < site.id and dominates(place, site)}
    pairs = [(place, site) for place, site in pairs if site not in behind] or pairs
    sites = {site for _, site in pairs} or {each.node}
    decided = [(place, site) for place, site in pairs if place.id < site.id]
    decided += [(site, made.call) for made in objects(module).made_by(scaler) for site in sites]
    if any(dynamic(module, flow, place, site) for place, site in decided):
        return True
    tests = (test.test for place, site in decided for test in conditions(place, site))
    return not flow.surely_enabled(scaler, each.states) and any(map(flow.conditions.may_ask_for_amp, tests))


def _never_runs(flow: Flow, state: State, tests: list[ir.Value]) -> bool:
    """Whether one of the tests round a call fails on a path."""
    return any(flow.conditions.came_out(test, state) is False for test in tests)
