"""An optimizer trains parameters that are in half precision, without a copy in float32.

## What it does
Finds a model that is cast to float16 or bfloat16 as a whole, and then trained without a scaler and without a float32
copy of its parameters. (With a scaler, AMP208 reports the cast.)

These are casts:

- `model.half()`, `model.to(torch.bfloat16)`, `from_pretrained(..., torch_dtype=torch.float16)`;
- a function or method that casts many of the model's parameters, such as `model.apply(to_half)` or
  `model.convert_to_fp16()`;
- a Trainer or Fabric of Lightning with the precision "16-true" or "bf16-true".

The model is trained by an optimizer of torch.optim that steps, by a Trainer (transformers, TRL, Lightning), or by a
Fabric.

For float16, the finding is an error. It is only *likely*:

- if an option or a condition selects the dtype;
- if the model is an attribute of an object;
- if amplint can't see the method that casts, or where the optimizer is created;
- if an Accelerator prepares the optimizer, or a Trainer of transformers or TRL trains the model.

For bfloat16, the finding is a warning. It is *likely* if the learning rate is so small that many updates are lost, and
otherwise a suspicion. These rates are small:

- with Adam or a similar optimizer, at most 3e-4;
- with Adam and a schedule that lowers the rate (not one that only warms up), at most 1e-3, or unknown;
- with a Trainer of transformers or TRL, at most 1e-5, or at most 1e-4 with `bf16=True`.

amplint reports nothing:

- if the model, or a part of it that is trained, is cast back before the training ends;
- if only single parameters are cast;
- if the cast comes after the training;
- if the model is frozen, or only another part of it is trained (`model.head.parameters()`);
- if DeepSpeed, FSDP or apex is imported, which can keep float32 copies;
- if only peft adapters are trained, which are float32. Adapters in half precision are reported: those of
  `model.add_adapter(...)` and `get_peft_model(..., autocast_adapter_dtype=False)`, and those of any library that are
  added first and cast with the model later (`set_attn_processor` of diffusers).

## Why is this bad?
- Small updates are rounded away: updates below about 0.05 % of the weight in float16, and below 0.4 % in bfloat16. In a
  test with Adam in bfloat16 (a small network, 200 steps), 3 % of the weights changed with a learning rate of 1e-5, 22 %
  with 1e-4, and all with 1e-3. In a longer test (600 steps) 45 % of the last updates were lost with 3e-4, and 80 % if a
  schedule had lowered the rate from 1e-3 to 1e-4. In both cases the loss was 12 % higher than in float32.
- In float16 the `eps` of Adam, 1e-8, becomes 0. If the square of a gradient is 0 too, Adam divides by 0, and the weight
  becomes NaN or infinite. In the same test in float16 all weights became NaN.
- In float16 small gradients become 0, because no scaler scales the loss.

Mixed precision keeps the parameters in float32, and autocast casts them inside the region.

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
There is no fix: without the cast the model takes twice the memory, and casts of the inputs have to be removed too.

## Proof
Each test program ends with a check. The wrong programs fail it: the loss is NaN, or hardly any weight has changed (the
table shows one of the two). The corrected programs pass it. Three test programs are not executed (`shows=none`): they
need a command line, Lightning, or a caller.

## References
- [Automatic mixed precision: adding GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
- [Mixed Precision Training (Micikevicius et al.)](https://arxiv.org/abs/1710.03740): a float32 copy of the weights
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import also_as, callers
from amplint.model.inference.formulas import FALSE, both, possible
from amplint.model.inference.numbers import number
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import root_of
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.text_scan import code_of
from amplint.model.usage.accelerators import accelerators
from amplint.model.usage.frozen_models import wholly_frozen
from amplint.model.usage.mentions_of import near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import number_or_default, only_if
from amplint.rules.shared.enabled_flags import comes_before
from amplint.rules.shared.framework_scalers import framework_scalers
from amplint.rules.shared.half_models import (
    HalfModel,
    also_returned,
    casts_when,
    half_models,
    may_be_fused,
    scaled_steps,
)
from amplint.rules.shared.lightning import Setup, setups
from amplint.rules.shared.lowered_rates import is_lowered, schedules
from amplint.rules.shared.transformers_trainers import (
    argument_given,
    has_engine,
    learning_rate,
    makes_arguments,
    trainers,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=(
        "torch & .half( & optim & step(",
        "torch & float16 & optim & step(",
        "torch & torch.half & optim & step(",
        "torch & fp16 & optim & step(",
        "torch & bf16 & optim & step(",
        "lightning & 16-true",
        "transformers & float16 & Trainer",
        "trl & float16 & Trainer",
    ),
    not_shown="verify's model has float32 parameters",
)

# What keeps float32 copies of the parameters: engines that are imported or asked for, and optimizers that wrap another.
_KEEPS_COPIES = re.compile(
    r"(?im)^[ \t]*(?:from|import)[ \t][^#\r\n]*(?:deepspeed|fsdp|apex|fairscale)"
    r"|\bdeepspeed\w*[ \t]*=|\bdeepspeed_(?:plugin|config)\b|DistributedType\.(?:DEEPSPEED|FSDP)"
    r"|FP16_Optimizer|master_param"
)
# The precisions of Lightning that cast the model as a whole (lightning/fabric/plugins/precision/half.py).
_TRUE_HALF = {"16-true": "float16", "bf16-true": "bfloat16"}
_ADAPTIVE = re.compile(r"Adam|NAdam|RAdam|RMSprop|Adagrad")
# Of what a weight of 0.05 is in bfloat16, an update of this size is less than half a step.
_SMALL_RATE = 1e-4
# With these many updates of Adam are lost, which are often smaller than the rate: all the time, and once it is lowered.
_RATE = 3e-4
_LOWERED_RATE = 1e-3
# With this one hardly any weight changes.
_TINY_RATE = 1e-5
# What is less than half a step of a weight.
_LEAST = {"float16": "0.05 %", "bfloat16": "0.4 %"}
# A weight in bfloat16 that is larger than an update by this factor stays as it is; Adam's updates are about the rate.
_ROUNDED_AWAY = 512
# Methods of a tensor that give another one.
_COPY = ("float", "double", "to", "clone", "type")
# The method of nanoGPT's model, and of its many descendants, that makes an AdamW.
_OF_NANOGPT = "configure_optimizers"
_PARAMETERS = ("parameters", "named_parameters")
_NO_FIX = "without the cast the model takes twice the memory, and casts of its inputs have to be removed too"
# What is less is 0 in float16.
_LEAST_FLOAT16 = 2.0**-25


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to half precision of a model whose parameters an optimizer steps."""
    yield from _of_lightning(module)
    models = [*half_models(module, "float16"), *half_models(module, "bfloat16")]  # a dtype that is chosen may be either
    if not models or any(_KEEPS_COPIES.search(code_of(text)) for text in module.texts):
        return
    reported = set[tuple[str, ir.Function | None, frozenset[str]]]()
    for model in models:
        place = root_of(model.cast.key), ir.function_of(model.cast.call), frozenset(model.optimizers)
        if place in reported or (not model.has_half and _trains_others(module, model)):
            continue  # another part of a model that was reported
        yield from _of_trainers(module, model)
        finding = _of_steps(module, model)
        if finding is not None:
            reported.add(place)
            yield finding


