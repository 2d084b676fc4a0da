"""torch's clip runs on gradients that accelerate has scaled, or accelerate's own clip runs more than once per step.

## What it does
Finds:

- `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_` (also timm's clipping functions, and `p.grad.clamp_(...)`)
  after `accelerator.backward(loss)`;
- `accelerator.clip_grad_norm_` on every micro step: inside `with accelerator.accumulate(...)` without
  `if accelerator.sync_gradients`, or where `optimizer.step()` runs only every n-th iteration;
- `accelerator.clip_grad_norm_` twice before one step;
- `accelerator.clip_grad_norm_` before the step of an optimizer that is not prepared: the clip unscales nothing;
- `accelerator.clip_grad_norm_` before a step that the code skips if the norm is not finite;
- a clip, torch's or accelerate's, that comes before the only backward pass of its step, or after the step.

How serious a finding is:

- If the file sets `mixed_precision="fp16"`, the finding is an error.
- If the precision is configured elsewhere (`accelerate launch`, a configuration file), the finding is a warning: the
  code works until someone chooses float16.
- A clip before the backward pass, or after the step, is an error also if the precision is configured elsewhere: in no
  precision does it clip the gradients that the step uses.

A finding about micro steps is only `likely` if by default there is no accumulation (`gradient_accumulation_steps` is
1).

In a class that inherits the Trainer of transformers, the advice is to remove the clip: the Trainer clips by itself.

If another file creates `accelerator`, the finding is only `likely`. amplint then reports it only if this file shows
that `accelerator` is an Accelerator, that is, if it calls methods that only an Accelerator has (`prepare`,
`accumulate`), or imports a library that is built on accelerate.

amplint reports nothing:

- if the file sets another precision than float16 ("no", "bf16", "fp8");
- with DeepSpeed, which clips itself, or with `cpu=True`, which has no scaler;
- after `accelerator.unscale_gradients()`;
- in an `if` whose other branch calls accelerate's clip;
- in a function that reads the loss scale;
- under an `if` that may select the precision or the kind of training (DeepSpeed, FSDP).

Checked with accelerate 1.15.

## Why is this bad?
In float16 `accelerator.backward` multiplies the loss by the scale of its own GradScaler, and `optimizer.step()` divides
the gradients by that scale. Between the two, gradients are 65,536 times too large (at the initial scale). torch's clip
then clips nearly always, and the step uses gradients with a norm of `max_norm / 65536`.

`accelerator.clip_grad_norm_` first unscales the gradients of every optimizer. It unscales on every call, so a second
call before the optimizer step, even on a later micro step, raises "unscale_() has already been called on this optimizer
since the last update()". The prepared optimizer's `step()` calls `update()`. If a test skips this step after an
overflow, the next clip raises, too.

A clip before the backward pass finds no gradients, or the gradients of the previous step. The step then uses gradients
that nothing has clipped. In float16, accelerate's own clip raises AssertionError if it runs before the first backward
pass.

## Example
```python
accelerator = Accelerator(mixed_precision="fp16")
model, optimizer = accelerator.prepare(model, optimizer)

accelerator.backward(loss)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
```

## Use instead
```python
accelerator = Accelerator(mixed_precision="fp16")
model, optimizer = accelerator.prepare(model, optimizer)

accelerator.backward(loss)
if accelerator.sync_gradients:
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
```

## Fix safety
The fix calls accelerate's clip instead of torch's, moves a clip after the backward pass, or adds
`if accelerator.sync_gradients:` where micro steps are possible.

Safe if only the name of the clip changes, in a file that creates the Accelerator. Unsafe:

- if `if accelerator.sync_gradients:` is added: micro steps are no longer clipped;
- if the clip moves after the backward pass: the clip takes effect for the first time;
- for `clip_grad_value_`, which accelerate doesn't support with FSDP and DeepSpeed;
- if the returned norm is used: with DeepSpeed the norm is None;
- if another file creates the Accelerator;
- for a `max_norm` above 1,000, which was probably tuned to scaled gradients: unscaled gradients would not be clipped.

There is no fix:

- if the call passes an argument that accelerate's clip doesn't have (`foreach`, `error_if_nonfinite`);
- if the code may skip the optimizer's step after the clip;
- if the clip comes after the step;
- if several optimizers step after the clip: accelerate's clip unscales for all of them, and after the first step the
  second one would unscale again. Give all parameters to one optimizer;
- if the returned norm is used, and would be undefined on micro steps;
- if the code counts micro steps itself;
- for a second clip before one step. Clip all parameters in one call, or use torch's clip for the second one: the first
  clip has unscaled the gradients by then;
- if the project allows an accelerate that lacks what the fix needs: the clip returns the norm since 0.14, and
  `sync_gradients` exists since 0.11.

## Proof
The test programs use a small replacement for accelerate, built on torch's own scaler and optimizers. In the wrong
programs torch's clip sees 65,536 times the true norm, and second clips raise. In the corrected programs the clip sees
the true norm. A manual run with accelerate 1.15 itself, with its scaler on the CPU, gave the same result. The test
program whose class gets its Accelerator from another file is not executed (shows=none).

## References
- [The Accelerator](https://huggingface.co/docs/accelerate/package_reference/accelerator)
- [Gradient accumulation with accelerate](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.conditions import guarded, unit
from amplint.fixes.edits import indentation
from amplint.fixes.statements import line_behind, own_statement, removed, says_the_same, text_with_comment
from amplint.model.calls.call_sites import callers
from amplint.model.flow.path_conditions import Conditions
from amplint.model.inference.dtypes import dtypes
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import block_leaves, conditions_round, ends_iteration
from amplint.model.syntax.nesting import following, loop_of, upwards
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.signatures import SIGNATURES
from amplint.model.usage.accelerators import PERIOD, SCALES, accelerators
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import number_or_default
from amplint.rules.shared.finite_checks import not_finite
from amplint.rules.shared.framework_steps import (
    IF_SCALED,
    SYNCS,
    Met,
    Step,
    asks_for_sync,
    common,
    containers,
    is_always_behind,
    loop_round,
    may_decide,
    tests_of,
)
from amplint.rules.shared.transformers_trainers import is_in_trainer
from amplint.rules.shared.unprepared_optimizers import steps_unprepared, unprepared_steps

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("clip_grad & accelerat",),
    shown_by=("gradient", "update", "skips", "exception"),
)

# What an Accelerator calls torch's clips, and the arguments that it takes.
_OWN = {
    f"torch.nn.utils.{name}{end}": f"{name}_" for name in ("clip_grad_norm", "clip_grad_value") for end in ("", "_")
}
_TUNED = 1_000
# The releases from which on the norm is returned, and micro steps can be told.
_GIVES_NORM, _TELLS_STEPS = "0.14", "0.11"
_STEPS = re.compile("(?i)step")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each clip that comes after an Accelerator's backward in the wrong way, once."""
    if not accelerators(module).is_used:
        return
    told: set[int] = set()
    for container in containers(module, lambda call: accelerators(module).kind(call) == "clip"):
        step = Step(module, container, accelerators(module).kind)
        for met in step.met:
            found = None
            if met.call.id not in told and met.kind == "torch":
                found = _past(module, step, met) or _early(module, step, met) or _late(module, step, met)
            elif met.call.id not in told and met.kind == "clip":
                found = _early(module, step, met) or _late(module, step, met) or _of_own_clip(module, step, met)
            if found is not None:
                told.add(met.call.id)
                yield found


