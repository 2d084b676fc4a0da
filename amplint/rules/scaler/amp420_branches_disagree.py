"""Of two arms, one with the scaler and one without, only one clips, clears, steps all optimizers or the scheduler.

## What it does
Compares the arms of `if use_amp: ... else: ...` of which one trains through a scaler and one without, and which are the
same but for AMP, statement by statement. What one arm does and the other doesn't is found: clearing the gradients,
clipping, dividing the loss, stepping at every k-th iteration only, stepping the scheduler, updating a moving average of
the weights, stepping a further optimizer. So is a name in one arm that the file binds nowhere.

The arms can be three (float16, bfloat16, float32), also as an `if` in an `if`; two functions of this file that the arms
do nothing but call; and what comes after an `if` that ends with `return` or `continue`.

It is silent where the function does the same before or after the `if`, or its callers in the file do, and where the
arms differ in anything else: then each may have a purpose of its own. It is only likely where the arm with the scaler
alone clips, as float16 may be the reason for that, and where names alone say what an average is.

## Why is this bad?
One of the arms is run every day, and the other grows old: training without AMP (or with it) accumulates gradients for
ever, is not clipped, leaves a part of the model as it was made, or raises NameError.

## Example
```python
if use_amp:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
```

## Use instead
```python
optimizer.zero_grad()
if use_amp:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss.backward()
    optimizer.step()
```

## Fix safety
There is no fix: which arm is right is yours to say. A scaler with `enabled=use_amp` needs no arms at all.

## Proof
The fixtures run both arms from the same start. An arm that doesn't clear steps with gradients that a step has used; of
the others each compares what its two arms have learned, and raises where that differs by more than rounding.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling): "enabled"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import UNBOUND
from amplint.registry.rule import Rule
from amplint.rules.shared.parallel_branches import (
    AVERAGES,
    CLEARS,
    CLIPS,
    DIVIDES,
    SCHEDULES,
    STEPS,
    WAITS,
    Arm,
    Difference,
    differences,
    parallel_branches,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(".scale( & backward & step(", ".scale( & backward & zero_grad"),
    not_shown="each arm is right in itself, or another rule's misuse",
    about_absence=True,
    formerly=("arms-disagree",),
)

# What puts names where no binding shows them.
_DYNAMIC = {"builtins.exec", "builtins.globals", "builtins.locals", "builtins.vars", "builtins.eval"}
_NOTEBOOK = ("display", "get_ipython", "_")


# What happens in the arm that doesn't do it.
_MISSING = {
    CLEARS: "the gradients of each iteration are added to those of the ones before",
    CLIPS: "nothing bounds the gradients",
    DIVIDES: "the gradients are larger by the divisor",
    WAITS: "the optimizer steps in each iteration",
    SCHEDULES: "the learning rate stays as it is",
    AVERAGES: "the average stays as it is",
    STEPS: "the parameters of {} are never trained",
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each thing that one arm does alone, and each name that one arm reads in vain."""
    for each in module.once(differences):
        yield _of_one_arm(module, each)
    for branches in module.once(parallel_branches):
        yield from _unbound(module, branches.arms)


def _of_one_arm(module: Module, found: Difference) -> Finding:
    what, missing = found.what, _MISSING[found.what]
    if found.steps:
        names = " and ".join(f"`{module.on_one_line(_optimizer(each, found.arm.scaled))}`" for each in found.steps)
        what, missing = f"{what} {names}", missing.format(names)
    unscaled = found.what == CLIPS and not found.arm.scaled
    where = "after `unscale_` in the scaler's arm" if unscaled else "or outside of them"
    return rule.finding(
        module.span(found.node),
        f"of two arms that do the same otherwise, only this one {what}; in the one "
        f"{'without' if found.arm.scaled else 'with'} the scaler, on {module.line(found.other.block.statements[0])}, "
        f"{missing}; do it in both, {where}",
        withheld="which of the arms is right can't be told",
        confidence=Confidence.LIKELY if _may_be_meant(found) else Confidence.CERTAIN,
    )


def _may_be_meant(found: Difference) -> bool:
    """Whether something out of sight may be why only one arm does it."""
    return found.what == AVERAGES or (found.what == CLIPS and found.arm.scaled)


def _optimizer(step: ir.Call, scaled: bool) -> ir.Value:
    """The optimizer that a call steps: `scaler.step(optimizer)` or `optimizer.step()`."""
    assert isinstance(step.func, ir.Attribute)
    return step.args[0].value if scaled else step.func.base


def _unbound(module: Module, arms: list[Arm]) -> Iterator[Finding]:
    """The names in one arm alone that the file binds nowhere, and Python neither."""
    missing = [
        {
            value.name: value
            for value in reversed(list(ir.values_below(arm.block)))
            if isinstance(value, ir.Name) and not value.bound and module.names.of(value) == {UNBOUND + value.name}
        }
        for arm in arms
    ]
    for own in missing:
        for name, value in own.items():
            if name in _NOTEBOOK or name.startswith("__") or sum(name in each for each in missing) > 1:
                continue
            if module.calls_of(*_DYNAMIC):
                return
            yield rule.finding(
                module.span(value),
                f"`{name}` is bound nowhere in this file: this arm raises NameError, while the others do without it",
                withheld="what took its place is yours to say",
            )
