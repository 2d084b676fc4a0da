"""The scaler steps in a loop, and `update()` does not come before it is used again.

## What it does
Follows each loop and finds a `scaler.step(optimizer)` that meets itself (or `unscale_`) in the next iteration without
`scaler.update()` in between: because the function never calls it, or because some path round the loop skips it, for
example the `continue` behind a bad gradient norm. A function that steps with a scaler which lives longer than the call
counts too, where this file makes the scaler, keeps it to itself and updates it nowhere.

It is silent where another function of the file calls `update()`, where the scaler is given to code that can't be seen,
and where only a flag that no iteration changes decides.

## Why is this bad?
The second iteration raises "step() has already been called since the last update()." or "unscale_() has already been
called on this optimizer since the last update()." With a disabled scaler nothing is said, so the error waits for the
first run with AMP.

## Example
```python
for inputs, targets in loader:
    ...
    scaler.scale(loss).backward()
    scaler.step(optimizer)
```

## Use instead
```python
for inputs, targets in loader:
    ...
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety
`scaler.update()` goes behind the iteration's last step. Safe where every use of the scaler is in sight: this file makes
it, and gives it to nothing else. Unsafe otherwise, since an update may hide elsewhere, and where the function may be
one of several that step in one iteration. No fix where `update()` is there and a path skips it.

## Proof
The fixtures run several iterations: the second raises before, none after, and the SGD updates agree with a float32
reference step within float16's noise.

## References
- [GradScaler.update](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Finding, Fix, Severity
from amplint.model import ir
from amplint.model.flow import Flow, flows
from amplint.model.objects import objects
from amplint.model.protocol import TABLE, Stage
from amplint.model.transfer import Visit
from amplint.rules.base import Rule
from amplint.rules.clips import escapes
from amplint.rules.order import (
    calls_of,
    counts,
    early_updates,
    in_this_file_only,
    loop_of,
    methods_used,
    receiver,
    skipping,
    upwards,
    used_elsewhere,
    visits,
)
from amplint.rules.statements import line_behind

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("scaler & step(", "scale( & step( & backward"))

_AFTER_STEP = (TABLE["step", Stage.STEPPED], TABLE["unscale_", Stage.STEPPED])


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step that comes round to the scaler again without an update."""
    for flow in flows(module):
        told: set[str] = set()
        for visit in visits(flow, "unscale_", "step"):
            scaler = str(visit.event.scaler)
            if scaler in told or not _comes_round(visit):
                continue
            updates = calls_of(flow, scaler, "update")
            if updates:
                tests = [test for update in updates for test in skipping(visit.event.call, update.call, "continue")]
                if not tests and _after_step(visit) and not early_updates(flow):  # those are AMP410's
                    told.add(scaler)
                    yield _never_updated(module, flow, scaler, Applicability.UNSAFE)
                elif _is_dynamic(module, visit, tests) and not _on_micro_steps(flow, visit, tests):
                    told.add(scaler)
                    name = module.text(receiver(visit.event))
                    yield rule.finding(
                        module.span(visit.event.call),
                        f"on some path round the loop `{name}.update()` is skipped, so that this "
                        "raises in the next iteration; call it on every path",
                        withheld="on which paths to update, and what to do with the gradients there, is yours to say",
                    )
            elif _misses_one(flow, visit) and not _updated_elsewhere(module, flow, scaler):
                told.add(scaler)
                sure = in_this_file_only(module, scaler)
                yield _never_updated(module, flow, scaler, Applicability.SAFE if sure else Applicability.UNSAFE)
        for visit in visits(flow, "step"):
            scaler = str(visit.event.scaler)
            if scaler not in told and _outlives(module, flow, scaler):
                told.add(scaler)
                yield _never_updated(module, flow, scaler, Applicability.UNSAFE)


def _comes_round(visit: Visit) -> bool:
    """Whether the call meets what an earlier iteration left."""
    where = (str(visit.event.scaler), str(visit.event.optimizer))
    return any(where in state.carried for state, error in visit.errors if error in TABLE.values())