def _severity(module: Module, accelerator: ir.Value) -> Severity | None:
    """How sure it is that the gradients are scaled; None where they aren't, or an engine sees to it."""
    known = accelerators(module)
    if known.has_no_scaler(accelerator):
        return None
    precisions = known.precisions(accelerator)
    if SCALES in precisions:
        return Severity.ERROR
    return Severity.WARNING if None in precisions else None


def _confidence(module: Module) -> Confidence | None:
    """Likely where another file makes what is used as an Accelerator."""
    return None if accelerators(module).imported else Confidence.LIKELY


def _when(module: Module, accelerator: ir.Value, severity: Severity) -> str:
    """In which precision a finding holds, where the Accelerator can have another."""
    if severity is not Severity.ERROR:
        return IF_SCALED
    return "" if accelerators(module).precisions(accelerator) == {SCALES} else f'with "{SCALES}", '


def _receiver(call: ir.Call) -> ir.Value:
    assert isinstance(call.func, ir.Attribute)
    return call.func.base


# --- torch's clip ---------------------------------------------------------------------------------------------------


def _past(module: Module, step: Step, clip: Met) -> Finding | None:
    backward = step.before(clip)
    if backward is None or backward.kind != "backward" or step.in_other_arm(clip):
        return None
    if not is_always_behind(module, clip, backward):
        return None
    accelerator = _receiver(backward.call)
    severity = _severity(module, accelerator)
    if severity is None:
        return None
    name, own = module.text(accelerator), _OWN.get(module.names.only(clip.call.func) or "")
    if is_in_trainer(module, clip.call):
        return _in_trainer(module, clip, name, severity)
    instead = f"{name}.{own}" if own else f"{name}.unscale_gradients()"
    offered, withheld = _fix(module, step, clip, backward)
    return rule.finding(
        module.span(clip.call),
        f"{_when(module, accelerator, severity)}`{module.text(clip.call.func)}` clips gradients that are still "
        f"scaled by `{name}.backward`; {_one_optimizer(step, clip)}call `{instead}`"
        + (" before the clip" if not own else _for_the_others(module, step, clip)),
        fix=offered,
        withheld=withheld,
        severity=severity,
        confidence=_confidence(module),
    )


