"""Of two arms, one with the scaler and one without, only one clips, clears, accumulates or steps the scheduler.

## What it does
Compares the arms of `if use_amp: ... else: ...` where each holds a step, one through a scaler and one without, and
where they are the same but for AMP, statement by statement. What one arm does and the other doesn't is found: clearing
the gradients, clipping, dividing the loss, stepping at every k-th iteration only, stepping the scheduler. So is a name
in one arm that the file binds nowhere.

It is silent where the function does the same before or behind the `if`, or its callers in the file do, and where the
arms differ in anything else: then each may have a purpose of its own. Clipping with the scaler only can be one, too:
float16 needs it more often.

## Why is this bad?
One of the arms is run every day, and the other grows old: training without AMP (or with it) accumulates gradients for
ever, is not clipped, or raises NameError.

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

from amplint.base.findings import Finding, Severity
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import UNBOUND
from amplint.registry.rule import Rule
from amplint.rules.shared.parallel_branches import CLIPS, Arm, differences, parallel_branches

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    triggers=(".scale( & backward & step( & else", ".scale( & backward & step( & elif"),
    not_shown="each arm is right in itself, or another rule's misuse",
    about_absence=True,
)

# What puts names where no binding shows them.
_DYNAMIC = {"builtins.exec", "builtins.globals", "builtins.locals", "builtins.vars", "builtins.eval"}
_NOTEBOOK = ("display", "get_ipython", "_")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each thing that one arm does alone, and each name that one arm reads in vain."""
    for each in module.once(differences):
        other = "without the scaler" if each.arm.scaled else "with the scaler"
        where = "after `unscale_` in the scaler's arm" if each.what == CLIPS else "or outside of them"
        yield rule.finding(
            module.span(each.arm.does[each.what]),
            f"this arm {each.what}, and the one {other} on {module.line(each.other.block.statements[0])} doesn't, "
            f"though they do the same otherwise; do it in both, {where}",
            withheld="which of the arms is right is yours to say",
        )
    for _, arms in module.once(parallel_branches):
        yield from _unbound(module, arms)


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
