"""The program ends at the first loss that is NaN or infinite, though the scaler usually skips that step.

## What it does
Finds a `raise`, `assert` or `sys.exit` that depends on the loss being NaN or infinite, if a GradScaler that may be
enabled scales that loss, and the loss was computed in a float16 autocast region.

amplint reports nothing:

- if the loss is first reduced over all ranks, since then all ranks end together;
- if a flag or a counter is part of the decision;
- if the exception is caught, or is of the project's own class;
- if all regions are bfloat16, or the scaler is disabled;
- about gradients that are not finite, which AMP509 reports.

## Why is this bad?
Often one operation of one batch exceeds float16's range, and training itself is fine. The gradients are then usually
not finite either, and the scaler skips the step. With the check, one such batch ends a training run of days. With
several ranks, only the rank with that batch ends, and the other ranks wait until they time out.

Ending the program can be right: if the forward pass overflows in many batches in a row, no scale helps. So count the
losses that are not finite, and end after many in a row.

## Example
```python
if not math.isfinite(loss.item()):
    sys.exit(1)
scaler.scale(loss).backward()
```

## Use instead
```python
# before the loop
bad_in_a_row = 0

# in the loop: NaN on one rank is NaN in this sum on every rank, so all ranks count the same, and end together
total = loss.detach().clone()
if torch.distributed.is_initialized():
    torch.distributed.all_reduce(total)
bad_in_a_row = 0 if math.isfinite(total.item()) else bad_in_a_row + 1
if bad_in_a_row > 20:
    raise RuntimeError("the loss stays non-finite")
scaler.scale(loss).backward()
```

With DistributedDataParallel, gradients that are not finite on one rank make the gradients of all ranks NaN or infinite,
so each rank's scaler skips the step.

## Fix safety
There is no fix: amplint can't tell how many losses in a row should end the program.

## Proof
The test programs have one batch whose forward overflows in float16, and not in float32. The wrong programs raise. The
corrected programs train to their end, and the scaler skips that step.

## References
- [Gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.finite_checks import Abort, aborts, gradients_in, made_of
from amplint.rules.shared.skipped_steps import beside, runs_with, scaler_calls

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.NOTE,
    fixes=(),
    default=False,
    triggers=("isfinite & .scale( & backward", "isnan & .scale( & backward", "isinf & .scale( & backward"),
    not_shown="whether a loss is finite depends on the model and its data",
)

_GIVE_UP = "Count the inf and NaN losses, and end the program after, say, 20 in a row"
_REDUCES = re.compile("(?i)reduce|gather")
_RANKS = ("torch.distributed", "torch.nn.parallel.DistributedDataParallel")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each abort that asks a loss which is scaled."""
    for abort in aborts(module):
        for value in abort.asked:
            if gradients_in(module, value) is None and _is_scaled(module, abort, value):
                alone = " and leaves the other ranks waiting" if _has_ranks(module) else ""
                yield rule.finding(
                    module.span(abort.at),
                    f"this check ends the program{alone} at the first inf or NaN loss, whose step the scaler usually "
                    "skips; end the program only after many such losses in a row",
                    fix=Fix(
                        Applicability.DISPLAY,
                        _GIVE_UP,
                    ),
                )
                break


def _is_scaled(module: Module, abort: Abort, value: ir.Value) -> bool:
    """Whether the loss that is asked is one that a scaler scales in the same step."""
    asked = made_of(module, value)
    if _is_reduced(module, asked):
        return False
    losses = _losses(module, asked)
    for flow, reached in scaler_calls(module, "scale"):
        subject = reached.event.subject
        if subject is not None and losses & _losses(module, made_of(module, subject)):
            if any(runs_with(module, flow, *each) for each in beside(module, flow, abort.decides, reached.event.call)):
                return True
    return False


def _losses(module: Module, made: list[ir.Value]) -> set[str | int]:
    """What tells a loss: the variables that are called so, and the calls that make it."""
    known = objects(module)
    named = (each for each in made if "loss" in ir.last_name(each).lower())
    keys = {known.own_key(each) if isinstance(each, ir.Name) else known.key(each) for each in named}
    calls = {each.id for each in made if isinstance(each, ir.Call) and "loss" in module.text(each.func).lower()}
    return {key for key in keys if key is not None} | calls


def _is_reduced(module: Module, made: list[ir.Value]) -> bool:
    """Whether a loss has been reduced over the ranks before it is asked: then all of them end."""
    known = objects(module)
    last: dict[str | None, int] = {}
    for each in made:
        if isinstance(each, ir.Name):
            key = known.own_key(each)
            last[key] = max(each.id, last.get(key, 0))
    for call in module.whole.near(_REDUCES).calls:
        if _REDUCES.search(ir.last_name(call.func)):
            if call in made:
                return True
            given = (each for arg in call.args for each in ir.walk_values(arg.value) if isinstance(each, ir.Name))
            if any(call.id < last.get(known.own_key(each), 0) for each in given):
                return True
    return False


def _has_ranks(module: Module) -> bool:
    return bool(module.meaning(*(f"{each}*" for each in _RANKS)))