def _in_trainer(module: Module, clip: Met, accelerator: str, severity: Severity) -> Finding:
    """The finding of a clip in a Trainer of transformers, which clips by the Accelerator after each micro step."""
    return rule.finding(
        module.span(clip.call),
        f"with `fp16=True`, `{module.text(clip.call.func)}` clips gradients that are still scaled by "
        f"`{accelerator}.backward`; remove this clip, as the Trainer clips by itself: set `max_grad_norm` in "
        "TrainingArguments",
        withheld="amplint can't tell which TrainingArguments this Trainer gets",
        severity=severity,
        confidence=_confidence(module),
    )


def _one_optimizer(step: Step, clip: Met) -> str:
    """What else is to do where several optimizers step: the Accelerator's clip unscales the gradients of all of them,
    and after the first step the second one would unscale again.
    """
    return "give all parameters to one optimizer, and " if step.steps_behind(clip) > 1 else ""


def _for_the_others(module: Module, step: Step, clip: Met) -> str:
    """What a message adds where torch's clips follow, of which nothing is said."""
    at = step.met.index(clip)
    after = next((each for each in step.met[at + 1 :] if each.kind not in ("other", "clear")), None)
    if after is None or after.kind != "torch":
        return ""
    return f", which unscales all gradients: the clip on {module.line(after.call)} is then right too"


def _fix(module: Module, step: Step, clip: Met, backward: Met) -> tuple[Fix | None, str | None]:
    accelerator, call = _receiver(backward.call), clip.call
    method = _OWN.get(module.names.only(call.func) or "")
    if method is None:
        return (
            None,
            "`unscale_gradients()` may run only once per step, and amplint can't tell which micro step is the last; "
            "insert the call by hand",
        )
    why_not = _why_not_its_own(module, step, clip, backward, SIGNATURES[f"accelerate.Accelerator.{method}"])
    if why_not is not None:
        return None, why_not
    text = f"{module.text(accelerator)}.{method}"
    edit, doubts = Edit(*module.span(call.func), text), []
    if method == "clip_grad_value_":
        doubts.append("not supported with FSDP and DeepSpeed")
    elif own_statement(call) is None:
        if older := _older(module, _GIVES_NORM):
            return None, f"the norm is used, and `{text}` returns the norm only since {older}"
        doubts.append("with DeepSpeed, the returned norm is None")
    if not accelerators(module).imported:
        doubts.append("another file creates the Accelerator")
    if _is_tuned(call, f"accelerate.Accelerator.{method}"):
        doubts.append("the bound may be tuned to scaled gradients, and too large for unscaled gradients")
    if not asks_for_sync(clip) and _may_accumulate(module, accelerator):
        under = _under_sync(module, accelerator, call, edit)
        if isinstance(under, str):
            return None, under
        edit = under
        text = f"{text}` under `if {module.text(accelerator)}.{SYNCS}"
        doubts.append("micro steps are then no longer clipped")
    applicability = Applicability.UNSAFE if doubts else Applicability.SAFE
    note = f" ({'; '.join(doubts)})" if doubts else ""
    return Fix(applicability, f"Clip with `{text}`{note}", (edit,)), None


