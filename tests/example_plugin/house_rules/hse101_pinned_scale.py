"""Each `update()` of the scaler is given the same constant, so that the scale never adapts.

## What it does
Finds `scaler.update(1024.0)`: a number as the new scale, in a file that never calls this scaler's `update()` without
one.

It is silent where the scale comes from a variable, which may follow a schedule, and where another call lets the scaler
decide: then the constant is where the training starts over.

## Why is this bad?
Where gradients overflow, the step is left out, and the scale has to become smaller, or the next steps overflow as well:
a training that does not move, with nothing in the log. Where they don't, a larger scale would keep small gradients.

## Example
```python
scaler.step(optimizer)
scaler.update(65536.0)
```

## Use instead
```python
scaler.step(optimizer)
scaler.update()
```

## Fix safety
Unsafe: the scale starts from the scaler's own `init_scale` and changes from there on.

## Proof
The fixtures run with one overflow: the scale doesn't back off before, and does after.

## References
- [GradScaler.update](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update)
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.plugin_api import (
    Applicability,
    Edit,
    Event,
    Finding,
    Fix,
    Module,
    Rule,
    Severity,
    events,
    ir,
    number,
)

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    triggers=("scaler & update(", "GradScaler & update("),
    fixes=(Applicability.UNSAFE,),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each update that is given a number, of scalers that have no other."""
    updates = [(call, event.scaler) for call, event in _updates(module)]
    deciding = {scaler for call, scaler in updates if number(module, _new_scale(call)) is None}
    for call, scaler in updates:
        if scaler not in deciding and module.is_own(call):
            said = f"`{module.on_one_line(call)}` pins the scale, which never adapts to an overflow"
            fix = Fix(Applicability.UNSAFE, "Let the scaler decide", (Edit(*module.layout.inside_parens(call), ""),))
            yield rule.finding(module.span(call), said, fix=fix)


def _updates(module: Module) -> Iterator[tuple[ir.Call, Event]]:
    known = events(module)
    for call in module.whole.near("update").calls:
        event = known.of(call)
        if event is not None and event.kind == "update":
            yield call, event


def _new_scale(call: ir.Call) -> ir.Value | None:
    return call.positional[0] if call.positional else call.keyword("new_scale")