def _outlives(module: Module, flow: Flow, scaler: str) -> bool:
    """Whether a function steps with a scaler that lives longer than one call, and nothing in the file updates it."""
    made = objects(module).made.get(scaler, [])
    return (
        isinstance(flow.container, ir.Function)
        and in_this_file_only(module, scaler)
        and not _is_handed_on(module, scaler)
        and not any(flow.contains(each.call) for each in made)
        and methods_used(module, scaler) >= {"scale", "step"}
        and "update" not in methods_used(module, scaler)
    )


def _is_handed_on(module: Module, scaler: str) -> bool:
    known = objects(module)
    return any(known.is_scaler(arg.value) == scaler for call in module.calls for arg in call.args)


def _misses_one(flow: Flow, visit: Visit) -> bool:
    """Whether an update is what is missing: an unscale_ before a direct step lacks more, and is AMP402."""
    return _after_step(visit) or not visits(flow, "step", "optimizer_step")


def _after_step(visit: Visit) -> bool:
    return any(error in _AFTER_STEP for _, error in visit.errors)


def _is_dynamic(module: Module, visit: Visit, tests: list[ir.If]) -> bool:
    """Whether one of the ifs asks for something that an iteration changes."""
    loop = loop_of(visit.event.call)
    if loop is None:
        return False
    known = objects(module)
    changing = set(known.assigned_in(loop)) - _counters(module, loop)
    return any(
        known.names_in(test.test) & changing or any(_is_modulo(value) for value in ir.walk_values(test.test))
        for test in tests
    )


def _is_modulo(value: ir.Value) -> bool:
    return isinstance(value, ir.Binary) and value.op == "Modulo"


def _counters(module: Module, loop: ir.For | ir.While) -> set[str]:
    """The variable that counts iterations: what asks for the first or last one is decided otherwise in the next."""
    if not isinstance(loop, ir.For) or not isinstance(loop.iter, ir.Call):
        return set()
    names = module.names.of(loop.iter.func)
    if names == {"builtins.range"}:
        return objects(module).names_in(loop.target)
    if names == {"builtins.enumerate"} and isinstance(loop.target, ir.Sequence):
        return objects(module).names_in(loop.target.items[0])
    return set()


def _on_micro_steps(flow: Flow, visit: Visit, tests: list[ir.If]) -> bool:
    """Whether `unscale_` runs on each micro step, and the update at the boundary: that is AMP405."""
    return visit.event.kind == "unscale_" and not _after_step(visit) and counts(flow, tests)


def _updated_elsewhere(module: Module, flow: Flow, scaler: str) -> bool:
    return used_elsewhere(module, flow, scaler, "update") or escapes(module, scaler)


def _never_updated(module: Module, flow: Flow, scaler: str, kind: Applicability) -> Finding:
    steps = calls_of(flow, scaler, "step") or calls_of(flow, scaler, "unscale_")
    steps = [event for event in steps if loop_of(event.call) is not None] or steps
    name = module.text(receiver(steps[-1]))
    offered: Fix | None = None
    withheld = None
    place = _place([step.call for step in steps]) if steps[-1].kind == "step" else None
    edit = line_behind(module, place, f"{name}.update()") if place is not None else None
    if edit is None:
        withheld = "there is no step, or none in a suite of its own, behind which `update()` could go"
    else:
        offered = Fix(kind, f"Call `{name}.update()` behind the last step", (edit,))
    return rule.finding(
        module.span(steps[-1].call),
        f"`{name}.update()` never follows, so that the next iteration raises; call it behind the last step",
        fix=offered,
        withheld=withheld,
    )


def _place(steps: list[ir.Value]) -> ir.Statement | None:
    """The statement behind which one update serves all steps: in the innermost suite that holds them."""
    place: ir.Statement = ir.statement_of(steps[-1])
    for step in steps[:-1]:
        blocks = {id(each.block) for each in upwards(ir.statement_of(step))}
        while id(place.block) not in blocks:
            if not isinstance(place.parent, ir.With):
                return None  # where one condition fails, the other's step would go without its update
            place = place.parent
    return place
