"""What reads gradients for their size, or changes them by something that does not scale with them.

Functions on IR values, without a path's state: whether the gradients are scaled there, flow analysis says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.events import events, is_grad
from amplint.model.calls.external_calls import local_function
from amplint.model.flow.value_uses import ValueUses, is_bound, meets_scale, mentions_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.syntax.operators import ORDERS
from amplint.model.syntax.queries import calls_in
from amplint.model.syntax.scopes import NOTHING, UNKNOWN
from amplint.model.torch_facts.op_spellings import RESHAPES, SAME_VALUES

if TYPE_CHECKING:
    from amplint.model import Module

_FOLLOW = 5
# Gradients of parameters, which an optimizer may have: an input's are nobody's.
_PARAMETERS = re.compile(r"(?i)param|weight|^bias$|^[pw]$")
# Methods and functions whose result is as large as the gradients that they are given, element by element.
_ELEMENTWISE = {
    *RESHAPES, *SAME_VALUES, "abs", "coalesce", "neg", "numpy", "pow", "square", "to_dense", "type", "type_as",
}  # fmt: skip
_JOINS = {"torch.cat", "torch.concat", "torch.stack", "torch.nn.utils.parameters_to_vector", "builtins.list"}
# Those that make a few numbers of them.
_MEASURES = {
    "amax", "amin", "item", "max", "mean", "median", "min", "norm", "quantile", "std", "sum", "tolist", "var",
}  # fmt: skip
_MEASURING = {
    "torch.linalg.norm", "torch.linalg.vector_norm", "torch.linalg.matrix_norm", "torch._foreach_norm",
    "torch.nn.utils.get_total_norm", "torch.nn.utils.clip_grad.get_total_norm", "numpy.linalg.norm", "wandb.Histogram",
    *(f"torch.{name}" for name in _MEASURES),
}  # fmt: skip
# Random numbers; those that only take another tensor's shape.
_NOISE = re.compile(r"torch\.(randn|rand|normal|randint|bernoulli)(_like)?$")
_REPORTS = {"logged", "compared", "stored"}
# A size that the gradients are multiplied or divided by is one of clipping or normalising by hand.
_OTHERWISE = {"divisor", "rescales", "compensated", "backward", "lost"}


def read_of(module: Module, value: ir.Value) -> Event | None:
    """The event that a value is, if it reads gradients for their size or changes them.

    `how` is "read", or "change" where the gradients are written back; `subject` is what the gradients belong to.
    """
    return module.once(_recognise, value)  # each path asks again


def _recognise(module: Module, value: ir.Value) -> Event | None:
    if isinstance(value, ir.Call):
        return _change_by_call(module, value) or _measure(module, value)
    return _threshold(module, value) if isinstance(value, ir.Compare) else None


def reads_of_statement(module: Module, statement: ir.Statement) -> Iterator[Event]:
    """The events of an assignment that no call is: `p.grad += wd * p`, `p.grad[p.grad.abs() < t] = 0`."""
    if isinstance(statement, ir.AugAssign):
        if is_grad(statement.target) and statement.op in ("Add", "Subtract"):
            if is_parameters(module, statement.target) and is_plain(module, statement.value, statement.target):
                yield _event(module, statement.target, statement.target, "change")
    elif isinstance(statement, ir.Assign):
        for target in statement.targets:
            yield from _reads_of_assignment(module, target, statement.value)


def _reads_of_assignment(module: Module, target: ir.Value, value: ir.Value | None) -> Iterator[Event]:
    """The same, of one target of an assignment of a value."""
    if isinstance(target, ir.Subscript) and is_grad(target.base):
        for each in ir.walk_values(target.index):
            if isinstance(each, ir.Compare) and (event := read_of(module, each)) is not None:
                yield event
    elif is_grad(target) and isinstance(value, ir.Binary) and _adds_plain(module, value, target):
        yield _event(module, target, target, "change")


def _event(module: Module, value: ir.Value, gradients: ir.Value, how: str) -> Event:
    return Event("read", value, subject=whose(module, gradients), how=how)


# --- gradients ------------------------------------------------------------------------------------------------------


def _gradients(module: Module, value: ir.Value, depth: int = _FOLLOW) -> ir.Value | None:
    """The `p.grad` that a value is, or consists of, each as large as it is; None where it is anything else.

    `depth` bounds how many variables are followed.
    """
    if not depth:
        return None
    if is_grad(value):
        return value if is_parameters(module, value) else None
    if isinstance(value, ir.Name):
        return _variable(module, value, depth)
    if isinstance(value, ir.Conditional):
        return _gradients(module, value.then, depth) or _gradients(module, value.other, depth)
    within = _within(module, value)
    return _gradients(module, within, depth) if within is not None else None


def _within(module: Module, value: ir.Value) -> ir.Value | None:
    """The tensor of which a value has elements, each as large as it is."""
    if isinstance(value, ir.Attribute):
        return value.base if value.attr in ("data", "T") else None
    if isinstance(value, ir.Call):
        return _kept(module, value)
    if isinstance(value, ir.Binary):
        return value.left if value.op == "Power" and isinstance(value.right, ir.Constant) else None
    if isinstance(value, ir.Comprehension):
        return value.elements[0] if len(value.elements) == 1 else None
    return value.base if isinstance(value, ir.Subscript) else None


def _kept(module: Module, call: ir.Call) -> ir.Value | None:
    """The tensor that a call returns as large as it was."""
    func = call.func
    if call.positional and module.names.of(func) & (_JOINS | {f"torch.{name}" for name in _ELEMENTWISE}):
        return call.positional[0]
    if isinstance(func, ir.Attribute) and func.attr in _ELEMENTWISE:
        return None if any(meets_scale(arg.value) for arg in call.args) else func.base
    return None


def _variable(module: Module, name: ir.Name, depth: int) -> ir.Value | None:
    """The gradients that a variable holds, whatever it is bound to; or the list of them that a loop takes it from."""
    found = None
    for binding in objects(module).bindings(name):
        source = binding.value if isinstance(binding, Assigned) else None
        if isinstance(binding, Other) and binding.why == "loop" and isinstance(binding.node, ir.Name):
            source = _looped_over(binding.node)
        found = _gradients(module, source, depth - 1) if source is not None else None
        if found is None:
            return None
    return found


def _looped_over(target: ir.Name) -> ir.Value | None:
    """What a loop whose only target this is runs over."""
    parent = target.parent
    if isinstance(parent, ir.For):
        return parent.iter
    if isinstance(parent, ir.Comprehension):
        return next((clause.iter for clause in parent.clauses if clause.target is target), None)
    return None


def _owner(value: ir.Value) -> ir.Value:
    """The tensor whose gradient `p.grad` or `p.grad.data` is."""
    while isinstance(value, ir.Attribute) and value.attr in ("grad", "data"):
        value = value.base
    return value


def is_parameters(module: Module, value: ir.Value) -> bool:
    """Whether a gradient is a parameter's, going by what it is called and what it is looped over from."""
    owner = _owner(value)
    if _PARAMETERS.search(ir.last_name(owner)):
        return True
    return any(
        _PARAMETERS.search(str(each.value) if isinstance(each, ir.Constant) else ir.last_name(each))
        for each in ir.walk_values(whose(module, value))
    )


