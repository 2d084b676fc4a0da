"""A GradScaler steps an optimizer with float16 parameters.

## What it does
Finds a model that is cast to float16 as a whole (`model.half()`, `.to(torch.float16)`, `from_pretrained(...,
torch_dtype=torch.float16)`, a loop over `model.modules()` that casts each), if the file steps its optimizer, or
unscales its gradients, with a scaler that can be enabled. If the dtype depends on a condition, the scaler has to be
enabled where it is float16. The finding is likely if a function that gets the model, or for an Accelerator
its parameters, creates the optimizer, or an object that keeps the model.

Also finds the cast if the scaler is a framework's: of an `Accelerator` whose `prepare` gets the model and its
optimizer, or of transformers' `Trainer` with `fp16=True`, or a class of the project that inherits it and leaves its
steps as they are.

amplint reports nothing:

- if the model, or a part of it, is cast back, or only single parameters are cast;
- if the cast comes after the training, or what is trained is built from the model, or may be (peft and other adapters
  in the same program, unless they are those of another model, and this one's parameters are the optimizer's);
- about ShardedGradScaler, which supports float16 gradients;
- about a fused optimizer, if `unscale_` is never called for it;
- if cast and scaler depend on different conditions that may exclude each other.

## Why is this bad?
float16 parameters get float16 gradients, which the scaler refuses to divide: `ValueError: Attempting to unscale FP16
gradients.` in the first `unscale_` or `step`. Mixed precision keeps the parameters in float32, and casts in the
autocast region.

## Example
```python
model = Net().cuda().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler.step(optimizer)
```

## Use instead
```python
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler.step(optimizer)
```

## Fix safety
There is no fix: without the cast the model takes twice the memory, and code outside of the autocast region may need the
cast.

## Proof
The test programs raise the ValueError before the fix, and train after it.

## References
- [Typical mixed precision training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)
- torch/amp/grad_scaler.py: `_unscale_grads_`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers, passed
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_class, local_function
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.formulas import TRUE, Formula, both, contradict, possible
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.kept_arguments import kept_parameters
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import loops_round
from amplint.model.syntax.text_scan import code_of, without_sentences
from amplint.model.torch_facts.names import OLD_SCALER, SCALER
from amplint.model.usage.frozen_models import frozen
from amplint.model.usage.mentions_of import near_kept
from amplint.model.usage.module_casts import Cast, cast_to, casts, dtype_of
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import about_amp, comes_before, constructions
from amplint.rules.shared.framework_scalers import framework_scalers
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

# Adapters are float32 whatever the model is, and it is frozen.
_ADAPTS = re.compile(r"(?i)\bpeft|lora|adapter|kbit")
_OF_ADAPTERS = re.compile(r"(?i)peft|lora|adapter|kbit")
# What is written where `_casts_parameters` finds a cast.
_CASTING = re.compile(r"data|float|double|(?i:cast)|\b(to|type|from_pretrained|from_config)\b")
_DISPLAY = Fix(Applicability.DISPLAY, "Remove the cast; autocast casts what it needs")

# Their optimizers have no copies of the parameters in float32.
_LIBRARIES = ("bitsandbytes.optim.", "lion_pytorch.", "prodigyopt.", "timm.optim.", "torch_optimizer.", "transformers.")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to float16 of a model whose optimizer a scaler steps."""
    every = casts(module)
    halves = [each for each in every if each.dtype == "float16" or _can_be_half(module, each)]
    if not halves or _casts_parameters(module):
        return
    for half in halves:
        if any(
            _is_other(each, half) and each.call.id > half.call.id and _can_follow(module, half, each) for each in every
        ):
            continue  # it is cast back, or a part of it, or to what can't be told
        if _is_wrapped(module, half):
            continue
        outside = _returned_as(module, half)
        if any(each.key in outside and each.dtype != "float16" for each in every):
            continue
        kept = _kept_as(module, half)
        if any(each.key in kept and each.dtype != "float16" for each in every):
            continue
        keys = {half.key, *outside, *kept}
        owned = {optimizer for key in keys for optimizer in objects(module).owned_by(key)}
        adapts = _adapts(module)
        if adapts and not (owned and _is_of_another(module, keys)):
            continue
        given = {optimizer for key in keys for optimizer in _made_with(module, key)} - owned
        for event in _scaled_steps(module, half, owned | given):
            before = bool(outside or kept) or comes_before(module, half.call, half.key, event.call, owned | given)
            if before and _can_meet(module, half, event):
                yield rule.finding(
                    module.span(half.call),
                    f"this cast makes the parameters float16{_under(half)}, and the scaler on "
                    f'{module.line(event.call)} raises "Attempting to unscale FP16 gradients"; keep float32',
                    fix=_DISPLAY,
                    confidence=Confidence.LIKELY if adapts or kept or not owned else None,
                )
                break
        else:
            yield from _of_frameworks(module, half, keys, owned | given)


