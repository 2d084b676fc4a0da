"""The scaler steps or unscales on every micro step, but the gradients are cleared less often.

## What it does
Finds a `scaler.step`, or an `unscale_` with an `update`, that runs in each iteration of a loop, while the gradients are
cleared less often: only if `(i + 1) % k == 0`, only before the loop or after it, or never.

Also finds a method that computes a loss, calls backward and steps `self.optimizer`, if nothing in the program clears
the gradients: the next call adds to them.

If `k` is a setting, the message says "when `k > 1`". The finding is only *likely*:

- if `k` is 1 by default;
- if amplint doesn't see who creates the optimizer, or what computes the loss: either may clear the gradients;
- if there are several optimizers, and amplint doesn't see whose gradients a backward pass computes;
- if it is about a method and its next call.

amplint reports nothing:

- if something clears the gradients in each iteration, or a call that gets the model may do so in code that amplint
  can't see;
- if the step also runs only in every k-th iteration;
- about a method that gets its loss from its caller: the caller may clear the gradients, too.

## Why is this bad?
The step divides the gradients by the scale. The next backward pass adds scaled gradients to these small ones, and the
next step divides the sum by the scale again. So each step uses only the gradients of its own micro step, and the
gradients of earlier micro steps are almost lost: the weights move in small, separate steps instead of one for the whole
batch.

## Example
```python
scaler.scale(loss / k).backward()
scaler.step(optimizer)
scaler.update()
if (i + 1) % k == 0:
    optimizer.zero_grad()
```

## Use instead
```python
scaler.scale(loss / k).backward()
if (i + 1) % k == 0:
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
```

## Fix safety
There is no fix: amplint can't tell what else has to move with the optimizer's step, such as clipping or the scheduler.

## Proof
The test programs are compared with a float32 reference step: the SGD updates of the wrong programs differ from it, and
the updates of the corrected programs agree with it.

## References
- [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import is_grad
from amplint.model.calls.external_calls import QUIET, runs_instead
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.violations import ViolationKind
from amplint.model.inference.values import parameter_read
from amplint.model.objects.amp_objects import given, objects
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import is_of_self
from amplint.model.project.importers import surely_lack
from amplint.model.project.link import is_idle
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import exclusive, loop_of, upwards
from amplint.model.torch_facts.grad_scaler import Stage
from amplint.registry.rule import Rule
from amplint.rules.shared.accumulation_boundary import Several, only_with_several
from amplint.rules.shared.clips import FINITE, in_this_file_only
from amplint.rules.shared.parallel_branches import CLEARS, differences
from amplint.rules.shared.scaler_order import (
    Misuse,
    asked,
    dynamic,
    guards,
    misuses,
    on_micro_steps,
    one_for_each,
    places,
    reached_events,
    running,
    side_by_side,
    when,
)
from amplint.rules.shared.violation_codes import VIOLATIONS

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=(".scale( & backward & step(", ".scale( & unscale_"),
    shown_by=("update", "gradient"),
    about_absence=True,
)

_NEVER_CLEARED = (
    "amplint sees no `zero_grad()`: once this code no longer raises, the gradients of all iterations add up"
)
_WHOSE = (
    "amplint can't tell whose gradients the backward pass after `unscale_()` adds to: once this code no longer raises, "
    "scaled gradients may be added to unscaled ones"
)
_NEVER_CLEAR = ("torch.optim.", "builtins.object")  # in their `step`
# What may run a function that clears. Hooks of a forward or of a tensor change what passes, and clear no gradients.
_HOOK = re.compile(
    r"hook(?<!^register_hook)(?<!^register_forward_hook)(?<!^register_forward_pre_hook)(?<!backward_hook)"
)
# What leaves gradients there: bounds, where they are small, and sums and products but for one with 0.
_KEEPS = ("clamp_", "clip_", "add_", "sub_", "mul_", "div_", "neg_")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each call that unscales gradients to which scaled ones are added."""
    shown = list(one_for_each(module, "AMP411", _judge))
    yield from shown
    if not shown:
        yield from _left_for_the_next_call(module)


