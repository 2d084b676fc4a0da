"""The scaler steps an optimizer whose parameters have no gradients.

## What it does
Finds a `scaler.step(optimizer)` or `scaler.unscale_(optimizer)` that has no gradients to use:

- `zero_grad()` has cleared the gradients of the last backward pass. Clear them after the step;
- the loss is a new tensor (`torch.tensor(values, requires_grad=True)`, `loss.detach().requires_grad_()`), which
  depends on no parameter. Start the backward pass from the loss that the model computed;
- a step after the loop, for micro steps that are left over, also runs if none is left. Put it under `if seen % n:`;
- `zero_grad()` of an optimizer over one flat buffer sets the buffer's gradient to None, and the next backward pass
  fills only the parameters' own gradients. Pass `set_to_none=False`.

The message names the condition under which the step has no gradients. The finding is:

- *certain*: always, or with the default options;
- *likely*: under one condition that changes during training, or only with an option whose default amplint can't see;
- *suspicion*: only with an option that is not at its default, or under two conditions that change during training.

If only the reported call is under a condition that changes during training (`step % 10 == 0`), the finding stays
*certain*: sooner or later the condition is true. If another function returns the new tensor, the finding is only
*likely*.

amplint reports nothing:

- if another backward pass may run between `zero_grad()` and the step;
- if `zero_grad()` comes after `unscale_()`, under a condition of its own: that skips the update on purpose;
- if `zero_grad()` clears another optimizer's or model's gradients.

## Why is this bad?
What happens depends on how and when the gradients are cleared:

- before `unscale_()` or the step, `zero_grad()` sets gradients to None. The scaler finds nothing to check, and its step
  raises "No inf checks were recorded for this optimizer.";
- after `unscale_()`, the scaler has already checked the gradients: nothing raises, and the step changes nothing;
- `zero_grad(set_to_none=False)` sets gradients to zero: nothing raises, the step uses zeros, and the scaler sees no
  overflow. The model does not learn; with a weight decay its weights shrink.

## Example
```python
scaler.scale(loss).backward()
optimizer.zero_grad()
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
optimizer.zero_grad()
```

## Fix safety
Unsafe, because the step has gradients for the first time: `zero_grad()` moves after `update()`, or after the step if no
`update()` follows. There is no fix if `zero_grad()` and the step are in different blocks, and none for a new tensor.

For a flat buffer the fix passes `set_to_none=False`, which was the default up to torch 1.13. It is unsafe too.

## Proof
Before the fix the test programs raise, or their scale never responds to an overflow. The SGD updates after the fix
agree with a float32 reference step within float16's noise.

## References
- [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.edits import add_last_argument
from amplint.fixes.statements import line_behind, own_statement, removed, text_with_comment, why_not_removed
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import is_grad
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.violations import ViolationKind
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.queries import is_false
from amplint.model.usage.mentions_of import near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import in_this_file_only
from amplint.rules.shared.detached_losses import new_tensor
from amplint.rules.shared.flat_buffers import cleared
from amplint.rules.shared.scaler_order import (
    Misuse,
    always_off,
    asked,
    calls_of,
    confidence_of,
    dynamic,
    fix_at_home,
    one_for_each,
    reached_events,
    when,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "zero_grad & scaler",
        "zero_grad & .scale(",
        "grad & None & .scale( & step(",
        "grad & None & unscale_",
        "requires_grad & .scale( & step(",
    ),
    shown_by=("exception", "gradient"),
    about_absence=True,
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first call of the scaler behind each such clear."""
    yield from one_for_each(module, "AMP407", _judge)
    yield from _without_history(module)
    yield from _flat_buffers(module)


def _flat_buffers(module: Module) -> Iterator[Finding]:
    """The clears that part a flat buffer from its gradient."""
    if not module.target.reaches("2.0"):
        return  # zeros, not None
    for clear in cleared(module):
        edit = add_last_argument(module, clear.call, "set_to_none=False")
        yield rule.finding(
            module.span(clear.call),
            f"this call sets the gradient of the flat buffer in `{clear.maker.name}` to None: the next backward pass "
            "fills only the parameters' own gradients, and the scaler's step raises; pass `set_to_none=False`",
            fix=Fix(Applicability.UNSAFE, "Pass `set_to_none=False`", (edit,)),
        )