def whose(module: Module, value: ir.Value) -> ir.Value:
    """What gradients belong to: where a loop takes the parameters from, else the parameter."""
    owner = _owner(value)
    if isinstance(owner, ir.Name):
        for binding in objects(module).bindings(owner):
            up = binding.node if isinstance(binding, Other) and binding.why == "loop" else None
            while isinstance(up, (ir.Name, ir.Sequence)):
                target, up = up, up.parent
                if isinstance(up, ir.Comprehension):
                    return next((each.iter for each in up.clauses if each.target is target), owner)
            if isinstance(up, ir.For):
                return up.iter
    return owner


# --- reads ----------------------------------------------------------------------------------------------------------


def _measure(module: Module, call: ir.Call) -> Event | None:
    """A norm, a mean, the largest element: something is done with it that asks for its size."""
    gradients = measured(module, call)
    return None if gradients is None or not is_reported(module, call) else _event(module, call, gradients, "read")


def measured(module: Module, call: ir.Call) -> ir.Value | None:
    """The gradients whose size a call returns."""
    func = call.func
    names = module.names.of(func)
    if names & _MEASURING:
        return _gradients(module, call.positional[0]) if call.positional else None
    if isinstance(func, ir.Attribute) and func.attr in _MEASURES and names <= {UNKNOWN, NOTHING}:
        return _gradients(module, func.base)
    if isinstance(func, ir.Attribute) and func.attr == "add_histogram" and len(call.positional) > 1:
        return _gradients(module, call.positional[1])
    function = local_function(module, func)
    if function is not None and function is not ir.function_of(call):
        return module.once(_measured_by, function)
    return None


def _measured_by(module: Module, function: ir.Function) -> ir.Value | None:
    """The gradients whose size a function of the file returns, where it does nothing else."""
    if function.is_generator or _has_events(module, function):
        return None
    found: ir.Value | None = None
    for call in calls_in(function):
        gradients = measured(module, call) if local_function(module, call.func) is None else None
        if gradients is not None:
            found, becomes = gradients, ValueUses(module, call).found
            if "returned" not in becomes or becomes & (_REPORTS | _OTHERWISE):
                return None
    return found


def is_reported(module: Module, call: ir.Value) -> bool:
    """Whether a size is logged, compared or kept; of a function that only measures, its caller says what it is for."""
    if isinstance(call, ir.Call) and ir.last_name(call.func) in ("add_histogram", "Histogram"):
        return True
    found = ValueUses(module, call).found
    if found & _OTHERWISE:
        return False
    return bool(found & _REPORTS) or ("returned" in found and _has_events(module, ir.function_of(call)))


def _has_events(module: Module, function: ir.Function | None) -> bool:
    return function is not None and any(True for _ in events(module).below(function.body))