def _under_sync(module: Module, accelerator: ir.Value, call: ir.Call, edit: Edit) -> Edit | str:
    """An edit of the function of a call, with a test before it that leaves micro steps out; or why there is none."""
    statement = own_statement(call)
    test = f"{module.text(accelerator)}.{SYNCS}"
    guard = guarded(module, statement, test) if statement is not None else None
    if statement is None:
        return f"the clip has to be under `if {test}`, but its norm is used; compute the norm under the `if` by hand"
    if guard is None or guard.start != edit.start:
        return f"the clip has to be under `if {test}`, but is on one line with other code"
    if older := _older(module, _TELLS_STEPS):
        return f"the clip has to be under `if {test}`, which exists only since {older}"
    return Edit(edit.start, edit.end, guard.content + edit.content)


def _why_not_its_own(module: Module, step: Step, clip: Met, backward: Met, takes: tuple[str, ...]) -> str | None:
    """Why a clip can't be the Accelerator's own, whose parameters are `takes`."""
    call = clip.call
    if lacking := _lacks(call, takes):
        return lacking
    if not _readable(module, _receiver(backward.call), call, backward.call):
        return "amplint can't tell which name the Accelerator has at the clip; make the change by hand"
    uses = step.behind(clip)
    if uses is None or uses.kind != "step" or tests_of(uses, clip):
        return "amplint can't tell whether each clip has one step after it; clip by hand, once before each step"
    if step.steps_behind(clip) > 1:
        return "the Accelerator's clip unscales for all optimizers, and the second step would unscale again"
    return None


def _lacks(call: ir.Call, takes: tuple[str, ...]) -> str | None:
    """What to say of arguments that the Accelerator's own clip, whose parameters are `takes`, doesn't have."""
    lacking = [name for name in call.keywords if name not in takes]
    if lacking:
        return f"the Accelerator's clip has no argument `{lacking[0]}`; remove the argument first"
    if call.unpacks() or len(call.positional) > len(takes):
        return "amplint can't tell whether the Accelerator's clip has these arguments; make the change by hand"
    return None


def _older(module: Module, release: str) -> str | None:
    """What to say of a release of accelerate, where the project admits older ones."""
    target = module.target_of("accelerate")
    if target.guarantees(release):
        return None
    return f"accelerate {release}, and the project allows older releases ({target.origin})"


def _readable(module: Module, accelerator: ir.Value, here: ir.Call, there: ir.Call) -> bool:
    """Whether the Accelerator is called at the clip as it is at the backward."""
    if ir.function_of(here) is ir.function_of(there):
        return says_the_same(module, accelerator, here, there)
    cls = owner_class(accelerator) if isinstance(accelerator, ir.Attribute) else None
    function = ir.function_of(here)
    return (
        cls is not None
        and function is not None
        and function.cls is cls
        and bool(function.params)
        and module.text(accelerator).partition(".")[0] == function.params[0].name
    )


def _is_tuned(call: ir.Call, clip: str) -> bool:
    bound = argument(call, clip, SIGNATURES[clip][1])
    value = bound.value if isinstance(bound, ir.Constant) else None
    return isinstance(value, (int, float)) and value > _TUNED


def _may_accumulate(module: Module, accelerator: ir.Value) -> bool:
    """Whether micro steps are in sight, or may be where they aren't: the Accelerator comes from elsewhere."""
    accumulates = any(
        ir.last_name(call.func) in ("accumulate", "no_sync") for call in module.own.near("accumulate", "no_sync").calls
    )
    return accumulates or not accelerators(module).made(accelerator)


# --- a clip before the backward -------------------------------------------------------------------------------------


