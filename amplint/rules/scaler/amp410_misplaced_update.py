"""`update()` is called between a backward pass and its step, or twice without a step or `unscale_` in between.

## What it does
Finds a `scaler.update()` at the wrong place:

- between a backward pass, or `unscale_`, and the step that uses its gradients. A function that calls `update()` before
  it steps is reported even if it has no backward pass;
- after each of several optimizers that share one backward pass;
- after another `update()`, without a step or `unscale_` in between;
- in the `except` block of a `try` that scales a loss and steps, if that block has no step. This finding is only
  *likely*.

An optimizer that accumulates gradients over k iterations needs its own scaler if another optimizer steps in each
iteration: no place of `update()` is right for both.

The finding is a warning, not an error, in two cases that need an option of the program: accumulation over k iterations
if k is 1 by default, and an `update()` that raises only with an option that is off by default.

For an `update()` before a step, certainty depends on the condition under which this step runs, which the message names:

- *certain*: no condition, or one that holds with the default options;
- *likely*: one condition that changes during training (such as a norm), or an option whose default amplint can't see;
- *suspicion*: an option that is not at its default, or two conditions that change during training (such as
  `step % 4 == 0` and a finite loss).

The finding is also a suspicion if amplint can't tell which backward pass the optimizer steps for.

amplint reports nothing:

- if each optimizer has its own backward pass between the `update()` and its step, and doesn't accumulate gradients over
  iterations;
- about `update(new_scale)`;
- if there may be a step that amplint can't see.

## Why is this bad?
What happens depends on what comes before the `update()`:

- the step of another optimizer. If `update()` changes the scale, the next step divides by the wrong scale, as its
  gradients carry the old one. With the default factors of the scaler, the weights' update is half or twice as large as
  it should be;
- `unscale_` of the gradients. `update()` makes the scaler forget this, and the step divides the gradients a second
  time. At a scale of 65,536 the weights' update is that many times too small;
- neither a step nor an `unscale_` since the previous `update()`. `update()` raises "No inf checks were recorded prior
  to update."

## Example
```python
scaler.scale(loss).backward()
scaler.step(optimizer_a)
scaler.update()
scaler.step(optimizer_b)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer_a)
scaler.step(optimizer_b)
scaler.update()
```

## Fix safety
Safe if another `update()` follows the last step on every path: the fix removes the early call. Unsafe if the call has
to move after the step, or is removed from an `except` block.

There is no fix:

- if the step is above the `update()` in the file, as in a loop over optimizers;
- if a second scaler is needed;
- if an attribute of the scaler is set next to the `update()`, such as `scaler._init_scale = 256.0`. If this is meant to
  set the scale, call `scaler.update(256.0)` instead, which needs no step before it.

## Proof
Before the fix the test programs raise, or an SGD update has the wrong size: it is off by the factor by which the scale
changed between two steps, or too small by the whole scale. After the fix the updates agree with a float32 reference
step within float16's noise.

## References
- [Working with multiple losses and optimizers](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.statements import (
    call_removed,
    line_behind,
    own_statement,
    says_the_same,
    text_with_comment,
    why_not_removed,
)
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.violations import ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.nesting import conditions, dominates, exclusive, loop_of, upwards
from amplint.registry.rule import Rule
from amplint.rules.shared.accumulation_boundary import SECOND_SCALER, Apart, stepped_apart
from amplint.rules.shared.default_values import holds_by_default, in_words
from amplint.rules.shared.scaler_order import (
    Misuse,
    asked,
    backward_between,
    calls_of,
    confidence_of,
    guards,
    home,
    misuses,
    one_for_each,
    places,
    side_by_side,
    when,
)
from amplint.rules.shared.updates_in_handlers import HandledUpdate, handled_updates

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("update( & scaler & step(", "update( & scaler & backward", "update( & .scale( & backward"),
    shown_by=("exception", "gradient", "update", "skips"),
)

_NOTHING = "this `update()` raises: no step or `unscale_()` ran since the previous `update()`"
_AFTER = "call `update()` once, after the last optimizer's step"
_TWO_FUNCTIONS = "the calls of `update()` may be in different functions; remove one of the calls by hand"
_SOME_STEP = "on other paths a step comes before this `update()`, and needs this call"
# The attribute from which a scaler makes its scale at first.
_INITIAL = "_init_scale"
_BY_HAND = "code next to this call sets an attribute of the scaler, and has to change too; change both by hand"
_ELSEWHERE = "the step is in another function; call `update()` after that step by hand"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each update that comes too early, or once too often."""
    reported = set[int]()
    for finding in one_for_each(module, "AMP410", _judge):
        reported.add(finding.start)
        yield finding
    for each in handled_updates(module):
        if module.span(each.call)[0] not in reported:
            yield _of_handler(module, each)


