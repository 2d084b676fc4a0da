"""The optimizer steps directly on gradients that the scaler has scaled.

## What it does
Finds `optimizer.step()` after `scaler.scale(loss).backward()`, if the gradients that it uses are

- still multiplied by the loss scale;
- unscaled by `scaler.unscale_`: only `scaler.step` would skip the step after an overflow;
- used by `scaler.step`, too: the optimizer steps twice with the same gradients. That is
  found even if amplint can't see the backward pass.

Also finds:

- the step of a second optimizer, after a helper function has scaled a loss of both optimizers, and run its backward
  pass;
- the step of a torch optimizer after `accelerator.backward(loss)`, if `prepare` of an Accelerator for float16 is never
  called: `accelerator.backward` scales the loss, and only a prepared optimizer steps through the scaler. The finding is
  only *likely* if the precision is configured elsewhere.

A scaler whose only use is `scaler.scale(loss)`, with an `init_scale`, may be a constant loss scale on purpose. The
finding then depends on the optimizer:

- SGD, and others whose update grows with the gradients: certain;
- one that amplint can't see, or Adam with a weight decay that is added to the gradients: only *likely*;
- Adam without a weight decay, in which the scale cancels, but steps with inf or NaN gradients aren't skipped: only
  *likely*, and a suspicion if a comment before the step speaks of Adam or of unscaling.

amplint reports nothing:

- if another branch of the same `if` steps through the scaler: the condition may be the flag that enables AMP;
- if the function reads the scale before the step, or checks for finite gradients itself;
- about one of several optimizers, if the scaler is never used with this optimizer, and not every loss is scaled;
- if the scaler is passed to code that amplint can't see;
- about an optimizer that is passed to code that amplint can't see, and that computes gradients by its name
  (`head.forward_backward(features, optimizer)`);
- about an optimizer that an Accelerator's `prepare` gives back: its `step()` goes through the scaler.

## Why is this bad?
With SGD, the update from scaled gradients is 65,536 times too large at the initial scale. In Adam the scale cancels,
but not for a weight decay that is added to the gradients (`Adam(..., weight_decay=...)`, not AdamW): this weight decay
is too small by the factor of the scale.

`scaler.step(optimizer)` also skips each step whose gradients overflow, which now and then happens in float16 training.
With a direct step, inf and NaN reach the weights.

If neither `scaler.step` nor `scaler.unscale_` runs, `scaler.update()` raises "No inf checks were recorded prior to
update."

## Example
```python
scaler.scale(loss).backward()
optimizer.step()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
Unsafe, because the training changes: `optimizer.step()` becomes `scaler.step(optimizer)`, followed by `scaler.update()`
if there is none. If `scaler.step(optimizer)` follows in the same iteration, the fix removes the direct step.

There is no fix if the step has arguments, or if the scaler is used on some paths only.

## Proof
The test programs are compared with a float32 reference step:

- if the gradients are still scaled, SGD's update is too large by the scale before the fix: by 65,536, or by the
  program's own scale;
- if only the check for inf is lost, the test programs let one gradient overflow. Before the fix the overflow reaches
  the weights, and after the fix that step is skipped;
- if an `update()` follows, and neither `unscale_` nor the scaler's `step` came before it, it raises before the fix.

After the fix the updates agree with the reference within float16's noise.

## References
- [Gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.edits import line_start
from amplint.fixes.statements import line_behind, own_statement, removed, says_the_same, why_not_removed
from amplint.model.calls.external_calls import bases_in_sight, inherits, local_function
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import UNSEEN, GradientKind
from amplint.model.flow.state import State
from amplint.model.flow.value_uses import TALKS
from amplint.model.flow.violations import ViolationKind
from amplint.model.inference.constructions import constructions
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.event import Event
from amplint.model.objects.scaler_holders import holders
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.nesting import conditions, exclusive, independent, skipping, upwards
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.syntax.text_scan import code_of
from amplint.model.torch_facts.names import SCALER
from amplint.model.usage.prepared_optimizers import is_prepared
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import FINITE
from amplint.rules.shared.default_values import number_by_default
from amplint.rules.shared.scale_reports import uses_scale_before
from amplint.rules.shared.scaler_order import (
    Misuse,
    asked,
    asked_apart,
    calls_of,
    computed_between,
    home,
    methods_used,
    misuses,
    one_for_each,
    other_arm_has,
    reached_events,
    receiver,
    stepping,
    when,
)
from amplint.rules.shared.unprepared_optimizers import unprepared_steps

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=(".scale( & backward & step(", "Accelerator( & backward & step("),
    shown_by=("skips", "update", "gradient", "exception"),
)

# Classes that may take the scale out by themselves.
_SCALES = re.compile(r"(?i)amp|fp16|half|scal|mixed|deepspeed|zero")
# Optimizers whose updates are the same for gradients of any scale, but for their eps.
_DIVIDES = re.compile(r"(?i)\.(\w*adam\w*|adagrad|adadelta|adafactor|rmsprop|rprop)$")
_FOLLOW = 4  # calls
# Those of them that don't add the weight decay to the gradients.
_DECOUPLED = re.compile(r"(?i)\.(\w*adamw\w*|adafactor)$")
_SOME_PATHS = "the gradients are scaled on some paths only; step through the scaler on those paths"
# A comment on a step that leaves the gradients scaled on purpose, and how far before the step it may be.
_EXPLAINS = re.compile(r"(?i)#.*(?:unscal|adam)")
_LINES_BEFORE = 4
_BACKWARD = re.compile(r"(?i)backward")
_NO_SKIPS = "steps with inf or NaN gradients aren't skipped"
_SCALED, _UNCHECKED, _AGAIN, _FIRST = (
    "steps on gradients still multiplied by the loss scale",
    "steps without the scaler, which would skip a step with inf or NaN gradients",
    "steps a second time, without the scaler",
    "steps without the scaler, and then a second time through it with the same gradients",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each direct step on gradients that a scaler has scaled."""
    yield from one_for_each(module, "AMP402", _judge)
    for each in unprepared_steps(module):
        yield rule.finding(
            module.span(each.step),
            f"`{module.text(ir.called_on(each.step, 'step') or each.step)}` {_SCALED}: "
            f"`{module.on_one_line(each.backward.func)}` on {module.line(each.backward)} scales the loss, and "
            + (
                "the optimizer is not passed to `prepare()`; pass the optimizer too"
                if each.others
                else "nothing is passed to `prepare()`; pass model, optimizer and data to `prepare()`"
            ),
            withheld="amplint can't tell what else has to be passed to `prepare()`",
            confidence=None if each.is_sure else Confidence.LIKELY,
        )


