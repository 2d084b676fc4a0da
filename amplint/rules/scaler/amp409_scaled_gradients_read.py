"""Gradients are read for their size, or changed, while they are still multiplied by the loss scale.

## What it does
Finds code that uses gradients between `scaler.scale(loss).backward()` and `scaler.unscale_(optimizer)`:

- a change of gradients by a value that doesn't carry the loss scale is an error. Examples are noise that is added, a
  manual weight decay, and small gradients that a threshold sets to zero;
- a size of gradients that is logged, compared or stored is a warning. Examples are `p.grad.norm()`,
  `get_total_norm(...)`, `p.grad.abs().max()`, a clip with an infinite bound, and a function of the file that returns
  one of these.

Also finds:

- a division of gradients, or of their norm, by the scale after `scaler.unscale_` or `scaler.step` has already divided;
- `wandb.watch(model)`, which logs gradients during the backward pass, unless `log="parameters"` or `log=None` (likely);
- the same uses under accelerate, between `accelerator.backward(loss)` and the call that unscales:
  `accelerator.clip_grad_norm_`, `accelerator.unscale_gradients()` or `optimizer.step()`.

A finding is only *likely*:

- if accelerate's precision is configured elsewhere;
- if the size is logged next to the scale: whoever reads the log may divide.

amplint reports nothing:

- after `scaler.unscale_` or `scaler.step`, except about a second division: from then on the gradients are unscaled;
- about uses in which the scale cancels: the sign, `isfinite`, `g / g.norm()`, a ratio of two norms, a comparison with
  zero or infinity;
- about changes that leave the scale in place: adding gradients to each other, or multiplying them by a constant;
- if the size is used in manual clipping (AMP401);
- if the function uses the scale for more than to log or compare it: it may divide by hand;
- if an Accelerator is created for a precision other than fp16, with DeepSpeed or with `cpu=True`;
- if amplint can't see how the number is used.

## Why is this bad?
At the initial scale the gradients are 65,536 times too large, and the scale changes during training. Logs and
thresholds are off by that factor. The scaler later divides the gradients by the scale, and with them a value that was
added: the value is almost lost.

## Example
```python
scaler.scale(loss).backward()
for p in model.parameters():
    p.grad.add_(torch.randn_like(p.grad), alpha=0.01)
norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
writer.add_scalar("grad_norm", norm, step)
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
for p in model.parameters():
    p.grad.add_(torch.randn_like(p.grad), alpha=0.01)
norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
writer.add_scalar("grad_norm", norm, step)
scaler.step(optimizer)
scaler.update()
```

## Fix safety
The fix inserts `unscale_` right before the read or the change, or moves a later `unscale_` to that place. Safe if every
path from that place reaches `update()` before the next scaled backward pass.

Unsafe:

- if the size is compared with a number above 1,000, which was probably tuned on scaled gradients;
- if the function logs or compares the scale: the number may later be divided by it;
- if a fused optimizer may hold float16 parameters, on which `unscale_` raises;
- if an exception after the read is caught: then `update` is skipped, and the next `unscale_` raises.

There is no fix under accelerate, for a second division, if some path skips `update()`, and on micro steps. On micro
steps a second `unscale_` would raise: read `grad / scaler.get_scale()`, or read where the optimizer steps.

## Proof
The test programs are compared with a float32 reference step. Before the fix, the gradients that the program reads are
too large by the scale. After the fix they are right. Programs that check the size themselves raise before the fix. If a
value is added to the gradients, the SGD update almost lacks that value before the fix, and contains it after the fix.
The test program that divides a norm a second time for a log is not executed (shows=none): nothing else reads that
number.

## References
- [Working with unscaled
  gradients](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-unscaled-gradients)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradient_reads import is_reported
from amplint.model.flow.value_uses import ValueUses
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.usage.accelerators import accelerators
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import advice, clips_scaled, is_compensated, only_measures
from amplint.rules.shared.finite_checks import gradients_in, not_finite
from amplint.rules.shared.framework_reads import FrameworkRead, framework_reads
from amplint.rules.shared.framework_steps import IF_SCALED
from amplint.rules.shared.scale_reports import reads_scale, uses_scale
from amplint.rules.shared.scale_twice import divided_twice
from amplint.rules.shared.scaler_order import Misuse, misuses, when
from amplint.rules.shared.unscale_fix import ALSO, ClipFix
from amplint.rules.shared.unscale_safety import LARGE_NORM
from amplint.rules.shared.watched_gradients import watched_gradients

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=(
        "grad & .scale( & backward",
        "grad & scaler & step(",
        "grad & accelerat & backward",
        "wandb & watch( & autocast",
        "wandb & watch( & scaler",
        "wandb & watch( & accelerat",
    ),
    shown_by=("gradient",),
)

_ELSEWHERE = "the backward pass or the step is in another function; add the `unscale_()` by hand"


# What becomes of a value that is added to scaled gradients, or compared with them.
_SMALL = ": the change is too small by that factor"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each read or change that meets scaled gradients on some path."""
    reported: set[int] = set()
    for each in misuses(module, "AMP409"):
        reached = each.reached
        statement = ir.statement_of(reached.event.call).id  # one finding for each
        if statement in reported or not _is_misuse(module, each, reached):
            continue
        reported.add(statement)
        change = reached.event.how == "change"
        offered, withheld = ReadFix(module, each).build() if each.here else (None, _ELSEWHERE)
        yield rule.finding(
            module.span(reached.event.call),
            when(module, each) + _message(module, each, withheld, change=change),
            fix=offered,
            withheld=withheld,
            severity=Severity.ERROR if change else Severity.WARNING,
            confidence=Confidence.LIKELY if not change and reads_scale(module, reached.event.call) else None,
        )
    for twice in divided_twice(module):
        where, do = "", "remove this division"
        if twice.one_of is not None:
            where = f"with the divisor of {module.line(twice.one_of)}, "
            do = "set that divisor to 1"
        yield rule.finding(
            module.span(twice.place),
            f"{where}gradients are divided by the loss scale a second time: `{module.on_one_line(twice.first)}` on "
            f"{module.line(twice.first)} already divided them, so they are far too small; {do}",
            withheld="amplint can't tell which other code uses the result; remove the division by hand",
            severity=Severity.ERROR if twice.changes else Severity.WARNING,
        )
    for call in watched_gradients(module):
        yield rule.finding(
            module.span(call),
            f"`{module.text(call.func)}` logs gradients during the backward pass, still multiplied by the loss scale, "
            'which changes; pass `log="parameters"`, or log the gradients after they are unscaled',
            withheld="amplint can't tell which of the two is intended",
            confidence=Confidence.LIKELY,
        )
    for read in framework_reads(module):
        if read.changes or is_reported(module, read.call):
            yield _under_a_framework(module, read)


