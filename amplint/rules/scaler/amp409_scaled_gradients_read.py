"""Gradients are read for their size, or changed, while they are still multiplied by the loss scale.

## What it does
Finds norms and other sizes of gradients (`p.grad.norm()`, `get_total_norm(...)`, `p.grad.abs().max()`, a clip with an
infinite bound, a function of the file that returns one) that are logged, compared or kept before
`scaler.unscale_(optimizer)`; and gradients changed by what does not grow with them: noise, the parameters themselves
(weight decay by hand), a threshold.

It is silent behind `scaler.unscale_` and `scaler.step`, where the gradients are what they should be; for what does not
depend on their size (the sign, `isfinite`, `g / g.norm()`, a ratio of two norms, a comparison with zero or infinity)
or keeps it (sums, a constant factor); where the size goes into a clip written by hand (AMP401); where the function
computes with the scale itself, or hands it on; and where it can't see what becomes of the number. A scale that is only
logged or compared divides nothing. Whoever reads that log may divide, so that the size beside it is likely.

## Why is this bad?
The gradients are 65,536 times too large (the initial scale), and the scale changes as training goes on. Logs and
thresholds mean nothing. What is added to the gradients is divided by the scale with them, and so as good as lost.

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
Safe where every path from the read reaches `update()` before the next scaled backward: `unscale_` goes right before
it, or comes up from further down. Unsafe where a number above 1,000 is compared with (tuned to scaled gradients), and
for the reasons that make AMP401's fix unsafe. No fix on micro steps, where `unscale_` would raise, there or at the
step: read `grad / scaler.get_scale()`, or read where the optimizer steps.

## Proof
The fixtures compare with a float32 reference step: the gradients that the program reads are 65,536 times too large
before and right after; what was added to them is in the SGD update after, and missing before.

## References
- [Working with unscaled gradients](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-unscaled-gradients)
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
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import advice, clips_scaled, is_compensated, only_measures
from amplint.rules.shared.scale_reports import reads_scale, uses_scale
from amplint.rules.shared.scaler_order import Misuse, misuses, where
from amplint.rules.shared.unscale_fix import ClipFix
from amplint.rules.shared.unscale_safety import LARGE_NORM

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("grad & .scale( & backward", "grad & scaler & step("),
    shown_by=("gradient",),
)

_ELSEWHERE = "what scales and what steps stands in other functions"


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
            _message(module, each, change) + where(module, each),
            fix=offered,
            withheld=withheld,
            severity=Severity.ERROR if change else Severity.WARNING,
            confidence=Confidence.LIKELY if not change and reads_scale(module, reached.event.call) else None,
        )


def _is_misuse(module: Module, each: Misuse, reached: EventStates) -> bool:
    """Whether it is the size of scaled gradients that goes somewhere, and nothing in the function makes up for it."""
    call = reached.event.call
    if only_measures(reached) and not is_reported(module, call):
        return False
    if uses_scale(module, call) or is_compensated(module, reached) or not _is_stepped(module, reached):
        return False
    return clips_scaled(module, each) and not _feeds_clip(module, reached)


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


def _message(module: Module, read: Misuse, change: bool) -> str:
    origin = read.violation.cause
    since = f" (scaled on {module.line(module.value(origin))})" if origin else ""
    if change:
        what = f"when this changes them{since}, and what it adds or compares with is not"
    else:
        what = f"when their size is read{since}"
    to_do = advice(module, read)
    if not to_do.waits:
        do = to_do.first(module)
    elif change:
        do = f"change them where the optimizer steps, after `{to_do.unscale}`, which is for once in each update"
    else:
        do = "before the update more backward passes can follow, and `unscale_` is for once in each update: "
        do += f"read `grad / {to_do.scaler}.get_scale()`"
    return f"gradients are still multiplied by the loss scale {what}; {do}"


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
            return "the number that it is compared with may have been tuned to scaled gradients"
        return ""

    def _move(self, call: str, step: ir.Value) -> tuple[Fix | None, str | None]:
        return None, f"on micro steps unscale_ would raise; or read where the optimizer steps, after `{call}`"
