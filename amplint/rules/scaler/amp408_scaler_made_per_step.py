"""A new GradScaler is created for each step.

## What it does
Finds a `GradScaler(...)` in the loop whose iterations step with it, and in a function that makes one step with it. Such
a function is one that is called in a loop of the file, a method of the object that keeps the optimizer, or a function
named like a step that gets the optimizer.

The finding is a warning if the scaler is created again for each epoch: in a loop around the loop of the steps, or in a
function with the loop of the steps that is called in a loop or gets the epoch.

amplint reports nothing if the scaler is created under a condition that may change in the loop; for a training run of
its own (the model or optimizer is created, reset or chosen with it); and if all autocast regions around its losses are
disabled (`enabled=False`).

## Why is this bad?
The scale adapts over thousands of steps: it halves when gradients overflow, and grows when they don't. A new scaler
starts at 65,536 each time. If that scale overflows, every single step is skipped and the model never learns. A scaler
that is created for each epoch skips the first steps of each epoch.

## Example
```python
for inputs, targets in loader:
    scaler = torch.amp.GradScaler("cuda")
    ...
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
for inputs, targets in loader:
    ...
```

## Fix safety
Unsafe: the line moves before the loop. There is no fix in a function: amplint can't tell which object should keep the
scaler.

## Proof
The test programs compare the scale at the end: the initial scale before the fix, an adapted scale after it.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.edits import indentation, insert, line_start
from amplint.fixes.statements import removed, stands_alone, text_with_comment, why_not_removed
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_function
from amplint.model.flow.analysis import flows
from amplint.model.objects.amp_objects import Made, objects, scaler_arguments
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import is_attribute, is_part, last_name, own_self
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, loop_of, loops_round, upwards
from amplint.model.usage.mentions_of import near_definition, near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import calls_of, methods_used
from amplint.rules.shared.scaler_usage import GIVES_THE_SAME, argument_of, is_off, starts_anew, trains_off

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("GradScaler", "Scaler( & optim"),
    shown_by=("scale",),
)

_SETS_BACK = re.compile(r"(?i)load_state_dict|reset|init_weights|weights_init|reinit")
_EPOCH = re.compile(r"(?i)epoch(?!s)")
_STEP = re.compile(r"(?i)(train|optimi[sz]e)\w*_(step|batch|iter)|^(step|batch)_?(train|update)")
# Methods of `torch.nn.Module`: `self.encoder.train()` says nothing of a trainer's own `train()`.
_OF_MODULES = {"train", "eval", "forward", "to", "apply"}
_FOLLOW = 3
# How many loops are around the steps of an epoch's function: one, and none around the step of what a last group left.
_EPOCH_DEPTHS = ({1}, {0, 1})


_PASS_IN = "amplint can't tell which object should keep the scaler; create the scaler once, and pass it in"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each scaler that is made for one step."""
    known = objects(module)
    if not known.made or trains_off(module):
        return  # gradients are float32 and don't overflow
    for flow in flows(module):
        for scaler, made in known.made.items():
            for each in made:
                if flow.contains(each.call) and not _is_disabled(module, each):
                    steps = [event for event in calls_of(flow, scaler, "step") if flow.contains(event.call)]
                    steps = steps or list(_steps_by_helpers(module, flow.container, scaler))
                    yield from _judge(module, flow.container, steps, scaler, each)
    for scaler, made in known.made.items():
        for each in made:
            function = ir.function_of(each.call)
            if function is not None and not module.is_own(each.call) and not _is_disabled(module, each):
                below = events(module).below(function.body)
                steps = [event for event in below if event.kind == "step" and event.scaler == scaler]
                yield from _judge(module, function, steps, scaler, each)


def _is_disabled(module: Module, made: Made) -> bool:
    return made.enabled is not None and is_off(module, made.enabled)


def _judge(
    module: Module, container: ir.Function | ir.Program, steps: list[Event], scaler: str, made: Made
) -> Iterator[Finding]:
    statement = ir.statement_of(made.call)
    loop = loop_of(made.call)
    if not isinstance(statement, ir.Assign) or not _is_made_by(statement, made.call):
        return
    if "load_state_dict" in methods_used(module, scaler):  # it is the old one, in a new object
        return
    if loop is not None:
        yield from _in_loop(module, loop, steps, scaler, made) if _is_made_anew(module, loop, made) else ()
    elif steps and all(loop_of(step.call) is None for step in steps):
        if _is_a_step(module, container, made, steps):
            yield _finding(module, made, "in each call", None, _PASS_IN)
    elif {len(loops_round(step.call)) for step in steps} in _EPOCH_DEPTHS and _is_an_epoch(
        module, container, made, steps
    ):
        yield _epochs(module, made, "in each epoch", None, _PASS_IN)