def _judge(module: Module, each: Misuse) -> Finding | None:
    misuse = _misuse(module, each)
    if misuse is None:
        return None
    flow, reached, optimizer = each.flow, each.reached, module.text(receiver(each.reached.event))
    scaler = _scaler_of_its_loss(module, each)
    if scaler is None:
        return rule.finding(
            module.span(reached.event.call),
            f"{when(module, each)}{_named(optimizer)} {misuse.what}; step with the scaler that scales the loss of "
            f"`{optimizer}`",
            withheld="amplint can't tell which scaler scales the loss",
            confidence=misuse.confidence,
        )
    chosen = _chosen_scale(module, scaler, each)
    misuse = misuse._replace(scaler=scaler)
    what = misuse.what + (f": {chosen.loses}" if chosen is not None else "")
    offered, withheld = (
        _fix(module, flow, reached, misuse)
        if each.here
        else (None, "the loss is scaled in another function; replace the step by hand")
    )
    value = _scaler_value(module, flow, scaler)
    name = module.text(value)
    if _is_of_another_object(module, value, receiver(reached.event)):
        return rule.finding(
            module.span(reached.event.call),
            f"{when(module, each)}{_named(optimizer)} {what}; pass the scaler on {module.line(value)} to this object, "
            "and step with that scaler",
            withheld="the scaler and the optimizer belong to different objects",
            confidence=misuse.confidence,
        )
    begins = when(module, each, apart=True) or ("on some paths, " if withheld == _SOME_PATHS else "")
    return rule.finding(
        module.span(reached.event.call),
        f"{begins}{_named(optimizer)} {what}; {_to_do(module, each, misuse, f'{name}.step({optimizer})', name)}",
        fix=offered,
        withheld=withheld,
        confidence=chosen.confidence if chosen is not None else misuse.confidence,
    )


