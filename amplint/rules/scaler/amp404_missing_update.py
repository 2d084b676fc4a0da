"""The scaler steps in a loop, and `update()` doesn't run before its next `step()` or `unscale_()`.

## What it does
Finds a `scaler.step(optimizer)` or `scaler.unscale_(optimizer)` in a loop, if the next iteration can reach `step` or
`unscale_` without `scaler.update()` in between:

- the function never calls `update()`;
- a condition in the loop skips `update()`, such as a `continue` after a bad gradient norm. The message names the
  condition.

Also finds:

- a function that steps with a scaler from outside of the function, if nothing updates that scaler after the step;
- a method that takes one step, but returns before `update()` if gradients are not finite;
- `scaler.update` without parentheses, which calls nothing;
- a check that skips both `step` and `update()` if gradients are not finite, without `unscale_()` before it. Nothing
  raises, but the scale never falls: the finding is a warning, and only *likely*.

The certainty of the finding depends on when `update()` is skipped:

- *certain*: always, with the default options, or under a condition that changes during training (a gradient norm);
- *likely*: only with an option whose default amplint can't see;
- *suspicion*: only with an option that is not at its default.

Findings are also only *likely* if the scaler is an argument, or is created or used in code that amplint can't see, and
no other file of the program calls `update()`.

amplint reports nothing:

- if another function of the file calls `update()`;
- if the scaler leaves the file, and another file of the program calls `update()`;
- if the flag that decides about `update()` may also decide whether the scaler is enabled.

## Why is this bad?
The second iteration raises RuntimeError:

- with `step()` alone: "step() has already been called since the last update().";
- with `unscale_()` and `step()`: "unscale_() is being called after step().";
- if a condition skips `step()` after `unscale_()`: "unscale_() has already been called on this optimizer since the last
  update()."

A disabled scaler doesn't raise, so the error stays hidden until AMP is on.

If a check of gradients skips both `step` and `update()`, nothing raises. But only `update()` lowers the scale: once
gradients overflow at that scale, they may overflow in each further step, and the model stops learning.

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
The fix inserts `scaler.update()` after the last step of the iteration, or adds the missing parentheses (safe).

Safe if amplint sees every use of the scaler: this file creates the scaler and passes it to nothing else.

Unsafe:

- if amplint doesn't see every use: other code may already call `update()`;
- if the function may be one of several that step in one iteration.

There is no fix if `update()` exists and some path skips it. A check of gradients that skips both calls is not needed:
`scaler.step()` itself skips a step that overflows, and `update()` then lowers the scale. To keep the check, call
`unscale_()` before it, and `update()` in it: without `unscale_()`, `update()` raises "No inf checks were recorded prior
to update."

## Proof
The test programs run several iterations. Before the fix the second one raises; after the fix none does, and the SGD
updates agree with a float32 reference step within float16's noise. In the program whose check skips both calls
nothing raises: before the correction, the scale at the end is higher, as it never falls.

## References
- [GradScaler.update](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.edits import insert
from amplint.fixes.statements import line_behind
from amplint.model.calls.call_sites import callers
from amplint.model.calls.external_calls import bases_in_sight, storing_class
from amplint.model.calls.predicates import Predicates
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.violations import Violation, ViolationKind
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import is_attribute, last_name, own_self
from amplint.model.objects.terms import path, present
from amplint.model.project.importers import surely_lack
from amplint.model.syntax import ir
from amplint.model.syntax.control import ends_iteration
from amplint.model.syntax.nesting import exclusive, loop_of, skipping, upwards, ways_past
from amplint.model.torch_facts.grad_scaler import Stage
from amplint.model.usage.mentions_of import near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.accumulation_boundary import SECOND_SCALER, stepped_apart
from amplint.rules.shared.clips import FINITE, escapes, in_this_file_only
from amplint.rules.shared.default_values import in_words
from amplint.rules.shared.finite_checks import gradients_in, not_finite, stands_in
from amplint.rules.shared.scaler_order import (
    Misuse,
    always_off,
    attributes_read,
    calls_of,
    computed_between,
    confidence_of,
    home,
    methods_used,
    misuses,
    on_micro_steps,
    places,
    reached_events,
    receiver,
    settings_of,
    used_by_others,
    used_elsewhere,
    when,
)
from amplint.rules.shared.skipped_steps import is_plain, step_round
from amplint.rules.shared.unscale_safety import agree

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("scaler & step(", ".scale( & step( & backward", "unscale_"),
    shown_by=("exception", "skips", "gradient"),
    about_absence=True,
)


# A scaler's update, by its usual names; the names of its classes.
_UPDATES = re.compile(rb"(?i)(scaler\w*|amp)\s*\.\s*update\s*\(")
_CLASSES = re.compile(r"[A-Z]\w*Scaler")
_doubt = list(Confidence).index  # the less sure, the greater


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each step that comes round to the scaler again without an update."""
    reported: set[object] = set()
    for scaler, finding in _uncalled(module):
        reported.add(scaler)
        yield finding
    for each in (*misuses(module, "AMP404"), *misuses(module, "AMP405")):
        if each.violation.kind is ViolationKind.UNSCALE_TWICE and on_micro_steps(each):
            reported.add(each.violation.at)  # AMP405 says so
        place = {objects(module).original(each.violation.scaler), each.violation.at}
        judged = _judge(module, each) if each.violation.carried and not place & reported else None
        if judged is not None:
            reported |= place
            yield judged
    for flow in flows(module):
        for reached in reached_events(flow, "step"):
            scaler = str(reached.event.scaler)
            call = reached.event.call.id
            if always_off(flow, reached) or {objects(module).original(scaler), call} & reported:
                continue
            given = _is_given(module, flow, scaler)
            if given or _outlives(module, flow, reached):
                reported |= {scaler, call}
                violation = Violation(
                    ViolationKind.STEP_WITHOUT_UPDATE, call, 0, call, scaler, str(reached.event.optimizer)
                )
                sure = Confidence.LIKELY if given else Confidence.CERTAIN
                yield _never_updated(module, Misuse(flow, violation, reached.states), Applicability.UNSAFE, sure)
        for reached in reached_events(flow, "unscale_", "step"):
            early = _returns_first(module, flow, reached) if reached.event.call.id not in reported else None
            if early is not None:
                reported.add(reached.event.call.id)
                yield rule.finding(
                    module.span(reached.event.call),
                    f"when {early.when}, this method returns without "
                    f"`{module.text(receiver(reached.event))}.update()`: the next call of the method raises; call "
                    "`update()` before that return too",
                    withheld="amplint can't tell whether to clear the gradients before that return too",
                    confidence=early.confidence,
                )
    yield from _never_lowered(module)


