"""A model in training is cast to half precision in place: its float32 weights are rounded.

## What it does
Finds a cast such as `model.half()` or `model.to(torch.bfloat16)` in a loop that trains the model, in a function that
the loop calls with the model, or in a method of the object that trains it. These casts count, too:

- one while saving: `torch.save(model.half().state_dict(), path)`;
- one of the model without its wrapper: `accelerator.unwrap_model(model).to(torch.float16)`;
- one of a pipeline of diffusers that has the model: `Pipeline.from_pretrained(name, unet=model).to(torch.float16)`;
- one of a frozen model with adapters, which are trained.

There are two cases:

- the model is cast back to float32 later in the same function, such as after a validation or after saving;
- the model stays in half precision, and the loop trains it further. This finding is only `likely`.

amplint reports nothing:

- about a copy (`copy.deepcopy(model).half()`), and about a model or a trainer that is created in each iteration;
- if nothing is trained after the cast;
- about models for which amplint sees no optimizer, such as frozen ones and moving averages;
- if the model has been in half precision since before the loop: that is AMP208 or AMP217;
- about `from_pretrained(name, unet=model, torch_dtype=torch.float16)`, which doesn't cast the model that it is given.

## Why is this bad?
`half()` and `to()` of a module change its parameters in place. `float()` makes the parameters float32 again, but
doesn't restore the lost digits. Each cast loses what the optimizer changed since the last cast, if the change is less
than about 0.05 % of the weight (bfloat16: 0.4 %). With a low learning rate the model stops improving. If the model
stays in float16, and a scaler is used, the next step raises `ValueError: Attempting to unscale FP16 gradients.`

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
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers, passed_by
from amplint.model.inference.dtypes import HALF, dtypes
from amplint.model.inference.formulas import contradict
from amplint.model.inference.value_sets import decided
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import is_own_attribute, variable_parts
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.nesting import loops_round
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.usage.frozen_models import frozen
from amplint.model.usage.module_casts import (
    LOADS,
    Cast,
    casts,
    casts_handed_on,
    dtype_of,
    is_made_anew,
    is_made_in,
)
from amplint.model.usage.whole_models import put_together, unwrapped
from amplint.registry.rule import Rule
from amplint.rules.shared.adapters import has_adapters
from amplint.rules.shared.half_models import adapters_stay, cause_of, stays, trained_by

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


class _Place(NamedTuple):
    """Where a cast is reached: by itself, or by a call that leads to it; `key`: the model's, as it is called there.

    `inside`: what is cast is a pipeline that has the model, or is the model without what wraps it.
    """

    key: str
    at: ir.Call
    inside: bool


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to half precision of a model that is trained before it and after it."""
    every, met = casts(module), set[tuple[str, int]]()
    for half in sorted((*every, *casts_handed_on(module)), key=lambda each: each.call.id):
        names = _half_types(module, half)
        if not names or not module.is_own(half.call):
            continue
        place, loop = _trained_at(module, half) or (None, None)
        if place is None or loop is None or _is_half_before(module, half, place, loop):
            continue
        if place.inside and (place.key, loop.id) in met:
            continue  # a pipeline that has it
        met.add((place.key, loop.id))
        back = next((each for each in every if _casts_back(module, half, each, place, loop)), None)
        dtype = " or ".join(names)
        if back is not None:
            yield rule.finding(
                module.span(half.call),
                f"this cast rounds the trained weights to {dtype}, and the cast back on {module.line(back.call)} "
                "can't restore them: small updates are lost; cast a copy of the model, or use autocast",
                withheld="amplint can't tell whether to cast a copy or to use autocast",
            )
        elif _trains_before(module, place.at, loop) and not _ends(place.at, loop):
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