def _threshold(module: Module, test: ir.Compare) -> Event | None:
    """`p.grad.abs() < 1e-4`, element by element."""
    if not set(test.ops) <= ORDERS.keys():
        return None
    sides = [test.left, *test.rights]
    for each in sides:
        gradients = _gradients(module, each)
        if gradients is not None:
            others = [side for side in sides if side is not each]
            if all(is_bound(module, side) and not meets_scale(side) for side in others):
                return _event(module, test, gradients, "change" if _written_back(test) else "read")
    return None


def _written_back(value: ir.Value) -> bool:
    """Whether an expression decides about what is written to gradients."""
    up: ir.Node | None = value
    while isinstance(up, ir.Value):
        if isinstance(up, ir.Call) and isinstance(up.func, ir.Attribute) and up.func.attr.endswith("_"):
            if is_grad(up.func.base):
                return True
        up = up.parent
    if isinstance(up, ir.AugAssign):
        return is_grad(up.target)
    if isinstance(up, ir.Assign):
        return any(is_grad(each.base if isinstance(each, ir.Subscript) else each) for each in up.targets)
    return False


# --- changes --------------------------------------------------------------------------------------------------------


def _change_by_call(module: Module, call: ir.Call) -> Event | None:
    """`p.grad.add_(noise)`, `p.grad.add_(p, alpha=wd)`."""
    func = call.func
    if isinstance(func, ir.Attribute) and func.attr in ("add_", "sub_") and is_grad(func.base):
        given = call.positional
        if given and all(is_plain(module, each, func.base) or _is_weight(module, each) for each in given[:-1]):
            alpha = call.keyword("alpha")
            if is_plain(module, given[-1], func.base) and (alpha is None or _is_weight(module, alpha)):
                return _event(module, call, func.base, "change") if is_parameters(module, func.base) else None
    return None


def _adds_plain(module: Module, value: ir.Binary, target: ir.Value) -> bool:
    """`p.grad + wd * p`."""
    if value.op not in ("Add", "Subtract"):
        return False
    sides = (value.left, value.right), (value.right, value.left)
    return any(_gradients(module, one) and is_plain(module, other, target) for one, other in sides)


def is_plain(module: Module, value: ir.Value, gradients: ir.Value, depth: int = _FOLLOW) -> bool:
    """Whether a tensor surely does not grow with the scale: noise, the parameter itself, a number, their products."""

    def plain(each: ir.Value) -> bool:
        return is_plain(module, each, gradients, depth - 1)

    if not depth:
        return False
    if isinstance(value, ir.Constant):
        return isinstance(value.value, (int, float)) and value.value != 0
    key = objects(module).key(value)
    if key is not None and key == objects(module).key(_owner(gradients)):
        return True
    if isinstance(value, ir.Attribute):
        return value.attr in ("data", "T") and plain(value.base)
    if isinstance(value, ir.Unary):
        return value.op == "Minus" and plain(value.operand)
    if isinstance(value, ir.Binary):
        return _is_plain_arithmetic(module, value, plain)
    if isinstance(value, ir.Call):
        return _is_plain_call(module, value, plain)
    if isinstance(value, ir.Name):
        bindings = objects(module).bindings(value)
        return bool(bindings) and all(isinstance(each, Assigned) and plain(each.value) for each in bindings)
    return False


def _is_plain_arithmetic(module: Module, value: ir.Binary, plain: Callable[[ir.Value], bool]) -> bool:
    left, right = plain(value.left), plain(value.right)
    if value.op == "Multiply":
        return (left and (right or _is_weight(module, value.right))) or (right and _is_weight(module, value.left))
    if value.op == "Divide":
        return left and (right or _is_weight(module, value.right))
    return value.op in ("Add", "Subtract", "Power") and left and right


def _is_plain_call(module: Module, call: ir.Call, plain: Callable[[ir.Value], bool]) -> bool:
    names = module.names.of(call.func)
    given = [arg.value for arg in call.args]
    if names and all(_NOISE.match(name) for name in names):
        given = given[1:] if all(name.endswith("_like") for name in names) else given
        return all(_is_shape(each) or _stands_apart(module, each) for each in given)
    if names == {"torch.sign"}:
        return len(given) == 1 and plain(given[0])
    base = ir.called_on(call, "abs", "clone", "detach", "mul", "sign", "to")
    return base is not None and plain(base) and all(_is_weight(module, each) for each in given)


def _is_shape(value: ir.Value) -> bool:
    """`p.grad.shape`, `p.grad.size()`."""
    func = value.func if isinstance(value, ir.Call) else value
    return isinstance(func, ir.Attribute) and func.attr in ("device", "dtype", "shape", "size")


def _is_weight(module: Module, value: ir.Value) -> bool:
    """Whether a factor stands apart, and is not zero."""
    if isinstance(value, ir.Constant) and not value.value:
        return False
    return _stands_apart(module, value)


def _stands_apart(module: Module, value: ir.Value) -> bool:
    """Whether a value has nothing to do with gradients or the scale, as far as it can be followed."""
    return not meets_scale(value) and not mentions_gradients(module, value)