def _of_frameworks(module: Module, half: Cast, keys: set[str], optimizers: set[str]) -> Iterator[Finding]:
    """The finding of a cast of a model, kept at some keys, whose gradients a framework's scaler unscales."""
    if keys & frozen(module):
        return
    cast, made = _casts_to_float16(module, half), set() if optimizers else _made_of(module, keys)
    optimizers = optimizers | made
    for each in framework_scalers(module, keys, optimizers):
        if keys == {half.key} and not comes_before(module, half.call, half.key, each.at, optimizers):
            continue
        if possible(each.on, cast) is None:
            continue
        sure = each.is_sure and not made and not is_vague(cast) and not is_vague(each.on)
        yield rule.finding(
            module.span(half.call),
            f"this cast makes the parameters float16{_under(half)}, and {each.whose} ({module.line(each.at)}) raises "
            '"Attempting to unscale FP16 gradients"; keep float32',
            fix=_DISPLAY,
            confidence=None if sure else Confidence.LIKELY,
        )
        return


def _casts_to_float16(module: Module, half: Cast) -> Formula:
    """What has to hold for a cast to be made, and to float16."""
    known, dtype = decided(module), _dtype(half)
    return both(known.around(half.call), known.is_dtype(dtype, "float16") if dtype is not None else TRUE)


def _dtype(half: Cast) -> ir.Value | None:
    """The dtype of a cast, where it is chosen elsewhere."""
    return dtype_of(half.call) if half.dtype is None else None


def _adapts(module: Module) -> bool:
    """Whether the code of a file, or what it takes from others, says that adapters are trained."""
    own, *others = module.texts
    return any(map(_ADAPTS.search, (without_sentences(own), *map(code_of, others))))


def _is_of_another(module: Module, models: set[str]) -> bool:
    """Whether the adapters of a file are those of another model that it casts, and not of the one with some keys."""
    others = {each.key for each in casts(module)} - models
    return not _speaks_of_adapters(module, models) and any(_speaks_of_adapters(module, {each}) for each in others)


def _speaks_of_adapters(module: Module, models: set[str]) -> bool:
    """Whether adapters are in what is done with a model, or in what makes it, or gets it, of the project's code."""
    for statement in near_kept(module, models).statements:
        written = [module.text(each) for each in statement.values() if _reads(module, each, models)]
        called = [each for root in statement.values() for each in ir.walk_values(root) if isinstance(each, ir.Call)]
        for call in called if written else ():
            inside = local_class(module, call.func) or local_function(module, call.func)
            written += [code_of(module.text(inside))] if inside is not None else []
        if any(map(_OF_ADAPTERS.search, written)):
            return True
    return False


def _reads(module: Module, value: ir.Value, keys: set[str]) -> bool:
    """Whether a value reads or stores one of some objects, or is assigned to one."""
    statement, known = ir.statement_of(value), objects(module)
    values = [value, *(statement.targets if isinstance(statement, ir.Assign) else ())]
    parts = (part for each in values for part in ir.walk_values(each) if isinstance(part, (ir.Name, ir.Attribute)))
    return any(known.key(part) in keys for part in parts)


def _can_follow(module: Module, half: Cast, other: Cast) -> bool:
    """Whether a run can make both of two casts: they are not arms of one choice."""
    known = decided(module)
    return not contradict(known.inside(half.call), known.inside(other.call))


def _can_be_half(module: Module, cast: Cast) -> bool:
    """Whether a cast is to a dtype that can be float16 or another one."""
    given = _dtype(cast)
    return given is not None and any(each.name == "float16" for each in dtypes(module, given))


def _under(half: Cast) -> str:
    return "" if half.dtype == "float16" else " if that dtype is"


def _returned_as(module: Module, half: Cast) -> set[str]:
    """The keys under which callers keep the model that a function casts and returns."""
    known, function = objects(module), ir.function_of(half.call)
    if function is None or not any(
        each.value is not None and known.key(each.value) == half.key for each in returned(function)
    ):
        return set()
    return {key for call in callers(module, function) for key in known.assigned_to(call)}


def _kept_as(module: Module, half: Cast) -> set[str]:
    """The keys under which objects keep a model that their constructors are given once it is cast."""
    known, calls, found = objects(module), module.once(CallGraph), set[str]()
    for call in near_kept(module, {half.key}).calls:
        given = [each.value for each in call.args if known.key(each.value) == half.key]
        if not given or call.id < half.call.id or ir.function_of(call) is not ir.function_of(half.call):
            continue
        callee = calls.find(call)
        cls = callee.function.cls if callee is not None and callee.function.name == "__init__" else None
        if callee is None or cls is None:
            continue
        attributes = kept_parameters(callee.function, cls)
        for name, value in (calls.arguments(call, callee) or {}).items():
            if value in given and name in attributes:
                found.add(attributes[name])
    return found


def _made_with(module: Module, model: str) -> set[str]:
    """The optimizers that functions make which are given the model, whatever they take of it; and those of libraries
    that are known to step the parameters themselves.
    """
    known = objects(module)
    return {
        key
        for each in near_kept(module, {model}).statements
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call)
        if any(known.key(arg.value) == model for arg in each.value.args)
        or (_is_of_library(module, each.value) and any(model in known.parameters_roots(one) for one in _given(each)))
        for target in each.targets
        if (key := known.is_optimizer(target)) is not None
    }


