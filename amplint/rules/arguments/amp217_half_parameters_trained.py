"""An optimizer trains parameters that are in half precision, without a copy in float32.

## What it does
Finds a model that is cast to float16 or bfloat16 as a whole (`model.half()`, `.to(torch.bfloat16)`,
`from_pretrained(..., torch_dtype=torch.float16)`), if an optimizer of torch.optim steps its parameters without a
scaler.

For float16 the finding is an error. For bfloat16 the finding is a warning: likely with Adam or a similar optimizer and
a learning rate of at most 1e-4, otherwise a suspicion.

amplint reports nothing:

- if the model, or a part of it, is cast back, or only single parameters are cast;
- if the cast comes after the training, or the model is frozen, or the trained model comes from a function of another
  file;
- if adapters are trained (peft), unless they are those of another model;
- if DeepSpeed, FSDP or apex is imported, which can keep float32 copies.

If a scaler steps the optimizer, AMP208 reports the cast.

## Why is this bad?
A weight has 11 significant bits in float16, and 8 in bfloat16: an update that is less than about 1/2048 of the weight
(in bfloat16, 1/256) is rounded away, and most updates are so small. In float16 the `eps` of Adam, 1e-8, is 0 as well:
where a square of a gradient is 0, Adam divides by 0, and the weight becomes NaN or infinite in the first steps. Small
gradients are 0, because no scaler scales the loss. In a small network (200 steps, cross entropy) all weights became NaN
with Adam in float16; in bfloat16 3 % of the weights changed with a learning rate of 1e-5, 22 % with 1e-4, and all with
1e-3. Mixed precision keeps the parameters in float32, and casts in the autocast region.

## Example
```python
model = Net().cuda().half()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
loss = criterion(model(inputs.half()), targets)
loss.backward()
optimizer.step()
```

## Use instead
```python
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(inputs), targets)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
There is no fix: without the cast the model takes twice the memory, and inputs that are cast to the model's dtype have
to change as well.

## Proof
The loss of the wrong programs becomes NaN or hardly changes, and the loss of the corrected programs falls as in
float32. The test program for the suspicion is not executed (shows=none): it needs a command line.

## References
- [Automatic mixed precision: adding GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
- [Mixed Precision Training (Micikevicius et al.)](https://arxiv.org/abs/1710.03740): a float32 copy of the weights
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.inference.formulas import both, possible
from amplint.model.inference.numbers import number
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.text_scan import code_of
from amplint.model.usage.frozen_models import frozen
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import number_by_default
from amplint.rules.shared.enabled_flags import comes_before
from amplint.rules.shared.framework_scalers import framework_scalers
from amplint.rules.shared.half_models import (
    HalfModel,
    also_as,
    also_returned,
    casts_when,
    half_models,
    may_be_fused,
    scaled_steps,
)
from amplint.rules.shared.lightning import Setup, setups

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=(
        "torch & .half( & optim & backward",
        "torch & float16 & optim & backward",
        "torch & torch.half & optim & backward",
        "lightning & 16-true",
    ),
    not_shown="verify's model has float32 parameters",
)

# What keeps float32 copies of the parameters: engines that are imported or asked for, and optimizers that wrap another.
_KEEPS_COPIES = re.compile(
    r"(?im)^[ \t]*(?:from|import)[ \t][^#\r\n]*(?:deepspeed|fsdp|apex|fairscale)"
    r"|\bdeepspeed\w*[ \t]*=|FP16_Optimizer|master_param"
)
# The precisions of Lightning that cast the model as a whole (lightning/fabric/plugins/precision/half.py).
_TRUE_HALF = {"16-true": "float16", "bf16-true": "bfloat16"}
_ADAPTIVE = re.compile(r"Adam|NAdam|RAdam|RMSprop|Adagrad")
# Of what a weight of 0.05 is in bfloat16, an update of this size is less than half a step.
_SMALL_RATE = 1e-4
# Methods of a tensor that give another one.
_COPY = ("float", "double", "to", "clone", "type")
_PARAMETERS = ("parameters", "named_parameters")
# What is less is 0 in float16.
_LEAST_FLOAT16 = 2.0**-25


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to half precision of a model whose parameters an optimizer steps."""
    yield from _of_lightning(module)
    models = [*half_models(module, "float16"), *half_models(module, "bfloat16")]  # a dtype that is chosen may be either
    if not models or any(_KEEPS_COPIES.search(code_of(text)) for text in module.texts):
        return
    for model in models:
        if model.adapts or model.keys & frozen(module):
            continue
        made = _made(module, model)
        stepped = {key for _, keys in made for key in keys} or model.beside
        if not stepped or next(scaled_steps(module, {*stepped}), None) is not None:
            continue
        if model.dtype == "float16" and next(framework_scalers(module, {*model.keys}, {*stepped}), None) is not None:
            continue  # it raises, as AMP208 says
        step = _step(module, model, stepped)
        if step is not None:
            yield _finding(module, model, made[0][0] if made else None, step)