def _left_for_the_next_call(module: Module) -> Iterator[Finding]:
    """The steps of methods that make a whole training step, and leave the gradients to their next call."""
    done = set[int]()
    for flow in flows(module):
        function = flow.container
        if not isinstance(function, ir.Function) or function.cls is None or function.name.startswith("__"):
            continue
        if any(module.is_own(call) for call in callers(module, function)):
            continue  # the flow of the caller shows what comes next
        if flow.violations(VIOLATIONS["AMP411"]) or any(each.kind == "zero_grad" for each in flow.events):
            continue
        for step in reached_events(flow, "step"):
            call, optimizer = step.event.call, step.event.optimizer or ""
            if call.id in done or loop_of(call) is not None or not is_of_self(optimizer):
                continue
            if not _leaves_gradients(module, flow, optimizer) or _is_cleared_otherwise(module, flow, optimizer):
                continue
            if not _is_cleared_elsewhere(module, optimizer):
                done.add(call.id)
                yield rule.finding(
                    module.span(call),
                    "amplint sees nothing that clears the gradients after this step: the next call of "
                    f"`{function.name}` adds scaled gradients to unscaled ones; call `zero_grad()` after the step",
                    withheld="amplint can't tell whether other code clears the gradients",
                    confidence=Confidence.LIKELY,
                )


def _leaves_gradients(module: Module, flow: Flow, optimizer: str) -> bool:
    """Whether a method computes a loss, and at its end the optimizer has unscaled gradients of that."""
    backwards = [each.event for each in reached_events(flow, "backward") if each.event.subject is not None]
    if not backwards or any(parameter_read(module, each.subject) for each in backwards if each.subject is not None):
        return False  # it is given the loss: who computes that may clear
    made = {each.call.id for each in backwards}
    left = [state.gradients_of(optimizer) for state in flow.ends]
    used = [each for each in left if each.used and each.by]
    return bool(used) and all(each.kind is GradientKind.UNSCALED and each.origin in made for each in used)


def _is_cleared_elsewhere(module: Module, optimizer: str) -> bool:
    """Whether anything in the program may clear an attribute's gradients between two calls of a method."""
    names = {each.rpartition(".")[2] for each in (optimizer, *_models(module, optimizer))}
    for call in module.whole.called("zero_grad"):
        function = ir.function_of(call)
        if function is None or not (_is_of_a_clear(call) or _makes_a_step(module, function)):
            return True
    words = "|".join(sorted(re.escape(each) for each in names))
    return not surely_lack(module.source.filename, re.compile(rb"\b(?:%s)\s*\.\s*zero_grad\s*\(" % words.encode()))


def _makes_a_step(module: Module, function: ir.Function) -> bool:
    """Whether a function calls backward itself: what it clears is for that."""
    return any(ir.last_name(each.func) == "backward" for each in ir.calls_below(function.body))


@rule.doubt
def doubts(module: Module) -> Iterator[str]:
    """Of functions that may add scaled gradients to unscaled ones: no fix must let one run that raises without it."""
    yield from _uncleared(module)
    for flow in running(module):
        if any(map(_may_step_mixed, reached_events(flow, "step"))):
            yield _WHOSE


def _may_step_mixed(step: EventStates) -> bool:
    """Whether a step may use gradients to which a backward of unknown models has added since `unscale_`."""
    scaler, optimizer = step.event.scaler or "", step.event.optimizer or ""
    return any(
        state.gradients_of(optimizer).may_be_mixed()
        and state.machine(scaler).optimizer_state(optimizer).stage is Stage.UNSCALED
        for state in step.states
    )


def _uncleared(module: Module) -> Iterator[str]:
    """Of functions whose loops add up gradients, unless what can't be seen clears them."""
    if module.whole.near("zero_grad").calls:
        return
    raising = {each.violation.at for code in ("AMP404", "AMP405") for each in misuses(module, code)}
    inside = [each for each in misuses(module, "AMP411") if isinstance(each.flow.container, ir.Function)]
    for _ in {each.violation.at for each in inside} - raising:
        yield _NEVER_CLEARED


def _judge(module: Module, each: Misuse) -> Finding | None:
    # That is why: it comes behind the step, or before the first backward.
    early = misuses(module, "AMP418") if each.violation.kind is ViolationKind.BACKWARD_BEHIND_UNSCALE else []
    if any(other.violation.at == each.violation.at for other in (*misuses(module, "AMP406"), *early)):
        return None
    if any(other.violation.at == each.violation.at and on_micro_steps(other) for other in misuses(module, "AMP405")):
        return None  # AMP405 says so
    sure = _is_uncleared(module, each)
    if sure is None:
        return None
    several = _several(module, each)
    cure = (
        "unscale and step only after the last backward pass of the accumulation, then call `zero_grad()`"
        if _cleared_in_its_loop(module, each)
        else "call `zero_grad()` after each step, or step after the last backward pass"
    )
    # None where it is not seen whose gradients the backward pass makes.
    certain = sure and each.violation.gradients is None
    return rule.finding(
        module.span(each.node),
        f"{when(module, each, several and several.when)}{_unscaling(each)} unscales the gradients, and the next "
        f"backward pass adds scaled gradients to them; {cure}",
        withheld="amplint can't tell which other lines have to move with the step",
        confidence=Confidence.LIKELY if not certain or (several is not None and several.is_unusual) else None,
    )