def _made_of(module: Module, models: set[str]) -> set[str]:
    """The optimizers that functions make which are given the parameters of some models, in lists and dicts too."""
    known, found = objects(module), set[str]()
    for statement in module.whole.near("optim").statements:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            keys = {key for target in statement.targets if (key := known.is_optimizer(target)) is not None}
            if keys and any(_roots(module, each) & models for each in _given(statement)):
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


def _is_of_library(module: Module, call: ir.Call) -> bool:
    """Whether a call makes an optimizer of a library that steps the parameters that it is given."""
    name = module.names.only(call.func) or ""
    return name.startswith(_LIBRARIES) and "fused" not in name.lower()


def _given(made: ir.Assign) -> list[ir.Value]:
    """What the call is given whose result is assigned."""
    return [each.value for each in made.value.args] if isinstance(made.value, ir.Call) else []


def _is_other(cast: Cast, half: Cast) -> bool:
    """Whether a cast of the same model, or of a part of it, is to another dtype."""
    return cast.dtype != "float16" and f"{cast.key}.".startswith(f"{half.key}.")


def _is_wrapped(module: Module, half: Cast) -> bool:
    """Whether the model is then handed to a function that gives back another: what is trained of that can't be told."""
    known = objects(module)
    for statement in near_kept(module, {half.key}).statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        if isinstance(statement, ir.Assign) and isinstance(value, ir.Call) and statement.id > half.call.id:
            if any(known.key(each) == half.key for each in statement.targets) and any(
                known.key(arg.value) == half.key for arg in value.args
            ):
                if not all(name.startswith("torch.") for name in module.names.of(value.func)):
                    return True
    return False


def _casts_parameters(module: Module) -> bool:
    """Whether the file casts single parameters: which of them stay float16 can't be told."""
    for statement in module.whole.near(_CASTING).statements:
        if isinstance(statement, ir.Assign) and any(
            isinstance(each, ir.Attribute) and each.attr == "data" for each in statement.targets
        ):
            if not _moves(statement.value):
                return True
            continue
        # `param.float()` in a loop over parameters, `cast_training_params(model, torch.float32)`
        if isinstance(statement, ir.Expr) and isinstance(statement.value, ir.Call):
            call = statement.value
            if "cast" in ir.last_name(call.func).lower() or (
                loops_round(statement) and cast_to(module, call) in ("float32", "float64")
            ):
                return True
    return False


def _moves(value: ir.Value | None) -> bool:
    """Whether a value is a tensor on another device, by the call that moves it: `param.data.to(device)`."""
    if ir.called_on(value, "cuda", "cpu") is not None:
        return True
    call = value if isinstance(value, ir.Call) and ir.called_on(value, "to") is not None else None
    return call is not None and len(call.args) == 1 and "device" in ir.last_name(call.args[0].value).lower()


def _scaled_steps(module: Module, half: Cast, optimizers: set[str]) -> Iterator[Event]:
    """The calls of a scaler that divide the gradients of the model's parameters."""
    every = [
        event for call in module.whole.near("step", "unscale_").calls if (event := events(module).of(call)) is not None
    ]
    for event in every:
        if event.kind in ("step", "unscale_") and event.scaler is not None and event.optimizer is not None:
            stepped = _stands_for(module, event.optimizer) & optimizers
            fused = event.kind == "step" and any(_is_fused(module, each) for each in stepped)
            if stepped and not fused:
                yield event


def _stands_for(module: Module, optimizer: str) -> set[str]:
    """The key of an optimizer, and those of what each call gives for it where it is a parameter."""
    known = objects(module)
    parameter = known.parameter_of(optimizer)
    values = passed(module, *parameter) if parameter is not None else ()
    return {optimizer, *(key for each in values if each is not None and (key := known.key(each)) is not None)}


def _is_fused(module: Module, optimizer: str) -> bool:
    """Whether an optimizer may be a fused one, which takes float16 gradients."""
    known = objects(module)
    for statement in near_kept(module, {optimizer}).statements:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            if any(known.key(each) == optimizer for each in statement.targets):
                call = statement.value
                if call.keyword("fused") is not None or call.unpacks("**"):
                    return True
    return False


def _can_meet(module: Module, half: Cast, event: Event) -> bool:
    """Whether a path casts the model and runs the scaler, switched on."""
    known = decided(module)
    scaler = receiver(event)
    made = constructions(module, scaler)
    if not made or not all(module.names.of(each.func) <= {SCALER, *OLD_SCALER} for each in made):
        return False
    on, cast = both(known.scaler_on(scaler), known.around(event.call)), _casts_to_float16(module, half)
    if is_vague(on) or is_vague(cast) or (on != TRUE and about_amp(module, cast, on)):
        return False
    return possible(on, cast) is not None
