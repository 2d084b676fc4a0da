"""Gradients are clipped while they are still multiplied by the loss scale.

## What it does
Follows each function along its paths and finds `clip_grad_norm_`, `clip_grad_value_`, timm's `dispatch_clip_grad`
and clipping written by hand (`p.grad.clamp_(...)`, `p.grad *= max_norm / norm`) that meet gradients of
`scaler.scale(loss).backward()` before `scaler.unscale_(optimizer)`. A function that clips and then calls
`scaler.step` counts too, where the same file makes the scaler, scales with it elsewhere, keeps it to itself and
unscales nowhere; and one that clips and then unscales, wherever the backward is.

It is silent where it can't see: the scaler or the optimizer went into a function that is out of sight, an arm of
a condition that may be AMP's own flag unscales, the bound is multiplied by `scaler.get_scale()`, or the scaler is
switched off on that path.

## Why is this bad?
The gradients are 65,536 times too large (the initial scale), so nearly every norm exceeds the bound: each step is
normalised to a length of `max_norm / 65536`. Nothing crashes. With SGD the update shrinks to 0.003 % of what it
should be; Adam hides it almost completely, and trains a little worse.

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
Safe where every path from the clip reaches `update()` before the next scaled backward: `unscale_` goes right before the
clip, under the condition under which the gradients are scaled, for the optimizer that owns the clipped parameters, and
once before clips that wait for one step; an `unscale_` after the clip moves before it. Unsafe where clipping on each
micro step has to move to the step; where the bound exceeds 1,000 (tuned to scaled gradients, it would no longer clip);
where the function reads the scale itself; where a fused optimizer may hold half parameters (unscale_ raises on them);
and where an exception behind the clip is caught. No fix where the optimizer can't be told, where the clip's result is
divided by the scale, where the parameters are half, and where a path goes on without `update()`, as one that skips a
step by hand: the next `unscale_` would raise. Where the clip uses a norm that was read before, `unscale_` goes before
that; no fix where a path leads from there to elsewhere.

## Proof
The fixtures compare with a float32 reference step: the norm that clipping sees is 65,536 times too large before and
right after, and the SGD update agrees within float16's noise after.

## References
- [Gradient clipping with torch.amp](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Severity
from amplint.model.flow.violations import ViolationKind
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import advice, clips_scaled, is_compensated
from amplint.rules.shared.scaler_order import Misuse, misuses, where
from amplint.rules.shared.unscale_fix import ClipFix

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
    ),
    shown_by=("gradient", "update", "skips"),
)

_ELSEWHERE = "what scales and what steps stands in other functions"


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
            offered, withheld = ClipFix(module, each).build() if each.here else (None, _ELSEWHERE)
            yield rule.finding(
                module.span(reached.event.call),
                _message(module, each) + where(module, each),
                fix=offered,
                withheld=withheld,
            )


def _message(module: Module, clip: Misuse) -> str:
    known = clip.violation.cause and clip.violation.kind is not ViolationKind.CLIP_OF_SCALED_AGAIN
    since = f" (scaled on {module.line(module.value(clip.violation.cause))})" if known else ""
    to_do = advice(module, clip)
    what = to_do.first(module)
    if to_do.waits:
        what = f"clip where the optimizer steps, after `{to_do.unscale}`, which is for once in each update"
    return f"gradients are still multiplied by the loss scale when clipped{since}; {what}"