def _of_handler(module: Module, each: HandledUpdate) -> Finding:
    edit, beside = call_removed(module, each.call), _set_beside(module, each.call)
    offered = None
    if edit is not None and beside is None:
        offered = Fix(Applicability.UNSAFE, "Remove this `update()`", (edit,))
    withheld = why_not_removed("the call", own_statement(each.call)) if edit is None else _BY_HAND
    return rule.finding(
        module.span(each.call),
        f"if an exception is raised before {module.line(each.step)}, this `update()` raises too: no step or "
        "`unscale_()` ran since the previous `update()`; "
        f"{beside.to_do(module) if beside is not None else 'remove this call'}",
        fix=offered,
        withheld=None if offered else withheld,
        confidence=Confidence.LIKELY,
    )


def _judge(module: Module, each: Misuse) -> Finding | None:
    if each.violation.at not in each.flow.event_states:
        return None
    own, step = home(module, each.node), _step_behind(module, each)
    if step is not None:
        apart = stepped_apart(module, each.flow, each.violation.scaler) if _is_carried(each, step) else None
        if apart is not None:
            twice = any(
                one.violation.at == each.violation.at and _comes_twice_anyway(one) for one in misuses(module, "AMP410")
            )
            return None if twice else _said_of_two(module, each, apart, _said(each, _when(module, each, step)))
        own = own if own is not None and own.contains(step.call) else None
        offered, withheld = (
            _fix_early(module, own, own.event_states[each.violation.at], step) if own else (None, _ELSEWHERE)
        )
        said = _said(each, _when(module, each, step))
        return rule.finding(
            module.span(each.node),
            f"{when(module, each)}{said}; {_AFTER}",
            fix=offered,
            withheld=withheld,
            confidence=_how_sure(module, each, own is not None),
        )
    if _is_early(module, each.violation.cause) or _may_be_off(each):
        return None
    if _steps_at_a_break(each) or _steps_in_some_rounds(module, each):
        return None
    apart = stepped_apart(module, each.flow, each.violation.scaler)
    if apart is not None and not _comes_twice_anyway(each):
        waits = (
            f"this `update()` raises in iterations in which the optimizer `{apart.optimizer(module)}` doesn't step, as "
            "no gradients are checked then"
        )
        return _said_of_two(module, each, apart, waits)
    offered, withheld = _fix_again(module, own, each) if own else (None, _TWO_FUNCTIONS)
    to_do, beside = _AFTER, _set_beside(module, each.node)
    if withheld is _SOME_STEP:
        to_do = "call `update()` only after a step"
    elif offered is not None:
        to_do = "remove this call"
    if beside is not None:
        to_do, offered, withheld = beside.to_do(module), None, _BY_HAND
    left_out = _unscale_left_out(each)
    is_unusual = left_out is not None and holds_by_default(module, left_out[0]) is left_out[1]
    also = in_words(module.on_one_line(left_out[0]), not left_out[1]) if left_out is not None else None
    return rule.finding(
        module.span(each.node),
        f"{when(module, each, also)}{_NOTHING}; {to_do}",
        fix=offered,
        withheld=withheld,
        severity=Severity.WARNING if is_unusual else None,
    )


