"""The scaler's step is given a closure, or an optimizer that needs one.

## What it does
Finds `scaler.step(optimizer, closure)` and `scaler.step(optimizer, closure=closure)`, and a step of `torch.optim.LBFGS`
through a scaler.

It is silent where the scaler is switched off or not made in this file (some libraries have scalers that take closures),
and where the second argument is no function of this file that runs a backward.

## Why is this bad?
As a keyword it raises "Closure use is not currently supported if GradScaler is enabled." As a second positional
argument nothing is said: the optimizer runs the closure, whose backward makes gradients that are scaled and that nobody
unscales, and steps 65,536 times too far. LBFGS without its closure raises TypeError.

## Example
```python
scaler.step(optimizer, closure)
```

## Use instead
```python
scaler.scale(closure()).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
There is no fix: an optimizer that evaluates the loss several times has to train without a scaler, in bfloat16 or
float32.

## Proof
The fixtures raise before, or their SGD updates are 65,536 times too large; after, they agree with a float32 reference
step.

## References
- [GradScaler.step](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step): "Closure use is not
  currently supported."
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Finding, Severity
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_callable
from amplint.model.flow.analysis import flows
from amplint.model.flow.event_states import EventStates
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import OLD_SCALER, SCALER
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import always_off, reached_events

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__, __doc__, severity=Severity.ERROR, triggers=("scaler & step(", ".scale( & step("), shown_by=("exception",)
)

_SCALERS = {SCALER, *OLD_SCALER}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step of a scaler that runs a closure, or should."""
    reported: set[int] = set()
    for flow in flows(module):
        for reached in reached_events(flow, "step"):
            # One from elsewhere, or of another class, may take closures.
            made = objects(module).classes_of(str(reached.event.scaler))
            if reached.event.call.id in reported or not made or not made <= _SCALERS or always_off(flow, reached):
                continue
            what = _closure(module, reached)
            if what:
                reported.add(reached.event.call.id)
                yield rule.finding(
                    module.span(reached.event.call),
                    f"{what}; compute loss and backward before, and step without it",
                    withheld="an optimizer that needs its closure has to train without a scaler",
                )


def _closure(module: Module, reached: EventStates) -> str:
    """What the step does with a closure."""
    call = reached.event.call
    assert isinstance(call, ir.Call)
    if call.keyword("closure") is not None:
        return "the scaler refuses a closure"
    if len(call.positional) > 1 and _runs_backward(module, call.positional[1]):
        return "the optimizer runs the closure behind the scaler's back, on gradients that stay scaled"
    made = objects(module).classes_of(str(reached.event.optimizer))
    if made == {"torch.optim.LBFGS"} and len(call.args) == 1:
        return "LBFGS needs a closure, which a scaler does not support"
    return ""


def _runs_backward(module: Module, value: ir.Value) -> bool:
    """Whether a value is a function of this file with a backward in it, or in what it calls there."""
    function = local_callable(module, value)
    if function is None:
        return False
    return any(event.kind in ("backward", "opaque") for event in events(module).below(function.body))
