"""Where a loss comes from, as far as one function shows: whether it is surely not scaled (AMP403)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.fixes.statements import own_statement
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import passed_by
from amplint.model.flow.analysis import Flow
from amplint.model.flow.tensors import SCALE_READS
from amplint.model.inference.values import parameter_read
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.scaler_holders import holders
from amplint.model.syntax import ir
from amplint.model.syntax.control import source_of
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.rules.shared.scale_reports import uses_scale
from amplint.rules.shared.scaler_order import Misuse, calls_of

if TYPE_CHECKING:
    from amplint.model import Module

_MANY = 400


class Origin:
    """What a value is made of: the values of its backward slice, and the variables on the way."""

    def __init__(self, module: Module, flow: Flow, value: ir.Value) -> None:
        self._module = module
        self._known = objects(module)
        self._increments = [
            each for each in ir.walk_statements(flow.container.body, into=False) if isinstance(each, ir.AugAssign)
        ]
        self.values: list[ir.Value] = []
        self.variables: set[str] = set()
        # Whether the value is made in this function: it is no parameter, and nothing else that comes from elsewhere.
        self.made_here = self._follow(value)

    def _follow(self, value: ir.Value) -> bool:
        if len(self.values) > _MANY:
            return False
        self.values.append(value)
        if isinstance(value, ir.Attribute) and value.attr in ENDS_GRADIENTS:
            return True
        if isinstance(value, ir.Name):
            return self._variable(value)
        made = [self._follow(child) for child in value.children()]
        if isinstance(value, ir.Binary):
            return any(made)  # the other is a weight
        # What a call is given comes from anywhere; what it returns is new.
        return isinstance(value, ir.Call) or all(made)

    def _variable(self, value: ir.Name) -> bool:
        key = self._known.own_key(value)
        if key in self.variables:
            return True
        self.variables.add(key)
        made = True
        for each in self._increments:
            if isinstance(each.target, ir.Name) and self._known.own_key(each.target) == key:
                self._follow(each.value)
        for binding in self._known.bindings(value):
            source = source_of(binding)
            made = (source is not None and self._follow(source)) and made
        return made


def surely_plain(module: Module, found: Misuse) -> bool:
    """Whether nothing in sight can have multiplied the loss of a plain backward by the scale. Callers out of sight may.

    Flow analysis has followed the loss from the model; or the scaler stays in this function's own calls, each
    `scale(...)` goes straight into a backward (or nowhere), and the loss is made here, of values that the scaler has no
    part in.
    """
    backward = found.reached.event
    if backward.subject is None:
        return False
    origin = Origin(module, found.flow, backward.subject)
    if any(objects(module).key(value) in holders(module) for value in origin.values):
        return False
    if _may_scale_unseen(module, backward.call, origin):
        return False
    if found.violation.gradients is not None:
        return True
    scales = calls_of(found.flow, found.violation.scaler, "scale")
    if not all(_goes_into_backward(module, event.call) for event in scales):
        return False
    known = origin.made_here or is_given_unseen(module, backward.subject)
    return known and not any(_is_scaler(module, value) for value in origin.values)


def is_given_unseen(module: Module, loss: ir.Value) -> bool:
    """Whether a loss is a parameter of a function that nothing in sight calls: the caller may scale it before."""
    parameter = parameter_read(module, loss)
    if parameter is None or passed_by(module, parameter[0], parameter[1].name):
        return False
    name = parameter[0].name
    return not any(ir.last_name(each.func) == name for each in module.whole.near(name).calls)


def _may_scale_unseen(module: Module, backward: ir.Value, origin: Origin) -> bool:
    """Whether a loss may be multiplied by the scale other than by a call of `scale`: by hand in this function, by a
    call out of sight that is given the scaler, or by what keeps that method.
    """
    return (
        any(
            isinstance(value, ir.Attribute) and value.attr in SCALE_READS
            for value in (*origin.values, *ir.walk_values(backward))
        )
        or (uses_scale(module, backward) and _has_gradients(module, backward))
        or any(_hands_on(module, value) for value in origin.values)
        or any(_keeps_scale(module, value) for value in module.whole.near("scale").values)
    )


def _has_gradients(module: Module, backward: ir.Value) -> bool:
    """Whether the function of a backward reads or changes gradients one by one."""
    within = module.whole.within(ir.function_of(backward)).values
    return any(isinstance(value, ir.Attribute) and value.attr == "grad" for value in within)


def _keeps_scale(module: Module, value: ir.Value) -> bool:
    called = isinstance(value.parent, ir.Call) and value.parent.func is value
    return isinstance(value, ir.Attribute) and value.attr == "scale" and not called and _is_scaler(module, value.base)


def _hands_on(module: Module, value: ir.Value) -> bool:
    """Whether a value is made by a call out of sight that is given a scaler."""
    if not isinstance(value, ir.Call):
        return False
    return module.once(CallGraph).callee(value) is None and any(_is_scaler(module, arg.value) for arg in value.args)


def _is_scaler(module: Module, value: ir.Value) -> bool:
    return objects(module).is_scaler(value) is not None


def _goes_into_backward(module: Module, call: ir.Value) -> bool:
    if own_statement(call) is not None or _calls_backward(call):
        return True
    parent = call.parent
    if not isinstance(parent, ir.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ir.Name):
        return False
    key = objects(module).own_key(parent.targets[0])
    reads = [
        value
        for value in module.whole.near(parent.targets[0].name).values
        if isinstance(value, ir.Name) and not value.bound and objects(module).own_key(value) == key
    ]
    return all(_calls_backward(read) for read in reads)


def _calls_backward(value: ir.Value) -> bool:
    return isinstance(value.parent, ir.Attribute) and value.parent.attr == "backward"