def _how_sure(module: Module, each: Misuse, in_one_function: bool) -> Confidence:
    """How sure it is that an update comes before a step whose gradients it spoils.

    Under a condition of the step nothing in sight may give its optimizer gradients: then it is a suspicion, but for the
    only backward pass, as the step raises without gradients. In another function, or where a file makes several
    scalers, what is out of sight could excuse it.
    """
    confidence = confidence_of(module, each)
    known, optimizer = objects(module), each.violation.optimizer
    owns = known.owns.get(optimizer) or known.owns.get(known.original(optimizer))
    presumed = each.violation.gradients is None or (each.violation.gradients is GradientKind.SCALED and not owns)
    presumed = presumed and not _has_one_backward(each)
    held = [state.gradients_of(optimizer) for state in each.states]
    # A loss that may not reach the optimizer's models at all: another optimizer's, by what else is seen.
    strange = bool(owns) and len(known.owns) > 1 and not any(one.sure for one in held)
    if strange or (confidence is Confidence.LIKELY and presumed):
        return Confidence.SUSPICION
    if confidence is Confidence.CERTAIN and (not in_one_function or len(objects(module).made) > 1):
        return Confidence.LIKELY
    return confidence


def _has_one_backward(each: Misuse) -> bool:
    """Whether only one backward pass of the function is in sight, which has to be that of all that is stepped there."""
    return len({one.event.call.id for one in each.flow.event_states.values() if one.event.kind == "backward"}) == 1


def _unscale_left_out(each: Misuse) -> tuple[ir.Value, bool] | None:
    """The test, and how it comes out for it, of an `unscale_` without which alone the update has nothing checked."""
    flow, update = each.flow, each.node
    used = [use for use in _uses_since(each) if not exclusive(use, update)]
    tests = asked(flow, used[0], update) if len(used) == 1 else []
    if len(tests) != 1 or used[0] not in [event.call for event in calls_of(flow, each.violation.scaler, "unscale_")]:
        return None
    return next(((test, holds) for test, holds in guards(flow, used[0]) if test is tests[0]), None)


def _said_of_two(module: Module, each: Misuse, apart: Apart, said: str) -> Finding:
    """The finding where two optimizers are stepped apart, so that no place of one scaler's update is right for both."""
    return rule.finding(
        module.span(each.node),
        f"{apart.begins}{said}; {apart.cure(module)}",
        withheld=SECOND_SCALER,
        severity=apart.severity,
    )


def _is_carried(each: Misuse, step: Event) -> bool:
    """Whether the gradients that an update comes too early for are those of an iteration before: in this one their
    backward, the update and the step don't come in this order.
    """
    key, at = each.violation.optimizer, each.node
    held = [state.gradients_of(key) for state in each.states]
    origins = [each.flow.node(one.origin) for one in held if one.origin]
    early = [
        first.id < second.id < third.id
        for origin in origins
        if origin is not None
        for first, second in side_by_side(each.flow, origin, at)
        for third in places(each.flow, step.call, second)
    ]
    return bool(early) and not any(early)


def _comes_twice_anyway(each: Misuse) -> bool:
    """Whether two updates follow each other in each iteration, whatever is stepped in between or not."""
    before = (
        each.flow.node(each.violation.cause)
        if each.violation.kind is ViolationKind.UPDATE_WITHOUT_CHECK and each.violation.cause
        else None
    )
    return before is not None and not _uses_since(each)


def _when(module: Module, each: Misuse, step: Event) -> str:
    """The step that an update comes before: where the text has it first, the one that comes round next."""
    update, line = each.node, module.line(step.call)
    pairs = side_by_side(each.flow, step.call, update)
    return f"the next step on {line}" if pairs and all(one.id < two.id for one, two in pairs) else f"the step on {line}"


def _said(each: Misuse, step: str) -> str:
    """What an update does that comes before a step, which is told by its line."""
    if each.violation.kind is ViolationKind.UPDATE_WITHOUT_CHECK:
        return f"this `update()` before {step} raises: no step or `unscale_()` ran since the previous `update()`"
    if each.violation.gradients in (GradientKind.UNSCALED, GradientKind.UNKNOWN):
        return f"this `update()` makes the scaler forget `unscale_()`: {step} unscales the gradients a second time"
    return f"this `update()` can change the scale, but {step} then divides gradients of the old scale by the new one"


def _is_early(module: Module, update: int) -> bool:
    """Whether an update is reported as too early: then it is that one which has cleared the scaler's state."""
    return any(
        each.violation.at == update and _step_behind(module, each) is not None for each in misuses(module, "AMP410")
    )


