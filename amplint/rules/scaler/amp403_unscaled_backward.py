"""The scaler unscales gradients of a loss that was never scaled, and steps with them.

## What it does
Finds:

- a `loss.backward()` without `scaler.scale`, after which `scaler.unscale_` or `scaler.step` divides the gradients by
  the scale. The call of `scaler.scale` was forgotten, its result is unused, or one of several losses is not scaled;
- a plain `loss.backward()` after `scaler.scale(loss).backward()` for the same loss;
- a `loss.backward()` before the step of an optimizer that an `Accelerator` has prepared, if the file never calls
  `accelerator.backward`, and the Accelerator is for float16, or another file creates it.

amplint reports nothing if the loss may be scaled in code that amplint can't see:

- the loss is a parameter of the function (in a public method of the object that keeps the scaler, amplint reports it as
  *likely*);
- the scaler is passed to another call;
- the result of `scale()` is used in another way than for a backward pass;
- the function reads the scale.

amplint also reports nothing:

- if another branch of the same `if` scales: the condition may be the flag that enables AMP;
- if a second loss comes from another forward pass, and may belong to another model;
- if the scaler is disabled;
- if `optimizer.step()` uses the gradients before the first scaled loss, as in a first step that only measures memory;
- if the scaler is created after the backward pass, and scales other losses.

## Why is this bad?
The scaler divides by a scale that the loss was never multiplied by:

- with SGD, the update is 65,536 times too small at the initial scale, and the model does not learn;
- Adam cancels the factor, except where its `eps` is larger than the gradients that are left;
- if one of two losses is not scaled, its share of the gradients is lost;
- if `scale()` is never called, the step raises "Attempted step but _scale is None."

A second backward pass of one loss raises "Trying to backward through the graph a second time", except after
`backward(retain_graph=True)`.

## Example
```python
loss.backward()
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
Safe for the only loss of the function: the fix writes `scaler.scale(loss).backward()`, and removes a bare
`scaler.scale(loss)`.

Unsafe:

- if other losses are scaled too: leaving one loss unscaled may be intended;
- if the same loss already ran a scaled backward pass: the fix removes the plain one, which raises. Another loss may
  have been intended.

There is no fix if the step can be reached without this backward pass.

## Proof
The test programs are compared with a float32 reference step. Before the fix the program raises, or its SGD update is
too small: by up to 65,536 times, and less if another loss is scaled. After the fix the updates agree with the reference
within float16's noise.

## References
- [Gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.statements import call_removed, own_statement, says_the_same, why_not_removed
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import is_of_self
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, dominates
from amplint.model.syntax.queries import is_false
from amplint.registry.rule import Rule
from amplint.rules.shared.detached_losses import feeds_leaves
from amplint.rules.shared.loss_origin import Origin, is_given_unseen, surely_plain
from amplint.rules.shared.plain_backwards import plain_backwards
from amplint.rules.shared.scaler_order import (
    Misuse,
    asked_apart,
    calls_of,
    one_for_each,
    other_arm_has,
    reached_events,
    receiver,
    stepping,
    used_elsewhere,
    when,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("backward & scaler & step(", "backward & unscale_", "ccelerator & prepare & backward & step("),
    shown_by=("exception", "gradient", "update"),
)

_IN_FLOAT16 = 'with "fp16" '


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each plain backward whose gradients a scaler takes for scaled ones."""
    yield from one_for_each(module, "AMP403", _judge)
    for each in plain_backwards(module):
        name = module.text(each.accelerator)
        loss = module.text(each.event.subject) if each.event.subject is not None else "loss"
        yield rule.finding(
            module.span(each.event.call),
            f"{_IN_FLOAT16 * (not each.is_sure)}the loss is not scaled: the step on {module.line(each.step)}, "
            f"which goes through the scaler of `{name}`, raises AssertionError; call `{name}.backward({loss})`",
            withheld=f"`{name}.backward` also divides the loss by the accumulation steps",
            confidence=None if each.is_sure else Confidence.LIKELY,
        )


