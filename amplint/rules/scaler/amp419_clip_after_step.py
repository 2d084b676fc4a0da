"""Gradients are clipped after the scaler has stepped.

## What it does
Finds a clip that runs only after `scaler.step(optimizer)`, if no further step uses the clipped gradients:

- between the step and the next backward pass;
- in a loop, before the backward pass, so that the clip gets the gradients of the previous iteration. If micro steps
  accumulate gradients before it, AMP401 reports the clip;
- before the backward pass in a function that does one whole training step (backward pass, step, `zero_grad`). The
  finding is only *likely*, as a caller that amplint can't see may leave gradients.

amplint reports nothing:

- if the clip comes after the step only on paths without a backward pass, such as an evaluation;
- if something steps after the clip: another optimizer, or a function that is called after the clip;
- about a clip to infinity, which only measures the norm.

## Why is this bad?
The step has already used the gradients, so the clip never has an effect. One outlier batch can ruin the weights, as if
the program didn't clip at all.

## Example
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
```

## Fix safety
Unsafe, because the clip has an effect for the first time: it moves before the step, with `unscale_` before it. There is
no fix if the clip's result is used, or if the clip and the step are not in the same block.

## Proof
The test programs compare the clip's bound with the norm of the gradients that a step used. Before the fix the norm is
above the bound, after the fix within it.

## References
- [Gradient clipping with torch.amp](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.edits import indentation
from amplint.fixes.statements import (
    comment_above,
    line_before,
    own_statement,
    removed,
    says_the_same,
    text_with_comment,
    why_not_removed,
)
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.state import State
from amplint.model.flow.violations import ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.nesting import dominates, loops_round
from amplint.model.torch_facts.signatures import CLIPS, SIGNATURES
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import backward_after, meets_micro_steps, only_measures, unscale_for
from amplint.rules.shared.scaler_order import Misuse, calls_of, fix_at_home, one_for_each, stepping, when
from amplint.rules.shared.unscale_safety import LARGE_NORM, agree

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "clip_grad & scaler & step(",
        "clip_grad & .scale( & step(",
        "grad & clamp & .scale( & step(",
        "grad & norm & .scale( & step(",
    ),
    shown_by=("gradient", "update"),
)


_BY_HAND = ("clamp", "norm")  # the clips in a loop over parameters


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each clip of gradients that were used already."""
    yield from one_for_each(module, "AMP419", _judge)
    yield from one_for_each(module, "AMP401", _judge_first)


def _judge(module: Module, each: Misuse) -> Finding | None:
    reached, step = each.reached, each.cause
    if step is None or not _clips_the_models(module, reached):
        return None
    mine = [of for of in reached.followed if of.optimizer == each.violation.optimizer or not reached.clipped]
    if any(agree(state, of.facts) for state in each.states for of in mine if of.site == each.violation.site):
        return None
    if mine and all(_has_no_backward(each.flow, state) for state in each.states):
        return None
    offered, withheld = fix_at_home(module, each, _fix, "the step is in another function; move the clip by hand")
    why = f"the optimizer has already stepped on {module.line(step.call)}; clip after `unscale_()` and before the step"
    if (backward := backward_after(each.flow, reached.event, step)) is not None:
        if _clips_between(module, each.flow, reached.event, backward, step):
            return None  # that one does the work, and this one harms nobody
        if meets_micro_steps(each):
            return None  # AMP401 says that
        why = (
            f"it comes before the backward pass on {module.line(backward)}, and clips only gradients of the iteration "
            f"before, after its step on {module.line(step.call)}; clip after `unscale_()` and before that step"
        )
    return rule.finding(
        module.span(reached.event.call),
        f"{when(module, each)}this clip has no effect: {why}",
        fix=offered,
        withheld=withheld,
    )


def _judge_first(module: Module, each: Misuse) -> Finding | None:
    """A clip of what the caller left, where that is nothing: the function clears what its own backward makes behind
    the clip, whichever way it ends.
    """
    reached, optimizer = each.reached, each.violation.optimizer
    step = next((event for event in each.flow.events if event.kind == "step"), None)
    if each.violation.kind is not ViolationKind.CLIP_OF_CALLERS_GRADIENTS or step is None or not each.here:
        return None
    backward = backward_after(each.flow, reached.event, step)
    if backward is None or reached.stepped or not _clips_the_models(module, reached):
        return None
    if _clips_between(module, each.flow, reached.event, backward, step):
        return None
    ends = [state.gradients_of(step.optimizer or optimizer) for state in each.flow.ends]
    if not ends or not all(held.is_empty() for held in ends) or len(stepping(each.flow)) > 1:
        return None
    offered, withheld = _fix(module, each.flow, reached, step)
    return rule.finding(
        module.span(reached.event.call),
        f"{when(module, each)}this clip has no effect: it comes before the backward pass on {module.line(backward)}, "
        f"and the gradients of the previous step are already cleared; clip after `unscale_()` and before the "
        f"step on {module.line(step.call)}",
        fix=offered,
        withheld=withheld,
        confidence=Confidence.LIKELY,
    )


