"""A new GradScaler is created for each step or each epoch.

## What it does
Finds a `GradScaler(...)` that is created again for each step:

- in the loop that steps with this scaler;
- in a function that takes one step with this scaler, if the function is called in a loop of the file, is a method of
  the object that keeps the optimizer, or has the optimizer as a parameter and a name like `train_step`.

The scaler may also come from a function of the file that creates a scaler in each call, or from a default
(`scaler = scaler or GradScaler()`) if no call in the file passes a scaler.

The finding is a warning instead of an error if the scaler is created again for each epoch:

- in a loop around the loop that steps;
- in a function that contains the loop that steps, and that is called in a loop or gets the epoch.

amplint reports nothing:

- if the scaler is created under a condition that may change in the loop (a test of the device doesn't change);
- if each scaler has its own training run: the loop also creates, resets or chooses the model or the optimizer;
- if all autocast regions around the scaled losses are disabled (`enabled=False`).

## Why is this bad?
The scale adapts over thousands of steps: it halves when gradients overflow, and grows when they don't. A new scaler
starts at its initial scale each time, by default 65,536. If gradients overflow at that scale, every single step is
skipped, and the model never learns. If a scaler is created for each epoch, the first steps of each epoch are skipped.

## Example
```python
for inputs, targets in loader:
    scaler = torch.amp.GradScaler("cuda")
    ...
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
for inputs, targets in loader:
    ...
```

## Fix safety
Unsafe: the line moves before the loop. There is no fix in a function: amplint can't tell which object should keep the
scaler.

## Proof
The test programs compare the scale at the end: the initial scale before the fix, an adapted scale after it.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.edits import indentation, insert, line_start
from amplint.fixes.statements import removed, stands_alone, text_with_comment, why_not_removed
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import SCALERS
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_usage import float16_possible
from amplint.rules.shared.scalers_made_anew import MadeAnew, made_anew

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("GradScaler", "Scaler( & optim"),
    shown_by=("scale",),
)

_PASS_IN = (
    "amplint can't tell where to create the scaler instead; create the scaler by hand, and pass it to this function"
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each scaler that is made for one step or epoch, and may skip steps at its initial scale."""
    return (_finding(module, each) for each in made_anew(module)) if float16_possible(module) else iter(())


def _finding(module: Module, each: MadeAnew) -> Finding:
    offered, withheld = _fix(module, each.made.call, each.loop) if each.loop is not None else (None, _PASS_IN)
    if offered is not None and not module.names.of(each.made.call.func) & SCALERS:
        offered, withheld = (
            None,
            "amplint can't tell what else this call creates; move the call before the loop by hand",
        )
    when, then = (
        "in each iteration" if each.loop is not None else _in_each_call(each.made.call),
        "the scale never adapts, and each step that overflows at the initial scale is skipped",
    )
    if each.each_epoch:
        when = "in each iteration of the outer loop" if each.loop is not None else "in each epoch"
        then = "the scale starts over, and the first steps may be skipped"
    once = "create the scaler once, before the loop" if each.loop is not None else "create the scaler only once"
    return rule.finding(
        module.span(each.made.call),
        f"a new scaler is created {when}: {then}; {once}",
        fix=offered,
        withheld=withheld,
        severity=Severity.WARNING if each.each_epoch else None,
    )


def _in_each_call(made: ir.Call) -> str:
    function = ir.function_of(made)
    return f"in each call of `{function.name}`" if function is not None else "in each call"


def _fix(module: Module, call: ir.Call, loop: ir.For | ir.While) -> tuple[Fix | None, str | None]:
    known, statement = objects(module), ir.statement_of(call)
    assigned = set(known.assigned_in(loop))
    assert isinstance(statement, ir.Assign)
    assert statement.value is not None
    target = statement.targets[0]
    if statement.block is not loop.body:
        return None, "the scaler is created under a condition; move the scaler before the loop by hand"
    if known.names_in(statement.value) & assigned or len(statement.targets) != 1:
        return None, "the scaler's arguments are assigned in the loop; move those assignments too, by hand"
    if isinstance(target, ir.Name) and len(known.bindings(target)) > 1:
        return None, f"`{target.name}` is also assigned elsewhere; move the scaler before the loop by hand"
    indent = indentation(module, loop)
    gone = removed(module, statement)
    if gone is None or indent is None or not stands_alone(module, statement):
        return None, why_not_removed("the statement", statement)
    code = text_with_comment(module, statement)
    if "\n" in code:
        return None, "the call spans several lines; move the scaler before the loop by hand"
    at = line_start(module, module.span(loop)[0])
    edits: tuple[Edit, ...] = (insert(at, f"{indent}{code}{module.source.newline}"), gone)
    return Fix(Applicability.UNSAFE, "Move the scaler before the loop", edits), None
