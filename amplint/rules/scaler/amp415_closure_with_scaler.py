"""The scaler's step gets a closure, or an optimizer that needs one.

## What it does
Finds:

- `scaler.step(optimizer, closure=...)`, also with `closure=None`;
- `scaler.step(optimizer, closure)`, if the closure is a function of this file that runs a backward pass. The closure
  may also be made by `partial` or by another function;
- `scaler.step(optimizer)` for `torch.optim.LBFGS`, which needs a closure.

If the scaler is not created in this file, it may be one of a library that takes closures: amplint then reports only
`closure=`, and only as *likely*.

amplint reports nothing if the scaler is disabled.

## Why is this bad?
- `closure=...` raises "Closure use is not currently supported if GradScaler is enabled."
- A closure as the second positional argument raises nothing. The optimizer runs the closure, whose backward pass
  computes scaled gradients, and nothing unscales them: at the initial scale, SGD's update is 65,536 times too large. If
  the closure doesn't scale the loss, small gradients become 0 in float16.
- LBFGS without a closure raises TypeError.

## Example
```python
def closure():
    loss = criterion(model(batch), target)
    loss.backward()
    return loss

scaler.step(optimizer, closure)
```

## Use instead
```python
loss = criterion(model(batch), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
There is no fix: amplint can't tell whether the optimizer needs its closure. One that does, such as LBFGS, has to train
without a scaler, in bfloat16 or float32.

## Proof
The wrong programs raise, or their gradients or SGD updates are too large by the scale: by 65,536, or by the program's
own scale. The updates of the corrected programs agree with a float32 reference step.

## References
- [GradScaler.step](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step): "Closure use is not
  currently supported."
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_callable
from amplint.model.flow.analysis import flows
from amplint.model.flow.event_states import EventStates
from amplint.model.inference.constructions import constructions
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Defined
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import OLD_SCALER, SCALER
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import always_off, reached_events, receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=("scaler & step(", ".scale( & step("),
    shown_by=("exception",),
)

_SCALERS = {SCALER, *OLD_SCALER}


_LBFGS = "torch.optim.LBFGS"
_RAISES = "the scaler's `step()` raises if it gets `closure`, even `closure=None`"
_NEEDED = "LBFGS needs a closure, and the scaler's `step()` takes no closure"
_ALONE = "train without the scaler, in bfloat16 or float32"
_FIRST = "run the closure's backward pass before `step()`, and pass no closure"
_REMOVE = "all of the training has to do without the scaler; change that by hand"
_NONE = "pass no closure"
_NEEDS = "amplint can't tell whether the optimizer works without its closure"
_BY_HAND = "amplint has no fix for closures; remove the argument by hand"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step of a scaler that runs a closure, or should."""
    reported: set[int] = set()
    for flow in flows(module):
        for reached in reached_events(flow, "step"):
            # One from elsewhere, or of another class, may take closures.
            made = _made_by(module, reached)
            if reached.event.call.id in reported or not made <= _SCALERS or always_off(flow, reached):
                continue
            what = _closure(module, reached)
            if what and (made or what is _RAISES):
                reported.add(reached.event.call.id)
                is_lbfgs, is_none = _is_lbfgs(module, reached), _is_none(reached)
                yield rule.finding(
                    module.span(reached.event.call),
                    f"{what}; {_ALONE if is_lbfgs else _NONE if is_none else _FIRST}",
                    withheld=_REMOVE if is_lbfgs else _BY_HAND if is_none else _NEEDS,
                    confidence=Confidence.CERTAIN if made else Confidence.LIKELY,
                )


def _made_by(module: Module, reached: EventStates) -> set[str]:
    """The names of what the scaler is made by, which a parameter gets from those who call its function."""
    made = objects(module).classes_of(str(reached.event.scaler))
    calls = () if made else constructions(module, receiver(reached.event))
    return made or {
        name for call in calls if not is_false(call.keyword("enabled")) for name in module.names.of(call.func)
    }


def _closure(module: Module, reached: EventStates) -> str:
    """What the step does with a closure."""
    call = reached.event.call
    assert isinstance(call, ir.Call)
    if call.keyword("closure") is not None:
        return _RAISES
    kinds = _kinds(module, call.positional[1]) if len(call.positional) > 1 else set()
    if "scale" in kinds or "opaque" in kinds:
        return "the optimizer runs the closure itself, and steps on the closure's gradients without unscaling them"
    if "backward" in kinds:
        return (
            "the optimizer runs the closure itself, whose loss is not scaled: small gradients become 0, and nothing "
            "checks for inf"
        )
    return _NEEDED if _is_lbfgs(module, reached) and len(call.args) == 1 else ""


def _is_none(reached: EventStates) -> bool:
    """Whether the closure is None, as it is written."""
    call = reached.event.call
    given = call.keyword("closure") if isinstance(call, ir.Call) else None
    return given is not None and ir.is_none(given)


def _is_lbfgs(module: Module, reached: EventStates) -> bool:
    """Whether the optimizer is one that does nothing without a closure."""
    return objects(module).classes_of(str(reached.event.optimizer)) == {_LBFGS}


def _kinds(module: Module, value: ir.Value) -> set[str]:
    """The kinds of the events in a value that is a function of this file."""
    functions = _functions(module, value)
    return {event.kind for function in functions for event in events(module).below(function.body)}


def _functions(module: Module, value: ir.Value, depth: int = 3) -> Iterator[ir.Function]:
    """The functions of this file that a value can be: by its name, by `partial`, or as a function returns them."""
    function = local_callable(module, value)
    if function is not None:
        yield function
        return
    for binding in module.names.bindings(value) if isinstance(value, ir.Name) else ():
        if isinstance(binding, Defined) and isinstance(binding.what, ir.Function):
            yield binding.what
    for leaf in values_of(module, value).leaves if depth else ():
        made = leaf.value
        if not isinstance(made, ir.Call):
            found = [made] if made is not value else []
        elif module.names.of(made.func) == {"functools.partial"}:
            found = [*made.positional[:1]]
        else:
            factory = local_callable(module, made.func)
            found = [each.value for each in returned(factory) if each.value is not None] if factory is not None else []
        for each in found:
            yield from _functions(module, each, depth - 1)
