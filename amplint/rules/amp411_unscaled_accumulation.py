"""The scaler steps on every micro step, and gradients are cleared at the boundary only.

## What it does
Finds, in a loop that accumulates gradients, a `scaler.step` (or `unscale_` with an `update`) that runs in each
iteration while every `zero_grad()` waits for `(i + 1) % k == 0`.

It is silent where gradients are cleared in each iteration, in whatever way, or where the step waits as well.

## Why is this bad?
The step has divided the gradients by the scale. The next backward adds scaled ones to them, and the next step divides
the sum once more: what was accumulated before is lost, and weights move on every micro step by a part of the gradient.

## Example
```python
scaler.scale(loss / k).backward()
scaler.step(optimizer)
scaler.update()
if (i + 1) % k == 0:
    optimizer.zero_grad()
```

## Use instead
```python
scaler.scale(loss / k).backward()
if (i + 1) % k == 0:
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
```

## Fix safety
There is no fix: what else belongs to the boundary (clipping, the scheduler) is yours to say.

## Proof
The fixtures compare SGD updates with a float32 reference step.

## References
- [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Finding, Severity
from amplint.model import ir
from amplint.model.events import Event, is_grad
from amplint.model.flow import Flow, flows
from amplint.model.objects import objects
from amplint.model.transfer import Visit
from amplint.rules.base import Rule
from amplint.rules.order import conditions, counts, exclusive, loop_of, upwards, visits

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("zero_grad & scaler & %", "zero_grad & scale( & %"))


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first use of the gradients in each such loop."""
    for flow in flows(module):
        told: set[tuple[int, str | None]] = set()
        for visit in visits(flow, "unscale_", "step"):
            loop = loop_of(visit.event.call)
            if loop is None or (loop.id, visit.event.optimizer) in told:
                continue
            if _adds_to_unscaled(module, flow, visit, loop):
                told.add((loop.id, visit.event.optimizer))
                yield rule.finding(
                    module.span(visit.event.call),
                    "gradients are unscaled on every micro step, but cleared at the boundary only: the next scaled "
                    "ones are added to them; unscale, step and update where they are cleared",
                    withheld="what belongs to the boundary is yours to say",
                )


def _adds_to_unscaled(module: Module, flow: Flow, visit: Visit, loop: ir.For | ir.While) -> bool:
    call, scaler = visit.event.call, str(visit.event.scaler)
    inside = [
        each
        for each in visits(flow, "zero_grad", "backward", "opaque", "update")
        if loop in upwards(ir.statement_of(each.event.call))
    ]
    clears = [
        each.event.call
        for each in inside
        if each.event.kind == "zero_grad" and _may_clear(module, each.event, str(visit.event.optimizer))
    ]
    kinds = {each.event.kind for each in inside}
    enabled = any(state.gradients.kind == "scaled" and not flow.disabled(scaler, state) for state in visit.states)
    if not clears or "opaque" in kinds or not {"backward", "update"} <= kinds or not enabled:
        return False
    backwards = [each.event.call for each in inside if each.event.kind == "backward"]
    if any(conditions(call, backward) for backward in backwards):
        return False
    if any(exclusive(one, other) for one in clears for other in clears):  # one arm or the other
        return False
    updates = [each.event.call for each in inside if each.event.kind == "update"]
    return (
        all(counts(flow, conditions(clear, call)) for clear in clears)
        # Where the update waits, the second unscale_ raises: AMP405.
        and not any(counts(flow, conditions(update, call)) for update in updates)
        and not _clears_by_hand(loop)
    )


def _may_clear(module: Module, clear: Event, optimizer: str) -> bool:
    """Whether a zero_grad is the optimizer's own, or a model's."""
    return clear.optimizer == optimizer or clear.optimizer not in objects(module).optimizers


def _clears_by_hand(loop: ir.For | ir.While) -> bool:
    """Whether gradients are stored, deleted or changed in place."""
    for statement in ir.walk_statements(loop.body, into=False):
        stored = statement.targets if isinstance(statement, (ir.Assign, ir.Delete)) else ()
        if any(is_grad(value) for target in stored for value in ir.walk_values(target)):
            return True
    return any(
        isinstance(value, ir.Call)
        and isinstance(value.func, ir.Attribute)
        and is_grad(value.func.base)
        and value.func.attr.endswith("_")
        for value in ir.values_below(loop.body)
    )