def _casts_back(module: Module, half: Cast, other: Cast, place: _Place, loop: ir.For | ir.While) -> bool:
    """Whether another cast makes the same model float32 again, later in the same function, and in the loop."""
    known = decided(module)
    return (
        other.key in {half.key, place.key}
        and other.dtype == "float32"
        and other.call.id > half.call.id
        and ir.function_of(other.call) is ir.function_of(half.call)
        and (place.at is not half.call or loop in loops_round(other.call))
        and not contradict(known.inside(half.call), known.inside(other.call))
    )


def _trained_at(module: Module, half: Cast) -> tuple[_Place, ir.For | ir.While] | None:
    """The loop that trains the model of a cast and reaches the cast, and what reaches it there."""
    calls = module.once(CallGraph)
    for place in _places(module, half):
        is_frozen = place.key in frozen(module) and not has_adapters(module, frozenset({place.key}))
        if is_frozen or not trained_by(module, place.key):
            continue
        for loop in loops_round(place.at):
            if place.inside and (place.at is half.call or not is_own_attribute(place.key)):
                is_new = is_made_in(module, place.key, loop)  # the pipeline that has it may be made each time
            else:
                is_new = is_made_anew(module, place.key, place.at, loop)
            if calls.trains(loop.body) and not is_new:
                return place, loop
    return None


def _places(module: Module, half: Cast) -> list[_Place]:
    """A cast and the calls that lead to it, each with the key of the model there: what a call gives for a parameter, or
    the attribute of the object whose methods they are in.
    """
    known = objects(module)
    loads = ir.last_name(half.call.func) in LOADS  # a pipeline doesn't cast what it is given
    root = ir.before_calls(half.call, *RETURNS_ITSELF)
    places = [_Place(half.key, half.call, False)]
    if root is not None and not loads:
        places += [each for each in _inside(module, root, half.call) if each.key != half.key]
    for place in places:  # grows
        parameter = _parameter(module, place.key)
        if len(places) >= _MANY:
            break
        found = list[_Place]()
        if parameter is not None:
            for call, value in passed_by(module, *parameter):
                key = known.key(value) if value is not None else None
                found += [_Place(key, call, place.inside)] if key is not None else []
                found += _inside(module, value, call) if value is not None and not loads else []
        elif is_own_attribute(place.key):
            calls = callers(module, ir.function_of(place.at))
            found = [_Place(place.key, call, place.inside) for call in calls]
        met = {(each.key, each.at) for each in places}
        places += [each for each in found if (each.key, each.at) not in met]
    return places


def _parameter(module: Module, key: str) -> tuple[ir.Function, str] | None:
    """The function of which a variable is a parameter, that is at most moved or cast there, and its name."""
    parts = variable_parts(key)
    functions = [each for one in objects(module).bindings_of(key) if (each := ir.parameter_of(one)) is not None]
    if parts is None or len(functions) != 1 or not stays(module, key):
        return None
    return functions[0], parts[1]


def _inside(module: Module, value: ir.Value, at: ir.Call) -> list[_Place]:
    """The models that a value has or wraps: a cast of a pipeline is one of its models, too."""
    found, values = list[str](), [value, *put_together(module, value)]
    for each in values:  # grows
        bare = ir.before_calls(each, *RETURNS_ITSELF)
        inner = unwrapped(module, bare) if bare is not None else each
        key = objects(module).key(inner)
        found += [key] if key is not None and key not in found else []
        if isinstance(inner, ir.Name) and len(values) < _MANY:
            values += [one.value for one in reaching(module.names, inner) if isinstance(one, ir.Assigned)]
    return [_Place(key, at, True) for key in found]


def _is_half_before(module: Module, half: Cast, place: _Place, loop: ir.For | ir.While) -> bool:
    """Whether the model is cast to half precision before the loop already, and its adapters with it."""
    keys = {place.key} if place.inside else {half.key, place.key}
    return any(
        each.key in keys
        and _half_types(module, each)
        and (_trained_at(module, each) or (None, None))[1] is not loop
        and not adapters_stay(module, place.key, each.call)
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