def _trains_others(module: Module, model: HalfModel) -> bool:
    """Whether only adapters are trained, or nothing of a model."""
    return (model.adapts and not model.by_choice) or bool(model.keys & wholly_frozen(module))


def _of_steps(module: Module, model: HalfModel) -> Finding | None:
    """The finding of a model that an optimizer of the program steps without a scaler."""
    made = _made(module, model)
    stepped = {key for _, keys in made for key in keys} or model.beside or model.given
    if not stepped or next(scaled_steps(module, {*stepped}), None) is not None:
        return None
    if model.dtype == "float16" and next(framework_scalers(module, {*model.keys}, {*stepped}), None) is not None:
        return None  # it raises, as AMP208 says
    step = _step(module, model, stepped)
    return (
        None if step is None else _finding(module, model, made[0] if made else _made_by_function(module, model), step)
    )


def _of_lightning(module: Module) -> Iterator[Finding]:
    """Each Trainer or Fabric that trains a model that it casts to half precision, or does so by default."""
    for each in setups(module):
        kept = {*objects(module).assigned_to(each.call)}
        precision = each.by_default(module)
        dtype = _TRUE_HALF.get(precision) if isinstance(precision, str) else None
        if dtype is None or each.precision is None or not _is_trained_by(module, each, kept):
            continue
        made = next((call for call in module.calls_of("torch.optim.*") if not schedules(module, call)), None)
        is_sure = each.precisions(module) == {precision}
        consequence, confidence, _ = _consequence(module, dtype, made, is_sure=is_sure)
        mixed = precision.replace("true", "mixed") if isinstance(precision, str) else ""
        said = f'"{precision}"' if is_sure else f'the default, "{precision}",'
        yield rule.finding(
            module.span(each.precision),
            f'{said} makes the parameters {dtype}, without a copy in float32: {consequence}; use "{mixed}"',
            withheld=_NO_FIX,
            severity=Severity.WARNING if dtype == "bfloat16" else None,
            confidence=confidence,
        )