def _in_loop(module: Module, loop: ir.For | ir.While, steps: list[Event], scaler: str, made: Made) -> Iterator[Finding]:
    """The finding about a scaler that each iteration of a loop makes: for one step, or for one epoch."""
    statement = ir.statement_of(made.call)
    assert isinstance(statement, ir.Assign)
    same = all(loop_of(step.call) is loop for step in steps)
    called = list(_steps_of_functions(module, loop, scaler))
    if same and (steps or any(loop_of(step.call) is None for _, step in called)):
        offered, withheld = _fix(module, statement, loop)
        yield _finding(module, made, "in each iteration", offered, withheld)
        return
    if not same and all(_is_further_in(step.call, loop) or loop_of(step.call) is loop for step in steps):
        goes_on = not _is_bound_in(module, loop, steps)
    else:
        goes_on = bool(called) and all(_is_of_an_epoch(module, loop, *each) for each in called)
    if goes_on and not _is_set_back(module, loop):
        offered, withheld = _fix(module, statement, loop)
        yield _epochs(module, made, "in each iteration of the outer loop", offered, withheld)


def _is_made_anew(module: Module, loop: ir.For | ir.While, made: Made) -> bool:
    """Whether every iteration of a loop makes the scaler, and goes on with the same model and optimizer."""
    again = not any(isinstance(each, (ir.Jump, ir.Return)) for each in loop.body.statements)
    around = list(takewhile(lambda each: each is not loop, upwards(ir.statement_of(made.call))))[1:]
    always = all(_is_the_same_in(module, loop, each) for each in around)
    return again and always and not starts_anew(module, loop) and not _is_tried_out(module, made, loop)


def _is_made_by(statement: ir.Assign, call: ir.Call) -> bool:
    """Whether an assignment binds what a call makes, or None."""
    value = statement.value
    if isinstance(value, ir.Conditional):
        other = value.other if value.then is call else value.then
        if call in (value.then, value.other) and ir.is_none(other):
            return not any(isinstance(each, ir.Call) for each in ir.walk_values(value.test))
    return value is call


def _is_further_in(call: ir.Value, loop: ir.For | ir.While) -> bool:
    return loop_of(call) is not loop and loop in loops_round(call)


def _is_set_back(module: Module, loop: ir.For | ir.While) -> bool:
    """Whether the loop sets a model or optimizer back: a training run of its own."""
    return any(_SETS_BACK.search(ir.last_name(each.func)) for each in ir.calls_below(loop.body))


def _is_bound_in(module: Module, loop: ir.For | ir.While, steps: list[Event]) -> bool:
    """Whether the loop chooses the optimizers that are stepped, or what keeps them."""
    bound = set(objects(module).assigned_in(loop))
    return any(_is_of(str(step.optimizer), bound) for step in steps)


def _is_of(key: str, bound: set[str]) -> bool:
    return any(key == each or is_part(key, each) for each in bound)


def _is_the_same_in(module: Module, loop: ir.For | ir.While, each: ir.Node) -> bool:
    """Whether an if decides alike in every iteration: it asks for plain variables that the loop leaves alone."""
    if not isinstance(each, ir.If):
        return False
    known = objects(module)
    values = list(ir.walk_values(each.test))
    plain = not any(isinstance(value, ir.Call) or _is_of_self(value) for value in values)
    names = known.names_in(each.test)
    return plain and bool(names) and not names & {*known.assigned_in(loop), *known.made}


def _is_of_self(value: ir.Value) -> bool:
    """Whether a method that the loop calls may change a value."""
    return isinstance(value, ir.Attribute) and isinstance(value.base, ir.Name) and value.base.name in ("self", "cls")


def _given_steps(module: Module, scaler: str) -> Iterator[tuple[ir.Call, Event, dict[str, str | None]]]:
    """The steps of the functions that are given a scaler: the call that gives it, the step, and what else that gives.

    The last are the keys of the function's parameters, and those of what they are given.
    """
    known, calls = objects(module), module.once(CallGraph)
    for call in near_kept(module, {scaler}).calls:
        callee = calls.callee(call)
        given = (calls.arguments(call, callee) or {}) if callee is not None else {}
        if callee is None or not any(value and known.is_scaler(value) == scaler for value in given.values()):
            continue
        own = {known.variable(callee.function.scope, name): known.key(value) for name, value in given.items() if value}
        for event in events(module).below(callee.function.body):
            if event.kind == "step" and own.get(str(event.scaler)) == scaler:
                yield call, event, own


