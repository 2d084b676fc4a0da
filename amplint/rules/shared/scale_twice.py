"""Gradients that are divided by the scale by hand after the scaler has divided them (AMP409)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import is_grad
from amplint.model.flow.gradient_reads import is_parameters, whose
from amplint.model.flow.tensors import SCALE_READS
from amplint.model.flow.value_uses import takes_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import dominates, loop_of, loops_round
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.signatures import CLIPS

if TYPE_CHECKING:
    from amplint.model import Module

_FOLLOW = 3
_IN_PLACE = ("div_", "mul_")
# After these the gradients are others.
_MAKES_NEW = ("zero_grad", "backward")


class DividedTwice(NamedTuple):
    """A division of gradients by the scale, the call that divided them first, and whether the gradients change.

    `one_of` is the read of the scale if the divisor is a variable that is something else on other paths.
    """

    place: ir.Value
    first: ir.Call
    changes: bool
    one_of: ir.Attribute | None


class _Division(NamedTuple):
    """What is divided, by what, where; `changes`: in place."""

    place: ir.Value
    divided: ir.Value
    divisor: ir.Value
    inverse: bool
    changes: bool


def divided_twice(module: Module) -> Iterator[DividedTwice]:
    """The divisions of gradients by the scale that run after the scaler's `unscale_` or `step`."""
    functions = {
        ir.function_of(each): None for each in module.whole.near(*SCALE_READS).values if _is_read(module, each)
    }
    for function in functions:
        calls = [each for each in module.whole.within(function).calls if ir.function_of(each) is function]
        for each in _divisions(module, function):
            scale = _scale(module, each.divisor, each.inverse, _FOLLOW)
            if scale is None or not _is_of_gradients(module, each.divided, _FOLLOW):
                continue
            grads = list(_gradients(module, each.divided, _FOLLOW))
            if grads and all(_is_of_no_optimizer(module, grad) for grad in grads):
                continue
            first = next(_before(module, calls, each, scale), None)
            if first is not None:
                one_of = scale if _is_something_else(module, each) else None
                yield DividedTwice(each.place, first, each.changes, one_of)


def _is_read(module: Module, value: ir.Value) -> bool:
    """Whether a value reads a scaler's scale: `scaler.get_scale`."""
    return (
        isinstance(value, ir.Attribute)
        and value.attr in SCALE_READS
        and objects(module).is_scaler(value.base) is not None
        and isinstance(value.parent, ir.Call)
    )


def _divisions(module: Module, function: ir.Function | None) -> Iterator[_Division]:
    """The divisions of a function, and the multiplications, which may be by the scale's inverse."""
    for value in module.whole.within(function).values:
        if ir.function_of(value) is not function:
            continue
        if isinstance(value, ir.Binary) and value.op in ("Divide", "Multiply"):
            yield _Division(value, value.left, value.right, value.op == "Multiply", changes=False)
        elif isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in _IN_PLACE:
            if len(value.args) == 1 and is_grad(value.func.base):
                yield _Division(value, value.func.base, value.args[0].value, value.func.attr == "mul_", changes=True)
    for each in module.whole.within(function).statements:
        if isinstance(each, ir.AugAssign) and ir.function_of(each) is function and each.op in ("Divide", "Multiply"):
            yield _Division(each.target, each.target, each.value, each.op == "Multiply", changes=is_grad(each.target))


def _scale(module: Module, value: ir.Value, inverse: bool, depth: int) -> ir.Attribute | None:
    """The read of a scaler's scale that a value is, or is the inverse of, by itself or through a variable."""
    if inverse and isinstance(value, ir.Binary) and value.op == "Divide" and isinstance(value.left, ir.Constant):
        return _scale(module, value.right, False, depth)
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute):
        return value.func if not inverse and _is_read(module, value.func) else None
    if not isinstance(value, ir.Name) or not depth:
        return None
    given = [each.value for each in module.names.bindings(value) if isinstance(each, Assigned)]
    found = [_scale(module, each, inverse, depth - 1) for each in given]
    return next((each for each in found if each is not None), None)


def _is_something_else(module: Module, division: _Division) -> bool:
    """Whether the divisor is a variable that doesn't hold the scale on some path."""
    name = division.divisor
    if not isinstance(name, ir.Name):
        return False
    given = [each.value for each in module.names.bindings(name) if isinstance(each, Assigned)]
    return any(_scale(module, each, division.inverse, _FOLLOW) is None for each in given)


