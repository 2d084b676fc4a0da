"""Gradients are clipped while they are still multiplied by the loss scale.

## What it does
Finds a clip that runs after `scaler.scale(loss).backward()` and before `scaler.unscale_(optimizer)`. These count as
clips:

- `clip_grad_norm_`, `clip_grad_value_` and timm's `dispatch_clip_grad`;
- manual clipping: `p.grad.clamp_(...)`, `p.grad *= max_norm / norm`.

Also finds these, even if amplint doesn't see the backward pass:

- a function that clips and then calls `unscale_`;
- a function that clips and then calls `scaler.step`, if the file creates this scaler, scales a loss with it and never
  unscales, and no other file uses the scaler;
- hooks that clip, such as `p.register_hook(lambda grad: grad.clamp(-1, 1))`: a hook runs during the backward pass,
  before any `unscale_`. The finding is only *likely*, and is made only if the file scales its losses, or the object
  that registers the hook keeps a scaler.

With NVIDIA's apex, also finds:

- a clip inside the `with` of `amp.scale_loss`, which unscales the gradients only at its end;
- a clip of the model's own parameters with opt_level "O2", which steps float32 copies of them.

amplint reports nothing:

- if the scaler or the optimizer is passed to a function that amplint can't see;
- if the gradients are unscaled under a condition that may be the flag that enables AMP;
- if the bound is multiplied by `scaler.get_scale()`;
- if the scaler is disabled where the clip runs;
- about hooks, if another function of the file also trains without the scaler.

## Why is this bad?
At the initial scale the gradients are 65,536 times too large, so nearly every norm exceeds the bound. After the clip
and the step's division by the scale, the gradients have a norm of `max_norm / 65536`. Nothing raises. With SGD the
update shrinks to a small part of its right size (0.003 % in most of the programs below). Adam hides this almost
completely, and trains a little worse.

## Example
```python
scaler.scale(loss).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
```

## Fix safety
Safe if every path from the clip reaches `update()` before the next scaled backward pass. The fix calls `unscale_` right
before the clip, for the optimizer that owns the clipped parameters, and only where the gradients are scaled:

- if several clips share a step, `unscale_` goes once before all of them;
- if `unscale_` comes after the clip, that call moves before the clip;
- if the clip uses a norm that was computed earlier, `unscale_` goes before the norm.

Unsafe:

- if the clip runs on each micro step, and has to move to the optimizer's step;
- if the bound exceeds 1,000: the bound was probably tuned on scaled gradients, and would no longer clip;
- if the function reads the scale, and may divide by it already;
- if a fused optimizer may hold float16 parameters, on which `unscale_` raises;
- if an exception after the clip is caught: then `update` is skipped, and the next `unscale_` raises;
- if only a function's name says that it clips, and amplint can't see its code.

There is no fix:

- if a hook clips;
- if amplint can't tell which optimizer owns the parameters;
- if the norm that the clip returns is divided by the scale later;
- if the parameters are float16;
- if some path skips `update()`, for example together with the step: the next `unscale_` would raise;
- if some path leaves the function between the computation of a norm and the clip that uses this norm.

## Proof
The test programs are compared with a float32 reference step. Before the fix, the clip sees gradients that are larger by
the scale: by 65,536, or by the program's own scale. After the fix the norm is right, and the SGD updates agree with the
reference within float16's noise. In one program the update is right before the fix, too: its bound is 65,536, as large
as the scale.

## References
- [Gradient clipping with torch.amp](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.calls.events import NAMED
from amplint.model.flow.analysis import Flow
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.violations import ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.registry.rule import Rule
from amplint.rules.shared.apex_scales import ApexClip, scaled_clips
from amplint.rules.shared.clipping_hooks import ClippingHook, clipping_hooks
from amplint.rules.shared.clips import advice, backward_after, clips_scaled, is_compensated, meets_micro_steps
from amplint.rules.shared.scaler_order import Misuse, misuses, receiver, running, stepping, when
from amplint.rules.shared.unscale_fix import ALSO, ClipFix

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=(
        "clip_grad & .scale( & backward",
        "clip_grad & scaler & step(",
        "grad & clamp & .scale( & backward",
        "grad & clip & .scale( & backward",
        "grad & norm & .scale( & backward",
        "grad_hook & cl & Scaler",
        "register_hook & cl & Scaler",
        "grad_hook & norm & Scaler",
        "register_hook & norm & Scaler",
        "clip_grad & scale_loss",
    ),
    shown_by=("gradient", "update", "skips"),
)

_ELSEWHERE = "the backward pass or the step is in another function; add the `unscale_()` by hand"

_WHOSE = "amplint can't tell which optimizer's gradients are clipped: they may still be multiplied by the loss scale"
_ANOTHER_SET = ("backward", "step", "optimizer_step", "opaque")  # of gradients


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each clip that meets scaled gradients on some path."""
    reported: set[int] = set()
    for each in sorted(
        misuses(module, "AMP401"), key=lambda each: each.violation.kind is ViolationKind.CLIP_OF_SCALED_AGAIN
    ):
        reached = each.reached
        if each.violation.kind is ViolationKind.CLIP_OF_SCALED_AGAIN and each.violation.cause in reported:
            continue
        if each.violation.at in reported or is_compensated(module, reached):
            continue
        if clips_scaled(module, each):
            reported.add(each.violation.at)
            last = _last_backward(module, each)
            if last is None:
                offered, withheld = ClipFix(module, each).build() if each.here else (None, _ELSEWHERE)
            else:
                offered, withheld = None, "amplint can't tell whether something reads the gradients before the clip"
            is_guessed = reached.event.how == NAMED
            if offered is not None and is_guessed:
                message = f"{offered.message} (amplint can't see the code of the clip)"
                offered = offered._replace(applicability=Applicability.UNSAFE, message=message)
            yield rule.finding(
                module.span(reached.event.call),
                when(module, each)
                + (_message(module, each, withheld) if last is None else _misses(module, each, *last)),
                fix=offered,
                withheld=withheld,
                confidence=Confidence.LIKELY if is_guessed else None,
                cause=_cause(module, each, offered),
            )
    for hook in clipping_hooks(module):
        yield _of_hook(module, hook)
    done = set[int]()
    for found in scaled_clips(module):
        if found.clip.id not in done:
            done.add(found.clip.id)
            yield _of_apex(module, found)