def _under_a_framework(module: Module, read: FrameworkRead) -> Finding:
    """The finding of what meets the scale that an Accelerator has put on the gradients."""
    name = module.text(read.accelerator)
    what, effect = ("changed", _SMALL) if read.changes else ("read", "")
    when = "" if read.is_sure else IF_SCALED
    do = f"call `{name}.unscale_gradients()` first, once per step"
    withheld = "amplint can't tell on which steps to unscale the gradients"
    if read.clip is not None:
        clip = f"`{module.text(read.clip.func)}` on {module.line(read.clip)}"
        do = f"{'change' if read.changes else 'read'} the gradients after {clip}, which unscales the gradients"
        withheld = "amplint can't tell which other lines have to move after the clip"
    return rule.finding(
        module.span(read.call),
        f"{when}gradients are {what} while still multiplied by the loss scale of `{module.text(read.backward.func)}` "
        f"on {module.line(read.backward)}{effect}; {do}",
        withheld=withheld,
        severity=Severity.ERROR if read.changes else Severity.WARNING,
        confidence=None if read.is_sure and accelerators(module).imported else Confidence.LIKELY,
    )


def _is_misuse(module: Module, each: Misuse, reached: EventStates) -> bool:
    """Whether it is the size of scaled gradients that goes somewhere, and nothing in the function makes up for it."""
    call = reached.event.call
    if only_measures(reached) and not is_reported(module, call):
        return False
    if reached.event.how != "change" and _is_where_not_finite(module, call):
        return False
    if uses_scale(module, call) or is_compensated(module, reached) or not _is_stepped(module, reached):
        return False
    return clips_scaled(module, each) and not _feeds_clip(module, reached)