def _unscaling(each: Misuse) -> str:
    """The call that unscales too early, as the subject of a message."""
    return "this step" if each.reached.event.kind == "step" else "this `unscale_()`"


def _several(module: Module, each: Misuse) -> Several | None:
    """The condition without which the gradients are cleared as often as they are unscaled.

    A clear in the loop of the step says it, whatever is cleared before that loop.
    """
    optimizer = each.violation.optimizer
    clears = [event.call for event in each.flow.events if event.kind == "zero_grad" and event.optimizer == optimizer]
    return only_with_several(module, each.flow, each.node, _cleared_in_its_loop(module, each) or clears)


def _cleared_in_its_loop(module: Module, each: Misuse) -> list[ir.Value]:
    """The calls that clear the gradients in the loop of the call that unscales them, in some of its iterations."""
    optimizer = each.violation.optimizer
    cleared = {optimizer, *_models(module, optimizer)}
    return [
        event.call
        for event in each.flow.events
        if event.kind == "zero_grad"
        and event.optimizer in cleared
        and any(loop_of(clear) is loop_of(step) for clear, step in side_by_side(each.flow, event.call, each.node))
    ]


def _models(module: Module, optimizer: str) -> set[str]:
    """The models that an optimizer trains."""
    known = objects(module)
    return known.owns.get(optimizer, set()) | known.owns.get(known.original(optimizer), set())


def _is_uncleared(module: Module, each: Misuse) -> bool | None:
    """Whether the gradients are cleared too rarely: the flow shows a clear, or all that has the optimizer, and all that
    is given its model in each iteration. False where only code out of sight could clear them, None where the file may.
    """
    if _is_cleared_otherwise(module, each.flow, each.violation.optimizer):
        return None
    flow, violation, step = each.flow, each.violation, each.node
    clears = [event for event in flow.events if event.kind == "zero_grad" and event.optimizer is not None]
    if any(_may_come_in_time(module, each, clear) for clear in clears):
        return None
    if clears:
        # Of parallel branches only the other one clears: AMP420.
        parallel = {branch.statement.id for branch in module.once(differences) if branch.what == CLEARS}
        return None if any(outer.id in parallel for outer in upwards(ir.statement_of(step))) else True
    every = objects(module)
    is_made = bool({violation.optimizer, every.original(violation.optimizer)} & every.constructed) or any(
        name[0] == "." for name in every.classes_of(violation.optimizer)
    )
    # One that a call leads to, and that no path of the flow comes to, stands behind what raises. One in a `zero_grad`
    # runs only if another one does.
    elsewhere = any(
        not _is_of_a_clear(call)
        and (not flow.follows(call) or exclusive(call, step))
        and not runs_instead(module, ir.function_of(call), ir.function_of(step))
        for call in module.whole.called("zero_grad")
    )
    losses = frozenset[int]().union(*(each.parts for each in trained(module)))
    others = [call for call in _beside(module, step) if _may_clear(module, call, violation.optimizer)]
    if elsewhere or any(call.id not in losses for call in others):
        return None
    return is_made and not others and in_this_file_only(module, violation.scaler)


def _is_cleared_otherwise(module: Module, flow: Flow, optimizer: str) -> bool:
    """Whether something else than a call may clear the gradients: a store, a class of the file's own, a hook."""
    events = {event.call.id for event in flow.events}
    values = module.whole.near("grad").values
    return (
        any(is_grad(value) and _is_written(value, events) and _may_run(module, value) for value in values)
        or any(
            name[0] == "." and _clears_in_its_step(module, name[1:]) for name in objects(module).classes_of(optimizer)
        )
        or any(_HOOK.search(ir.last_name(call.func)) for call in module.whole.near("hook").calls)
    )


def _clears_in_its_step(module: Module, name: str) -> bool:
    """Whether an optimizer of a class of the file may clear gradients in another method than `zero_grad`."""
    classes = [each.cls for each in module.whole.defined("step") if each.cls is not None and each.cls.name == name]
    if len(classes) != 1 or classes[0] is None:
        return True
    bases = {name for each in classes[0].bases for name in module.names.of(each.value)}
    if not all(name.startswith(_NEVER_CLEAR) for name in bases):
        return True
    inside = (ir.function_of(call) for call in module.whole.called("zero_grad"))
    return any(each is not None and each.cls is classes[0] and each.name != "zero_grad" for each in inside)