def _named(optimizer: str) -> str:
    """An optimizer as the subject of a message, which says what it is unless its name does."""
    return f"`{optimizer}`" if "opt" in optimizer.lower() else f"the optimizer `{optimizer}`"


def _to_do(module: Module, each: Misuse, misuse: _Misuse, step: str, scaler: str) -> str:
    """What a message says to do about a direct step: the scaler's instead, or none where that follows."""
    behind = each.here and _steps_behind(each.flow, each.reached, misuse.scaler)
    if behind or (misuse.what is _AGAIN and misuse.always):
        return f"remove this step: `{step}` is enough"
    if misuse.what is _AGAIN:
        return f"run this step only where `{step}` doesn't run"
    then = "" if "update" in methods_used(module, misuse.scaler) else f", then `{scaler}.update()`"
    other = _unscaled_round_it(module, each.flow, each.reached.event)
    if other is not None:
        optimizer = module.text(receiver(each.reached.event))
        return f"pass `{optimizer}` to `unscale_()` on {module.line(other.call)}, and call `{step}` instead{then}"
    return f"call `{step}` instead{then}"


def _unscaled_round_it(module: Module, flow: Flow, step: Event) -> Event | None:
    """The `unscale_` before a step of an optimizer that has that one inside of it: a scaler takes them for two, and
    would divide the gradients again as it steps the inner one.
    """
    known, optimizer = objects(module), str(step.optimizer)
    uses = (each.event for each in reached_events(flow, "unscale_") if not exclusive(each.event.call, step.call))
    return next((each for each in uses if known.is_inside(optimizer, str(each.optimizer))), None)


def _is_of_another_object(module: Module, scaler: ir.Value, optimizer: ir.Value) -> bool:
    """Whether a scaler and an optimizer are attributes of the `self` of two classes that don't inherit each other."""
    classes = [owner_class(each) for each in (scaler, optimizer) if isinstance(each, ir.Attribute)]
    one, other = classes if len(classes) == 2 else (None, None)
    if one is None or other is None or one is other:
        return False
    alone = bases_in_sight(module, one) and bases_in_sight(module, other)
    return alone and not inherits(module, one, other) and not inherits(module, other, one)


def _scaler_of_its_loss(module: Module, each: Misuse) -> str | None:
    """The scaler whose scale the gradients have, or by which the optimizer is stepped elsewhere if several have a part
    in them; None where that doesn't tell.
    """
    flow, violation = each.flow, each.violation
    here = [
        other.violation
        for other in misuses(module, "AMP402")
        if other.flow is flow and other.violation.at == violation.at
    ]
    scalers = {other.scaler for other in here}
    if any(
        other.gradients is GradientKind.MIXED and not other.cause for other in here
    ):  # of two, of which the last is known
        scalers |= {str(reached.event.scaler) for reached in reached_events(flow, "scale")}
    if len(scalers) > 1:
        uses = reached_events(flow, "unscale_", "step")
        scalers &= {str(reached.event.scaler) for reached in uses if reached.event.optimizer == violation.optimizer}
    return scalers.pop() if len(scalers) == 1 else None


