"""A GradScaler is made anew for each step.

## What it does
Finds a `GradScaler(...)` in the loop whose iterations step with it, and in a function that makes one step with it: one
that is called in a loop of the file, or a method of the object that keeps the optimizer.

It is silent where the scaler is made under a condition that may change in the loop, for a training run of its own (the
model or optimizer is made beside it), once for an inner loop of steps, and where what is scaled is computed in
regions that are all off (`enabled=False`).

## Why is this bad?
The scale adapts over thousands of steps: it halves when gradients overflow, and grows when they don't. A new scaler
starts at 65,536 each time: where that overflows, every single step is left out, and the model never learns.

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
Unsafe: the line moves before the loop. No fix in a function: who keeps the scaler is yours to say.

## Proof
The fixtures compare the scale at the end: where it started before, adapted after.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model import ir
from amplint.model.dtypes import is_false
from amplint.model.events import Event, events
from amplint.model.flow import Flow, flows
from amplint.model.objects import Made, objects
from amplint.model.unseen import function_named, local_function
from amplint.rules.base import Rule
from amplint.rules.editing import indentation, insert, line_start
from amplint.rules.kept import near_definition, near_kept
from amplint.rules.lives import trains_off
from amplint.rules.order import calls_of, methods_used
from amplint.rules.standing import conditions, loop_of, upwards
from amplint.rules.statements import removed, stands_alone, text_with_comment

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("GradScaler", "Scaler( & optim"))


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each scaler that is made for one step."""
    known = objects(module)
    if not known.made or trains_off(module):
        return  # gradients are float32 and don't overflow
    for flow in flows(module):
        for scaler, made in known.made.items():
            for each in made:
                if flow.contains(each.call) and not _may_be_off(each):
                    yield from _judge(module, flow, scaler, each)


def _may_be_off(made: Made) -> bool:
    return made.enabled is not None and is_false(made.enabled)


def _judge(module: Module, flow: Flow, scaler: str, made: Made) -> Iterator[Finding]:
    steps = [event for event in calls_of(flow, scaler, "step") if flow.contains(event.call)]
    statement = ir.statement_of(made.call)
    loop = loop_of(made.call)
    if not isinstance(statement, ir.Assign) or statement.value is not made.call:
        return
    if "load_state_dict" in methods_used(module, scaler):  # it is the old one, in a new object
        return
    if loop is not None:
        same = all(loop_of(step.call) is loop for step in steps)
        same = same and bool(steps or _stepped_by_a_function(module, loop, scaler))
        again = not any(isinstance(each, (ir.Jump, ir.Return)) for each in loop.body.statements)
        around = list(takewhile(lambda each: each is not loop, upwards(statement)))[1:]
        always = all(_is_the_same_in(module, loop, each) for each in around)
        own = always and not _starts_anew(module, loop) and not _is_tried_out(module, made, loop)
        if same and again and own:
            offered, withheld = _fix(module, flow, statement, loop)
            yield _finding(module, made, "in each iteration", offered, withheld)
    elif len(steps) == 1 and loop_of(steps[0].call) is None and _is_a_step(module, flow, made, steps[0]):
        yield _finding(module, made, "in each call", None, "make it once, and pass it in")


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


def _stepped_by_a_function(module: Module, loop: ir.For | ir.While, scaler: str) -> bool:
    """Whether the loop gives the scaler to a function of this file that steps with it."""
    known = objects(module)
    for call in near_kept(module, {scaler}).calls:
        function = function_named(module, call.func.name) if isinstance(call.func, ir.Name) else None
        if function is None or loop_of(call) is not loop:
            continue
        for param, value in zip(function.params, call.positional, strict=False):
            if known.is_scaler(value) == scaler:
                own = known.variable(function.scope, param.name)
                steps = [each for each in events(module).below(function.body) if each.kind == "step"]
                return any(each.scaler == own and loop_of(each.call) is None for each in steps)
    return False


def _is_tried_out(module: Module, made: Made, loop: ir.For | ir.While) -> bool:
    """Whether the loop is one over scales: what it counts is an argument, beyond the device."""
    if not isinstance(loop, ir.For):
        return False
    known = objects(module)
    given = [*made.call.positional[1:], *(arg.value for arg in made.call.args if arg.keyword not in (None, "device"))]
    return any(known.names_in(value) & known.names_in(loop.target) for value in given)


def _finding(module: Module, made: Made, when: str, offered: Fix | None, withheld: str | None) -> Finding:
    return rule.finding(
        module.span(made.call),
        f"a new scaler {when}: its scale never adapts, and steps that overflow are left out for ever; make it once",
        fix=offered,
        withheld=withheld,
    )


def _starts_anew(module: Module, where: ir.For | ir.While | ir.Function) -> bool:
    """Whether a model or optimizer is made beside the scaler: a training run of its own."""
    known = objects(module)
    return any(
        isinstance(each, ir.Assign)
        and isinstance(each.value, ir.Call)
        and any(known.is_optimizer(value) is not None for target in each.targets for value in ir.walk_values(target))
        for each in ir.walk_statements(where.body, into=False)
    )


def _is_a_step(module: Module, flow: Flow, made: Made, step: Event) -> bool:
    """Whether a function that steps once is run for each step: called in a loop of this file, or a training method.

    That is a method whose object keeps the optimizer.
    """
    function = flow.container
    if not isinstance(function, ir.Function) or _starts_anew(module, function):
        return False
    if any(isinstance(each, (ir.If, ir.Try)) for each in upwards(ir.statement_of(made.call))):
        return False
    calls = [call for call in near_definition(module, function).calls if _runs(module, call, function)]
    if calls or function.cls is None:
        return any(loop_of(call) is not None for call in calls)
    kept = str(step.optimizer).startswith(f"self{function.cls.id}.")
    return kept and not function.name.startswith("test") and not conditions(step.call, made.call)


def _runs(module: Module, call: ir.Call, function: ir.Function) -> bool:
    """Whether a call runs a function of this file, as far as its name tells."""
    if isinstance(call.func, ir.Name):
        return local_function(module, call.func) is function
    return isinstance(call.func, ir.Attribute) and function.cls is not None and call.func.attr == function.name


def _fix(module: Module, flow: Flow, statement: ir.Assign, loop: ir.For | ir.While) -> tuple[Fix | None, str | None]:
    known = objects(module)
    assigned = set(known.assigned_in(loop))
    assert statement.value is not None
    target = statement.targets[0]
    if statement.block is not loop.body:
        return None, "it is made under a condition"
    if known.names_in(statement.value) & assigned or len(statement.targets) != 1:
        return None, "what it is made of changes in the loop"
    if isinstance(target, ir.Name) and len(known.bindings(target)) > 1:
        return None, "the name is bound, or deleted, elsewhere too"
    indent = indentation(module, loop)
    gone = removed(module, statement)
    if gone is None or indent is None or not stands_alone(module, statement):
        return None, "the statement shares its line, or is all that the loop holds"
    code = text_with_comment(module, statement)
    if "\n" in code:
        return None, "the statement spans several lines"
    at = line_start(module, module.span(loop)[0])
    edits: tuple[Edit, ...] = (insert(at, f"{indent}{code}{module.source.newline}"), gone)
    return Fix(Applicability.UNSAFE, "Make it before the loop", edits), None
