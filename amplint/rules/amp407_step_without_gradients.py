"""Gradients are cleared between the backward and the scaler's step.

## What it does
Follows each function along its paths and finds a `scaler.step(optimizer)` or `scaler.unscale_(optimizer)` that meets
gradients which `zero_grad()` has cleared since their backward, in the same iteration.

It is silent where another backward may come in between, for another optimizer's or model's gradients, and where the two
stand under conditions of their own.

## Why is this bad?
`zero_grad()` sets gradients to None, so the scaler finds nothing to check: "No inf checks were recorded for this
optimizer." With `set_to_none=False` nothing is said: the step uses zeros, the model stands still (with momentum or Adam
it drifts), and the scaler sees no overflow either.

## Example
```python
scaler.scale(loss).backward()
optimizer.zero_grad()
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
optimizer.zero_grad()
```

## Fix safety
Unsafe: `zero_grad()` moves behind the update (or the step, where no update follows), and the step uses gradients for
the first time. No fix where the two stand in different suites.

## Proof
The fixtures raise before, or their scale never answers an overflow; after, the SGD updates agree with a float32
reference step within float16's noise.

## References
- [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Finding, Fix, Severity
from amplint.model import ir
from amplint.model.events import Event, events
from amplint.model.flow import Flow, flows
from amplint.model.objects import objects
from amplint.model.transfer import Visit
from amplint.rules.base import Rule
from amplint.rules.order import backward_between, calls_of, dominates, independent, loop_of, visits
from amplint.rules.statements import line_behind, own_statement, removed, text_with_comment

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("zero_grad & scaler", "zero_grad & scale("))

# Methods that leave gradients alone.
_HARMLESS = {"item", "append", "parameters", "log", "info", "add_scalar", "set_postfix", "get_last_lr", "get_scale"}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first call of the scaler behind each such clear."""
    for flow in flows(module):
        told: set[int] = set()
        for visit in visits(flow, "unscale_", "step"):
            clear = _clear_before(module, flow, visit)
            if clear is not None and clear.call.id not in told:
                told.add(clear.call.id)
                offered, withheld = _fix(module, flow, visit, clear)
                yield rule.finding(
                    module.span(visit.event.call),
                    f"the gradients were cleared on line {module.row(clear.call)}, behind their backward; clear them "
                    "after the step",
                    fix=offered,
                    withheld=withheld,
                )


def _clear_before(module: Module, flow: Flow, visit: Visit) -> Event | None:
    """The zero_grad that a backward precedes and this call follows, with no other backward in between."""
    use, scaler = visit.event.call, str(visit.event.scaler)
    if not any(state.gradients.kind == "none" and not flow.disabled(scaler, state) for state in visit.states):
        return None
    backwards = [each.event.call for each in visits(flow, "backward", "opaque")]
    for each in visits(flow, "zero_grad"):
        clear = each.event.call
        before = [call for call in backwards if call.id < clear.id and loop_of(call) is loop_of(clear)]
        if (
            clear.id < use.id
            and (before or dominates(clear, use))
            and not backward_between(flow, clear, use)
            and not independent(clear, use)
            and not _may_be_made(module, clear, use)
            and not any(independent(call, clear) for call in before)
            and loop_of(clear) is loop_of(use)
            and _clears(module, each.event, str(visit.event.optimizer))
        ):
            return each.event
    return None


def _may_be_made(module: Module, clear: ir.Node, use: ir.Node) -> bool:
    """Whether gradients are stored between two calls, or something is called there that may do so."""
    for value in module.values:
        if clear.id < value.id < use.id:
            if isinstance(value, ir.Attribute) and value.attr == "grad":
                return True
            if isinstance(value, ir.Call) and events(module).of(value) is None and not _is_harmless(module, value):
                return True
    return False


def _is_harmless(module: Module, call: ir.Call) -> bool:
    names = module.names.of(call.func)
    if all(name.startswith(("torch.", "builtins.", "time.", "math.")) for name in names):
        return True
    return isinstance(call.func, ir.Attribute) and call.func.attr in _HARMLESS


def _clears(module: Module, clear: Event, optimizer: str) -> bool:
    """Whether it is this optimizer's gradients that are cleared: by itself, or by what its parameters are of."""
    if clear.optimizer is None:
        return False
    if clear.optimizer == optimizer:
        return True
    roots = objects(module).owns.get(optimizer, set())
    whole = clear.optimizer
    return bool(roots) and all(root == whole or root.startswith((f"{whole}.", f"{whole}[")) for root in roots)


def _fix(module: Module, flow: Flow, visit: Visit, clear: Event) -> tuple[Fix | None, str | None]:
    statement = own_statement(clear.call)
    scaler = str(visit.event.scaler)
    # Before the next backward, whose gradients the clear would take.
    backwards = [each.event.call.id for each in visits(flow, "backward", "opaque")]
    end = min((number for number in backwards if number > visit.event.call.id), default=math.inf)
    behind = [event.call for event in calls_of(flow, scaler, "update", "step") if clear.call.id < event.call.id < end]
    beside = [each for each in map(own_statement, behind) if each and statement and each.block is statement.block]
    if statement is None or not beside:
        return None, "zero_grad has to move behind the step"
    target = beside[-1]
    gone = removed(module, statement)
    code = text_with_comment(module, statement)
    added = line_behind(module, target, code)
    if gone is None or added is None or "\n" in code:
        return None, "zero_grad has to move behind the step, and shares its line"
    return Fix(Applicability.UNSAFE, "Move it behind the step", tuple(sorted((gone, added)))), None