def _may_be_off(each: Misuse) -> bool:
    """Whether what the scaler would check waits for what may be the flag by which the scaler itself is off."""
    flow = each.flow
    if flow.surely_enabled(each.violation.scaler, each.states):
        return False
    for use in _uses_since(each):
        tests = asked(flow, use, each.node)
        # Where one that has nothing to do with AMP keeps the path from it, the others weren't asked.
        failed = [
            test
            for test, holds in guards(flow, use)
            if test in tests and any(flow.conditions.came_out(test, state) is (not holds) for state in each.states)
        ]
        if any(map(flow.conditions.may_ask_for_amp, failed or tests)):
            return True
    return False


def _steps_at_a_break(each: Misuse) -> bool:
    """Whether a step waits, in a loop before the update, for what ends that loop: it may come in each run of it."""
    around = set(upwards(ir.statement_of(each.node)))
    return any(
        isinstance(statement, ir.Jump) and statement.kind == "break" and loop_of(statement) is loop_of(use)
        for use in _uses_since(each)
        if loop_of(use) not in {None, *around} and conditions(use, each.node)
        for statement in ir.statement_of(use).block.statements
    )


def _steps_in_some_rounds(module: Module, each: Misuse) -> bool:
    """Whether a step waits, in a loop before the update, for what that loop runs over: some round will have it."""
    known, around = objects(module), set(upwards(ir.statement_of(each.node)))
    return any(
        known.names_in(test) & set(known.assigned_in(loop))
        for use in _uses_since(each)
        for place in places(each.flow, use, each.node)
        if isinstance(loop := loop_of(place), ir.For) and loop not in around
        for test, _ in conditions_round(place, within=loop)
        if not each.flow.conditions.counts(test)
    )


def _uses_since(each: Misuse) -> list[ir.Value]:
    """The calls that may stand, on some path, between the update before and this one."""
    flow, update = each.flow, each.node
    uses = [event.call for event in calls_of(flow, each.violation.scaler, "unscale_", "step")]
    before = flow.node(each.violation.cause) if each.violation.cause else None
    if before is update and _comes_twice(flow, update, uses):
        return []
    start = next(places(flow, before, update), None) if before is not None else None
    if before is None or start is None or exclusive(start, update):
        return [use for use in uses if use.id < update.id]
    loop = loop_of(update)
    since = []
    for use in uses:
        standing = list(places(flow, use, update))
        if start.id < update.id:
            between = any(start.id < place.id < update.id for place in standing)
            # Both in what one call leads to: there the text says which comes first.
            between |= start in standing and (use.id > before.id or ir.function_of(use) is not ir.function_of(before))
        else:
            between = (
                loop is None
                or loop not in upwards(ir.statement_of(start))
                or any(loop in upwards(ir.statement_of(place)) for place in standing)
            )
        if between or not standing:
            since.append(use)
    return since


def _comes_twice(flow: Flow, update: ir.Value, uses: list[ir.Value]) -> bool:
    """Whether a helper that updates is called twice on end, with no step in between."""
    sites = flow.call_sites(update)
    return any(
        dominates(first, second)
        and not any(first.id < place.id < second.id for use in uses for place in places(flow, use, second))
        for first, second in pairwise(sites)
        if first.id < second.id
    )


def _step_behind(module: Module, each: Misuse) -> Event | None:
    """The step whose gradients an update comes before, though they were scaled with the scale that it changes."""
    flow, violation = each.flow, each.violation
    if violation.kind is not ViolationKind.UPDATE_WITHOUT_CHECK:
        return flow.event_states[violation.meets].event
    if not any(
        held.kind is GradientKind.SCALED for state in each.states for held in (state.rest, *dict(state.groups).values())
    ):
        return None
    update = each.node
    behind = [
        event
        for event in calls_of(flow, violation.scaler, "step")
        if event.call.id > update.id and ir.function_of(event.call) is ir.function_of(update)
    ]
    return behind[0] if behind and not backward_between(module, flow, update, behind[0].call) else None