def _clips_between(module: Module, flow: Flow, clip: Event, backward: ir.Value, step: Event) -> bool:
    """Whether another clip of the same model comes after a backward and before the step that uses its gradients."""
    models = _models(module, clip)
    return any(
        each.kind == "clip" and backward.id < each.call.id < step.call.id and _models(module, each) & models
        for each in flow.events
    )


def _models(module: Module, clip: Event) -> set[str]:
    """The keys of the models whose gradients a clip bounds."""
    known, subject = objects(module), clip.subject
    if clip.how in _BY_HAND:
        loops = [each for each in loops_round(clip.call) if isinstance(each, ir.For)]
        return {root for loop in loops for root in known.parameters_roots(loop.iter)}
    return set(known.parameters_roots(subject)) if subject is not None else set()


def _has_no_backward(flow: Flow, state: State) -> bool:
    """Whether a path that comes to a clip makes no gradients in its turn, as one that evaluates does: what it clips is
    left from before, when the same clip came in time.
    """
    calls = [each.call.id for each in flow.events if each.kind == "backward"]
    made = [flow.event_states[each] for each in calls if each in flow.event_states]
    return bool(made) and not any(agree(one, state.facts) for reached in made for one in reached.states)


def _clips_the_models(module: Module, reached: EventStates) -> bool:
    """Whether a clip bounds parameters: a bound of infinity or a very large one measures, a list may hold anything."""
    call, subject = reached.event.call, reached.event.subject
    function, bound = reached.event.how, None
    if isinstance(call, ir.Call) and function in CLIPS:
        bound = argument(call, function, SIGNATURES[function][1])
    large = isinstance(bound, ir.Constant) and isinstance(bound.value, (int, float)) and bound.value > LARGE_NORM
    if subject is None or large or only_measures(reached):
        return False
    is_kept = function not in _BY_HAND and isinstance(subject, (ir.Name, ir.Attribute))
    return is_kept or bool(_models(module, reached.event))


def _fix(module: Module, flow: Flow, reached: EventStates, step: Event) -> tuple[Fix | None, str | None]:
    statement, target = own_statement(reached.event.call), own_statement(step.call)
    if step.kind != "step":
        return None, "the optimizer steps without the scaler; move the clip before that step by hand"
    if statement is None:
        return None, "the result of the clip is used; move the clip by hand"
    if target is None or statement.block is not target.block:
        return None, "the clip and the step are in different blocks; move the clip by hand"
    gone = removed(module, statement)
    if gone is None:
        return None, why_not_removed("the clip", statement)
    names = [value for value in ir.walk_values(statement.value) if isinstance(value, ir.Name)]
    late = next((name for name in names if not says_the_same(module, name, target, name)), None)
    if late is not None:
        return None, f"`{late.name}` is assigned only after the step; move the clip by hand"
    newline = f"{module.source.newline}{indentation(module, target)}"
    begins, comment = comment_above(module, statement, "clip")
    gone = gone._replace(start=min(gone.start, begins))
    code = newline.join([*comment, text_with_comment(module, statement)])
    call = unscale_for(module, step.call)
    unscales = [
        event
        for event in calls_of(flow, str(step.scaler), "unscale_")
        if event.optimizer == step.optimizer and event.call.id < step.call.id
    ]
    unscaled = any(dominates(event.call, step.call) for event in unscales)
    if unscales and not unscaled:
        return None, "only some paths call `unscale_()` before the step; call `unscale_()` on every path first"
    first = code if unscaled else f"{call}{newline}{code}"
    before = line_before(module, target, first)
    if before is None:
        return None, "the step is on one line with other code; move the clip by hand"
    edits: tuple[Edit, ...] = (before, gone)
    between = "before the step" if unscaled else f"between `{call}` and the step"
    title = f"Move the clip {between} (the clip then takes effect)"
    return Fix(Applicability.UNSAFE, title, edits), None