def _early(module: Module, step: Step, clip: Met) -> Finding | None:
    """A clip, torch's or the Accelerator's own, that no gradients have come to yet."""
    backward = step.too_early(clip)
    if backward is None:
        return None
    accelerator = _receiver(backward.call)
    severity = _severity(module, accelerator)
    if severity is None:
        return None
    effect = "does not clip the gradients of this step"
    if _may_accumulate(module, accelerator):
        effect = "does not clip the last gradients of the step"
    elif clip.kind == "clip" and severity is Severity.ERROR:
        effect = "raises AssertionError"
    loop, here = loop_round(clip, backward), ir.function_of(common(clip, backward)[0])
    if loop is None and callers(module, here):
        return None  # where they call it, it may be known what gradients there are
    offered, withheld = _moved(module, clip, backward)
    return rule.finding(
        module.span(clip.call),
        f"this clip {effect}: it comes before `{module.text(backward.call.func)}` on {module.line(backward.call)}, "
        "which computes the gradients; clip between the backward pass and the step, with "
        f"`{module.text(accelerator)}.{_method(module, clip) or 'clip_grad_norm_'}`",
        fix=offered,
        withheld=withheld,
        severity=Severity.ERROR,
        confidence=_confidence(module) or (Confidence.LIKELY if loop is None else None),
    )


def _late(module: Module, step: Step, clip: Met) -> Finding | None:
    """A clip, torch's or the Accelerator's own, of gradients that the step has used already."""
    used = step.too_late(clip)
    backward = next((each for each in step.met if each.kind == "backward"), None)
    if used is None or backward is None or _severity(module, _receiver(backward.call)) is None:
        return None
    accelerator = module.text(_receiver(backward.call))
    return rule.finding(
        module.span(clip.call),
        f"this clip has no effect: the optimizer has already stepped on {module.line(used.call)}; clip between the "
        f"backward pass and the step, with `{accelerator}.{_method(module, clip) or 'clip_grad_norm_'}`",
        withheld="the clip has to come before the step; move the clip by hand",
        severity=Severity.ERROR,
        confidence=_confidence(module),
    )


def _method(module: Module, clip: Met) -> str | None:
    """The Accelerator's own clip that does what a clip does; None if there is none."""
    return ir.last_name(clip.call.func) if clip.kind == "clip" else _OWN.get(module.names.only(clip.call.func) or "")


def _moved(module: Module, clip: Met, backward: Met) -> tuple[Fix | None, str | None]:
    """The fix that moves a clip behind the backward, as the Accelerator's own; or why there is none."""
    accelerator, method = _receiver(backward.call), _method(module, clip)
    statement, target = own_statement(clip.call), own_statement(backward.call)
    if method is None:
        return None, "the Accelerator has no such clip; move the clip by hand"
    if statement is None:
        return None, "the result of the clip is used; move the clip by hand"
    if target is None or statement.block is not target.block:
        return None, "the clip and the backward pass are in different blocks; move the clip by hand"
    if lacking := _lacks(clip.call, SIGNATURES[f"accelerate.Accelerator.{method}"]):
        return None, lacking
    code, func, text = text_with_comment(module, statement), module.text(clip.call.func), module.text(accelerator)
    code = f"{text}.{method}{code.removeprefix(func)}"
    gone = removed(module, statement)
    if not asks_for_sync(clip) and _may_accumulate(module, accelerator):
        if "\n" in code:
            return None, f"the clip has to be under `if {text}.{SYNCS}`; move the clip by hand"
        inner = f"{indentation(module, target)}{unit(module, target)}"
        code = f"if {text}.{SYNCS}:{module.source.newline}{inner}{code}"
    behind = line_behind(module, target, code)
    if gone is None or behind is None:
        return None, "the clip or the backward pass is on one line with other code"
    title = f"Move the clip after the backward pass, as `{text}.{method}` (the clip then takes effect)"
    return Fix(Applicability.UNSAFE, title, (gone, behind)), None


# --- the Accelerator's own clip -------------------------------------------------------------------------------------


def _of_own_clip(module: Module, step: Step, clip: Met) -> Finding | None:
    """What is wrong with a clip of the Accelerator's own between a backward pass and a step."""
    rest = step.met[step.met.index(clip) + 1 :]
    after = next((each for each in rest if each.kind in ("step", "backward")), None)
    if after is not None and after.kind == "step" and steps_unprepared(module, after.call, _receiver(clip.call)):
        return _of_unprepared(module, clip, after)
    return _again(module, step, clip) or _on_micro_steps(module, step, clip) or _not_stepped(module, step, clip)