def _without_history(module: Module) -> Iterator[Finding]:
    """The backwards of a function that steps, where all of them are of new tensors."""
    reported: set[int] = set()
    for flow in flows(module):
        backwards = [each for each in reached_events(flow, "backward") if each.event.subject is not None]
        steps = [each for each in reached_events(flow, "step") if not always_off(flow, each)]
        if not steps or any(each.event.kind == "opaque" for each in flow.in_order):
            continue
        made = [new_tensor(module, _loss(each.event.subject)) for each in backwards]
        if len(backwards) == 1 and backwards[0].event.call.id not in reported:
            replaced = _replaced(module, flow, backwards[0].event, [each.event for each in steps])
            if replaced is not None:
                reported.add(backwards[0].event.call.id)
                yield replaced
        for backward, new in zip(backwards, made, strict=True) if all(made) else ():
            if new is not None and backward.event.call.id not in reported:
                reported.add(backward.event.call.id)
                yield rule.finding(
                    module.span(backward.event.call),
                    f"the loss, a new tensor from {module.line(new)}, depends on no parameter: the scaler's step has "
                    "no gradients and raises; compute the loss from the model's outputs",
                    withheld="amplint can't tell how to compute the loss from the outputs",
                )


def _replaced(module: Module, flow: Flow, backward: Event, steps: list[Event]) -> Finding | None:
    """The finding where a new tensor takes the place of a loss on one path, and nothing but its backward is stepped.

    That is where the clear, the backward and the step stand in one block, so that each step has one backward.
    """
    loss = _loss(backward.subject)
    if not isinstance(loss, ir.Name):
        return None
    values = [
        value
        for each in reaching(module.names, loss)
        if isinstance(each, Assigned)
        for value in _returned_by(module, each.value)
    ]
    last = {id(ir.statement_of(value).block): value for value in sorted(values, key=lambda value: value.id)}
    new = [value for value in last.values() if new_tensor(module, value) is not None]
    if not new or len(new) == len(values):
        return None
    block = ir.statement_of(backward.call).block
    clears = [event for event in flow.events if event.kind == "zero_grad" and not _keeps_zeros(event)]
    beside = [event for event in (*clears, *steps) if ir.statement_of(event.call).block is block]
    if len(beside) < len(steps) + 1 or any(event not in beside for event in steps):
        return None
    is_own = ir.function_of(new[0]) is ir.function_of(loss)
    return rule.finding(
        module.span(new[0]),
        "if the loss is this new tensor, no parameter gets a gradient, and the scaler's step on "
        f"{module.line(steps[0].call)} raises; in such an iteration, skip the backward pass, the step and `update()`",
        withheld="amplint can't tell what else to skip in such an iteration",
        confidence=Confidence.CERTAIN if is_own else Confidence.LIKELY,  # training may never take that path
    )


def _returned_by(module: Module, value: ir.Value) -> list[ir.Value]:
    """What a call of a function of this file returns on each of its paths; of anything else, the value itself."""
    callee = module.once(CallGraph).find(value) if isinstance(value, ir.Call) else None
    if callee is None or callee.function.is_generator or not module.is_own(callee.function):
        return [value]
    found = [each.value for each in returned(callee.function)]
    return [each for each in found if each is not None] if None not in found else [value]


def _keeps_zeros(clear: Event) -> bool:
    return isinstance(clear.call, ir.Call) and is_false(clear.call.keyword("set_to_none"))


def _loss(subject: ir.Value | None) -> ir.Value:
    """What is scaled, of a scaled loss."""
    assert subject is not None
    if isinstance(subject, ir.Call) and ir.last_name(subject.func) == "scale" and subject.positional:
        return subject.positional[0]
    return subject


def _judge(module: Module, each: Misuse) -> Finding | None:
    clear, optimizer = each.cause, each.violation.optimizer
    if _may_be_fused(module, optimizer):
        return None
    span = module.span(each.reached.event.call)
    if clear is not None and any(state.gradients_of(optimizer).origin for state in each.states):
        if _is_skip(each, clear):
            return None
        offered, withheld = fix_at_home(
            module, each, _fix, "the gradients are cleared in another function; move `zero_grad()` by hand"
        )
        left = _left(module, each)
        return rule.finding(
            span,
            f"{when(module, each)}{module.line(clear.call)} clears the gradients after the backward pass: {left}; "
            "clear the gradients after the step",
            fix=offered,
            withheld=withheld,
            confidence=confidence_of(module, each),
        )
    if _is_certain(module, each):
        call = f"{each.reached.event.kind}()"
        raises = "the step after this `unscale_()` raises" if call == "unscale_()" else f"this `{call}` raises"
        return rule.finding(
            span,
            f"{when(module, each)}{raises}: the optimizer's parameters have no gradients; "
            f"call `{call}` only after a backward pass",
            withheld="amplint can't tell where the backward pass belongs",
            confidence=confidence_of(module, each),
        )
    return None


