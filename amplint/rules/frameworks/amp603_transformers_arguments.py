"""An argument of TrainingArguments contradicts another one, was removed, or casts the model to half precision.

## What it does
Finds, in calls of transformers' `TrainingArguments` and `Seq2SeqTrainingArguments`:

- `fp16` and `bf16`, or `fp16_full_eval` and `bf16_full_eval`, both True, or both set from one variable (an error);
- `fp16_backend`, `half_precision_backend` and `fp16_opt_level`, which transformers 5.0 removed (an error; a warning if
  the project also allows older releases);
- `fp16_backend`, deprecated since 4.13, if the project allows only releases before 5.0 (a warning);
- `trainer.evaluate()` or `trainer.predict()` before `trainer.train()` of a Trainer that has `fp16_full_eval` or
  `bf16_full_eval` (an error).

amplint reports nothing about flags whose values are not written in the call, unless both flags get the same variable.

amplint reports nothing about a removed argument:

- if the project requires only releases that still have the argument (the deprecated `fp16_backend` gets its warning);
- if the project's requirements name no transformers release, and the call has other arguments that 5.0 removed
  (`evaluation_strategy`, `no_cuda`): the call is then for an older release;
- if the call is under a version test.

Checked with transformers 5.23, 5.0, 4.57 and 4.13.

## Why is this bad?
Two contradicting flags raise ValueError, and a removed argument raises TypeError, before any training starts.

`fp16_full_eval` and `bf16_full_eval` cast the model's own parameters, and nothing casts them back. A later `train()`
trains half-precision parameters, without a scaler. If `fp16=True` is set as well, `train()` raises
"Attempting to unscale FP16 gradients."

Evaluation after training casts the model, too: a model that is saved then is in half precision.

## Example
```python
args = TrainingArguments(output_dir="out", fp16=True, half_precision_backend="auto")
```

## Use instead
```python
args = TrainingArguments(output_dir="out", fp16=True)
```

## Fix safety
There is no fix: amplint can't tell which precision is intended, or when to evaluate.

- Of two contradicting flags, keep the one that you want.
- Delete a removed argument.
- Use `fp16_full_eval` only after the trained model is saved, or in a second Trainer with a model of its own.

## Proof
The test programs are not executed (shows=none): a replacement for transformers would be amplint's own, and prove
nothing about transformers.

Checked by hand with transformers 5.23: `fp16=True, bf16=True` and the two flags for full evaluation raise ValueError,
the removed arguments raise TypeError. After `evaluate()` with `fp16_full_eval=True` all parameters were float16, and
`train()` trained them in float16.

## References
- [TrainingArguments](https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments)
- [What 5.0 removed](https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Finding, Severity
from amplint.model.inference.values import only_literal
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import dominates
from amplint.model.usage.mentions_of import near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.framework_releases import depends_on_release, is_for_older
from amplint.rules.shared.transformers_trainers import makes_arguments, trainers

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=(
        "TrainingArguments & transformers & fp16",
        "TrainingArguments & transformers & half_precision_backend",
        "TrainingArguments & transformers & bf16_full_eval",
    ),
    not_shown="verify doesn't interpret what transformers does with its arguments",
)

_EXCLUSIVE = (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval"))
_REMOVED_IN = "5.0"
_REMOVED = {
    "fp16_backend": "remove the argument, as torch's own AMP is the only backend left",
    "half_precision_backend": "remove the argument, as torch's own AMP is the only backend left",
    "fp16_opt_level": "remove the argument, as only apex had opt levels",
}
# Other arguments that are in 4.57 and gone in 5.0, of those that scripts use.
_OLD = (
    "evaluation_strategy", "include_inputs_for_metrics", "include_tokens_per_second", "no_cuda", "overwrite_output_dir",
    "per_gpu_eval_batch_size", "per_gpu_train_batch_size", "push_to_hub_model_id", "push_to_hub_token",
    "save_safetensors", "sharded_ddp", "use_mps_device",
)  # fmt: skip
_DEPRECATED, _REPLACED_IN = "fp16_backend", "4.13"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The arguments one by one and in pairs, and what a Trainer does with them."""
    for call in module.own.near(*module.words("transformers.*TrainingArguments")).calls:
        if makes_arguments(module, call):
            yield from _pairs(module, call)
            yield from _removed(module, call)
            yield from _evaluated_first(module, call)


def _argument(call: ir.Call, name: str) -> ir.Arg | None:
    return next((arg for arg in call.args if arg.keyword == name), None)


