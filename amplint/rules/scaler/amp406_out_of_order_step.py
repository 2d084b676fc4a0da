"""`unscale_` comes after the step, or an optimizer is stepped twice before `update()`.

## What it does
Finds, within one iteration:

- a `scaler.unscale_(optimizer)` after `scaler.step(optimizer)`, with or without `update()` in between;
- a second `scaler.step(optimizer)` before `update()`.

The message names the condition under which the code misbehaves. That condition decides how certain the finding is:

- *certain*: always, or with the default values of the program's options;
- *likely*: under one condition that changes during training, or with options of the program whose defaults amplint
  can't see;
- *suspicion*: only with an option that is not at its default, or only under two conditions that change during
  training.

Exception: if only the reported call is under a condition that changes during training (`step % 10 == 0`), the finding
stays *certain*: sooner or later the condition is true.

amplint reports nothing if the two calls can't both run in one iteration (different branches of an `if`), or are for
different optimizers. AMP404 reports an `update()` that is missing before the next iteration.

## Why is this bad?
Without `update()` in between, `unscale_` raises "unscale_() is being called after step().", and a second step raises
"step() has already been called since the last update()." A disabled scaler doesn't raise, so the error stays hidden
until AMP is on.

With `update()` in between, `unscale_` raises nothing. The scaler then takes the gradients of the next backward pass for
unscaled, and steps with them as they are: at the initial scale, that update is 65,536 times too large.

## Example
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.unscale_(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
scaler.step(optimizer)
scaler.update()
```

## Fix safety
Unsafe, as another order may have been intended: the fix removes the second call. After the step `unscale_` is not
needed, as the step has already unscaled the gradients.

There is no fix:

- if gradients are clipped after the late `unscale_`: move both before the step;
- if gradients are clipped before the late `unscale_`, without another `unscale_`: the clip would still use scaled
  gradients;
- if only some paths run the first step.

## Proof
The test programs have no `update()` between the two calls, and raise before the fix. The SGD updates after the fix
agree with a float32 reference step within float16's noise.

## References
- [GradScaler.step](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.fixes.statements import call_removed, own_statement, why_not_removed
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.violations import ViolationKind
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, dominates
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import (
    Misuse,
    calls_of,
    confidence_of,
    fix_at_home,
    one_for_each,
    reached_events,
    when,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("scaler & step(", ".scale( & step( & backward"),
    shown_by=("exception", "gradient", "update"),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each call for an optimizer that the scaler has stepped already."""
    return one_for_each(module, "AMP406", _judge)


def _judge(module: Module, each: Misuse) -> Finding | None:
    step = each.cause
    if step is None or (each.violation.kind is ViolationKind.UNSCALE_AFTER_STEP_AND_UPDATE and _is_forgotten(each)):
        return None
    elsewhere = "the step and this call are in different functions; change their order by hand"
    if _is_a_round_of_its_own(each.flow, each.reached, step):
        elsewhere = "the earlier step is in another function; call `update()` after that step by hand"
    offered, withheld = fix_at_home(module, each, _fix, elsewhere)
    message = _message(each, step, module.line(step.call), is_removed=offered is not None)
    return rule.finding(
        module.span(each.reached.event.call),
        when(module, each) + message,
        fix=offered,
        withheld=withheld,
        confidence=confidence_of(module, each),
    )


def _message(each: Misuse, step: Event, line: str, *, is_removed: bool) -> str:
    reached = each.reached
    if _is_a_round_of_its_own(each.flow, reached, step):
        return (
            f"this `{reached.event.kind}()` raises: `update()` has not run since the step on {line}; call `update()` "
            "after that step"
        )
    if reached.event.kind == "step":
        return (
            f"this second `step()` raises: {line} already stepped the optimizer; step only once before each `update()`"
        )
    if each.violation.kind is ViolationKind.CALL_AFTER_STEP:
        why = f"this `unscale_()` raises: the step on {line} already unscaled the gradients"
        return f"{why}; {'remove this call, or ' if is_removed else ''}call `unscale_()` before the step"
    return (
        f"this `unscale_()` comes after the step on {line}: the next step uses scaled gradients as if they were "
        "unscaled; call `unscale_()` before the step"
    )


def _is_forgotten(each: Misuse) -> bool:
    """Whether an update behind a late unscale_ lets the scaler forget it."""
    behind = [
        event
        for event in calls_of(each.flow, each.violation.scaler, "update", "step")
        if event.call.id > each.violation.at and ir.function_of(event.call) is ir.function_of(each.node)
    ]
    return bool(behind) and behind[0].kind == "update"


def _is_a_round_of_its_own(flow: Flow, reached: EventStates, step: Event) -> bool:
    """Whether a backward stands between two calls whose gradients no other step has used."""
    call = reached.event.call.id
    backwards = [each.event.call.id for each in reached_events(flow, "backward", "opaque")]
    last = max((number for number in backwards if step.call.id < number < call), default=0)
    return bool(last) and not any(last < each.event.call.id < call for each in reached_events(flow, "step"))


def _fix(module: Module, flow: Flow, reached: EventStates, step: Event) -> tuple[Fix | None, str | None]:
    call = reached.event.call
    if reached.event.kind == "unscale_":
        clips = reached_events(flow, "clip")
        if any(each.event.call.id > call.id for each in clips):
            return None, "the clip after `unscale_()` has to move too; move both before the step by hand"
        others = calls_of(flow, str(reached.event.scaler), "unscale_")
        if clips and not any(
            each.call.id < call.id and each.optimizer == reached.event.optimizer and not conditions(each.call, call)
            for each in others
        ):
            return (
                None,
                "`unscale_()` may be meant for the clipping before the step; move `unscale_()` before that clipping",
            )
    if _is_a_round_of_its_own(flow, reached, step):
        return None, "amplint can't tell where `update()` belongs after the first step; add the `update()` by hand"
    if not dominates(step.call, call):
        return None, "on some paths this step is the only step; step once, without a condition"
    scaler = str(reached.event.scaler)
    stepped = {event.optimizer for event in calls_of(flow, scaler, "step")}
    if any(event.optimizer not in stepped for event in calls_of(flow, scaler, "unscale_")):
        return None, "another optimizer is unscaled but never stepped, and this step may be meant for that optimizer"
    edit = call_removed(module, call)
    if edit is None:
        return None, why_not_removed("the call", own_statement(call))
    return Fix(Applicability.UNSAFE, f"Remove this `{reached.event.kind}()`", (edit,)), None
