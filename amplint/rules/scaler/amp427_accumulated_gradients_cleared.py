"""Gradients are accumulated over several micro steps, and each micro step clears them.

## What it does
Finds a `zero_grad()` that runs in each iteration of a loop with a backward pass, while the optimizer steps only in
every k-th iteration: `if (i + 1) % accumulation_steps == 0:`. amplint reports only a backward pass and a `zero_grad()`
in the same function; the step may be in a function that it calls, such as `step_optimizer(optimizer)`. If `k` is a
setting, the message says "when `k > 1`".

Also finds a `zero_grad()` before the backward pass in `with accelerator.accumulate(model):`, if the optimizer is
prepared. A prepared optimizer clears and steps only on the last micro step, and so has only the gradients of that one.

amplint reports nothing:

- if the `if` around the step has a backward pass of its own;
- if `k` is always 1;
- if `zero_grad()` runs under a condition of its own;
- if another optimizer steps more often in the loop: this one is then meant to train less often;
- if `zero_grad()` is between the backward pass and the step (AMP407).

## Why is this bad?
Only the gradients of the last micro step reach the optimizer: each update is computed from one micro batch instead of
`k`. If the loss is divided by `k`, the gradients are also too small, and in float16 they underflow sooner.

## Example
```python
for i, batch in enumerate(loader):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch) / accumulation_steps
    scaler.scale(loss).backward()
    if (i + 1) % accumulation_steps == 0:
        scaler.step(optimizer)
        scaler.update()
```

## Use instead
```python
for i, batch in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch) / accumulation_steps
    scaler.scale(loss).backward()
    if (i + 1) % accumulation_steps == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
```

## Fix safety
Unsafe, because the training changes: all micro steps count. The fix moves `zero_grad()` after the step and its
`update()`, or removes it if another `zero_grad()` already follows the step.

There is no fix if one of the calls is part of a larger statement, or if the optimizer may be another one at the step.

## Proof
The test programs are not executed (shows=none): a run is compared with the same run without AMP, which clears its
gradients in the same places. A test compares the gradients of one accumulated step before and after the fix with those
of the whole batch.

## References
- [Gradient accumulation with
  torch.amp](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.statements import line_behind, own_statement, removed, says_the_same, text_with_comment
from amplint.model.flow.analysis import Flow, flows
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, dominates, exclusive, handler_of, loop_of, upwards
from amplint.registry.rule import Rule
from amplint.rules.shared.accumulate_contexts import EarlyClear, early_clears
from amplint.rules.shared.accumulation_boundary import micro_steps
from amplint.rules.shared.scaler_order import places

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "zero_grad & backward & scaler & %",
        "zero_grad & backward & autocast & %",
        "zero_grad & backward & .accumulate( & autocast",
        "zero_grad & backward & .accumulate( & caler",
        "zero_grad & backward & .accumulate( & mixed_precision",
    ),
    not_shown="verify compares with the same step without AMP, which clears its gradients in the same places",
)

_STEPS = ("step", "optimizer_step")
# What another file's function is called that does nothing but step the optimizer that it is given.
_STEPS_IT = re.compile(r"(?i)^_*(optim\w*_?step|step_?optim\w*|step)$")


class _Step(NamedTuple):
    """A step of an optimizer, or the call that leads to it, as the function of a clear has it."""

    call: ir.Value
    optimizer: str


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each clear that runs on every micro step of an accumulation."""
    done = set[int]()
    for flow in flows(module):
        for clear in (each for each in flow.events if each.kind == "zero_grad" and module.is_own(each.call)):
            steps = _steps(module, flow, clear.call) if clear.call.id not in done else []
            steps = [each for each in steps if not exclusive(each.call, clear.call)]  # a branch without the scaler
            found = next(filter(None, (_judge(module, flow, steps, step, clear) for step in steps)), None)
            if found is not None:
                done.add(clear.call.id)
                yield found
    for early in early_clears(module):
        if early.call.id not in done:
            done.add(early.call.id)
            yield _under_accumulate(module, early)


def _under_accumulate(module: Module, early: EarlyClear) -> Finding:
    """The finding of a clear in `with accelerator.accumulate(...)`."""
    text = module.on_one_line(early.period) if early.period is not None else "gradient_accumulation_steps"
    updates = [each for each in module.own.called("update") if _is_scalers(module, each)]
    offered, withheld = _fix(module, updates, early.step, early.call, cleared=False)
    return rule.finding(
        module.span(early.call),
        ("" if early.is_number else f"when `{text} > 1`, ")
        + f"`{module.on_one_line(early.call)}` clears the gradients of all micro steps but the last: a prepared "
        "optimizer clears on that one alone, and its backward pass follows; clear the gradients after the step on "
        f"{module.line(early.step)}",
        fix=offered,
        withheld=withheld,
        confidence=Confidence.LIKELY if early.period is None else None,
    )


def _is_scalers(module: Module, call: ir.Call) -> bool:
    """Whether a call is of a scaler's method."""
    return isinstance(call.func, ir.Attribute) and objects(module).is_scaler(call.func.base) is not None


def _steps(module: Module, flow: Flow, clear: ir.Value) -> list[_Step]:
    """The steps that a flow comes to, where a clear's own function makes them or calls what does."""
    known, found = objects(module), list[_Step]()
    for each in flow.events:
        if each.kind in _STEPS and each.optimizer is not None:
            found += [
                _Step(place, each.optimizer) for place in places(flow, each.call, clear) if isinstance(place, ir.Call)
            ]
        elif each.kind == "opaque" and isinstance(each.call, ir.Call) and _STEPS_IT.match(ir.last_name(each.call.func)):
            keys = (known.key(arg.value) for arg in each.call.args)
            found += [_Step(each.call, key) for key in keys if key is not None and known.is_optimizers(key)]
    return found


