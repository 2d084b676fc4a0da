"""`unscale_` is called twice for one optimizer before `update()`.

## What it does
Finds a `scaler.unscale_(optimizer)` that runs again, or after another one, for the same optimizer, without `update()`
in between:

- in the same iteration;
- on the micro steps of an accumulation that calls `update()` only once at the end.

The message names the condition under which the code misbehaves. That condition decides how certain the finding is:

- *certain*: always, or with the default values of the program's options;
- *likely*: under one condition that changes during training, or with options of the program whose defaults amplint
  can't see;
- *suspicion*: only with an option that is not at its default, or only under two conditions that change during
  training.

Exception: if only the reported call is under a condition that changes during training (`step % 10 == 0`), the finding
stays *certain*: sooner or later the condition is true.

A finding about micro steps is only *likely* if accumulation is off by default.

amplint reports nothing if the two calls can't both run (different branches of an `if`), or are for different
optimizers.

## Why is this bad?
The second call raises "unscale_() has already been called on this optimizer since the last update()." A disabled scaler
doesn't raise, so the error stays hidden until AMP is on.

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
Safe: the fix removes the second call, if every path to the second call runs the first one.

There is no fix:

- if some path runs only the second call: without it, the gradients would stay scaled;
- if another backward pass runs between the two calls;
- if the two calls are in different functions;
- on micro steps: move `unscale_`, and the clipping with it, to the optimizer's step.

## Proof
The test programs raise before the fix. The SGD updates after the fix agree with a float32 reference step within
float16's noise.

## References
- [GradScaler.unscale_](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.statements import call_removed, own_statement, why_not_removed
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
    when,
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

_ELSEWHERE = "the calls of `unscale_()` are in different functions; remove one of the calls by hand"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each `unscale_` of gradients that are unscaled already."""
    return one_for_each(module, "AMP405", _judge)


def _judge(module: Module, each: Misuse) -> Finding | None:
    span, first = module.span(each.reached.event.call), each.cause
    if not each.violation.carried:
        line = f": {module.line(first.call)} already unscaled the gradients" if first is not None else ""
        offered, withheld = fix_at_home(module, each, _fix, _ELSEWHERE)
        return rule.finding(
            span,
            f"{when(module, each)}this second `unscale_()` raises{line}; call `unscale_()` only once before each "
            "`update()`",
            fix=offered,
            withheld=withheld,
            confidence=confidence_of(module, each),
        )
    if _comes_behind_the_update(each):
        line = module.line(each.flow.node(each.violation.cause))
        return rule.finding(
            span,
            f"{when(module, each)}this `unscale_()` raises: {line} already unscaled the gradients in the previous "
            "iteration, after `update()`; call `unscale_()` only once before each `update()`",
            withheld="amplint can't tell which `unscale_()` to remove",
            confidence=confidence_of(module, each),
        )
    if on_micro_steps(each):
        several, sure = _several(module, each), confidence_of(module, each)
        unusual = several is not None and several.is_unusual and sure is Confidence.CERTAIN
        return rule.finding(
            span,
            f"{when(module, each, several and several.when)}`unscale_()` runs on every micro step, and raises on the "
            "second one; call `unscale_()` only where the optimizer steps",
            withheld="code that uses the unscaled gradients has to move to the optimizer's step too; do that by hand",
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
        return (
            None,
            "on some paths this call is the only `unscale_()`; call `unscale_()` once on every path, by hand",
        )
    if backward_between(module, flow, first.call, reached.event.call):
        return None, "a backward pass runs between the calls; call `unscale_()` once, after the last backward pass"
    edit = call_removed(module, reached.event.call)
    if edit is None:
        return None, why_not_removed("the call", own_statement(reached.event.call))
    return Fix(Applicability.SAFE, "Remove this second `unscale_()`", (edit,)), None
