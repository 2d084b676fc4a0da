"""Lightning gets an old name of a precision, or code scales, clips or casts in conflict with Lightning's precision.

## What it does
Finds, for Lightning's own classes:

- `precision=16`, `"16"` and `"bf16"` of `Trainer` and `Fabric`: since 2.0 they are called `"16-mixed"` and
  `"bf16-mixed"` (a warning);
- a `precision` that Lightning doesn't know, such as `"fp16"` (an error);
- `amp_backend` and `amp_level` of `Trainer`, which 2.0 removed (an error);
- with a Trainer in "16-mixed", a LightningModule that scales its loss with its own GradScaler, and leaves backward or
  step to Lightning (an error);
- with a Trainer in "16-mixed", a LightningModule that clips between `self.manual_backward(loss)` and the optimizer's
  step, with torch's functions or `self.clip_gradients` (an error);
- with a Fabric in "16-mixed", torch's clips after `fabric.backward(loss)`, and any clip before the last backward pass
  of its step (an error);
- a float16 autocast region in `training_step`, if all Trainers of the file are in "bf16-mixed" (an error).

amplint reports nothing about names and arguments:

- if the project allows only Lightning before 2.0;
- if the project declares no release of Lightning, and the file uses something else that 2.0 removed, such as the
  argument `gpus`, the hook `training_epoch_end` or the class `DDPPlugin`;
- under a version test.

amplint reports nothing about scaling, clipping and regions:

- if the Trainer is in another file;
- if the region has the Trainer's own precision (redundant, not wrong);
- if a module with a scaler takes its optimizers with `use_pl_optimizer=False`, and unscales by itself;
- if the function with the clip reads the scale.

Checked with lightning 2.6.6, and 1.9.5 for the older names.

## Why is this bad?
The old names still work, with a warning each time: 16 means "16-mixed", not "16-true". `amp_backend` raises TypeError,
an unknown precision ValueError.

In "16-mixed" the Trainer scales the loss in `manual_backward`, and unscales in the optimizer's `step()`. Between the
two, gradients are 65,536 times too large (at the initial scale): a clip in between clips nearly always, and so does
`self.clip_gradients`.

A second scaler scales the loss again. Lightning unscales once, so the update is too large by the scale of the second
scaler; at the usual scale the gradients overflow, and no step is taken. If the second scaler never scaled a loss, its
`step()` raises.

"bf16-mixed" has no scaler: gradients of a float16 region can underflow.

## Example
```python
trainer = L.Trainer(accelerator="gpu", precision=16)
```

## Use instead
```python
trainer = L.Trainer(accelerator="gpu", precision="16-mixed")
```

## Fix safety
- Old names: the fix writes the new name. Safe, as the new name means the same from Lightning 2.0 on. There is no fix if
  the project allows older releases, which don't know the new name, or if the precision is in a variable, which other
  code may read.
- `amp_backend="native"`: the fix removes the argument, unless a comment is attached to it. Safe, as it is the only
  backend left.

Everything else has to be changed by hand. Clip in `on_before_optimizer_step`, which Lightning calls after unscaling, or
with `fabric.clip_gradients`.

## Proof
The test programs use a small replacement for Lightning, with torch's own scaler. Their second scalers start at a scale
of 64, so the update is 64 times too large instead of overflowing. The test programs for names of precisions and
arguments are not executed (shows=none): the replacement is amplint's own, so they would prove nothing about Lightning.

Run by hand with lightning 2.6.6: 16, "16" and "bf16" warn that they are supported for historical reasons only, "fp16"
raises ValueError, `amp_backend` and `amp_level` raise TypeError. torch's clip and `self.clip_gradients` after
`manual_backward` saw a norm of 118,482 instead of 1.81; a clip in `on_before_optimizer_step` saw 1.81. With a second
scaler no parameter moved.

## References
- [N-bit precision](https://lightning.ai/docs/pytorch/stable/common/precision_basic.html)
- [Manual optimization](https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html)
- [What 2.0 changed](https://lightning.ai/docs/pytorch/stable/upgrade/from_1_9.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.registry.rule import Rule
from amplint.rules.shared.framework_releases import declares_release, depends_on_release, is_for_older
from amplint.rules.shared.lightning import Setup, is_before_2, setups
from amplint.rules.shared.lightning_steps import against

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE,),
    triggers=(
        "ightning & precision & Trainer(",
        "ightning & precision & Fabric(",
        "ightning & amp_backend",
        "ightning & amp_level",
    ),
    not_shown="verify doesn't interpret Lightning's own step",
)

_RENAMED_IN = "2.0"
_RENAMED = {16: "16-mixed", "16": "16-mixed", "bf16": "bf16-mixed"}
_OLD = (16, 32, 64, "16", "32", "64", "bf16")
_NEW = (
    "16-mixed", "bf16-mixed", "16-true", "bf16-true", "32-true", "64-true",
    "transformer-engine", "transformer-engine-float16",
)  # fmt: skip
# What a name is for that has one of these parts.
_MEANT = (
    ("bf", ("bfloat16", "bf16-mixed")),
    ("32", ("float32", "32-true")),
    ("64", ("float64", "64-true")),
    ("", ("float16", "16-mixed")),
)
_REMOVED = ("amp_backend", "amp_level")
# Other arguments of Trainer that 2.0 removed.
_BEFORE = (
    "auto_lr_find", "auto_scale_batch_size", "auto_select_gpus", "gpus", "ipus", "move_metrics_to_cpu",
    "multiple_trainloader_mode", "num_processes", "progress_bar_refresh_rate", "replace_sampler_ddp",
    "resume_from_checkpoint", "tpu_cores", "track_grad_norm", "weights_summary",
)  # fmt: skip


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """What the file asks of Lightning, and what its modules do against it."""
    if not module.target_of("lightning").reaches(_RENAMED_IN):
        return
    older = is_before_2(module) and not declares_release(module, "lightning")
    for setup in setups(module):
        if not older and not is_for_older(module, "lightning", setup.call, _BEFORE):
            yield from _arguments(module, setup)
    told: set[int] = set()
    for call, message in against(module):
        if call.id not in told:
            told.add(call.id)
            yield rule.finding(module.span(call), message, severity=Severity.ERROR)


# --- arguments ------------------------------------------------------------------------------------------------------


def _arguments(module: Module, setup: Setup) -> Iterator[Finding]:
    if setup.precision is not None:
        yield from _precision(module, setup, setup.precision)
    for arg in setup.call.args:
        if arg.keyword in _REMOVED and setup.what == "Trainer" and not depends_on_release(module, arg.value):
            yield _removed(module, setup, arg)


def _precision(module: Module, setup: Setup, given: ir.Value) -> Iterator[Finding]:
    for value, inline in _literals(module, given):
        found, at = value.value, value if inline else given
        if isinstance(found, bool) or not isinstance(found, (int, str)) or depends_on_release(module, value):
            continue
        if found in _RENAMED:
            yield _renamed(module, setup, value, at, _RENAMED[found])
        elif found not in (*_OLD, *_NEW):
            dtype, name = next((half for part, half in _MEANT if part in str(found).lower()), _MEANT[-1][1])
            message = f"{setup.what} doesn't know precision {found!r} and raises ValueError; for {dtype}, pass {name!r}"
            yield rule.finding(module.span(at), message, severity=Severity.ERROR)


def _literals(module: Module, value: ir.Value, inline: bool = True) -> Iterator[tuple[ir.Constant, bool]]:
    """The literals that a precision is: in place, the arms of a choice, or (not inline) what a variable is set to."""
    if isinstance(value, ir.Constant):
        yield value, inline
    elif isinstance(value, ir.Conditional):
        yield from _literals(module, value.then, inline)
        yield from _literals(module, value.other, inline)
    elif isinstance(value, ir.Name) and inline:
        bindings = module.names.bindings(value)
        if all(isinstance(each, Assigned) for each in bindings):
            found = [each for of in bindings if isinstance(of, Assigned) for each in _literals(module, of.value, False)]
            yield from {each.value: (each, kept) for each, kept in found}.values()


def _renamed(module: Module, setup: Setup, value: ir.Constant, at: ir.Value, new: str) -> Finding:
    target, fix, withheld = module.target_of("lightning"), None, None
    if value is not at:
        withheld = "other code may read this variable; change the value by hand"
    elif not target.guarantees(_RENAMED_IN):
        withheld = f"{new!r} needs lightning {_RENAMED_IN}, and the project allows older releases ({target.origin})"
    else:
        quote = "'" if module.text(value).startswith("'") else '"'
        fix = Fix(Applicability.SAFE, f"Replace with {new!r}", (Edit(*module.span(value), f"{quote}{new}{quote}"),))
    message = (
        f"`precision={module.text(value)}` was renamed in Lightning {_RENAMED_IN}, and {setup.what} "
        f"warns about the old name; pass {new!r}"
    )
    return rule.finding(module.span(at), message, fix=fix, withheld=withheld)


def _removed(module: Module, setup: Setup, arg: ir.Arg) -> Finding:
    native = isinstance(arg.value, ir.Constant) and arg.value.value in ("native", None)
    edit = _without(module, setup.call, arg) if native else None
    fix = Fix(Applicability.SAFE, f"Remove `{arg.keyword}`", (edit,)) if edit is not None else None
    advice = "remove the argument" if native else f"remove the argument, and pass `precision={_NEW[0]!r}`"
    message = f"Lightning {_RENAMED_IN} removed `{arg.keyword}`: Trainer raises TypeError; {advice}"
    sure = module.target_of("lightning").guarantees(_RENAMED_IN)
    severity = Severity.ERROR if sure else Severity.WARNING
    return rule.finding(module.layout.span(arg), message, fix=fix, severity=severity)


def _without(module: Module, call: ir.Call, arg: ir.Arg) -> Edit | None:
    """Take an argument out, with the comma and space before or behind it; None where a comment stands there."""
    at = call.args.index(arg)
    span = module.layout.span
    if at:
        start, end = span(call.args[at - 1])[1], span(arg)[1]
    else:
        start, end = span(arg)[0], span(call.args[1])[0] if len(call.args) > 1 else span(arg)[1]
    return None if "#" in module.source.text[start:end] else Edit(start, end, "")