def _of_unprepared(module: Module, clip: Met, after: Met) -> Finding | None:
    """A clip that has no optimizer to unscale for: none is prepared, and the step waits for no micro step."""
    accelerator = _receiver(clip.call)
    severity = _severity(module, accelerator)
    if severity is None or any(each.step is after.call for each in unprepared_steps(module)):
        return None  # AMP402 says so at the step
    return rule.finding(
        module.span(clip.call),
        f"{_when(module, accelerator, severity)}`{module.text(clip.call.func)}` clips gradients that are still scaled, "
        f"and the step on {module.line(after.call)} uses them: no optimizer is passed to `prepare()`; pass it",
        withheld="amplint can't tell what else has to be passed to `prepare()`",
        severity=severity,
        confidence=_confidence(module),
    )


def _again(module: Module, step: Step, clip: Met) -> Finding | None:
    """A second clip of one step."""
    first = step.before(clip)
    if first is None or first.kind not in ("clip", "unscale_") or tests_of(first, clip) or first.call is clip.call:
        return None
    if first.kind == "unscale_" and first.call.args:
        return None  # of one optimizer
    accelerator = _receiver(clip.call)
    severity = _severity(module, accelerator)
    if severity is None or module.text(_receiver(first.call)) != module.text(accelerator):
        return None
    if any(may_decide(module, test) for test, _ in tests_of(clip, first)):
        return None
    to_do = "clip all parameters in one call, or use torch's clip the second time"
    withheld = "amplint can't tell which change is intended"
    if first.kind == "unscale_":
        to_do = f"remove `{module.text(first.call.func)}()`, or use torch's clip"
    one, other = common(first, clip)
    calls = module.own.near(_STEPS).calls
    if any(_STEPS.search(ir.last_name(call.func)) for call in calls if one.id < call.id < other.id):
        return None  # of an optimizer that isn't known as one
    return rule.finding(
        module.span(clip.call),
        f"{_when(module, accelerator, severity)}this clip unscales again, and raises RuntimeError: "
        f"`{module.text(first.call.func)}` on {module.line(first.call)} has unscaled all gradients; {to_do}",
        withheld=withheld,
        severity=severity,
        confidence=_confidence(module),
    )


def _on_micro_steps(module: Module, step: Step, clip: Met) -> Finding | None:
    """A clip on each micro step: of `with accelerator.accumulate(...)`, or with a step that waits for a counter."""
    accelerator = _receiver(clip.call)
    severity = _severity(module, accelerator)
    if severity is None or asks_for_sync(clip):
        return None
    after = step.behind(clip)
    if after is not None and after.kind == "backward":
        return None  # it comes before the gradients of its micro step
    fix, statement = None, own_statement(clip.call)
    withheld = (
        "the clip is on one line with other code; add the `if` by hand"
        if statement is not None
        else "the norm that the clip returns is used; add the `if` by hand"
    )
    once = False
    if _accumulates(module, accelerator) and _is_inside_accumulate(module, clip):
        once = _may_be_once(module, accelerator)
        test = f"{module.text(accelerator)}.{SYNCS}"
        edit = guarded(module, statement, test) if statement is not None else None
        fix = (
            Fix(Applicability.UNSAFE, f"Clip under `if {test}` (micro steps are no longer clipped)", (edit,))
            if edit is not None
            else None
        )
    elif (counted := _counted(module, step, clip)) is not None:
        test = module.text(counted)
        withheld = "the condition may have another value at the clip than at the step; add the `if` by hand"
    else:
        return None
    effect = "the second clip unscales again, and raises RuntimeError"
    if accelerators(module).precisions(accelerator) != {SCALES}:
        effect = 'partly accumulated gradients are clipped, and with "fp16" the second clip raises RuntimeError'
    made = accelerators(module).made(accelerator)
    return rule.finding(
        module.span(clip.call),
        f"`{module.text(clip.call.func)}` runs on each micro step: {f'if `{PERIOD}` is over 1, ' if once else ''}"
        f"{effect}; clip under `if {test}`",
        fix=fix,
        withheld=None if fix else withheld,
        severity=severity,
        confidence=Confidence.LIKELY if once or not made else _confidence(module),
    )