def _judge(module: Module, each: Misuse) -> Finding | None:
    if not _is_unscaled(module, each) or _is_a_trial(module, each):
        return None
    flow, backward, use = each.flow, each.reached, each.flow.event_states[each.violation.meets].event
    if use.kind == "update":
        use = calls_of(flow, each.violation.scaler, "step", "unscale_")[0]
    here = each.here and flow.contains(use.call)
    subject = backward.event.subject
    assert subject is not None
    if feeds_leaves(module, backward.event.call, subject):
        return None
    given = is_given_unseen(module, subject)
    if given and not (is_of_self(each.violation.scaler) and _is_public(ir.function_of(backward.event.call))):
        return None  # who calls has the scaler, too, as a subclass does, and may have scaled the loss with it
    freed = _freed_before(module, flow, backward.event)
    if freed is not None:
        return _second_of_a_graph(module, each, freed)
    offered, withheld = (
        _fix(module, flow, backward, use)
        if here
        else (None, f"the backward pass and `{use.kind}()` are in different functions; scale the loss by hand")
    )
    scaler, loss = module.text(receiver(use)), module.text(subject)
    unscaled = f"amplint sees nothing that scales `{loss}`" if given else "the loss is not scaled"
    return rule.finding(
        module.span(backward.event.call),
        f"{when(module, each)}{unscaled}, but `{scaler}.{use.kind}` on {module.line(use.call)} divides its gradients "
        f"by the loss scale; call `{scaler}.scale({loss}).backward()` instead",
        fix=offered._replace(applicability=Applicability.UNSAFE) if offered is not None and given else offered,
        withheld=withheld,
        confidence=Confidence.LIKELY if given else None,
    )


def _is_public(function: ir.Function | None) -> bool:
    """Whether a function is meant for callers that know nothing of what its class keeps."""
    return function is not None and (not function.name.startswith("_") or function.name == "__call__")


def _is_a_trial(module: Module, each: Misuse) -> bool:
    """Whether a backward comes before there is a scaler, which only steps what it has scaled: a trial of the model."""
    backward, use = each.node, each.flow.event_states[each.violation.meets].event
    mixed = each.violation.gradients is GradientKind.MIXED
    return mixed and each.here and not says_the_same(module, receiver(use), backward, use.call)


def _freed_before(module: Module, flow: Flow, backward: Event) -> Event | None:
    """The scaled backward that surely comes before and frees the graph of the same loss."""
    loss = backward.subject
    if not isinstance(loss, (ir.Name, ir.Attribute)):
        return None
    for other in (each.event for each in reached_events(flow, "backward")):
        scaled = other.subject
        if (
            isinstance(scaled, ir.Call)
            and any(module.text(each.value) == module.text(loss) for each in scaled.args)
            and other.call.id < backward.call.id
            and dominates(other.call, backward.call)
            and flow.contains(other.call)
            and _frees_its_graph(other.call)
            and says_the_same(module, loss, backward.call, other.call)
        ):
            return other
    return None


def _frees_its_graph(backward: ir.Value) -> bool:
    """Whether a backward keeps nothing for another one."""
    if not isinstance(backward, ir.Call):
        return False
    given = (backward.keyword(name) for name in ("retain_graph", "create_graph"))
    return all(value is None or is_false(value) for value in given)


def _second_of_a_graph(module: Module, each: Misuse, first: Event) -> Finding:
    call = each.reached.event.call
    assert each.reached.event.subject is not None
    edit = call_removed(module, call) if each.here else None
    return rule.finding(
        module.span(call),
        f"{when(module, each)}this second backward pass raises: the backward pass on {module.line(first.call)} freed "
        f"the graph of `{module.text(each.reached.event.subject)}`; remove this second backward pass",
        fix=Fix(Applicability.UNSAFE, "Remove this second backward pass", (edit,)) if edit is not None else None,
        withheld=None if edit is not None else _why_not_removed(call, each),
    )


def _why_not_removed(call: ir.Node, each: Misuse) -> str:
    return why_not_removed("the call", own_statement(call)) if each.here else "the call is in another function"