def _steps_of_functions(module: Module, loop: ir.For | ir.While, scaler: str) -> Iterator[tuple[ir.Call, Event]]:
    """The steps of functions that the loop gives the scaler to, each with the call that gives it."""
    yield from ((call, step) for call, step, _ in _given_steps(module, scaler) if loop_of(call) is loop)


def _steps_by_helpers(module: Module, container: ir.Function | ir.Program, scaler: str) -> Iterator[Event]:
    """The steps of the functions that a function gives its scaler to in a loop, as if its calls of them made these."""
    for call, step, given in _given_steps(module, scaler) if isinstance(container, ir.Function) else ():
        optimizer = given.get(str(step.optimizer))
        is_here = ir.function_of(call) is container and loop_of(call) is not None
        if is_here and optimizer is not None and loop_of(step.call) is None:
            yield step._replace(call=call, scaler=scaler, optimizer=optimizer)


def _is_of_an_epoch(module: Module, loop: ir.For | ir.While, call: ir.Call, step: Event) -> bool:
    """Whether a call trains on with what the loop has from before: its function steps in a loop of its own."""
    function = ir.function_of(step.call)
    if function is None or len(loops_round(step.call)) != 1 or starts_anew(module, function):
        return False
    bound = set(objects(module).assigned_in(loop))
    given = (objects(module).is_optimizer(arg.value) for arg in call.args)
    return not any(key is not None and _is_of(key, bound) for key in given)


def _is_tried_out(module: Module, made: Made, loop: ir.For | ir.While) -> bool:
    """Whether the loop is one over scales: what it counts is an argument, beyond the device."""
    if not isinstance(loop, ir.For):
        return False
    known = objects(module)
    given = scaler_arguments(module, made.call)
    counted = known.names_in(loop.target)
    return any(known.names_in(value) & counted for name, value in given.items() if name != "device")


def _finding(module: Module, made: Made, when: str, offered: Fix | None, withheld: str | None) -> Finding:
    return rule.finding(
        module.span(made.call),
        f"a new scaler {when}: every overflowing step is skipped and the scale never adapts; create the scaler once",
        fix=offered,
        withheld=withheld,
    )


def _epochs(module: Module, made: Made, when: str, offered: Fix | None, withheld: str | None) -> Finding:
    return rule.finding(
        module.span(made.call),
        f"a new scaler {when}: the scale starts again, and steps are skipped at first; create the scaler once",
        fix=offered,
        withheld=withheld,
        severity=Severity.WARNING,
    )


def _is_a_step(module: Module, function: ir.Function | ir.Program, made: Made, steps: list[Event]) -> bool:
    """Whether a function that steps once is run for each step: called in a loop of this file, or a training method.

    That is a method whose object keeps the optimizer; or it is called like a step, and given the optimizer.
    """
    if not isinstance(function, ir.Function) or not _is_for_each_call(module, function, made):
        return False
    optimizers = {str(step.optimizer) for step in steps}
    if len(optimizers) < len(steps):
        return False  # several steps in a row are a run
    calls = _calls_of(module, function)
    if calls:
        return _is_repeated(module, function, calls, optimizers)
    if _is_handed_on(module, function, optimizers):
        return True
    if function.name.startswith("test") or any(conditions(step.call, made.call) for step in steps):
        return False
    if function.cls is not None:
        gives_same = (call for call in ir.calls_below(function.body) if ir.last_name(call.func) in GIVES_THE_SAME)
        return all(is_attribute(each, own_self(function.cls)) for each in optimizers) or any(gives_same)
    return bool(_STEP.search(function.name)) and _are_given(module, function, optimizers)


def _is_handed_on(module: Module, function: ir.Function, optimizers: set[str]) -> bool:
    """Whether a function inside another one steps that one's optimizers, and is given to an engine that calls it.

    `def update(engine, batch): ...` of `return Engine(update)`.
    """
    outer = function.outer
    if outer is None or not function.params or any(last_name(each) in function.scope.bindings for each in optimizers):
        return False
    return any(
        isinstance(each, ir.Name)
        and each.name == function.name
        and isinstance(each.parent, ir.Call)
        and each.parent.func is not each
        for each in ir.values_below(outer.body)
    )


def _is_an_epoch(module: Module, function: ir.Function | ir.Program, made: Made, steps: list[Event]) -> bool:
    """Whether a function with a loop of steps is run for each epoch: called in a loop of this file, or told which."""
    if not isinstance(function, ir.Function) or not _is_for_each_call(module, function, made):
        return False
    optimizers = {str(step.optimizer) for step in steps}
    calls = _calls_of(module, function)
    if calls:
        return _is_repeated(module, function, calls, optimizers)
    reported = any(_EPOCH.search(param.name) for param in function.params) or _EPOCH.search(function.name)
    kept = function.cls is not None and all(is_attribute(each, own_self(function.cls)) for each in optimizers)
    return bool(reported) and (kept or _are_given(module, function, optimizers))