def _uncalled(module: Module) -> Iterator[tuple[str, Finding]]:
    """The statements that name a scaler's `update` and don't call it, each with the scaler."""
    known = objects(module)
    for statement in module.own.near("update").statements:
        value = statement.value if isinstance(statement, ir.Expr) else None
        if isinstance(value, ir.Attribute) and value.attr == "update":
            scaler = known.is_scaler(value.base)
            if scaler is not None:
                yield (
                    known.original(scaler),
                    rule.finding(
                        module.span(value),
                        f"`{module.text(value)}` is not called: the next `step()` raises; add the parentheses",
                        fix=Fix(Applicability.SAFE, "Add `()`", (insert(module.span(value)[1], "()"),)),
                    ),
                )


def _never_lowered(module: Module) -> Iterator[Finding]:
    """Each check of gradients that skips a step, and `update()` with it: nothing lowers a scale that is too large."""
    for check in module.whole.near("isfinite", "isnan", "isinf").statements:
        skipped = _skipped(check) if isinstance(check, ir.If) else None
        if not isinstance(check, ir.If) or skipped is None:
            continue
        arm, runs, holds = skipped
        sources = [gradients_in(module, each) for each in not_finite(module, check.test, holds)]
        found = step_round(module, check) if any(sources) else None
        if found is None or any(is_plain(found[0], each) for each in sources if each is not None):
            continue
        flow, event = found
        scaler = str(event.scaler)
        calls = [each for each in calls_of(flow, scaler, "update", "unscale_") if _is_with(each.call, check)]
        updates = [each.call for each in calls if each.kind == "update"]
        before = [each.call for each in calls if each.kind == "unscale_" and each.call.id < check.id]
        loops = {loop_of(each) for each in updates}
        alike = not isinstance(arm.statements[-1], ir.Jump) or loops == {loop_of(check)}
        skips = all(each.id > check.id and stands_in(each, arm) is runs for each in updates)
        if updates and not before and alike and skips:
            name = module.text(receiver(event))
            yield rule.finding(
                module.span(check.test),
                f"when gradients overflow, this check skips `{name}.update()`: the scale never falls, and the next "
                f"steps may overflow too; remove the check, as `{name}.step` itself skips a step that overflows",
                withheld="amplint can't tell what else the check is for; remove the check by hand",
                severity=Severity.WARNING,
                confidence=Confidence.LIKELY,
            )


