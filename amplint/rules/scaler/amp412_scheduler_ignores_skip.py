"""A learning rate scheduler steps in each iteration, even if the scaler has skipped the optimizer's step.

## What it does
Finds `scheduler.step()` in the same innermost loop as `scaler.step(optimizer)`, or in the same function if there is no
loop.

amplint reports nothing:

- if a check between the two asks whether the optimizer has stepped;
- if the file has no autocast region that can be float16: in bfloat16 gradients hardly ever overflow;
- if the function reads the scale (`scaler.get_scale()`);
- if the scheduler's step depends on a variable that the loop assigns, which may say whether the step was skipped;
- if the code itself skips `scaler.step` when gradients are not finite;
- if the scheduler gets the epoch or a metric;
- if the scheduler steps once in each epoch;
- if the scaler is disabled.

## Why is this bad?
If gradients overflow, the scaler skips the optimizer's step, but the scheduler steps: the schedule runs ahead of the
optimizer. If the first step is skipped, torch warns "Detected call of `lr_scheduler.step()` before `optimizer.step()`".

Usually only a few steps in thousands are skipped, so the finding is a note, and the rule is off by default. It matters
for a short warm-up, as most skipped steps come at the beginning.

## Example
```python
scaler.step(optimizer)
scaler.update()
scheduler.step()
```

## Use instead
```python
scaler.step(optimizer)
scale_before = scaler.get_scale()
scaler.update()
if scaler.get_scale() >= scale_before:
    scheduler.step()
```

## Fix safety
Unsafe: the schedule gets longer by the skipped steps, and `get_scale()` waits for the device. There is no fix if the
scheduler doesn't step after `update()` in the same function.

## Proof
The test programs start at a scale at which gradients overflow, and turn torch's warning into an error. They raise
before the fix, and don't raise after it.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler): `step` "skips the step" where it
  finds inf or NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.fixes.conditions import guarded
from amplint.fixes.statements import line_before, own_statement, says_the_same
from amplint.model.flow.analysis import Flow, flows
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.nesting import loop_of, skipping
from amplint.registry.rule import Rule
from amplint.rules.shared.scale_reports import reads_scale
from amplint.rules.shared.scaler_order import always_off, calls_of, receiver
from amplint.rules.shared.scaler_usage import maybe_float16, overflows
from amplint.rules.shared.schedulers import Pair, asks_for, pairs

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.NOTE,
    fixes=(Applicability.UNSAFE,),
    triggers=("scaler & sched & step(", ".scale( & sched & step("),
    default=False,
    not_shown="verify doesn't run schedulers",
    about_absence=True,
)

_NAME = "scale_before"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step of a scheduler that counts the steps that were left out, too."""
    unknown = maybe_float16(module)
    doubt = f"if the region on {module.line(unknown.call)} is float16, " if unknown is not None else ""
    for flow in flows(module) if overflows(module) else ():
        for pair in pairs(module, flow, certain=False):
            if reads_scale(module, pair.call) or _is_decided(module, pair) or _never_overflows(flow, pair):
                continue
            if _may_leave_out(flow, pair):
                offered, withheld = _fix(module, flow, pair)
                yield rule.finding(
                    module.span(pair.call),
                    f"{doubt}the scheduler also steps when the scaler skips the optimizer's step: the learning rate "
                    "runs ahead of training; skip the scheduler's step when `update()` lowers the scale",
                    fix=offered,
                    withheld=withheld,
                )


def _may_leave_out(flow: Flow, pair: Pair) -> bool:
    """Whether the scaler can be on at its step, and the step is one of many."""
    in_a_loop = loop_of(pair.call) is not None or isinstance(flow.container, ir.Function)
    return in_a_loop and not always_off(flow, flow.event_states[pair.step.call.id])


def _is_decided(module: Module, pair: Pair) -> bool:
    """Whether the scheduler's step depends on more than there being a scheduler, or a setting.

    What the function or the loop assigns may say whether the optimizer has stepped.
    """
    known = objects(module)
    first, second = sorted((pair.place, pair.call), key=lambda each: each.id)
    around = loop_of(pair.call) or ir.function_of(pair.call)
    changing = set(known.assigned_in(around)) if around is not None else set()
    for each in skipping(first, second, "continue", "break", "return", "raise"):
        test = each.test
        asks = any(isinstance(value, (ir.Call, ir.Walrus)) for value in ir.walk_values(test))
        about = any(known.is_optimizer(value) or known.is_scaler(value) for value in ir.walk_values(test))
        if not asks_for(module, test, pair.call) and (asks or about or known.names_in(test) & changing):
            return True
    return False


def _never_overflows(flow: Flow, pair: Pair) -> bool:
    """Whether what overflowed never gets to the step: the function leaves where the gradients are not finite."""
    return any(
        isinstance(each, ir.If) and each.id < pair.place.id and block_leaves(each.then) and _asks_gradients(each)
        for each in ir.walk_statements(flow.container.body, into=False)
    )


def _asks_gradients(statement: ir.If) -> bool:
    words = [ir.last_name(each).lower() for each in ir.walk_values(statement.test)]
    return any(word in each for each in words for word in ("finite", "isnan", "isinf")) and not any(
        "loss" in each for each in words
    )


def _fix(module: Module, flow: Flow, pair: Pair) -> tuple[Fix | None, str | None]:
    """Read the scale before the update, and step the scheduler where it has not become smaller."""
    refusal = "amplint can't insert this check; compare `get_scale()` before and after `update()` by hand"
    statement = own_statement(pair.call)
    updates = [
        event
        for event in calls_of(flow, str(pair.step.scaler), "update")
        if pair.step.call.id < event.call.id < pair.call.id and loop_of(event.call) is loop_of(pair.call)
    ]
    if not updates:
        return None, "the scheduler steps before `update()`; move the scheduler's step after `update()` by hand"
    update = own_statement(updates[0].call) if len(updates) == 1 else None
    if statement is None or update is None or update.value is not updates[0].call or _NAME in module.source.text:
        return None, refusal
    top: ir.Statement = statement
    while top.block is not update.block:
        if not isinstance(top.parent, ir.If) or not asks_for(module, top.parent.test, pair.call):
            return None, refusal
        top = top.parent
    scaler = receiver(updates[0])
    if not says_the_same(module, scaler, update, statement):
        return None, refusal
    before = line_before(module, update, f"{_NAME} = {module.text(scaler)}.get_scale()")
    guard = guarded(module, statement, f"{module.text(scaler)}.get_scale() >= {_NAME}")
    if before is None or guard is None:
        return None, refusal
    title = "Step the scheduler only if `update()` didn't lower the scale (the schedule gets longer by skipped steps)"
    return Fix(Applicability.UNSAFE, title, (before, guard)), None
