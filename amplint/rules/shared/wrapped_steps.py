"""Branches with a scaler that step what an optimizer wraps, past the `step` of the wrapper's own class (AMP420)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_class, method
from amplint.model.inference.constructions import constructions
from amplint.model.inference.values import parameter_read, values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import owner_class
from amplint.rules.shared.parallel_branches import Arm, parallel_branches

if TYPE_CHECKING:
    from amplint.model import Module

_FOLLOW = 2
# Calls of a wrapper that are no part of what its `step` does.
_OTHERS = {"step", "zero_grad", "state_dict", "load_state_dict"}


class Passed(NamedTuple):
    """A scaler's step of what an object wraps; the object's class, and where its own `step` sets the learning rate."""

    call: ir.Call
    wrapper: ir.Value
    cls: ir.Class
    sets: ir.Statement


def passed_steps(module: Module) -> Iterator[Passed]:
    """The steps of wrapped optimizers in branches with a scaler whose twins call the wrapper's own `step`."""
    for branches in module.once(parallel_branches):
        whole = [each for arm in branches.arms if not arm.scaled for each in _receivers(arm)]
        for arm in branches.arms:
            for call in arm.steps.values() if arm.scaled else ():
                found = _passed(module, call, whole)
                if found is not None:
                    yield found


def _receivers(arm: Arm) -> list[ir.Value]:
    """What a branch without the scaler steps."""
    return [call.func.base for call in arm.steps.values() if isinstance(call.func, ir.Attribute)]


def _passed(module: Module, call: ir.Call, whole: list[ir.Value]) -> Passed | None:
    inner = call.positional[0] if call.positional else None
    key = objects(module).key
    if not isinstance(inner, ir.Attribute) or key(inner.base) is None:
        return None
    wrapper = next((each for each in whole if key(each) == key(inner.base)), None)
    cls = _class_of(module, wrapper) if wrapper is not None else None
    own = method(module, cls, "step") if cls is not None else None
    if cls is None or own is None or wrapper is None or not _steps(own, inner.attr) or _does_it_itself(module, wrapper):
        return None
    sets = next(_sets_rate(module, cls, own, _FOLLOW), None)
    return Passed(call, inner.base, cls, sets) if sets is not None else None


def _class_of(module: Module, value: ir.Value) -> ir.Class | None:
    """The class of an object, by what makes it or by a parameter's annotation."""
    made = {_named(module, each.func) for each in constructions(module, value)}
    if made:
        return made.pop() if len(made) == 1 else None
    read = parameter_read(module, value)
    annotation = read[1].annotation if read is not None else None
    return _named(module, annotation) if annotation is not None else None


def _named(module: Module, name: ir.Value) -> ir.Class | None:
    """The class that a name stands for, which may be one that is given to it: `OptimizerType = Noam`."""
    leaves = values_of(module, name).leaves
    return local_class(module, leaves[0].value) if len(leaves) == 1 else None


def _steps(own: ir.Function, attr: str) -> bool:
    """Whether a method steps what its object keeps in an attribute."""
    calls = (each for each in ir.values_below(own.body) if isinstance(each, ir.Call))
    receivers = (ir.called_on(each, "step") for each in calls)
    return any(isinstance(each, ir.Attribute) and each.attr == attr for each in receivers)


def _sets_rate(module: Module, cls: ir.Class, own: ir.Function, depth: int) -> Iterator[ir.Statement]:
    """The statements of a method, and of those of its object that it calls, that set a learning rate."""
    for each in ir.walk_statements(own.body, into=False):
        targets = (
            each.targets if isinstance(each, ir.Assign) else [each.target] if isinstance(each, ir.AugAssign) else []
        )
        if any(map(_is_rate, targets)):
            yield each
    for value in ir.values_below(own.body):
        func = value.func if isinstance(value, ir.Call) else None
        if depth and isinstance(func, ir.Attribute) and owner_class(func) is not None:
            called = method(module, cls, func.attr)
            if called is not None and called is not own:
                yield from _sets_rate(module, cls, called, depth - 1)


def _is_rate(target: ir.Value) -> bool:
    return isinstance(target, ir.Subscript) and isinstance(target.index, ir.Constant) and target.index.value == "lr"


def _does_it_itself(module: Module, wrapper: ir.Value) -> bool:
    """Whether the function of the branches calls more of the wrapper than its `step`, or what can't be seen."""
    function, key = ir.function_of(wrapper), objects(module).key
    for call in module.whole.within(function).calls:
        if isinstance(call.func, ir.Attribute) and key(call.func.base) == key(wrapper):
            # `step(skip_optimizer=True)` does what is left of a step.
            if call.func.attr not in _OTHERS or (call.func.attr == "step" and call.keywords):
                return True
        event = events(module).of(call)
        if event is not None and event.kind == "opaque" and any(key(arg.value) == key(wrapper) for arg in call.args):
            return True
    return False