def _is_with(call: ir.Node, check: ir.If) -> bool:
    """Whether a call is in the function that a check is in."""
    return ir.function_of(call) is ir.function_of(check)


def _skipped(check: ir.If) -> tuple[ir.Block, bool, bool] | None:
    """How an if skips something: an arm, whether what is skipped is in it, and how the test comes out then.

    It is in the only arm, or after the arm that leaves.
    """
    if ends_iteration(check.then):
        return check.then, False, True
    if check.orelse is not None:
        return (check.orelse, False, False) if ends_iteration(check.orelse) else None
    return check.then, True, False


def _judge(module: Module, each: Misuse) -> Finding | None:
    """What is wrong with a call that the next iteration meets without an update."""
    flow, violation = each.flow, each.violation
    updates = calls_of(flow, violation.scaler, "update")
    here = [place for update in updates for place in places(flow, update.call, each.node)]
    loop = loop_of(each.node)
    outside = bool(here) and loop is not None and not any(loop in upwards(ir.statement_of(place)) for place in here)
    if violation.kind is ViolationKind.STEP_WITHOUT_UPDATE and not outside and _is_misplaced(module, each):
        return None
    if not updates:
        certainty = _never_updated_elsewhere(module, each) if _misses_one(module, each) else None
        if certainty is None:
            return None
        sure = in_this_file_only(module, violation.scaler)
        kind = Applicability.SAFE if sure else Applicability.UNSAFE
        confidence = max(confidence_of(module, each), certainty, key=_doubt)
        return _never_updated(module, each, kind, confidence)
    if outside:
        once = _once_by_default(module, loop)
        begins = f"if `{module.on_one_line(once)}` is more than 1 (by default it is 1), " if once is not None else ""
        confidence = confidence_of(module, each)
        return rule.finding(
            module.span(each.node),
            f"{begins}this call raises in the next iteration: `update()` is outside the loop; call `update()` in the "
            "loop, after all steps",
            withheld="amplint can't tell which other lines have to move into the loop with `update()`",
            confidence=max(confidence, Confidence.LIKELY, key=_doubt) if begins else confidence,
        )
    tests = [test for place in here for test in skipping(each.node, place, "continue")]
    if not tests and violation.kind is ViolationKind.STEP_WITHOUT_UPDATE:
        return _never_updated(module, each, Applicability.UNSAFE, confidence_of(module, each))
    if not tests or not _is_dynamic(module, each, tests):
        return None
    met = flow.event_states[violation.meets].event
    name = module.text(receiver(met))
    apart = (
        stepped_apart(module, flow, violation.scaler) if violation.kind is ViolationKind.STEP_WITHOUT_UPDATE else None
    )
    if apart is not None:
        return rule.finding(
            module.span(each.node),
            f"{apart.begins}this step raises in the next iteration: `{name}.update()` doesn't run in every iteration; "
            f"{apart.cure(module)}, and call `{name}.update()` in every iteration",
            withheld=SECOND_SCALER,
            severity=apart.severity,
        )
    again = f"this `{met.kind}()`" if met.call is each.node else f"`{met.kind}()` on {module.line(met.call)}"
    return rule.finding(
        module.span(each.node),
        f"{_skipped_when(module, each, here, name)}: {again} raises in the next iteration; call `{name}.update()` in "
        "that case too",
        withheld="amplint can't tell whether to clear the gradients in that case too",
        confidence=_how_sure(module, each, here),
    )


def _once_by_default(module: Module, loop: ir.Statement | None) -> ir.Value | None:
    """How often a loop runs, where that is a setting whose default is 1: `range(args.n_critic)`."""
    call = loop.iter if isinstance(loop, ir.For) else None
    if not isinstance(call, ir.Call) or module.names.of(call.func) != {"builtins.range"} or len(call.positional) != 1:
        return None
    leaves = values_of(module, call.positional[0]).leaves
    known = [each.value.value for each in leaves if isinstance(each.value, ir.Constant)]
    return call.positional[0] if known and all(each == 1 for each in known) else None


def _skipped_when(module: Module, each: Misuse, updates: list[ir.Node], name: str) -> str:
    """That an update is skipped, and under which condition: that of the likeliest way past it."""
    ways = sorted(_ways(each, updates), key=lambda way: _doubt(_sure_of(module, each, way)))
    begins = when(module, each)
    tests = [(test, in_words(module.on_one_line(test), holds)) for test, holds in ways[0]]
    others = [f"{words} on {module.line(test)}" for test, words in tests if words not in begins]
    return f"{begins}`{name}.update()` is skipped{' if ' if others else ''}{' and '.join(others[-2:])}"