def _left(module: Module, each: Misuse) -> str:
    """What a clear leaves for the step, as a clause: after `unscale_`, which has looked for inf, nothing raises."""
    held = [state.gradients_of(each.violation.optimizer) for state in each.states]
    if all(of.kind is GradientKind.ZEROS for of in held):
        return "the step uses zeros, and the model doesn't learn"
    if each.violation.kind is ViolationKind.STEP_OF_LOST_GRADIENTS:
        return "the step changes nothing"
    event = each.reached.event
    if event.kind == "unscale_":  # which itself raises nothing
        later = calls_of(each.flow, str(event.scaler), "step")
        step = next((other.call for other in later if other.call.id > event.call.id), None)
        where = f" on {module.line(step)}" if step is not None else ""
        return f"`unscale_()` finds no gradients, and the step{where} raises"
    return "the step finds no gradients and raises"


def _is_skip(each: Misuse, clear: Event) -> bool:
    """Whether a clear skips the update on purpose: after `unscale_`, under a condition of its own."""
    if each.violation.kind is not ViolationKind.STEP_OF_LOST_GRADIENTS:
        return False
    unscaled = {state.gradients_of(each.violation.optimizer).by for state in each.states}
    return all(number and asked(each.flow, clear.call, each.flow.node(number)) for number in unscaled)


def _may_be_fused(module: Module, optimizer: str) -> bool:
    """Whether the optimizer's own kernel looks for inf, so that it needs nothing to be recorded."""
    keys = {optimizer, objects(module).original(optimizer)}
    made = [
        statement.value
        for statement in near_kept(module, keys).statements
        if isinstance(statement, ir.Assign) and any(objects(module).key(target) in keys for target in statement.targets)
    ]
    return any(isinstance(value, ir.Call) and value.keyword("fused") is not None for value in made)


def _is_certain(module: Module, each: Misuse) -> bool:
    """Whether a step that no backward precedes is taken with the scaler on, and the file shows all of it."""
    flow, call = each.flow, each.node
    scales = [event.call for event in flow.events if event.kind == "backward" and event.call.id < call.id]
    tests = [test for scale in scales for test in asked(flow, scale, call)]
    enabled = flow.surely_enabled(each.violation.scaler, each.states)
    enabled = enabled or not any(map(flow.conditions.may_ask_for_amp, tests))
    return (
        enabled
        and (in_this_file_only(module, each.violation.scaler) or _is_used_up(each))
        # A backward before it, under a condition of its own, may well come first whenever it matters.
        and not any(dynamic(module, flow, scale, call) for scale in scales)
        and not any(is_grad(value) for test in tests for value in ir.walk_values(test))
    )


def _is_used_up(each: Misuse) -> bool:
    """Whether what it would need was stepped with, and cleared, on its path: then nothing out of sight has made it."""
    held = [state.gradients_of(each.violation.optimizer) for state in each.states]
    return all(of.used and of.cleared for of in held)


def _fix(module: Module, flow: Flow, reached: EventStates, clear: Event) -> tuple[Fix | None, str | None]:
    statement = own_statement(clear.call)
    scaler = str(reached.event.scaler)
    # Before the next backward, whose gradients the clear would take.
    backwards = [each.call.id for each in flow.events if each.kind in ("backward", "opaque")]
    end = min((number for number in backwards if number > reached.event.call.id), default=math.inf)
    behind = [event.call for event in calls_of(flow, scaler, "update", "step") if clear.call.id < event.call.id < end]
    beside = [each for each in map(own_statement, behind) if each and statement and each.block is statement.block]
    if statement is None or not beside:
        return None, "`zero_grad()` and the step are in different blocks; move `zero_grad()` after the step by hand"
    target = beside[-1]
    gone = removed(module, statement)
    code = text_with_comment(module, statement)
    added = line_behind(module, target, code)
    if gone is None:
        return None, why_not_removed("`zero_grad()`", statement)
    if added is None or "\n" in code:
        return None, "amplint can't move these lines; move `zero_grad()` after the step by hand"
    title = "Move `zero_grad()` after the step (the step then gets gradients)"
    return Fix(Applicability.UNSAFE, title, tuple(sorted((gone, added)))), None
