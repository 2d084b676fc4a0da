"""`unscale_` is called twice for one optimizer before `update()`.

## What it does
Follows each function along its paths and finds a `scaler.unscale_(optimizer)` that meets another one of the same
optimizer, in the same iteration, or on the micro steps of an accumulation whose `update()` waits for the boundary.

It is certain where no condition decides about the misuse, or those do that hold by default. It is likely under other
settings of the program and under one thing that changes as it trains, and a suspicion where a setting has to be
changed from its default, or two things have to come together. On micro steps it is likely where the default is not to
accumulate. The message names the condition.

It is silent where the two stand under conditions of their own, in different arms, and for different optimizers.

## Why is this bad?
The second call raises "unscale_() has already been called on this optimizer since the last update()." A disabled scaler
says nothing, so the error waits for the first run with AMP.

## Example
```python
scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.unscale_(optimizer)
scaler.step(optimizer)
```

## Use instead
```python
scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
```

## Fix safety
The second call goes. Safe where it is reached only through the first; otherwise no fix: on the paths without the first
the gradients would stay scaled. On micro steps `unscale_`, and the clipping with it, has to move to the boundary.

## Proof
The fixtures raise before; after, the SGD updates agree with a float32 reference step within float16's noise.

## References
- [GradScaler.unscale_](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.statements import call_removed
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.objects.event import Event
from amplint.model.syntax.nesting import dominates
from amplint.registry.rule import Rule
from amplint.rules.shared.accumulation_boundary import Several, only_with_several
from amplint.rules.shared.scaler_order import (
    Misuse,
    backward_between,
    calls_of,
    confidence_of,
    fix_at_home,
    on_micro_steps,
    one_for_each,
    where,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE,),
    triggers=("unscale_",),
    shown_by=("exception",),
)

_ELSEWHERE = "the two stand in different functions: unscale in one of them"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each `unscale_` of gradients that are unscaled already."""
    return one_for_each(module, "AMP405", _judge)


def _judge(module: Module, each: Misuse) -> Finding | None:
    span, first = module.span(each.reached.event.call), each.cause
    if not each.violation.carried:
        line = f" (first on {module.line(first.call)})" if first is not None else ""
        offered, withheld = fix_at_home(module, each, _fix, _ELSEWHERE)
        return rule.finding(
            span,
            f"gradients are unscaled a second time{line}, which raises; call unscale_ once before update()"
            f"{where(module, each)}",
            fix=offered,
            withheld=withheld,
            confidence=confidence_of(module, each),
        )
    if _comes_behind_the_update(each):
        line = module.line(each.flow.node(each.violation.cause))
        return rule.finding(
            span,
            f"gradients are unscaled a second time, which raises: {line} unscales them behind update(), in the "
            f"iteration before{where(module, each)}",
            withheld="one of the two has to go",
            confidence=confidence_of(module, each),
        )
    if on_micro_steps(each):
        several, sure = _several(module, each), confidence_of(module, each)
        unusual = several is not None and several.is_unusual and sure is Confidence.CERTAIN
        return rule.finding(
            span,
            "unscale_ runs on every micro step, which raises on the second; call it once, where the optimizer steps"
            f"{where(module, each, several and several.when)}",
            withheld="unscale_, and what reads the gradients behind it, has to move to the boundary",
            confidence=Confidence.LIKELY if unusual else sure,
        )
    return None


def _several(module: Module, each: Misuse) -> Several | None:
    """The condition under which there are several micro steps."""
    updates = (event.call for event in calls_of(each.flow, each.violation.scaler, "update"))
    return only_with_several(module, each.flow, each.node, updates)


def _comes_behind_the_update(each: Misuse) -> bool:
    """Whether it is another call that an earlier iteration has left without update, and the update comes before it."""
    violation = each.violation
    updates = [event.call.id for event in calls_of(each.flow, violation.scaler, "update")]
    return (
        violation.cause != violation.at
        and bool(updates)
        and all(violation.at < update < violation.cause for update in updates)
    )


def _fix(module: Module, flow: Flow, reached: EventStates, first: Event) -> tuple[Fix | None, str | None]:
    if not dominates(first.call, reached.event.call):
        return None, "on some paths it is the only one: unscale once, before both, under no condition"
    if backward_between(module, flow, first.call, reached.event.call):
        return None, "a backward stands in between: unscale once, behind the last one"
    edit = call_removed(module, reached.event.call)
    if edit is None:
        return None, "the call shares its line, or is all that a suite holds"
    return Fix(Applicability.SAFE, "Remove the second call", (edit,)), None