def _how_sure(module: Module, each: Misuse, updates: list[ir.Node]) -> Confidence:
    """How sure it is that an update is skipped: by the settings that the likeliest way past it needs."""
    return min((_sure_of(module, each, way) for way in _ways(each, updates)), key=_doubt)


def _ways(each: Misuse, updates: list[ir.Node]) -> list[list[tuple[ir.Value, bool]]]:
    return [way for update in updates for way in ways_past(each.node, update, "continue")]


def _sure_of(module: Module, each: Misuse, way: list[tuple[ir.Value, bool]]) -> Confidence:
    return confidence_of(module, each, settings_of(module, way))


class _Early(NamedTuple):
    """A return before the update: under which condition, in words, and how sure it is that this is a misuse."""

    when: str
    confidence: Confidence


def _returns_first(module: Module, flow: Flow, reached: EventStates) -> _Early | None:
    """The return before the update of a method that makes one step, with the scaler of its object."""
    function, event = flow.container, reached.event
    scaler, optimizer = str(event.scaler), str(event.optimizer)
    if not isinstance(function, ir.Function) or function.cls is None or scaler not in objects(module).made:
        return None
    if not is_attribute(scaler, own_self(function.cls)) or not flow.contains(event.call) or loop_of(event.call):
        return None
    updates = [each.call for each in calls_of(flow, scaler, "update") if each.call.id > event.call.id]
    if (
        not updates
        or not all(map(flow.contains, updates))
        or used_elsewhere(module, flow, scaler, "update", event.call)
    ):
        return None
    ended = any(
        state.last_transition(scaler, optimizer) == event.call.id
        and state.stage(scaler, optimizer) is not Stage.READY
        and not flow.disabled(scaler, state)
        for state in flow.ends
    )
    ways = [each for update in updates for each in ways_past(event.call, update, "return")] if ended else []
    tests = [each for way in ways for each in way]
    if any(_asks_for_finite(module, test) for test, _ in tests):
        return _Early("gradients are not finite", Confidence.CERTAIN)
    # What it computes of the gradients changes from call to call; a limit may be one at which the training ends.
    computed = {update: computed_between(module, event.call, update) for update in updates}
    for test, holds in tests:
        if exclusive(event.call, test):
            continue  # asked in an arm of its own
        if any(objects(module).names_in(test) & keys for keys in computed.values()):
            return _Early(in_words(module.on_one_line(test), holds), Confidence.LIKELY)
    return None


def _asks_for_finite(module: Module, test: ir.Value) -> bool:
    """Whether a test asks for finite gradients, by a flag that such a test sets, too."""
    flags = (each for each in ir.walk_values(test) if isinstance(each, ir.Name) and not each.bound)
    asked = [each.value for flag in flags for leaf in values_of(module, flag).leaves for each in leaf.tests]
    return any(FINITE.search(module.text(each)) for each in (test, *asked))


def _is_misplaced(module: Module, each: Misuse) -> bool:
    """Whether the update comes too early on each of the paths, so that it is missing further down."""
    early = [of for of in misuses(module, "AMP410") if of.violation.kind is ViolationKind.UPDATE_BEFORE_USE]
    states = [state for of in early if of.violation.scaler == each.violation.scaler for state in of.states]
    return bool(states) and all(any(agree(mine, theirs.facts) for theirs in states) for mine in each.states)


def _outlives(module: Module, flow: Flow, reached: EventStates) -> bool:
    """Whether a function steps with a scaler that lives longer than one call, and nothing in sight updates it after."""
    scaler = str(reached.event.scaler)
    made = objects(module).made.get(scaler, [])
    return (
        isinstance(flow.container, ir.Function)
        and in_this_file_only(module, scaler)
        and not _is_handed_on(module, scaler)
        and not any(flow.contains(each.call) for each in made)
        and methods_used(module, scaler) >= {"scale", "step"}
        and all(_comes_too_late(flow, reached, each) for each in _updates(module, scaler))
        and not used_by_others(module, scaler, "update", reached.event.call)
    )


def _updates(module: Module, scaler: str) -> Iterator[ir.Value]:
    """The updates of a scaler in the file: the calls, or `scaler.update` itself where it isn't called there."""
    for each in attributes_read(module, scaler):
        if each.attr == "update":
            yield each.parent if isinstance(each.parent, ir.Call) and each.parent.func is each else each


