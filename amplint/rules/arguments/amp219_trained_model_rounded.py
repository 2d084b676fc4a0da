"""A model in training is cast to half precision in place: its float32 weights are rounded.

## What it does
Finds a cast such as `model.half()` or `model.to(torch.bfloat16)` in a loop that trains the model, in a function that
the loop calls with the model, or in a method of the object that trains it. A cast while saving counts, too:
`torch.save(model.half().state_dict(), path)`. There are two cases:

- the model is cast back to float32 later in the same function, such as after a validation or after saving;
- the model stays in half precision, and the loop trains it further. This finding is only `likely`.

amplint reports nothing:

- about a copy (`copy.deepcopy(model).half()`), and about a model or a trainer that is created in each iteration;
- if nothing is trained after the cast;
- about models for which amplint sees no optimizer, such as frozen ones and moving averages;
- if the model has been in half precision since before the loop: that is AMP208 or AMP217.

## Why is this bad?
`half()` and `to()` of a module change its parameters in place. `float()` makes the parameters float32 again, but
doesn't restore the lost digits. Each cast loses what the optimizer changed since the last cast, if the change is less
than about 0.05 % of the weight (bfloat16: 0.4 %). With a low learning rate the model stops improving.

## Example
```python
for epoch in range(epochs):
    train_one_epoch(model, optimizer, loader)
    model.half()
    evaluate(model, validation_loader)
    model.float()
```

## Use instead
```python
for epoch in range(epochs):
    train_one_epoch(model, optimizer, loader)
    with torch.autocast("cuda", dtype=torch.float16):
        evaluate(model, validation_loader)
```

## Fix safety
There is no fix: amplint can't tell whether to cast a copy (`copy.deepcopy(model).half()`) or to use an autocast region.

## Proof
The test programs are not executed (`shows=none`): each step is right, and only the weights after the cast are wrong. A
test of amplint casts weights to half precision and back with torch.

## References
- [Module.half](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.half)
- [Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to): "modifies the
  module in-place"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers, passed_by
from amplint.model.inference.dtypes import HALF, dtypes
from amplint.model.inference.formulas import contradict
from amplint.model.inference.value_sets import decided
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import is_own_attribute
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.nesting import loops_round
from amplint.model.usage.frozen_models import frozen
from amplint.model.usage.module_casts import Cast, casts, dtype_of, is_made_anew
from amplint.registry.rule import Rule
from amplint.rules.shared.half_models import cause_of

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(
        "torch & .half( & optim",
        "torch & .bfloat16( & optim",
        "torch & .to( & float16 & optim",
        "torch & .to( & torch.half & optim",
    ),
    not_shown="each step is right, and the cast between the steps rounds the weights",
)

_MANY = 16  # calls that lead to a cast


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to half precision of a model that is trained before it and after it."""
    every = casts(module)
    for half in every:
        names = _half_types(module, half)
        if not names or not module.is_own(half.call):
            continue
        back = next((each for each in every if _casts_back(module, half, each)), None)
        place, loop = _trained_at(module, half) or (half.call, None)
        if loop is None or _is_half_before(module, half, loop):
            continue
        dtype = " or ".join(names)
        if back is not None:
            yield rule.finding(
                module.span(half.call),
                f"this cast rounds the trained weights to {dtype}, and the cast back on {module.line(back.call)} "
                "can't restore them: small updates are lost; cast a copy of the model, or use autocast",
                withheld="amplint can't tell whether to cast a copy or to use autocast",
            )
        elif _trains_before(module, place, loop) and not _ends(place, loop):
            yield rule.finding(
                module.span(half.call),
                f"this casts the model to {dtype} during training: the next iterations train rounded weights, and "
                "small updates are lost; cast a copy of the model, or use autocast",
                withheld="amplint can't tell whether to cast a copy or to use autocast",
                cause=cause_of(half),
                confidence=Confidence.LIKELY,
            )


def _half_types(module: Module, cast: Cast) -> list[str]:
    """The half types that a cast can be to."""
    if cast.dtype is not None:
        return [cast.dtype] if cast.dtype in HALF else []
    given = dtype_of(module, cast.call)
    return [name for name in HALF if given is not None and any(each.name == name for each in dtypes(module, given))]


def _casts_back(module: Module, half: Cast, other: Cast) -> bool:
    """Whether another cast makes the same model float32 again, later in the same function."""
    known = decided(module)
    return (
        other.key == half.key
        and other.dtype == "float32"
        and other.call.id > half.call.id
        and ir.function_of(other.call) is ir.function_of(half.call)
        and not contradict(known.inside(half.call), known.inside(other.call))
    )


def _trained_at(module: Module, half: Cast) -> tuple[ir.Call, ir.For | ir.While] | None:
    """The loop that trains the model of a cast and reaches the cast, and what reaches it there: the cast itself, or the
    call that leads to it.
    """
    known, calls = objects(module), module.once(CallGraph)
    for key, place in _places(module, half):
        if not known.owned_by(key) or key in frozen(module):
            continue
        for loop in loops_round(place):
            if calls.trains(loop.body) and not is_made_anew(module, key, place, loop):
                return place, loop
    return None


def _places(module: Module, half: Cast) -> list[tuple[str, ir.Call]]:
    """A cast and the calls that lead to it, each with the key of the model there: what a call gives for a parameter, or
    the attribute of the object whose methods they are in.
    """
    known = objects(module)
    places = [(half.key, half.call)]
    for key, place in places:  # grows
        parameter = known.parameter_of(key)
        if len(places) >= _MANY:
            break
        if parameter is not None:
            given = passed_by(module, *parameter)
            found = [(inner, call) for call, value in given if value is not None and (inner := known.key(value))]
        elif is_own_attribute(key):
            found = [(key, call) for call in callers(module, ir.function_of(place))]
        else:
            continue
        places += [each for each in found if each not in places]
    return places


def _is_half_before(module: Module, half: Cast, loop: ir.For | ir.While) -> bool:
    """Whether the model is cast to half precision before the loop already."""
    return any(
        each.key == half.key
        and _half_types(module, each)
        and (_trained_at(module, each) or (None, None))[1] is not loop
        for each in casts(module)
        if each.call is not half.call and each.call.id < half.call.id
    )


def _trains_before(module: Module, place: ir.Call, loop: ir.For | ir.While) -> bool:
    """Whether the loop trains before it casts: else its first cast comes before all training."""
    calls, at = module.once(CallGraph), ir.statement_of(place)
    events_before = [each for each in ir.walk_statements(loop.body) if each.id < at.id]
    for each in events_before:
        for root in each.values():
            for value in ir.walk_values(root):
                if isinstance(value, ir.Call) and ir.last_name(value.func) in ("backward", "step"):
                    return True
                callee = calls.callee(value) if isinstance(value, ir.Call) else None
                if callee is not None and calls.trains(callee.function.body):
                    return True
    return False


def _ends(call: ir.Call, loop: ir.For | ir.While) -> bool:
    """Whether the loop ends after the cast: by a `break` or `return` of the suites around it."""
    at: ir.Node | None = ir.statement_of(call)
    while isinstance(at, ir.Statement) and at is not loop:
        if block_leaves(at.block):
            last = at.block.statements[-1]
            if not (isinstance(last, ir.Jump) and last.kind == "continue"):
                return True
        at = at.parent
    return False
