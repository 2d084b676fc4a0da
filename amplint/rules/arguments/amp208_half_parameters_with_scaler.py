"""A GradScaler steps an optimizer with float16 parameters.

## What it does
Finds a cast of a whole model to float16, if an enabled scaler then steps the model's optimizer or unscales its
gradients. Casts are `model.half()`, `.to(torch.float16)`, `from_pretrained(..., torch_dtype=torch.float16)`, a loop
over `model.modules()` that casts each, and a function that casts many parameters (`model.convert_to_fp16()`).
The scaler may belong to

- the file (`GradScaler`);
- accelerate's `Accelerator`, if `prepare` gets the model and the optimizer;
- transformers' `Trainer` with `fp16=True`, or a subclass that keeps the steps of `Trainer`.

The finding is a warning, and only `likely`, if another function, or an object that holds the model, creates the
optimizer.

amplint reports nothing if:

- the model, or a part of it that is trained, is cast back before the training ends;
- only single parameters are cast;
- the cast comes after the training;
- something that is built from the model is trained instead, such as peft adapters (unless they are added only with an
  option that is off by default, or are cast with the model later);
- the scaler is a ShardedGradScaler, which supports float16 gradients;
- the optimizer is fused, and `unscale_` is never called for it;
- the cast and the scaler are under conditions that may exclude each other.

## Why is this bad?
float16 parameters get float16 gradients, and the scaler doesn't divide float16 gradients. The first `unscale_` or
`step` raises `ValueError: Attempting to unscale FP16 gradients.` Mixed precision keeps the parameters in float32, and
autocast casts them inside the region.

## Example
```python
model = Net().cuda().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = criterion(model(batch.half()), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
```

## Use instead
```python
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
```

## Fix safety
There is no fix: without the cast the model takes twice the memory, and code outside of the autocast region may need
float16 parameters.

## Proof
The wrong programs raise the ValueError, and the corrected programs train.

## References
- [Typical mixed precision
  training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)
- torch/amp/grad_scaler.py: `_unscale_grads_`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.inference.formulas import TRUE, both, possible
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import OLD_SCALER, SCALER
from amplint.model.usage.frozen_models import wholly_frozen
from amplint.model.usage.module_casts import Cast
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import about_amp, comes_before, constructions
from amplint.rules.shared.framework_scalers import framework_scalers
from amplint.rules.shared.half_models import HalfModel, casts_when, given_to, half_models, scaled_steps
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=(
        "GradScaler & .half(",
        "GradScaler & torch.float16",
        "GradScaler & torch.half",
        "accelerat & torch.float16 & backward",
        "TrainingArguments & transformers & fp16",
    ),
    not_shown="verify's model has float32 parameters",
)

_DISPLAY = Fix(
    Applicability.DISPLAY, "Remove the cast of the model, pass float32 inputs, and run the model under autocast"
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to float16 of a model whose optimizer a scaler steps."""
    for model in half_models(module, "float16"):
        half = model.cast
        for event in scaled_steps(module, model.optimizers):
            before = model.elsewhere or comes_before(module, half.call, half.key, event.call, model.optimizers)
            if before and _can_meet(module, half, event):
                yield rule.finding(
                    module.span(half.call),
                    f"{model.makes} the {model.trained} float16, and the scaler on {module.line(event.call)} raises "
                    f'"Attempting to unscale FP16 gradients"; keep the {model.trained} in float32',
                    fix=_DISPLAY,
                    cause=model.cause,
                    confidence=Confidence.LIKELY if model.adapts or model.doubtful or not model.owned else None,
                )
                break
        else:
            yield from _of_frameworks(module, model)


def _of_frameworks(module: Module, model: HalfModel) -> Iterator[Finding]:
    """The finding of a cast of a model whose gradients a framework's scaler unscales."""
    half, keys = model.cast, {*model.keys}
    if keys & wholly_frozen(module) and not model.has_half:
        return
    cast, made = casts_when(module, half, "float16"), set() if model.optimizers else _made_of(module, keys)
    optimizers = model.optimizers | made
    for each in framework_scalers(module, keys | model.parts, optimizers):
        if keys == {half.key} and not comes_before(module, half.call, half.key, each.at, optimizers):
            continue
        if possible(each.on, cast) is None:
            continue
        sure = (
            each.is_sure
            and not made
            and not model.by_choice
            and not model.doubtful
            and not model.has_half
            and not is_vague(cast)
            and not is_vague(each.on)
        )
        yield rule.finding(
            module.span(half.call),
            f"{model.makes} the {model.trained} float16, and {each.whose} on {module.line(each.at)} raises "
            f'"Attempting to unscale FP16 gradients"; keep the {model.trained} in float32',
            fix=_DISPLAY,
            cause=model.cause,
            confidence=None if sure else Confidence.LIKELY,
        )
        return


def _made_of(module: Module, models: set[str]) -> set[str]:
    """The optimizers that functions make which are given the parameters of some models, in lists and dicts too."""
    known, found = objects(module), set[str]()
    for statement in module.whole.near("optim").statements:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            keys = {key for target in statement.targets if (key := known.is_optimizer(target)) is not None}
            if keys and any(_roots(module, each) & models for each in given_to(statement)):
                found |= keys
    return found


def _roots(module: Module, value: ir.Value, depth: int = 4) -> frozenset[str]:
    """The objects whose parameters are in a value, as far as variables that are bound once lead there."""
    found = objects(module).parameters_roots(value)
    for each in ir.walk_values(value) if depth else ():
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) else None
        if bound is not None:
            found |= _roots(module, bound.value, depth - 1)
    return found


def _can_meet(module: Module, half: Cast, event: Event) -> bool:
    """Whether a path casts the model and runs the scaler, switched on."""
    known = decided(module)
    scaler = receiver(event)
    made = constructions(module, scaler)
    if not made or not all(module.names.of(each.func) <= {SCALER, *OLD_SCALER} for each in made):
        return False
    on, cast = both(known.scaler_on(scaler), known.around(event.call)), casts_when(module, half, "float16")
    if is_vague(on) or is_vague(cast) or (on != TRUE and about_amp(module, cast, on)):
        return False
    return possible(on, cast) is not None