def _is_for_each_call(module: Module, function: ir.Function, made: Made) -> bool:
    """Whether each call of a function makes the scaler, and neither model nor optimizer."""
    around = list(upwards(ir.statement_of(made.call)))
    tests = [each.test for each in around if isinstance(each, ir.If)]
    if any(isinstance(each, ir.Try) for each in around) or starts_anew(module, function):
        return False
    return not any(isinstance(each, ir.Call) for test in tests for each in ir.walk_values(test)) and not any(
        objects(module).names_in(test) & set(objects(module).made) for test in tests
    )


def _are_given(module: Module, function: ir.Function, optimizers: set[str]) -> bool:
    """Whether optimizers are parameters of a function, or kept by what is one."""
    given = {objects(module).variable(function.scope, each.name) for each in function.params}
    return all(_is_of(each, given) for each in optimizers)


def _calls_of(module: Module, function: ir.Function) -> list[ir.Call]:
    return [call for call in near_definition(module, function).calls if _runs(module, call, function)]


def _is_repeated(
    module: Module, function: ir.Function, calls: list[ir.Call], optimizers: set[str], depth: int = _FOLLOW
) -> bool:
    """Whether one of some calls of a function stands in a loop that goes on with the same model and optimizers; also
    where the function round it is called so.
    """
    for call in calls:
        given = _given(module, function, call, optimizers)
        loop, around = loop_of(call), ir.function_of(call)
        if loop is not None:
            if not starts_anew(module, loop) and not _is_set_back(module, loop):
                if not any(_is_of(each, set(objects(module).assigned_in(loop))) for each in given):
                    return True
        elif _is_in_comprehension(call):
            return True
        elif around is not None and depth and not starts_anew(module, around):
            if _is_repeated(module, around, _calls_of(module, around), given, depth - 1):
                return True
    return False


def _is_in_comprehension(value: ir.Value) -> bool:
    up = value.parent
    while isinstance(up, ir.Value) and not isinstance(up, ir.Comprehension):
        up = up.parent
    return isinstance(up, ir.Comprehension)


def _given(module: Module, function: ir.Function, call: ir.Call, keys: set[str]) -> set[str]:
    """The keys for the caller of what a function knows under some keys: of its parameters, of the object it is of."""
    known, found = objects(module), set(keys)
    for param in function.params:
        value = argument_of(module, function, call, param.name)
        if value is not None and (key := known.key(value)) is not None:
            own = known.variable(function.scope, param.name)
            found |= {key + each.removeprefix(own) for each in keys if _is_of(each, {own})}
    base = known.key(call.func.base) if isinstance(call.func, ir.Attribute) else None
    if base is not None and function.cls is not None:
        own = own_self(function.cls)
        found |= {base + each.removeprefix(own) for each in keys if _is_of(each, {own})}
    return found


def _runs(module: Module, call: ir.Call, function: ir.Function) -> bool:
    """Whether a call runs a function of this file, as far as its name tells."""
    if isinstance(call.func, ir.Name):
        return local_function(module, call.func) is function
    is_method = isinstance(call.func, ir.Attribute) and function.cls is not None
    return is_method and module.once(CallGraph).may_run(call, function, _OF_MODULES)


def _fix(module: Module, statement: ir.Assign, loop: ir.For | ir.While) -> tuple[Fix | None, str | None]:
    known = objects(module)
    assigned = set(known.assigned_in(loop))
    assert statement.value is not None
    target = statement.targets[0]
    if statement.block is not loop.body:
        return None, "the scaler is created under a condition; move the scaler before the loop by hand"
    if known.names_in(statement.value) & assigned or len(statement.targets) != 1:
        return None, "the arguments of the scaler change in the loop"
    if isinstance(target, ir.Name) and len(known.bindings(target)) > 1:
        return None, f"`{target.name}` is also bound elsewhere"
    indent = indentation(module, loop)
    gone = removed(module, statement)
    if gone is None or indent is None or not stands_alone(module, statement):
        return None, why_not_removed("the statement", statement)
    code = text_with_comment(module, statement)
    if "\n" in code:
        return None, "the statement spans several lines"
    at = line_start(module, module.span(loop)[0])
    edits: tuple[Edit, ...] = (insert(at, f"{indent}{code}{module.source.newline}"), gone)
    return Fix(Applicability.UNSAFE, "Move the scaler before the loop", edits), None