def _not_stepped(module: Module, step: Step, clip: Met) -> Finding | None:
    """A clip after which the step is skipped where gradients are not finite: with it goes the scaler's `update()`."""
    accelerator, rest = _receiver(clip.call), step.met[step.met.index(clip) + 1 :]
    severity = _severity(module, accelerator)
    after = next((each for each in rest if each.kind in ("step", "backward", "clip")), None)
    if severity is None or after is None or after.kind != "step" or step.steps_behind(clip) > 1:
        return None
    here, there = common(after, clip)
    asked = [
        test
        for test, holds in (*conditions_round(here), *_left_after(there))
        if (test, holds) not in conditions_round(there) and not_finite(module, test, not holds) and _goes_on(test)
    ]
    if not asked or loop_of(there) is None or loop_of(here) is not loop_of(there):
        return None
    return rule.finding(
        module.span(clip.call),
        f"{_when(module, accelerator, severity)}`{module.text(clip.call.func)}` raises RuntimeError after an overflow: "
        f"`{module.on_one_line(asked[0])}` on {module.line(asked[0])} skips the step, and `update()` with it; always "
        "step: the scaler itself skips steps that overflow",
        withheld="amplint can't tell what else the test is for",
        severity=severity,
        confidence=_confidence(module),
    )


def _goes_on(test: ir.Value) -> bool:
    """Whether training goes on where the step is skipped: neither arm of the `if` ends the loop or the program."""
    statement = ir.statement_of(test)
    arms = [statement.then, statement.orelse] if isinstance(statement, ir.If) else []
    return not any(block_leaves(each) and not ends_iteration(each) for each in arms if each is not None)


def _left_after(node: ir.Node) -> Iterator[tuple[ir.Value, bool]]:
    """The tests after a node in its suite that leave the suite, and how they have to come out to go on."""
    for each in following(ir.statement_of(node)):
        if isinstance(each, ir.If) and block_leaves(each.then):
            yield each.test, False


def _is_inside_accumulate(module: Module, clip: Met) -> bool:
    inside = [each for call in clip.path for each in upwards(ir.statement_of(call)) if isinstance(each, ir.With)]
    region = next((each for each in inside if any(_is_accumulate(module, item) for item in each.items)), None)
    if region is None:
        return False
    return not any(_mentions_sync(each) for each in ir.values_below(region.body) if each.id < clip.call.id)


def _counted(module: Module, step: Step, clip: Met) -> ir.Value | None:
    """The test of a counter for which the step behind a clip waits, and the clip doesn't."""
    use = step.behind(clip)
    if use is None or use.kind != "step":
        return None
    conditions = Conditions(module)
    return next((test for test, holds in tests_of(use, clip) if holds and conditions.counts(test)), None)


def _is_accumulate(module: Module, item: ir.Item) -> bool:
    func = item.context.func if isinstance(item.context, ir.Call) else None
    return isinstance(func, ir.Attribute) and func.attr == "accumulate" and accelerators(module).owns(func.base)


def _mentions_sync(value: ir.Value) -> bool:
    return isinstance(value, ir.Attribute) and value.attr == SYNCS


def _accumulates(module: Module, accelerator: ir.Value) -> bool:
    """Whether the file shows more than one micro step, or a setting for it; who calls `accumulate` on what another file
    creates has one there.
    """
    made = accelerators(module).made(accelerator)
    given = [accelerators(module).period(call) for call in made]
    return not made or any(each is not None and not _is_one(module, each) for each in given)


def _may_be_once(module: Module, accelerator: ir.Value) -> bool:
    """Whether each step has one micro step, unless a setting says more: no default is seen that does."""
    known = accelerators(module)
    given = [known.period(call) for call in known.made(accelerator)]
    return bool(given) and all(each is None or (number_or_default(module, each) or 1) <= 1 for each in given)


def _is_one(module: Module, value: ir.Value) -> bool:
    found = [each.value for each in dtypes(module, value)]
    return all(isinstance(each, ir.Constant) and each.value == 1 for each in found)