def _is_unscaled(module: Module, each: Misuse) -> bool:
    """Whether the scaler surely meets gradients of a loss that nothing in sight has scaled."""
    flow, violation = each.flow, each.violation
    backward, use = each.reached, flow.event_states[violation.meets]
    if use.event.kind == "update" and not calls_of(flow, violation.scaler, "step", "unscale_"):
        return False  # nothing uses them
    if used_elsewhere(module, flow, violation.scaler, "scale", each.node) and not _is_seen_whole(
        module, each, use.event
    ):
        return False
    if (violation.gradients is None and _clears_others(flow, backward, use)) or not surely_plain(module, each):
        return False
    # Where the use is asked for too, both ifs may ask for AMP: the scaler is `GradScaler() if amp else None`.
    flag = not flow.surely_enabled(violation.scaler, each.states) or (
        asked_apart(flow, use.event.call, backward.event.call)
        and not _is_of_the_same_arm(flow, use.event.call, backward.event.call)
    )
    return not flag or not other_arm_has(module, flow, backward.event.call, "scale")


def _is_seen_whole(module: Module, each: Misuse, use: Event) -> bool:
    """Whether a loss is made in this function, and its gradients are only used after its backward there."""
    loss = each.reached.event.subject
    made_here = loss is not None and Origin(module, each.flow, loss).made_here
    return made_here and each.here and each.flow.contains(use.call) and dominates(each.node, use.call)


def _is_of_the_same_arm(flow: Flow, use: ir.Node, backward: ir.Node) -> bool:
    """Whether a use stands in the arm of a backward, under more tests only, none of which asks for AMP."""
    more = conditions(use, backward)
    return not conditions(backward, use) and not any(flow.conditions.may_ask_for_amp(each.test) for each in more)


def _clears_others(flow: Flow, backward: EventStates, use: EventStates) -> bool:
    """Whether the gradients were cleared, before the backward, for another optimizer: they may be that one's."""
    before = [each.event for each in reached_events(flow, "zero_grad") if each.event.call.id < backward.event.call.id]
    return bool(before) and before[-1].optimizer in stepping(flow) - {use.event.optimizer}


def _fix(module: Module, flow: Flow, backward: EventStates, use: Event) -> tuple[Fix | None, str | None]:
    call = backward.event.call
    assert isinstance(call, ir.Call)
    scaler, loss = receiver(use), backward.event.subject
    if not isinstance(call.func, ir.Attribute) or loss is not call.func.base or own_statement(call) is None:
        return None, "amplint can't rewrite this form of the backward pass; scale the loss by hand"
    if not says_the_same(module, scaler, call, use.call):
        return None, f"`{module.text(scaler)}` is assigned only after the backward pass; move the assignment up by hand"
    if any(test for test in conditions(call, use.call) if not flow.conditions.counts(test.test)):
        return None, "the backward pass is under a condition that the step isn't under; scale the loss by hand"
    uses = calls_of(flow, str(use.scaler), "unscale_", "step")
    if all(asked_apart(flow, each.call, call) for each in uses):
        return None, "the scaler steps on some paths only; scale the loss on those paths only, by hand"
    name, text = module.text(scaler), module.text(loss)
    start, end = module.span(loss)
    if module.source.text[module.span(call)[0] : start] == "(" and module.source.text[end] == ")":
        start, end = start - 1, end + 1  # the call's own parentheses do
    edits = [Edit(start, end, f"{name}.scale({text})")]
    thrown = [event for event in calls_of(flow, str(use.scaler), "scale") if own_statement(event.call) is not None]
    for event in thrown:
        edit = call_removed(module, event.call)
        if edit is None:
            return None, f"amplint can't remove `{module.text(event.call)}`, whose result is unused; do that by hand"
        edits.append(edit)
    others = [event for event in calls_of(flow, str(use.scaler), "scale") if event not in thrown]
    kind = Applicability.UNSAFE if others or use.call.id < call.id else Applicability.SAFE
    return Fix(kind, f"Call `{name}.scale({text}).backward()`", tuple(sorted(edits))), None