def _misses(module: Module, clip: Misuse, backward: ir.Value, step: ir.Value) -> str:
    """What is wrong with a clip before the last backward pass of its step."""
    scaler = module.text(receiver(clip.flow.event_states[step.id].event))
    return (
        f"this clip misses the last micro step, whose backward pass is on {module.line(backward)}, and clips gradients "
        f"that are still multiplied by the loss scale; clip after `{scaler}.unscale_()`, before the step on "
        f"{module.line(step)}"
    )


def _last_backward(module: Module, clip: Misuse) -> tuple[ir.Value, ir.Value] | None:
    """The last backward pass of the step that a clip comes before, and the step, if micro steps accumulate."""
    for each in misuses(module, "AMP419"):
        if each.violation.at == clip.violation.at and each.cause is not None and meets_micro_steps(each):
            backward = backward_after(each.flow, each.reached.event, each.cause)
            if backward is not None:
                return backward, each.cause.call
    return None


def _cause(module: Module, clip: Misuse, offered: Fix | None) -> str:
    """What the clips of a function share that one `unscale_` puts right: the backward pass, and whose gradients.

    Clips for which other places are offered have findings of their own.
    """
    subject, place = clip.reached.event.subject, ir.function_of(clip.reached.event.call)
    roots = objects(module).parameters_roots(subject) if subject is not None else ()
    if not clip.violation.cause or not roots or not clip.here:
        return ""
    where = offered.edits if offered is not None else ""
    return f"clips {clip.violation.cause} {place.id if place is not None else 0} {sorted(roots)} {where}"


def _of_apex(module: Module, found: ApexClip) -> Finding:
    if found.made is None:
        message = (
            "gradients are clipped inside `amp.scale_loss`, where they are still multiplied by the loss scale; clip "
            "after the `with`"
        )
    else:
        message = (
            f"with opt_level O2 ({module.line(found.made)}) the optimizer steps float32 copies of the parameters: this "
            "clip has no effect; clip `amp.master_params(optimizer)`"
        )
    return rule.finding(
        module.span(found.clip),
        message,
        withheld="amplint doesn't change code of apex; torch has AMP itself",
        # A branch may be the one for what apex doesn't train.
        confidence=Confidence.LIKELY if found.made is not None and conditions_round(found.clip) else None,
    )


def _of_hook(module: Module, hook: ClippingHook) -> Finding:
    scaled = "the loss is scaled on" if ir.last_name(hook.scaled.func) == "scale" else "the scaler is created on"
    return rule.finding(
        module.span(hook.call),
        f"this hook clips gradients while they are still multiplied by the loss scale ({scaled} "
        f"{module.line(hook.scaled)}); remove the hook, and clip between `unscale_()` and the step",
        withheld="amplint can't tell where the clip belongs without the hook",
        confidence=Confidence.LIKELY,
    )


@rule.doubt
def doubts(module: Module) -> Iterator[str]:
    """Of functions that clip more models, of optimizers out of sight, than they unscale optimizers.

    A fix must not let such a function run to its end that raises without it.
    """
    known = {each.violation.at for each in misuses(module, "AMP401")}
    for flow in running(module):
        if _clips_more_than_is_unscaled(module, flow, known):
            yield _WHOSE


def _clips_more_than_is_unscaled(module: Module, flow: Flow, known: set[int]) -> bool:
    """Whether one of the clips between a backward and a step must meet scaled gradients, if no optimizer has the
    parameters of two of them; `known`: the clips of which that is known.
    """
    stepped = {each for each in stepping(flow) if each}
    roots: set[str] = set()
    for reached in flow.in_order if len(stepped) > 1 else ():
        if reached.event.kind != "clip":
            roots = set() if reached.event.kind in _ANOTHER_SET else roots
            continue
        subject = reached.event.subject
        if subject is not None and reached.event.call.id not in known:
            every = objects(module)
            roots |= {each for each in every.parameters_roots(subject) if not every.owned_by(each)}
        for state in reached.states:
            scaled = sum(state.gradients_of(each).kind is GradientKind.SCALED for each in stepped)
            if scaled and len(roots) > len(stepped) - scaled:
                return True
    return False


def _message(module: Module, clip: Misuse, withheld: str | None) -> str:
    known = clip.violation.cause and clip.violation.kind is not ViolationKind.CLIP_OF_SCALED_AGAIN
    since = f" of the backward pass on {module.line(module.value(clip.violation.cause))}" if known else ""
    to_do = advice(module, clip)
    what = to_do.first(module, "the clip")
    if to_do.waits:
        what = f"call `{to_do.unscale}` before the clip, and do both only if the optimizer steps"
    if withheld in ALSO:
        what = f"{what}{';' if to_do.waits else ', and'} {ALSO[withheld]}"
    return f"gradients are clipped while still multiplied by the loss scale{since}; {what}"