class _Misuse(NamedTuple):
    """What a step does wrong, past which scaler, whether it does so on every path, and how sure that is."""

    what: str
    scaler: str
    always: bool
    confidence: Confidence


_SAYS = {
    ViolationKind.DIRECT_STEP_OF_SCALED: _SCALED,
    ViolationKind.DIRECT_STEP_UNCHECKED: _UNCHECKED,
    ViolationKind.DIRECT_STEP_AGAIN: _AGAIN,
    ViolationKind.DIRECT_STEP_FIRST: _FIRST,
}


def _misuse(module: Module, each: Misuse) -> _Misuse | None:
    flow, violation, reached, bad = each.flow, each.violation, each.reached, each.states
    event, scaler = reached.event, violation.scaler
    known = objects(module)
    owned = bool({violation.optimizer, known.original(violation.optimizer)} & known.owns.keys())
    sure = owned and all(state.gradients_of(violation.optimizer).sure for state in bad)
    is_unscaled = violation.kind is ViolationKind.DIRECT_STEP_UNCHECKED
    unscaled = min(_unscaled_by(bad, event)) if is_unscaled else 0
    confidence = Confidence.CERTAIN if sure else _are_the_scalers(module, each)
    if (
        confidence is None
        or _is_chosen_apart(each)
        or violation.optimizer in holders(module)
        or is_prepared(module, receiver(event))
        or any(_SCALES.search(name) for name in known.classes_of(violation.optimizer))
        or uses_scale_before(module, event.call, unscaled)
        or _has_a_backward_of_its_own(module, event, violation.optimizer)
        or (other_arm_has(module, flow, event.call, "step") and _may_ask_for_amp(flow, scaler, bad, event))
    ):
        return None
    what = _SAYS[violation.kind]
    if what is _AGAIN and not calls_of(flow, scaler, "step"):
        what = _UNCHECKED
    if (
        what is _UNCHECKED
        and not _is_where_they_are_infinite(event.call)
        and (
            _asks_for_finite(module, flow, event.call, _backwards(flow, bad, event))
            or all(_looks_first(module, home(module, event.call) or flow, event, by) for by in _unscaled_by(bad, event))
        )
    ):
        return None
    others = (each for each in reached.states if each not in bad)
    always = all(_suits_scalers_step(flow, each, scaler, violation.optimizer) for each in others)
    return _Misuse(what, scaler, always, confidence)


def _has_a_backward_of_its_own(module: Module, step: Event, optimizer: str) -> bool:
    """Whether code out of sight gets the optimizer, and by its name computes gradients, in the function that steps."""
    function, known = ir.function_of(step.call), objects(module)
    return any(
        ir.function_of(call) is function
        and local_function(module, call.func) is None
        and any(known.key(arg.value) == optimizer for arg in call.args)
        for call in module.whole.near(_BACKWARD).calls
        if _BACKWARD.search(ir.last_name(call.func)) and ir.last_name(call.func) != "backward"
    )


def _suits_scalers_step(flow: Flow, state: State, scaler: str, optimizer: str) -> bool:
    """Whether a scaler's step is right on a path where nothing, or something else, is wrong with the direct one."""
    held = state.gradients_of(optimizer)
    if flow.disabled(scaler, state) or held.reported:  # a plain step then, and another misuse is said where it is
        return True
    return held.kind is GradientKind.UNSCALED and held.scaler == scaler and bool(held.by) and not held.used


def _is_chosen_apart(each: Misuse) -> bool:
    """Whether, where the backward is out of sight, conditions choose between a direct step and the scaler's."""
    if each.violation.gradients not in UNSEEN or each.cause is None:
        return False
    pair = each.node, each.cause.call
    tests = [test for one, other in (pair, pair[::-1]) for test in asked(each.flow, one, other)]
    return any(not each.flow.conditions.counts(test) for test in tests)


class _ChosenScale(NamedTuple):
    """A scale that is chosen and never changed, for an optimizer that may divide it out: what is lost all the same."""

    loses: str
    confidence: Confidence


