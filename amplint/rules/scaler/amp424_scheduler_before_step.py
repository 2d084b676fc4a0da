"""A learning rate scheduler steps before the scaler's step of the same iteration.

## What it does
Finds `scheduler.step()` before `scaler.step(optimizer)` in the same innermost loop, or in the same function if there is
no loop. amplint reports only schedulers of `torch.optim.lr_scheduler`, and SWALR, that are created for that optimizer.

The finding is only *likely* if amplint knows the scheduler and the optimizer only by name: they are parameters, and
have the same names as elsewhere in the file.

amplint reports nothing:

- if the optimizer may already have stepped before, in this function or in one that it calls;
- if the scheduler's step is under a condition of its own that can change from iteration to iteration, such as
  `if i > 0:`;
- if the scheduler is given the epoch (`scheduler.step(epoch + i / iters)`);
- for `ReduceLROnPlateau`.

## Why is this bad?
The first value of the schedule is never used: each optimizer step uses the learning rate meant for the following step.
torch warns once, "Detected call of `lr_scheduler.step()` before `optimizer.step()`". The same warning comes if the
scaler skips the first step, so it is easily taken for harmless.

## Example
```python
scaler.scale(loss).backward()
scheduler.step()
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
scheduler.step()
```

## Fix safety
Unsafe, because the learning rate of each step changes: the scheduler's step moves after the scaler's `update()`.

There is no fix if the two steps are under different conditions, or if one is part of a larger statement.

## Proof
The test programs turn torch's warning into an error. They raise before the fix, and don't raise after it.

## References
- [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.edits import insert, line_end, line_start
from amplint.fixes.region_end import last_offset
from amplint.fixes.statements import own_statement, removed, stands_alone, why_not_removed
from amplint.model.flow.analysis import Flow, flows
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, handler_of
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import calls_of, reached_events
from amplint.rules.shared.schedulers import Pair, asks_for, pairs, stays

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("sched & scaler & step(",),
    not_shown="verify doesn't run schedulers",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step of a scheduler that comes before the step whose learning rate it sets."""
    for flow in flows(module):
        for pair in pairs(module, flow, certain=True):
            if pair.call.id > pair.place.id or _stepped_before(module, flow, pair):
                continue
            if handler_of(pair.call) is not handler_of(pair.place):
                continue  # as where an iterator ends: `except StopIteration`
            tests = [each.test for each in conditions(pair.call, pair.place)]
            if not all(asks_for(module, test, pair.call) or stays(module, test, pair.call) for test in tests):
                continue
            offered, withheld = _fix(module, flow, pair)
            yield rule.finding(
                module.span(pair.call),
                f"the scheduler steps before the optimizer's step on {module.line(pair.place)}, which then uses "
                "the next learning rate; step the scheduler after the optimizer",
                fix=offered,
                withheld=withheld,
                confidence=Confidence.LIKELY if pair.by_name else None,
            )


def _stepped_before(module: Module, flow: Flow, pair: Pair) -> bool:
    """Whether the optimizer may have stepped in front of the scheduler: in this function, or in one that it calls.

    A call out of sight that runs under a condition of its own has not stepped where that doesn't hold.
    """
    return any(
        reached.event.call.id < pair.call.id
        and reached.event.optimizer in (pair.step.optimizer, None)
        and not (reached.event.kind == "opaque" and conditions(reached.event.call, pair.call))
        for reached in reached_events(flow, "step", "optimizer_step", "opaque")
    )


def _fix(module: Module, flow: Flow, pair: Pair) -> tuple[Fix | None, str | None]:
    """The line goes behind the update, or behind the step where none follows it."""
    statement: ir.Statement | None = own_statement(pair.call)
    step = own_statement(pair.place)
    if statement is None or step is None:
        what = "the scheduler" if statement is None else "the optimizer"
        return None, f"the step of {what} is part of a larger statement; move the scheduler's step by hand"
    if conditions(step, statement):
        return (
            None,
            "the optimizer steps under a condition; move the scheduler's step under that condition, by hand",
        )
    for each in conditions(pair.call, pair.place):  # `if scheduler is not None:` moves with it
        if each.orelse is not None or each.elif_ or each.then.statements != [statement]:
            return None, "the scheduler's `if` contains other code; move the scheduler's step by hand"
        statement = each
    gone = removed(module, statement)
    place: ir.Statement = step
    for event in calls_of(flow, str(pair.step.scaler), "update"):
        update = own_statement(event.call)
        if update is not None and update.block is step.block and update.id > step.id:
            place = update
            break
    if gone is None:
        return None, why_not_removed("the scheduler's step", statement)
    if statement.block is not step.block:
        return None, "the scheduler and the optimizer step in different blocks; move the scheduler's step by hand"
    if not stands_alone(module, place):
        return None, f"{module.line(place)} also has other code; move the scheduler's step by hand"
    source = module.source
    start = line_start(module, module.span(statement)[0])
    text = source.text[start : line_end(module, last_offset(module, statement))]
    at = line_end(module, last_offset(module, place))
    if not source.text[:at].endswith(("\n", "\r")):
        text = source.newline + text.rstrip("\r\n")
    title = "Move the scheduler's step after the optimizer's (each step then has another learning rate than before)"
    return Fix(Applicability.UNSAFE, title, (gone, insert(at, text))), None