def _is_where_not_finite(module: Module, read: ir.Node) -> bool:
    """Whether a read is reached only if gradients are infinite or NaN, which the scale doesn't change."""
    values = (value for test, holds in conditions_round(read) for value in not_finite(module, test, bool(holds)))
    return any(gradients_in(module, each) is not None for each in values)


def _is_stepped(module: Module, reached: EventStates) -> bool:
    """Whether the scaler can step what is read: not where that belongs to optimizers that step without it."""
    known, subject = objects(module), reached.event.subject
    owners = set().union(*map(known.owned_by, known.parameters_roots(subject))) if subject is not None else set()
    stepped = {optimizer for _, optimizer in reached.stepped}
    return not owners or not stepped or bool(owners & stepped)


def _feeds_clip(module: Module, reached: EventStates) -> bool:
    """Whether what clips by hand further down is to be unscaled first: AMP401 says so there."""
    call = reached.event.call
    return reached.event.how != "change" and any(
        each.reached.event.how == "norm"
        and each.violation.at > call.id
        and ir.function_of(each.node) is ir.function_of(call)
        for each in misuses(module, "AMP401")
    )


def _message(module: Module, read: Misuse, withheld: str | None, *, change: bool) -> str:
    origin = read.violation.cause
    since = f" of the backward pass on {module.line(module.value(origin))}" if origin else ""
    what, effect = ("changed", _SMALL) if change else ("read", "")
    to_do = advice(module, read)
    if not to_do.waits:
        do = to_do.first(module, "the change" if change else "reading them")
    elif change:
        do = f"change gradients only where the optimizer steps, after `{to_do.unscale}`"
    else:
        do = f"read `grad / {to_do.scaler}.get_scale()`, because `unscale_()` can run only once per `update()`"
    if withheld in ALSO and not to_do.waits:
        do = f"{do}, and {ALSO[withheld]}"
    return f"gradients are {what} while still multiplied by the loss scale{since}{effect}; {do}"


class ReadFix(ClipFix):
    """AMP401's fix, for a read: `unscale_` before it, or brought up from further down."""

    kept_out = (ir.Conditional, ir.Bool, ir.Lambda)

    def _insert(self, call: str, place: ir.Statement, guard: str, against: str) -> tuple[Fix | None, str | None]:
        return super()._insert(call, place, guard, self._tuned() or against)

    def _tuned(self) -> str:
        read = self._reached.event.call
        bounds = [read] if isinstance(read, ir.Compare) else ValueUses(self._module, read).bounds
        numbers = [each.value for bound in bounds for each in ir.walk_values(bound) if isinstance(each, ir.Constant)]
        if any(isinstance(each, (int, float)) and each > LARGE_NORM for each in numbers):
            return "the number in the comparison may have been chosen for scaled gradients"
        return ""

    def _move(self, call: str, step: ir.Value) -> tuple[Fix | None, str | None]:
        do = (
            "change the gradients where the optimizer steps"
            if self._reached.event.how == "change"
            else "divide by the scale by hand"
        )
        return None, f"`{call}` would raise on micro steps; {do}"