def _comes_too_late(flow: Flow, step: EventStates, update: ir.Value) -> bool:
    """Whether a call that comes after this step raises before it gets to an update: that stands behind an `unscale_`,
    and on no path behind the step.
    """
    scaler, optimizer = str(step.event.scaler), str(step.event.optimizer)
    reached = flow.event_states.get(update.id)
    return (
        reached is not None
        and reached.event.kind == "update"
        and reached.event.scaler == scaler
        and flow.contains(update)
        and loop_of(step.event.call) is None
        and all(
            state.stage(scaler, optimizer) is Stage.UNSCALED and state.last_transition(scaler, optimizer)
            for state in reached.states
        )
        and any(state.last_transition(scaler, optimizer) == step.event.call.id for state in flow.ends)
    )


def _is_given(module: Module, flow: Flow, scaler: str) -> bool:
    """Whether a function is given a scaler, or its object has one that is created elsewhere, scales and steps with it,
    and no code in sight updates one: neither this file, which steps with no other, nor those of its programs.
    """
    function, known = flow.container, objects(module)
    if not isinstance(function, ir.Function) or _is_handed_on(module, scaler):
        return False
    of_object = _is_of_object(module, function, scaler)
    params = {known.variable(function.scope, each.name) for each in function.params}
    if not of_object and (scaler not in params or callers(module, function)):
        return False
    called = {
        (each.func.attr, known.is_scaler(each.func.base))
        for each in module.own.called("update", "step")
        if isinstance(each.func, ir.Attribute) and known.is_scaler(each.func.base) is not None
    }
    scales = any(event.kind == "scale" and flow.contains(event.call) for event in calls_of(flow, scaler, "scale"))
    alone = scales and called == {("step", scaler)}
    names = {ir.last_name(each.func) for each in ir.calls_below(function.body)} if of_object else {function.name}
    instead_of = function.name if function.name not in names else ""
    return alone and surely_lack(module.source.filename, _words_of_updates(module, function, scaler), instead_of)


def _words_of_updates(module: Module, function: ir.Function, scaler: str) -> re.Pattern[bytes]:
    """What updates a scaler in other files: where only its object creates it, they have to name the attribute."""
    cls, attribute = function.cls, last_name(scaler)
    keeper = storing_class(module, cls, attribute) if cls is not None and is_attribute(scaler, own_self(cls)) else None
    stored = keeper.stored(attribute) if keeper is not None else [None]
    if not all(isinstance(each, ir.Call) and _CLASSES.fullmatch(ir.last_name(each.func)) for each in stored):
        return _UPDATES
    return re.compile(rb"\.\s*%s\s*\.\s*update\s*\(" % re.escape(attribute.encode()))


def _is_of_object(module: Module, function: ir.Function, scaler: str) -> bool:
    """Whether a scaler is an attribute of a method's object, and no class out of sight may use it."""
    cls = function.cls
    return (
        cls is not None
        and is_attribute(scaler, own_self(cls))
        and not objects(module).made_by(scaler)
        and bases_in_sight(module, cls)
    )


def _is_handed_on(module: Module, scaler: str) -> bool:
    known = objects(module)
    values = known.with_key(near_kept(module, {scaler}), scaler)
    return known.is_scalers(scaler) and any(
        isinstance(each.parent, ir.Call) and any(arg.value is each for arg in each.parent.args) for each in values
    )


def _misses_one(module: Module, each: Misuse) -> bool:
    """Whether an update is what is missing: an unscale_ before a direct step lacks more, and is AMP402."""
    flow, violation = each.flow, each.violation
    if violation.kind is ViolationKind.STEP_WITHOUT_UPDATE:
        return True
    steps = [
        reached
        for reached in reached_events(flow, "step", "optimizer_step")
        if reached.event.optimizer == violation.optimizer
    ]
    direct = {other.violation.at for other in misuses(module, "AMP402")}
    absent = present(path(violation.scaler))
    return all(
        reached.event.kind == "optimizer_step"
        and (reached.event.call.id not in direct or all(state.known(absent) is False for state in reached.states))
        for reached in steps
    )