def _pairs(module: Module, call: ir.Call) -> Iterator[Finding]:
    for one, other in _EXCLUSIVE:
        first, second = _argument(call, one), _argument(call, other)
        if first is None or second is None:
            continue
        flag = module.text(first.value)
        if _is_true(module, first.value) and _is_true(module, second.value):
            when = ""
        elif isinstance(first.value, (ir.Name, ir.Attribute)) and flag == module.text(second.value):
            when = f"if `{flag}` is true, "
        else:
            continue
        message = f"{when}`{one}` and `{other}` are both true: TrainingArguments raises ValueError; keep only one"
        # An attribute is a setting, whatever it is set to here.
        if not when or isinstance(first.value, ir.Attribute) or not _is_false(module, first.value):
            yield rule.finding(module.layout.span(max(first, second, key=lambda arg: arg.value.id)), message)


def _literal(module: Module, value: ir.Value) -> object:
    """The literal that a value surely is; the value itself else."""
    found = only_literal(module, value)
    return found.value if found is not None else value


def _is_true(module: Module, value: ir.Value) -> bool:
    return _literal(module, value) is True


def _is_false(module: Module, value: ir.Value) -> bool:
    return _literal(module, value) in (False, None)


def _removed(module: Module, call: ir.Call) -> Iterator[Finding]:
    target = module.target_of("transformers")
    if is_for_older(module, "transformers", call, _OLD) or depends_on_release(module, call):
        return
    for arg in call.args:
        if arg.keyword not in _REMOVED:
            continue
        span, advice = module.layout.span(arg), _REMOVED[arg.keyword]
        if target.reaches(_REMOVED_IN):
            sure = target.guarantees(_REMOVED_IN)
            where = "" if sure else ", which the project allows,"
            message = f"`{arg.keyword}` was removed in transformers {_REMOVED_IN}{where} and raises TypeError; {advice}"
            yield rule.finding(span, message, severity=Severity.ERROR if sure else Severity.WARNING)
        elif arg.keyword == _DEPRECATED and target.guarantees(_REPLACED_IN) and _literal(module, arg.value) != "auto":
            message = f"`{arg.keyword}` is deprecated, and removed in transformers {_REMOVED_IN}; {advice}"
            yield rule.finding(span, message, severity=Severity.WARNING)


# --- evaluation before training -------------------------------------------------------------------------------------


def _evaluated_first(module: Module, call: ir.Call) -> Iterator[Finding]:
    """An evaluation that casts the parameters, and training behind it."""
    flag = next(
        (name for name in _EXCLUSIVE[1] if (each := _argument(call, name)) and _is_true(module, each.value)), None
    )
    if flag is None:
        return
    half = "float16" if flag.startswith("fp16") else "bfloat16"
    pairs = (pair for trainer in _trainers(module, call) for pair in _cast_and_trained(module, trainer))
    pair = next(pairs, None)
    if pair is not None:
        first, train = pair
        name, training = module.text(first.func), module.text(train.func)
        yield rule.finding(
            module.span(first),
            f"because of `{flag}`, `{name}` leaves the parameters in {half}, and `{training}` on {module.line(train)} "
            f"trains {half} parameters; train first, or remove `{flag}`",
        )


def _cast_and_trained(module: Module, trainer: str) -> Iterator[tuple[ir.Call, ir.Call]]:
    """The calls by which a Trainer trains, each with the first evaluation before it."""
    near = near_kept(module, {trainer}).calls
    used = [each for each in near if module.is_own(each) and _is_method(module, each, trainer)]
    for train in used:
        if ir.last_name(train.func) == "train":
            first = next((each for each in used if each.id < train.id and _casts(each, train)), None)
            if first is not None:
                yield first, train


def _trainers(module: Module, call: ir.Call) -> Iterator[str]:
    """The keys of the Trainers that get these arguments, and a model that is already there."""
    known = objects(module)
    assigned = call.parent
    keys = {known.key(each) for each in assigned.targets} if isinstance(assigned, ir.Assign) else set()
    for each in trainers(module):
        given = each.args
        if each.call.keyword("model_init"):
            continue
        if given is call or (given is not None and known.key(given) in keys - {None}):
            parent = each.call.parent
            for target in parent.targets if isinstance(parent, ir.Assign) else ():
                if (key := known.key(target)) is not None:
                    yield key


def _is_method(module: Module, call: ir.Call, trainer: str) -> bool:
    return isinstance(call.func, ir.Attribute) and objects(module).key(call.func.base) == trainer


def _casts(call: ir.Call, train: ir.Call) -> bool:
    """Whether a call evaluates whenever the training behind it is reached."""
    same = ir.function_of(call) is ir.function_of(train)
    return ir.last_name(call.func) in ("evaluate", "predict") and same and dominates(call, train)