def _fix_early(module: Module, flow: Flow, reached: EventStates, step: Event) -> tuple[Fix | None, str | None]:
    """The update goes where another follows the last step, else it moves behind that."""
    call = reached.event.call
    edit = call_removed(module, call)
    statement = own_statement(call)
    if edit is None or statement is None or not isinstance(call, ir.Call) or call.args:
        return None, why_not_removed("the call", statement)
    scaler = str(reached.event.scaler)
    steps = [event for event in calls_of(flow, scaler, "step") if event.call.id > call.id]
    if not steps:
        return (
            None,
            f"the loop runs the step on {module.line(step.call)} again after this line; move `update()` after the last "
            "step by hand",
        )
    clip = _clip_before_unscale(module, flow, scaler)
    if clip is not None:
        line = module.line(clip)
        return (
            None,
            f"the clip on {line} comes before `unscale_()` and would clip scaled gradients; move that clip first",
        )
    last = steps[-1].call
    later = [event for event in calls_of(flow, scaler, "update") if event.call.id > last.id]
    if any(not conditions(event.call, last) and not conditions(event.call, call) for event in later):
        return Fix(Applicability.SAFE, "Remove this `update()`; another one follows the last step", (edit,)), None
    if later or conditions(last, call) or not says_the_same(module, step.call.func.base, call, last):  # type: ignore[attr-defined]
        return None, "the last step doesn't run on every path; move `update()` after that step by hand"
    behind = line_behind(module, ir.statement_of(last), text_with_comment(module, statement))
    if behind is None or own_statement(last) is None:
        return None, "`update()` has to move after all steps, and the last one is on one line with other code"
    return Fix(Applicability.UNSAFE, "Move `update()` after all steps", tuple(sorted((edit, behind)))), None


def _clip_before_unscale(module: Module, flow: Flow, scaler: str) -> ir.Value | None:
    """A clip before `unscale_` of gradients that callers may have scaled, and that nothing else is said of."""
    late = [event.call.id for event in calls_of(flow, scaler, "unscale_")]
    clips = [each for each in misuses(module, "AMP401") if each.flow is flow]
    reported = {
        each.violation.at for each in clips if each.violation.kind is not ViolationKind.CLIP_OF_CALLERS_GRADIENTS
    }
    silent = (each for each in clips if each.violation.at not in reported)
    return next((each.node for each in silent if any(each.violation.at < at for at in late)), None)


class _Set(NamedTuple):
    """An attribute of a scaler that is set next to an update of it, and the value."""

    attribute: ir.Attribute
    value: ir.Value

    def to_do(self, module: Module) -> str:
        """How the scale is set that is meant."""
        scaler, place = module.text(self.attribute.base), module.line(self.attribute)
        if self.attribute.attr == _INITIAL:
            call = f"{scaler}.update({module.on_one_line(self.value)})"
            return f"call `{call}` instead, as setting `{_INITIAL}` on {place} has no effect after the first `scale()`"
        return f"call `{scaler}.update(new_scale)` instead of setting `{self.attribute.attr}` on {place}"


def _set_beside(module: Module, update: ir.Value) -> _Set | None:
    """What the suite of an update sets of its scaler: who writes both means to set the scale anew."""
    known, base = objects(module), ir.called_on(update, "update")
    key = known.key(base) if base is not None else None
    for statement in ir.statement_of(update).block.statements if key is not None else ():
        if isinstance(statement, ir.Assign) and statement.value is not None:
            for target in statement.targets:
                if isinstance(target, ir.Attribute) and known.key(target.base) == key:
                    return _Set(target, statement.value)
    return None


def _fix_again(module: Module, flow: Flow, each: Misuse) -> tuple[Fix | None, str | None]:
    """It goes: wherever it is reached it raises. That some update is left has to be in sight."""
    reached = flow.event_states[each.violation.at]
    call = reached.event.call
    updates = [event.call for event in calls_of(flow, each.violation.scaler, "update")]
    if not all(
        any(use.id < other.id < call.id and not conditions(other, use) for other in updates)
        for use in _uses_since(each)
    ):
        return None, _SOME_STEP
    before = [other.call for other in calls_of(flow, str(reached.event.scaler), "update") if other.call.id < call.id]
    if not before:
        return None, "amplint sees no other `update()` before this call"
    reads = module.own.near("get_scale").calls
    if any(before[-1].id < each.id < call.id and ir.last_name(each.func) == "get_scale" for each in reads):
        return (
            None,
            "`get_scale()` is called between the two updates: amplint can't tell which of them is the right one",
        )
    edit = call_removed(module, call)
    if edit is None:
        return None, why_not_removed("the call", own_statement(call))
    return Fix(Applicability.SAFE, "Remove this second `update()`", (edit,)), None