def _is_of_gradients(module: Module, value: ir.Value, depth: int) -> bool:
    """Whether a value is made of gradients, or is the norm that a clip gives, also through variables bound once."""
    for each in ir.walk_values(value):
        if takes_gradients(module, each) or (isinstance(each, ir.Call) and module.names.of(each.func) & CLIPS):
            return True
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) and depth else None
        if bound is not None and _is_of_gradients(module, bound.value, depth - 1):
            return True
    return False


def _gradients(module: Module, value: ir.Value, depth: int) -> Iterator[ir.Value]:
    """The gradients, each a tensor's `grad`, that a value is made of, also through variables bound once."""
    for each in ir.walk_values(value):
        if isinstance(each, ir.Attribute) and each.attr == "grad":
            yield each
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) and depth else None
        if bound is not None:
            yield from _gradients(module, bound.value, depth - 1)


def _is_of_no_optimizer(module: Module, grad: ir.Value) -> bool:
    """Whether a gradient is one of an input, or of a tensor that is made by itself and that no optimizer is given."""
    owner = whose(module, grad)
    if is_parameters(module, grad) or not _is_plain_tensor(module, owner, _FOLLOW):
        return False
    made = (*module.calls_of("torch.optim.*"), *module.whole.called("add_param_group"))
    return not any(_has(module, arg.value, objects(module).key(owner), _FOLLOW) for call in made for arg in call.args)


def _has(module: Module, value: ir.Value, key: str | None, depth: int) -> bool:
    """Whether an object of a key is written in a value, also through variables bound once."""
    for each in ir.walk_values(value):
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) and depth else None
        if objects(module).key(each) == key or (bound is not None and _has(module, bound.value, key, depth - 1)):
            return True
    return False


def _is_plain_tensor(module: Module, value: ir.Value, depth: int) -> bool:
    """Whether a value is what a function is given or a loop takes, or a tensor that is made by itself: no parameter."""
    while isinstance(value, ir.Call) and not _is_torchs(module, value) and isinstance(value.func, ir.Attribute):
        value = value.func.base  # `images.clone().requires_grad_()`
    if isinstance(value, ir.Call):
        return _is_torchs(module, value)
    if not depth or not isinstance(value, (ir.Name, ir.Attribute)):
        return False
    if isinstance(value, ir.Attribute) and owner_class(value) is None:
        return False  # a model's, say
    sources = [each for each in objects(module).sources(value) if not ir.is_none(each)]
    is_given = isinstance(value, ir.Name) and bool(objects(module).bindings(value))
    return bool(sources or is_given) and all(_is_plain_tensor(module, each, depth - 1) for each in sources)


def _is_torchs(module: Module, call: ir.Call) -> bool:
    """Whether a call is one of torch's functions that make tensors."""
    names = module.names.of(call.func)
    return bool(names) and all(name.startswith("torch.") and not name.startswith("torch.nn.") for name in names)


def _before(module: Module, calls: list[ir.Call], each: _Division, scale: ir.Attribute) -> Iterator[ir.Call]:
    """The calls of the scaler that have divided the gradients, with no other gradients since."""
    known, read = objects(module), ir.statement_of(scale)
    scaler = known.is_scaler(scale.base)
    own = [
        call for call in calls if (owner := ir.called_on(call, "unscale_", "step")) and known.is_scaler(owner) == scaler
    ]
    # Of several optimizers one may not have its gradients divided yet.
    several = len({known.key(call.args[0].value) if call.args else None for call in own}) > 1
    for call in own:
        if several or call.id > each.place.id:
            continue
        # The scale is read in the same suite, so what divides by it went there.
        if not dominates(call, each.place) and ir.statement_of(call).block is not read.block:
            continue
        since = (other for other in calls if call.id < other.id < each.place.id)
        if not any(ir.last_name(other.func) in _MAKES_NEW for other in since) and _in_one_round(call, each.place):
            yield call


def _in_one_round(call: ir.Call, place: ir.Value) -> bool:
    """Whether a call is in no loop that a later place is not in."""
    loop = loop_of(call)
    return loop is None or loop in loops_round(place)