def _chosen_scale(module: Module, scaler: str, each: Misuse) -> _ChosenScale | None:
    """What is lost by a scaler of a chosen scale that only ever scales, perhaps on purpose; None for any other one."""
    made = [found.call for found in objects(module).made_by(scaler)]
    if not made or any("init_scale" not in scaler_arguments(module, call) for call in made):
        return None
    classes = objects(module).classes_of(each.violation.optimizer)
    learns_more = any(name.startswith("torch.optim.") and not _DIVIDES.search(name) for name in classes)
    if learns_more or methods_used(module, scaler) != {"scale"}:
        return None
    if not classes or not all(_DIVIDES.search(name) for name in classes):
        return _ChosenScale(
            f"{_NO_SKIPS}, and updates are too large (except with Adam and the like)", Confidence.LIKELY
        )
    if any(_decays(module, call) for call in constructions(module, receiver(each.reached.event))):
        return _ChosenScale(f"{_NO_SKIPS}, and the weight decay is too weak", Confidence.LIKELY)
    sure = Confidence.SUSPICION if _is_explained(module, each.node) else Confidence.LIKELY
    return _ChosenScale(f"the scale cancels in this optimizer, but {_NO_SKIPS}", sure)


def _is_explained(module: Module, step: ir.Node) -> bool:
    """Whether a comment on the lines before a step says why its gradients stay scaled: the code means it."""
    start = line_start(module, module.span(step)[0])
    before = module.source.text[:start].splitlines()[-_LINES_BEFORE:]
    return any(_EXPLAINS.search(each) for each in before)


def _decays(module: Module, optimizer: ir.Call) -> bool:
    """Whether what makes an optimizer gives it a weight decay that is added to the gradients."""
    if any(_DECOUPLED.search(name) for name in module.names.of(optimizer.func)):
        return False
    if (decoupled := optimizer.keyword("decoupled_weight_decay")) is not None and not is_false(decoupled):
        return False
    given = optimizer.keyword("weight_decay")
    if given is not None:
        return number_by_default(module, given) != 0
    groups = (value for arg in optimizer.args for value in ir.walk_values(arg.value))
    return any(isinstance(each, ir.Constant) and each.value == "weight_decay" for each in groups)


def _may_ask_for_amp(flow: Flow, scaler: str, bad: list[State], step: Event) -> bool:
    """Whether an if that chooses between the steps may ask for AMP: it is optional, or the backward is chosen too."""
    backwards = _backwards(flow, bad, step)
    return not flow.surely_enabled(scaler, bad) or any(asked_apart(flow, each, step.call) for each in backwards)


def _backwards(flow: Flow, bad: list[State], step: Event) -> list[ir.Value]:
    """The backward calls that the gradients come from which a step uses."""
    held = {state.gradients_of(str(step.optimizer)).origin for state in bad}
    return [flow.event_states[origin].event.call for origin in sorted(held) if origin]


def _unscaled_by(bad: list[State], step: Event) -> set[int]:
    """The calls of `unscale_`, by their ids, that the gradients come from which a step uses."""
    return {state.gradients_of(str(step.optimizer)).by for state in bad}


def _looks_first(module: Module, flow: Flow, step: Event, unscale: int) -> bool:
    """Whether the step depends on something computed in this function behind an `unscale_`: on a norm, say.

    What another arm of an `if` computes, or asks, says nothing about these gradients.
    """
    known = objects(module)
    unscaled = next((event.call for event in flow.events if event.call.id == unscale), None)
    if unscaled is None or not flow.contains(unscaled) or unscale > step.call.id:
        return False
    computed = computed_between(module, unscaled, step.call)
    return any(
        known.names_in(test.test) & computed
        for test in skipping(unscaled, step.call, "continue", "break", "return", "raise")
        if not exclusive(unscaled, test)
    )