def _may_come_in_time(module: Module, each: Misuse, clear: Event) -> bool:
    """Whether a clear waits for what may be just the iteration behind the step; a step in each one doesn't."""
    flow, step = each.flow, each.node
    for site in list(places(flow, clear.call, step)) or [clear.call]:
        tests, waits = dynamic(module, flow, site, step), dynamic(module, flow, step, flow.node(each.violation.cause))
        if not tests and asked(flow, site, step, depth=0) and waits and not any(map(_comes_again, waits)):
            return True  # cleared in the first iteration, stepped in the last
        if not tests or _is_at_the_boundary(flow, site, step) or _skips_the_step(module, each, site, tests):
            continue
        if waits or not all(flow.conditions.counts(test) for test in tests):
            return True
    return False


def _comes_again(test: ir.Value) -> bool:
    """Whether a test is true of each k-th iteration."""
    return any(isinstance(each, ir.Binary) and each.op == "Modulo" for each in ir.walk_values(test))


def _is_of_a_clear(call: ir.Call) -> bool:
    function = ir.function_of(call)
    return function is not None and function.name == "zero_grad"


def _beside(module: Module, step: ir.Value) -> list[ir.Call]:
    """The calls in the loop of a step, or of the call of its function."""
    found = []
    for place in (step, *callers(module, ir.function_of(step))):
        loop = loop_of(place)
        if loop is not None:
            found += [each for each in ir.calls_below(loop.body) if loop_of(each) is loop]
    return found


def _may_clear(module: Module, call: ir.Call, optimizer: str) -> bool:
    """Whether a call that can't be seen is given a model that the optimizer trains."""
    known = objects(module)
    models = _models(module, optimizer)
    if not any(known.key(value) in models for value in given(call)):
        return False
    if any(name.startswith(("torch.", "builtins.")) for name in module.names.of(call.func)):
        return False
    if isinstance(call.func, ir.Attribute) and call.func.attr in QUIET:
        return False
    return module.once(CallGraph).run_by(call) is None and not is_idle(module, call.func)


def _is_at_the_boundary(flow: Flow, clear: ir.Node, step: ir.Value) -> bool:
    """Whether a clear waits for the boundary that the step waits for, and no other one."""
    waits = [(test, holds) for test, holds in guards(flow, clear) if flow.conditions.counts(test)]
    states = flow.event_states[step.id].states
    return bool(waits) and all(
        flow.conditions.came_out(test, state) is holds for test, holds in waits for state in states
    )


def _skips_the_step(module: Module, found: Misuse, clear: ir.Node, tests: list[ir.Value]) -> bool:
    """Whether a clear comes only where the loop of a step ends, or in iterations that have overflowed."""
    overflows = any(FINITE.search(module.text(test)) for test in tests)
    leaves = {
        last.kind
        for place, step in side_by_side(found.flow, clear, found.node)
        for each in upwards(ir.statement_of(place))
        if isinstance(last := each.block.statements[-1], ir.Jump) and loop_of(last) is loop_of(step) is not None
    }
    return "break" in leaves or ("continue" in leaves and overflows)


def _may_run(module: Module, value: ir.Value) -> bool:
    """Whether what stands in a function may run while the file trains: it is a method, or something names it."""
    function = ir.function_of(value)
    return function is None or function.cls is not None or _is_read(module, function.name)


def _is_read(module: Module, name: str) -> bool:
    values = module.whole.near(name).values
    return any(ir.is_variable(each, name) and not each.bound for each in values)


def _is_written(value: ir.Value, events: set[int]) -> bool:
    """Whether a gradient is stored, deleted or changed in place, and that is none of the events."""
    parent = value.parent
    if isinstance(parent, (ir.Assign, ir.Delete)):
        return value in parent.targets and value.id not in events and not _is_kept(parent)
    if not isinstance(parent, ir.Attribute) or not isinstance(parent.parent, ir.Call):
        return False
    keeps = parent.attr in _KEEPS and not any(_is_zero(each) for each in parent.parent.positional)
    return parent.attr.endswith("_") and not keeps and parent.parent.id not in events


def _is_kept(store: ir.Assign | ir.Delete) -> bool:
    """Whether what is stored in a gradient is computed from one: `p.grad = p.grad / n`."""
    made = store.value if isinstance(store, ir.Assign) else None
    return (
        isinstance(made, ir.Binary)
        and any(is_grad(each) for each in ir.walk_values(made))
        and not any(_is_zero(each) for each in made.children())
    )


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.value == 0