def _is_trained_by(module: Module, setup: Setup, kept: set[str]) -> bool:
    """Whether a Trainer or Fabric with some keys trains: `trainer.fit(...)`, `fabric.backward(loss)`."""
    method = "fit" if setup.what == "Trainer" else "backward"
    known = objects(module)
    bases = (ir.called_on(each, method) for each in module.whole.near(method).calls)
    return any(base is not None and (base is setup.call or known.key(base) in kept) for base in bases)


def _of_trainers(module: Module, model: HalfModel) -> Iterator[Finding]:
    """The finding of a cast of a model that a Trainer of transformers or TRL trains as a whole, without a scaler."""
    for trainer in trainers(module):
        if trainer.model is None or objects(module).key(trainer.model) not in model.keys:
            continue
        leaves = values_of(module, trainer.args).leaves if trainer.args is not None else ()
        made = leaves[0].value if len(leaves) == 1 else None
        if not isinstance(made, ir.Call) or not makes_arguments(module, made) or has_engine(module, made):
            continue
        if argument_given(module, made, "fsdp") is not None or _is_on(module, argument_given(module, made, "fp16")):
            continue  # a float16 model raises there, as AMP208 says
        rate, mixes = learning_rate(module, made), _is_on(module, argument_given(module, made, "bf16"))
        happens = f"updates below about {_LEAST[model.dtype]} of a weight are rounded away"
        if model.dtype == "bfloat16" and rate is not None and rate <= _SMALL_RATE:
            happens = _rounded_away(rate, "learning_rate")
        small = rate is not None and rate <= (_SMALL_RATE if mixes else _TINY_RATE)
        yield rule.finding(
            module.span(model.cast.call),
            f"{model.makes} the Trainer on {module.line(trainer.call)} train {model.dtype} {model.trained}: {happens}; "
            f"keep float32 {model.trained}{'' if mixes else ', and use `bf16=True`'}",
            withheld=_NO_FIX,
            severity=Severity.WARNING,
            cause=model.cause,
            confidence=Confidence.LIKELY if model.dtype == "float16" or small else Confidence.SUSPICION,
        )
        return


def _is_on(module: Module, flag: ir.Value | None) -> bool:
    """Whether a flag is given that is not always false."""
    return flag is not None and decided(module).of(flag) != FALSE


def _made(module: Module, model: HalfModel) -> list[tuple[ir.Call, set[str]]]:
    """The calls that create optimizers of torch with a model's parameters, each with their keys."""
    known = objects(module)
    made = [
        (call, {*known.stored_as(call)} & model.owned)
        for call in module.calls_of("torch.optim.*")
        if not _copies(module, argument(call, "torch.optim.Optimizer", "params"))
    ]
    return [(call, also_returned(module, call, keys)) for call, keys in made if keys]


def _made_by_function(module: Module, model: HalfModel) -> tuple[ir.Call, set[str]] | None:
    """The call of a function or method that gives an optimizer like Adam for a model, and the optimizer's key."""
    for statement in near_kept(module, model.given).statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        keys = {*objects(module).assigned_to(value)} & model.given if isinstance(value, ir.Call) else set[str]()
        if isinstance(value, ir.Call) and keys and _is_adaptive(module, value):
            return value, keys
    return None


def _optimizers_made_by(module: Module, call: ir.Call) -> list[ir.Call]:
    """The calls that create optimizers of torch in the function that a call runs, or the only one of that name."""
    function = module.once(CallGraph).run_by(call)
    if function is None and isinstance(call.func, ir.Attribute):
        alike = [each for each in module.functions if each.name == call.func.attr]
        function = alike[0] if len(alike) == 1 else None
    made = ir.calls_below(function.body) if function is not None else ()
    return [each for each in made if any(name.startswith("torch.optim.") for name in module.names.of(each.func))]


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


def _finding(module: Module, model: HalfModel, optimizer: tuple[ir.Call, set[str]] | None, step: ir.Call) -> Finding:
    """The finding of a cast; `optimizer`: what creates it, and its keys; `step` is the one that trains."""
    made, keys = optimizer if optimizer is not None else (None, set[str]())
    asked = _asked_of_caller(module, model.cast.call)
    doubtful = not model.owned or model.doubtful or model.adapts or bool(asked) or _is_prepared(module, keys)
    is_sure = made is not None and model.cast.dtype == model.dtype and not doubtful
    lowered = model.dtype == "bfloat16" and is_lowered(module, keys)
    happens = _consequence(module, model.dtype, made, is_sure=is_sure, lowered=lowered, trained=model.trained)
    consequence, confidence, advice = happens
    trains = f"the optimizer on {module.line(made)}" if made is not None else f"the step on {module.line(step)}"
    return rule.finding(
        module.span(model.cast.call),
        f"{asked}{model.makes} {trains} train {model.dtype} {model.trained}: {consequence}; {advice}",
        withheld=_NO_FIX,
        severity=Severity.WARNING if model.dtype == "bfloat16" else None,
        cause=model.cause,
        confidence=confidence,
    )