def _are_the_scalers(module: Module, each: Misuse) -> Confidence | None:
    """How sure it is that this optimizer's gradients are scaled; None where they need not be.

    It is the only one, or the scaler is given it, or it is cleared here and no backward is without a scale of its own
    on the paths that scale: what the same loss does where AMP is off is none of this optimizer's alone. One that isn't
    cleared here may have gradients of the caller's.
    """
    flow, optimizer = each.flow, each.violation.optimizer
    if stepping(flow) == {optimizer}:
        return Confidence.CERTAIN
    known, scaled = objects(module), flow.event_states.get(each.violation.cause)
    backwards, scales = (
        [reached for reached in reached_events(flow, kind) if scaled is None or not _never_meet(reached, scaled)]
        for kind in ("backward", "scale")
    )
    cleared = any(reached.event.optimizer == optimizer for reached in reached_events(flow, "zero_grad"))
    only_scaled = bool(scales) and len(backwards) == len(scales)
    if cleared and only_scaled:
        return Confidence.CERTAIN
    if any(
        isinstance(call.func, ir.Attribute)
        and call.func.attr in ("unscale_", "step")
        and (given := argument(call, f"{SCALER}.step", "optimizer")) is not None
        and known.is_scaler(call.func.base) is not None
        and known.key(given) == optimizer
        for call in module.whole.near("unscale_", "step").calls
    ):
        return Confidence.CERTAIN
    return Confidence.LIKELY if only_scaled else None


def _never_meet(one: EventStates, other: EventStates) -> bool:
    """Whether no path comes to both of two calls, as it would have to know that a flag is set and that it is not."""
    return all(
        any(first.known(condition) is (not holds) for condition, holds in second.facts)
        for first in one.states
        for second in other.states
    )


def _is_where_they_are_infinite(step: ir.Value) -> bool:
    """Whether a step stands just in the arm that is for infinite gradients: `if not torch.isfinite(norm):`."""
    for each in upwards(ir.statement_of(step)):
        test, infinite = each.parent.test if isinstance(each.parent, ir.If) else None, False
        while isinstance(test, ir.Unary) and test.op == "Not":
            test, infinite = test.operand, not infinite
        name = ir.last_name(test.func) if isinstance(test, ir.Call) else ""
        if name in ("isfinite", "isinf", "isnan") and isinstance(each.parent, ir.If):
            return (infinite is (name == "isfinite")) is (each.block is each.parent.then)
    return False


def _asks_for_finite(
    module: Module, flow: Flow, node: ir.Node, backwards: list[ir.Value], depth: int = _FOLLOW
) -> bool:
    """Whether infinite gradients are looked for between their backward and a step, or a call that leads to it."""
    function, end = ir.function_of(node), module.span(node)[0]
    before = [module.span(each)[1] for each in backwards if ir.function_of(each) is function]
    before = [each for each in before if each < end]
    start = min(before) if before else module.span(function)[0] if function is not None else 0
    if FINITE.search(_deciding_text(module, start, end)):
        return True
    sites = flow.call_sites(node) if depth and not before else []
    return any(_asks_for_finite(module, flow, site, backwards, depth - 1) for site in sites)


def _deciding_text(module: Module, start: int, end: int) -> str:
    """The code between two places, without the ifs that only log."""
    text = module.source.text[:end]
    for statement in module.own.near(FINITE).statements:
        first, last = module.span(statement)
        if start <= first and last <= end and isinstance(statement, ir.If) and _only_logs(statement):
            text = text[:first] + " " * (last - first) + text[last:]
    return code_of(text[start:])


def _only_logs(statement: ir.If) -> bool:
    """Whether all that an `if` decides is what is printed or logged."""
    return all(
        (isinstance(each, ir.If) and _only_logs(each))
        or (isinstance(each, ir.Expr) and isinstance(each.value, ir.Call) and ir.last_name(each.value.func) in TALKS)
        for block in statement.blocks()
        for each in block.statements
    )