def _is_dynamic(module: Module, each: Misuse, tests: list[ir.If]) -> bool:
    """Whether one of the ifs asks for something that an iteration changes, or surely for nothing of AMP's."""
    loop = loop_of(each.node)
    known = objects(module)
    assigned = set(known.assigned_in(loop)) if loop is not None else set()
    changing = assigned - _counters(module, loop) if loop is not None else set()

    def is_flag(test: ir.Value) -> bool:
        others = each.flow.surely_enabled(
            each.violation.scaler, each.states
        ) or not each.flow.conditions.may_ask_for_amp(test)
        return others and not known.names_in(test) & assigned

    return any(
        known.names_in(test.test) & changing
        or any(_is_modulo(value) for value in module.once(Predicates).parts(test.test))
        or is_flag(test.test)
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


def _never_updated_elsewhere(module: Module, each: Misuse) -> Confidence | None:
    """How sure it is that nothing outside of the flow updates a scaler; None: something may.

    Code out of sight that is given the scaler may update it, unless no other file of the program updates one.
    """
    scaler = each.violation.scaler
    if used_elsewhere(module, each.flow, scaler, "update", each.node):
        return None
    if not escapes(module, scaler):
        return Confidence.CERTAIN
    return Confidence.LIKELY if surely_lack(module.source.filename, _UPDATES) else None


def _never_updated(
    module: Module, each: Misuse, kind: Applicability, confidence: Confidence = Confidence.CERTAIN
) -> Finding:
    step = each.node
    flow = each.flow if each.here else home(module, step)
    if flow is None:
        name = module.text(receiver(each.reached.event))
        return rule.finding(
            module.span(each.node),
            f"this call raises in the next iteration: no `{name}.update()` follows; call `update()` once per "
            "iteration, after all steps",
            withheld="the loop is in another function; call `update()` in that loop",
            confidence=confidence,
        )
    scaler = str(flow.event_states[step.id].event.scaler)
    steps = calls_of(flow, scaler, "step") or calls_of(flow, scaler, "unscale_")
    steps = [event for event in steps if flow.contains(event.call)] or [flow.event_states[step.id].event]
    steps = [event for event in steps if loop_of(event.call) is not None] or steps
    name = module.text(receiver(steps[-1]))
    offered, withheld = _update_behind(module, flow, scaler, steps, kind)
    raises = (
        f"this call raises in the next iteration: no `{name}.update()` follows; call `update()` once per iteration, "
        "after all steps"
    )
    if loop_of(steps[-1].call) is None:
        function = ir.function_of(steps[-1].call)
        again = f"the next call of `{function.name}`" if function is not None else "the next call of this function"
        raises = f"{again} raises: no `{name}.update()` follows; call `update()` after all steps"
        if _updates_before(each.flow, each.violation.scaler, steps[-1].call):
            raises = (
                f"{again} raises: `{name}.update()` doesn't run before that call; step only once before each `update()`"
            )
    return rule.finding(
        module.span(steps[-1].call),
        raises,
        fix=offered,
        withheld=withheld,
        confidence=confidence,
    )


def _update_behind(
    module: Module, flow: Flow, scaler: str, steps: list[Event], kind: Applicability
) -> tuple[Fix | None, str | None]:
    """An update behind the last of some steps, or why there is none."""
    last, name = steps[-1], module.text(receiver(steps[-1]))
    early = [
        update
        for update in _updates_before(flow, scaler, last.call)
        if update.id < last.call.id and not exclusive(update, last.call)
    ]
    if early:
        # A second one would make it run, with gradients that are divided twice.
        return None, f"`update()` on {module.line(early[0])} comes before the step; move that `update()` after the step"
    place = _place([step.call for step in steps]) if last.kind == "step" else None
    backwards = [event.call for event in flow.events if event.kind in ("backward", "opaque")]
    while place is not None and isinstance(place.parent, (ir.For, ir.While)):
        if any(place.parent in upwards(ir.statement_of(backward)) for backward in backwards):
            break
        place = place.parent  # a loop over optimizers: one update serves them all
    edit = line_behind(module, place, f"{name}.update()") if place is not None else None
    if edit is None:
        return None, "amplint finds no line to insert `update()`; call `update()` after all steps by hand"
    title = f"Insert `{name}.update()` after {'the step' if len(steps) == 1 else 'all steps'}"
    if kind is Applicability.UNSAFE:
        title += " (other code may already call `update()`)"
    return Fix(kind, title, (edit,)), None


def _updates_before(flow: Flow, scaler: str, step: ir.Value) -> list[ir.Value]:
    """The updates of a scaler in a function that it may get to before it comes to a step."""
    reached = flow.event_states.get(step.id)
    updates = (event.call for event in calls_of(flow, scaler, "update"))
    return [each for each in updates if reached is None or not _comes_too_late(flow, reached, each)]


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