def _asked_of_caller(module: Module, cast: ir.Call) -> str:
    """The test around the only call of the method that casts, as a message begins with it; "" if there is none."""
    function = ir.function_of(cast)
    calls = callers(module, function) if function is not None and function.name != "__init__" else []
    tests = conditions_round(calls[0]) if len(calls) == 1 else ()
    around = [(test, holds) for test, holds in tests if "__name__" not in module.text(test)]
    return only_if(module, *around[0]) if around else ""


def _is_prepared(module: Module, optimizer: set[str]) -> bool:
    """Whether an Accelerator prepares an optimizer: who starts the program may choose DeepSpeed."""
    known = objects(module)
    return any(known.key(arg.value) in optimizer for call in accelerators(module).prepared() for arg in call.args)


def _consequence(
    module: Module,
    dtype: str,
    made: ir.Call | None,
    *,
    is_sure: bool,
    lowered: bool = False,
    trained: str = "parameters",
) -> tuple[str, Confidence, str]:
    """What happens to half parameters that an optimizer trains, how sure that is, and what to do.

    `lowered`: the code lowers the learning rate as the training goes on; `trained`: what is trained, for the message.
    """
    if dtype == "float16":
        loses_eps = made is not None and _loses_eps(module, made)
        happens = (
            f"`eps` rounds to 0 in float16, so {trained} become NaN"
            if loses_eps
            else f"updates below about {_LEAST[dtype]} of a weight are rounded away"
        )
        confidence = Confidence.CERTAIN if is_sure else Confidence.LIKELY
        return happens, confidence, f"keep float32 {trained}, and use autocast with a GradScaler"
    most = number_or_default(module, _rate(made) if made is not None else None)
    adaptive = made is not None and _is_adaptive(module, made)
    confidence, happens = Confidence.LIKELY, f"updates below about {_LEAST[dtype]} of a weight are rounded away"
    if adaptive and most is not None and most <= _SMALL_RATE:
        happens = _rounded_away(most, "lr")
    elif adaptive and most is None and lowered:
        happens = "once the schedule lowers the rate, many updates are too small for bfloat16 and are rounded away"
    elif adaptive and most is not None and most <= (_LOWERED_RATE if lowered else _RATE):
        when = f"once the schedule lowers `lr={most:g}`" if lowered else f"with `lr={most:g}`"
        happens = f"{when}, many updates are too small for bfloat16 and are rounded away"
    else:
        confidence = Confidence.SUSPICION
    return happens, confidence, f"keep float32 {trained}, and use autocast"


def _rounded_away(rate: float, name: str) -> str:
    """What a small learning rate does to the weights of a bfloat16 model, for a message."""
    return (
        f"updates of about `{name}={rate:g}` are rounded away in weights larger than about {rate * _ROUNDED_AWAY:.1g}"
    )


def _rate(made: ir.Call) -> ir.Value | None:
    """The learning rate that an optimizer is given, or a function that makes one."""
    for name in ("lr", "learning_rate"):
        if (given := made.keyword(name)) is not None:
            return given
    return made.positional[1] if len(made.positional) > 1 else None


def _is_adaptive(module: Module, made: ir.Call) -> bool:
    """Whether a call creates an optimizer like Adam, whatever the code calls the class."""
    inner = _optimizers_made_by(module, made)
    if inner:
        return all(_is_adaptive(module, each) for each in inner if not schedules(module, each))
    names = module.names.of(made.func) or {ir.last_name(made.func)}
    return all(_ADAPTIVE.search(each) for each in names) or ir.last_name(made.func) == _OF_NANOGPT


def _loses_eps(module: Module, made: ir.Call) -> bool:
    """Whether an optimizer like Adam adds an `eps` in float16 that is 0 there; a fused one computes in float32."""
    if not _is_adaptive(module, made) or may_be_fused(made):
        return False
    if not all(name.startswith("torch.optim.") for name in module.names.of(made.func)):
        return False  # those of bitsandbytes compute in float32
    given = made.keyword("eps")
    kind = number(module, given)
    return given is None or (kind is not None and kind.value is not None and kind.value < _LEAST_FLOAT16)