def _scaler_value(module: Module, flow: Flow, scaler: str) -> ir.Value:
    """The scaler, as the function calls it; as it passes it on, where a helper calls it, one for several scalers."""
    calls = calls_of(flow, scaler, "scale", "step", "unscale_", "update")
    own = [receiver(event) for event in calls if flow.contains(event.call)]
    given = (value for value in ir.values_below(flow.container.body) if objects(module).is_scaler(value) == scaler)
    return next(iter(own), None) or next(given, None) or receiver(calls[0])


def _fix(module: Module, flow: Flow, reached: EventStates, misuse: _Misuse) -> tuple[Fix | None, str | None]:
    call, scaler = reached.event.call, misuse.scaler
    assert isinstance(call, ir.Call)
    if not all(flow.contains(event.call) for event in calls_of(flow, scaler, "scale", "unscale_", "step", "update")):
        return None, "other functions use the scaler too; replace the step by hand"
    statement = own_statement(call)
    if statement is None:
        return None, "the result of the step is used; replace the step by hand"
    if call.args:
        return None, "the step has arguments; replace the step by hand"
    behind = _steps_behind(flow, reached, scaler)
    if misuse.what is _AGAIN and not misuse.always and not behind:
        return None, "on other paths, this is the optimizer's only step"
    if misuse.what is _AGAIN or behind:
        edit = removed(module, statement)
        if edit is None:
            return None, why_not_removed("the step", statement)
        return Fix(Applicability.UNSAFE, "Remove this direct step", (edit,)), None
    if any(
        each.event.optimizer == reached.event.optimizer and not independent(each.event.call, call)
        for each in reached_events(flow, "optimizer_step")
        if each is not reached and not exclusive(each.event.call, call)
    ):
        return None, "the optimizer steps without the scaler more than once; step once, through the scaler"
    other = _unscaled_round_it(module, flow, reached.event)
    if other is not None:
        return None, f"`unscale_()` on {module.line(other.call)} gets another optimizer: the step would divide again"
    if not misuse.always:
        return None, _SOME_PATHS
    value = _scaler_value(module, flow, scaler)
    if not says_the_same(module, value, value, call):
        return None, f"`{module.text(value)}` may be another object on this line; replace the step by hand"
    return _stepped_instead(module, flow, reached, scaler, module.text(value))


def _stepped_instead(
    module: Module, flow: Flow, reached: EventStates, scaler: str, name: str
) -> tuple[Fix | None, str | None]:
    """The scaler's step in the place of a direct one, and its update behind, if there is none."""
    call, optimizer = reached.event.call, module.text(receiver(reached.event))
    edits = [Edit(*module.span(call), f"{name}.step({optimizer})")]
    title = f"Replace with `{name}.step({optimizer})`"
    last = reached_events(flow, "optimizer_step")[-1]
    updates = [event.call for event in calls_of(flow, scaler, "update")]
    follows = any(update.id > call.id and not conditions(update, call) for update in updates)
    if not follows and not all(exclusive(update, call) for update in updates):
        return None, f"`{name}.update()` follows on some paths only; call `{name}.update()` on every path first"
    if not follows and last is reached:
        behind = line_behind(module, ir.statement_of(call), f"{name}.update()")
        if behind is None:
            return (
                None,
                f"the step is on one line with other code, so that `{name}.update()` can't be inserted after it",
            )
        edits.append(behind)
        title += f", and insert `{name}.update()` after it"
    return Fix(Applicability.UNSAFE, title, tuple(edits)), None


def _steps_behind(flow: Flow, reached: EventStates, scaler: str) -> bool:
    """Whether the scaler steps the same optimizer further down, so that the direct step is the one too many."""
    return any(
        event.optimizer == reached.event.optimizer
        and event.call.id > reached.event.call.id
        and not independent(event.call, reached.event.call)
        for event in calls_of(flow, scaler, "step")
    )