def _of_lightning(module: Module) -> Iterator[Finding]:
    """Each Trainer or Fabric that trains a model that it casts to half precision, or does so by default."""
    for each in setups(module):
        kept = {*objects(module).assigned_to(each.call)}
        precision = each.by_default(module)
        dtype = _TRUE_HALF.get(precision) if isinstance(precision, str) else None
        if dtype is None or each.precision is None or not _is_trained_by(module, each, kept):
            continue
        made = next(iter(module.calls_of("torch.optim.*")), None)
        is_sure = each.precisions(module) == {precision}
        consequence, confidence, _ = _consequence(module, dtype, made, is_sure=is_sure)
        mixed = precision.replace("true", "mixed") if isinstance(precision, str) else ""
        yield rule.finding(
            module.span(each.precision),
            f'"{precision}" makes the parameters {dtype}{"" if is_sure else " by default"}, without a copy in float32: '
            f'{consequence}; use "{mixed}"',
            severity=Severity.WARNING if dtype == "bfloat16" else None,
            confidence=confidence,
        )


def _is_trained_by(module: Module, setup: Setup, kept: set[str]) -> bool:
    """Whether a Trainer or Fabric with some keys trains: `trainer.fit(...)`, `fabric.backward(loss)`."""
    method = "fit" if setup.what == "Trainer" else "backward"
    known = objects(module)
    bases = (ir.called_on(each, method) for each in module.whole.near(method).calls)
    return any(base is not None and (base is setup.call or known.key(base) in kept) for base in bases)


def _made(module: Module, model: HalfModel) -> list[tuple[ir.Call, set[str]]]:
    """The calls that create optimizers of torch with a model's parameters, each with their keys."""
    known = objects(module)
    made = [
        (call, {*known.stored_as(call)} & model.owned)
        for call in module.calls_of("torch.optim.*")
        if not _copies(module, argument(call, "torch.optim.Optimizer", "params"))
    ]
    return [(call, also_returned(module, call, keys)) for call, keys in made if keys]


def _copies(module: Module, params: ir.Value | None, depth: int = 4) -> bool:
    """Whether what an optimizer gets may be copies of parameters: `[each.detach().float() for each in ...]`."""
    values = list(ir.walk_values(params)) if params is not None else []
    models = [base for each in values if (base := ir.called_on(each, *_PARAMETERS)) is not None]
    of_models = {inside.id for each in models for inside in ir.walk_values(each)}  # `Net().half()` copies nothing
    for each in values:
        if each.id in of_models:
            continue
        if ir.called_on(each, *_COPY) is not None:
            return True
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) and depth else None
        if bound is not None and _copies(module, bound.value, depth - 1):
            return True
    return False


def _step(module: Module, model: HalfModel, optimizers: Collection[str]) -> ir.Call | None:
    """A call that steps one of some optimizers once the model is cast."""
    known, decisions = objects(module), decided(module)
    cast = casts_when(module, model.cast, model.dtype)
    for call in module.whole.near("step").calls:
        base = ir.called_on(call, "step")
        key = known.key(base) if base is not None else None
        if key is None or also_as(module, key).isdisjoint(optimizers):
            continue
        before = model.elsewhere or comes_before(module, model.cast.call, model.cast.key, call, {*optimizers})
        around = both(cast, decisions.around(call))
        if before and not is_vague(cast) and possible(around) is not None:
            return call
    return None


def _finding(module: Module, model: HalfModel, made: ir.Call | None, step: ir.Call) -> Finding:
    """The finding of a cast; `made` creates the optimizer, and `step` is the one that trains."""
    is_sure = made is not None and model.cast.dtype == model.dtype and not model.kept
    consequence, confidence, advice = _consequence(module, model.dtype, made, is_sure=is_sure)
    trains = f"the optimizer on {module.line(made)}" if made is not None else f"the step on {module.line(step)}"
    return rule.finding(
        module.span(model.cast.call),
        f"this cast makes the parameters {model.dtype}{model.under}, and {trains} trains them: {consequence}; {advice}",
        severity=Severity.WARNING if model.dtype == "bfloat16" else None,
        cause=model.cause,
        confidence=confidence,
    )


def _consequence(module: Module, dtype: str, made: ir.Call | None, *, is_sure: bool) -> tuple[str, Confidence, str]:
    """What happens to half parameters that an optimizer trains, how sure that is, and what to do."""
    if dtype == "float16":
        loses_eps = made is not None and _loses_eps(module, made)
        happens = "`eps` is 0 in float16 and the parameters become NaN" if loses_eps else "most updates are lost"
        confidence = Confidence.CERTAIN if is_sure else Confidence.LIKELY
        return happens, confidence, "keep float32, and use autocast with a GradScaler"
    rate = _rate(made) if made is not None else None
    kind = number(module, rate)
    most = kind.value if kind is not None and kind.value is not None else number_by_default(module, rate)
    small = most is not None and most <= _SMALL_RATE
    happens = "most updates are rounded away" if small else "small updates are rounded away"
    if small and rate is not None:
        happens += f" with a learning rate of `{module.on_one_line(rate)}`"
    adaptive = made is not None and bool(_ADAPTIVE.search(ir.last_name(made.func)))
    return happens, Confidence.LIKELY if adaptive and small else Confidence.SUSPICION, "keep float32, and use autocast"


def _rate(made: ir.Call) -> ir.Value | None:
    """The learning rate that an optimizer is given."""
    return made.keyword("lr") or (made.positional[1] if len(made.positional) > 1 else None)


def _loses_eps(module: Module, made: ir.Call) -> bool:
    """Whether an optimizer like Adam adds an `eps` in float16 that is 0 there; a fused one computes in float32."""
    if not _ADAPTIVE.search(ir.last_name(made.func)) or may_be_fused(made):
        return False
    given = made.keyword("eps")
    kind = number(module, given)
    return given is None or (kind is not None and kind.value is not None and kind.value < _LEAST_FLOAT16)
