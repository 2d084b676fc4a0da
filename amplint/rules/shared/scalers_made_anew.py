"""Scalers that are made again and again for one training: for each step of it, or for each epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_function
from amplint.model.flow.analysis import flows
from amplint.model.objects.amp_objects import Made, given, objects, scaler_arguments
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import is_attribute, last_name, own_self
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, is_within, loop_of, loops_round, upwards
from amplint.model.usage.device_evidence import asks_for_device
from amplint.model.usage.mentions_of import near_definition, near_kept
from amplint.rules.shared.scaler_order import calls_of
from amplint.rules.shared.scaler_usage import (
    GIVES_THE_SAME,
    argument_of,
    every_scaler_usage,
    is_off,
    starts_anew,
    trains_off,
)
from amplint.rules.shared.set_backs import Training, is_of, is_set_back, keys_for_caller

if TYPE_CHECKING:
    from amplint.model import Module

_EPOCH = re.compile(r"(?i)epoch(?!s)")
_STEP = re.compile(r"(?i)(train|optimi[sz]e)\w*_(step|batch|iter)|^(step|batch)_?(train|update)")
# Methods of `torch.nn.Module`: `self.encoder.train()` says nothing of a trainer's own `train()`.
_OF_MODULES = {"train", "eval", "forward", "to", "apply"}
_FOLLOW = 3
# How many loops are around the steps of an epoch's function: one, and none around the step of what a last group left.
_EPOCH_DEPTHS = ({1}, {0, 1})


class MadeAnew(NamedTuple):
    """A scaler that is made for each step or epoch.

    `loop`: that whose iterations make it; None where the calls of a function do. `each_epoch`: not for each step.
    """

    made: Made
    loop: ir.For | ir.While | None
    each_epoch: bool


def made_anew(module: Module) -> list[MadeAnew]:
    """The scalers that a file makes again and again for one training."""
    return module.once(_made_anew)


def _made_anew(module: Module) -> list[MadeAnew]:
    return list(_found(module))


def _found(module: Module) -> Iterator[MadeAnew]:
    every = {**objects(module).made, **_by_functions(module)}
    if not every or trains_off(module):
        return  # gradients are float32 and don't overflow
    for flow in flows(module):
        for scaler, made in every.items():
            for each in made:
                if flow.contains(each.call) and not _is_disabled(module, each):
                    steps = [event for event in calls_of(flow, scaler, "step") if flow.contains(event.call)]
                    steps = steps or list(_steps_by_helpers(module, flow.container, scaler))
                    yield from _judge(module, flow.container, steps, scaler, each)
    for scaler, made in every.items():
        for each in made:
            function = ir.function_of(each.call)
            if function is not None and not module.is_own(each.call) and not _is_disabled(module, each):
                below = events(module).below(function.body)
                steps = [event for event in below if event.kind == "step" and event.scaler == scaler]
                yield from _judge(module, function, steps, scaler, each)


def _by_functions(module: Module) -> dict[str, list[Made]]:
    """The scalers that functions of the file make anew in each call, by the calls: `scaler = make_scaler()`."""
    found: dict[str, list[Made]] = {}
    for each in every_scaler_usage(module):
        call = each.stored.value if isinstance(each.stored, ir.Assign) else None
        function = ir.function_of(each.made.call)
        if isinstance(call, ir.Call) and function is not None and local_function(module, call.func) is function:
            if _is_always_new(function, each.made.call):
                found[each.scaler] = [Made(call, each.made.enabled)]
    return found


def _is_always_new(function: ir.Function, call: ir.Call) -> bool:
    """Whether each call of a function makes what a call in it makes, and keeps it nowhere."""
    statement = ir.statement_of(call)
    if function.decorators or statement.block is not function.body:
        return False
    targets = statement.targets if isinstance(statement, ir.Assign) else []
    local = all(isinstance(each, ir.Name) and each.scope.home(each.name) is function.scope for each in targets)
    return isinstance(statement, ir.Return) or (bool(targets) and local)


def _is_disabled(module: Module, made: Made) -> bool:
    return made.enabled is not None and is_off(module, made.enabled)


def _judge(
    module: Module, container: ir.Function | ir.Program, steps: list[Event], scaler: str, made: Made
) -> Iterator[MadeAnew]:
    statement = ir.statement_of(made.call)
    loop = loop_of(made.call)
    if not isinstance(statement, ir.Assign) or not _is_made_by(module, statement, made.call):
        return
    if _is_restored(module, loop or container, scaler):  # it is the old one, in a new object
        return
    if loop is not None:
        yield from _in_loop(module, loop, steps, scaler, made) if _is_made_anew(module, loop, made) else ()
    elif steps and all(loop_of(step.call) is None for step in steps):
        if _is_a_step(module, container, made, steps):
            yield MadeAnew(made, None, each_epoch=False)
    elif {len(loops_round(step.call)) for step in steps} in _EPOCH_DEPTHS and _is_an_epoch(
        module, container, made, steps
    ):
        yield MadeAnew(made, None, each_epoch=True)


def _is_restored(module: Module, place: ir.For | ir.While | ir.Function | ir.Program, scaler: str) -> bool:
    """Whether a loop or function, or a function of the file that it calls by name, loads the state of a scaler."""
    known = objects(module)
    made = {each.call.id for each in known.made_by(scaler)}
    called = [each for each in ir.values_below(place.body) if isinstance(each, ir.Call)]
    for load in module.whole.called("load_state_dict"):
        loaded, function = load.func.base if isinstance(load.func, ir.Attribute) else None, ir.function_of(load)
        calls = [each for each in called if function is not None and ir.last_name(each.func) == function.name]
        if loaded is None or not (calls or is_within(load, place)):
            continue
        if made & {each.call.id for each in known.made_by(known.is_scaler(loaded) or "")}:
            return True
        is_given = function is not None and function.param(ir.last_name(loaded)) is not None
        if is_given and any(known.is_scaler(value) == scaler for call in calls for value in given(call)):
            return True
    return False


def _in_loop(
    module: Module, loop: ir.For | ir.While, steps: list[Event], scaler: str, made: Made
) -> Iterator[MadeAnew]:
    """A scaler that each iteration of a loop makes: for one step, or for one epoch."""
    same = all(loop_of(step.call) is loop for step in steps)
    called = list(_steps_of_functions(module, loop, scaler))
    if same and (steps or any(loop_of(step.call) is None for _, step in called)):
        yield MadeAnew(made, loop, each_epoch=False)
        return
    if not same and all(_is_further_in(step.call, loop) or loop_of(step.call) is loop for step in steps):
        goes_on = not _is_bound_in(module, loop, steps)
        training = Training(module, (each for step in steps for each in loops_round(step.call) if each is not loop))
    else:
        goes_on = bool(called) and all(_is_of_an_epoch(module, loop, *each) for each in called)
        functions = ((function, call) for call, step in called if (function := ir.function_of(step.call)) is not None)
        training = Training(module, (call for call, _ in called), functions)
    if goes_on and not is_set_back(module, loop, training):
        yield MadeAnew(made, loop, each_epoch=True)


def _is_made_anew(module: Module, loop: ir.For | ir.While, made: Made) -> bool:
    """Whether every iteration of a loop makes the scaler, and goes on with the same model and optimizer."""
    again = not any(isinstance(each, (ir.Jump, ir.Return)) for each in loop.body.statements)
    around = list(takewhile(lambda each: each is not loop, upwards(ir.statement_of(made.call))))[1:]
    always = all(_is_the_same_in(module, loop, each) for each in around)
    return again and always and not starts_anew(module, loop) and not _is_tried_out(module, made, loop)


def _is_made_by(module: Module, statement: ir.Assign, call: ir.Call) -> bool:
    """Whether an assignment binds what a call makes, or None."""
    value = statement.value
    if isinstance(value, ir.Conditional):
        other = value.other if value.then is call else value.then
        if call in (value.then, value.other) and ir.is_none(other):
            return not _may_change(module, value.test)
    if isinstance(value, ir.Bool) and value.op == "or" and value.right is call:
        return _is_never_given(module, value.left)
    return value is call


def _is_never_given(module: Module, value: ir.Value) -> bool:
    """Whether a value is a parameter of its function that no call in the file, and there are some, gives."""
    function = ir.function_of(value)
    if function is None or not isinstance(value, ir.Name) or function.param(value.name) is None:
        return False
    calls = _calls_of(module, function)
    given = [argument_of(module, function, each, value.name) for each in calls]
    return bool(calls) and all(each is not None and ir.is_none(each) for each in given)


def _asks_for_what_is_never_given(module: Module, test: ir.Value) -> bool:
    """Whether a test is true because no call gives a parameter: `scaler is None`, `not scaler`."""
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _is_never_given(module, test.operand)
    if not isinstance(test, ir.Compare) or test.ops != ("Is",) or not ir.is_none(test.rights[0]):
        return False
    return _is_never_given(module, test.left)


def _is_further_in(call: ir.Value, loop: ir.For | ir.While) -> bool:
    return loop_of(call) is not loop and loop in loops_round(call)


def _is_bound_in(module: Module, loop: ir.For | ir.While, steps: list[Event]) -> bool:
    """Whether the loop chooses the optimizers that are stepped, or what keeps them."""
    bound = set(objects(module).assigned_in(loop))
    return any(is_of(str(step.optimizer), bound) for step in steps)


def _is_the_same_in(module: Module, loop: ir.For | ir.While, each: ir.Node) -> bool:
    """Whether an if decides alike in every iteration: it asks for plain variables that the loop leaves alone."""
    if not isinstance(each, ir.If):
        return False
    known = objects(module)
    plain = not _may_change(module, each.test) and not any(map(_is_of_self, ir.walk_values(each.test)))
    names = known.names_in(each.test)
    asked = bool(names) or any(isinstance(value, ir.Call) for value in ir.walk_values(each.test))
    return plain and asked and not names & {*known.assigned_in(loop), *known.made}


def _may_change(module: Module, test: ir.Value) -> bool:
    """Whether a test asks a function for something else than the device, which stays the same in all of a run."""
    calls = (each for each in ir.walk_values(test) if isinstance(each, ir.Call))
    return not all(asks_for_device(module, each) for each in calls)


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
    for call, step, passed in _given_steps(module, scaler) if isinstance(container, ir.Function) else ():
        optimizer = passed.get(str(step.optimizer))
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
    return not any(key is not None and is_of(key, bound) for key in given)


def _is_tried_out(module: Module, made: Made, loop: ir.For | ir.While) -> bool:
    """Whether the loop is one over scales: what it counts is an argument, beyond the device."""
    if not isinstance(loop, ir.For):
        return False
    known = objects(module)
    given = scaler_arguments(module, made.call)
    counted = known.names_in(loop.target)
    return any(known.names_in(value) & counted for name, value in given.items() if name != "device")


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
    tests = [each for each in tests if not _asks_for_what_is_never_given(module, each)]
    if any(isinstance(each, ir.Try) for each in around) or starts_anew(module, function):
        return False
    return not any(_may_change(module, test) for test in tests) and not any(
        objects(module).names_in(test) & set(objects(module).made) for test in tests
    )


def _are_given(module: Module, function: ir.Function, optimizers: set[str]) -> bool:
    """Whether optimizers are parameters of a function, or kept by what is one."""
    given = {objects(module).variable(function.scope, each.name) for each in function.params}
    return all(is_of(each, given) for each in optimizers)


def _calls_of(module: Module, function: ir.Function) -> list[ir.Call]:
    return [call for call in near_definition(module, function).calls if _runs(module, call, function)]


def _is_repeated(
    module: Module, function: ir.Function, calls: list[ir.Call], optimizers: set[str], depth: int = _FOLLOW
) -> bool:
    """Whether one of some calls of a function stands in a loop that goes on with the same model and optimizers; also
    where the function round it is called so.
    """
    for call in calls:
        given = keys_for_caller(module, function, call, optimizers)
        loop, around = loop_of(call), ir.function_of(call)
        if loop is not None:
            training = Training(module, [call], [(function, call)])
            if not starts_anew(module, loop) and not is_set_back(module, loop, training):
                if not any(is_of(each, set(objects(module).assigned_in(loop))) for each in given):
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


def _runs(module: Module, call: ir.Call, function: ir.Function) -> bool:
    """Whether a call runs a function of this file, as far as its name tells."""
    if isinstance(call.func, ir.Name):
        return local_function(module, call.func) is function
    is_method = isinstance(call.func, ir.Attribute) and function.cls is not None
    return is_method and module.once(CallGraph).may_run(call, function, _OF_MODULES)