def _judge(module: Module, flow: Flow, steps: list[_Step], step: _Step, clear: Event) -> Finding | None:
    loop = loop_of(step.call)
    if not _is_of(module, clear, step) or loop_of(clear.call) is not loop:
        return None
    if ir.function_of(clear.call) is not ir.function_of(step.call):
        return None
    if handler_of(clear.call) is not None:
        return None  # it drops the gradients of a batch that failed
    period = micro_steps(module, step.call, clear.call)
    if period is None or (isinstance(period, ir.Constant) and period.value == 1):
        return None
    all_wait = _all_wait(module, [each.call for each in steps if loop_of(each.call) is loop], clear, period)
    if not all_wait or not _runs_on_each_micro_step(flow, loop, step, clear):
        return None
    text = module.on_one_line(period)
    when = "" if isinstance(period, ir.Constant) else f"when `{text} > 1`, "
    updates = [each.call for each in flow.events if each.kind == "update"]
    cleared = _cleared_after(flow, step, clear)
    offered, withheld = _fix(module, updates, step.call, clear.call, cleared)
    to_do = "remove this call" if cleared else "clear the gradients after that step"
    return rule.finding(
        module.span(clear.call),
        f"{when}`{module.on_one_line(clear.call)}` clears the gradients on each micro step: the step on "
        f"{module.line(step.call)} uses only the gradients of the last micro step; {to_do}",
        fix=offered,
        withheld=withheld,
    )


def _is_of(module: Module, clear: Event, step: _Step) -> bool:
    """Whether a clear is of the optimizer that steps, or of the model whose parameters that has."""
    if clear.optimizer is not None or not isinstance(clear.call, ir.Call):
        return clear.optimizer == step.optimizer
    known, model = objects(module), ir.called_on(clear.call, "zero_grad")
    key = known.key(model) if model is not None else None
    return key is not None and step.optimizer in known.owned_by(key)


def _runs_on_each_micro_step(flow: Flow, loop: ir.Statement | None, step: _Step, clear: Event) -> bool:
    """Whether a loop has a backward pass in each iteration, and the clear before it or after the step.

    Between the two it leaves the step without gradients: AMP407.
    """
    backwards = [
        each.call
        for each in flow.events
        if each.kind == "backward" and loop_of(each.call) is loop and not exclusive(each.call, clear.call)
    ]
    last = max((each.id for each in backwards if each.id < step.call.id), default=0)
    if last < clear.call.id < step.call.id or not any(not conditions(clear.call, each) for each in backwards):
        return False
    tests = conditions(step.call, clear.call)  # of those of the step: one that trains less often has its own backward
    return not any(test in upwards(ir.statement_of(each)) for each in backwards for test in tests)


def _all_wait(module: Module, steps: list[ir.Value], clear: Event, period: ir.Value) -> bool:
    """Whether all steps in a loop wait for the same micro steps: no optimizer is meant to train more often."""
    found = {_text(module, micro_steps(module, each, clear.call)) for each in steps}
    return found == {_text(module, period)} and not any(exclusive(*pair) for pair in combinations(steps, 2))


def _text(module: Module, value: ir.Value | None) -> str:
    return module.on_one_line(value) if value is not None else ""


def _cleared_after(flow: Flow, step: _Step, clear: Event) -> bool:
    """Whether another clear always follows the step."""
    return any(
        each.kind == "zero_grad" and each.optimizer == step.optimizer and dominates(step.call, each.call)
        for each in flow.events
        if each.call is not clear.call and loop_of(each.call) is loop_of(step.call)
    )


def _last_of(step: ir.Statement, updates: Sequence[ir.Value]) -> ir.Statement:
    """The last update behind a step in its suite; without any the step."""
    behind = (own_statement(each) for each in updates if each.id > step.id)
    return max((step, *(each for each in behind if each and each.block is step.block)), key=lambda each: each.id)


def _fix(
    module: Module, updates: Sequence[ir.Value], step: ir.Value, clear: ir.Value, cleared: bool
) -> tuple[Fix | None, str | None]:
    """The clear goes after the step and its update, unless one follows already."""
    statement, at = own_statement(clear), own_statement(step)
    if statement is None or at is None:
        return None, "a call is part of a larger statement; move `zero_grad()` by hand"
    if not isinstance(clear, ir.Call) or not isinstance(clear.func, ir.Attribute):
        return None, "the gradients are cleared without `zero_grad()`; move that code after the step by hand"
    place = _last_of(at, updates)
    gone = removed(module, statement)
    behind = None if cleared else line_behind(module, place, text_with_comment(module, statement))
    if gone is None or (behind is None and not cleared):
        return None, "a call is on one line with other code; move `zero_grad()` by hand"
    if not says_the_same(module, clear.func.base, clear, place):
        return (
            None,
            f"`{module.text(clear.func.base)}` may be another optimizer at the step; move `zero_grad()` by hand",
        )
    title = "Move `zero_grad()` after the step (all micro steps then count)"
    if behind is None:
        title = "Remove this `zero_grad()`, as another one follows the step (all micro steps then count)"
    return Fix(Applicability.UNSAFE, title, (gone, *([behind] if behind else []))), None
