"""Models of which a function casts some parameters: `model.apply(to_half)`, `model.convert_to_fp16()`.

The function casts the data of a parameter that it is given, or reaches: `layer.weight.data = layer.weight.data.half()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import CallSites, callers
from amplint.model.calls.external_calls import local_callable
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import attribute_of, item_of, own_self
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, parts_that_hold
from amplint.model.syntax.nesting import loops_round
from amplint.model.syntax.scopes import class_of_self
from amplint.model.usage.module_casts import Cast, cast_to

if TYPE_CHECKING:
    from amplint.model import Module

# What the models of guided-diffusion, and of what comes from it, call the methods that cast most of their parameters.
_METHODS = {"convert_to_fp16": "float16", "convert_to_bf16": "bfloat16", "convert_to_fp32": "float32"}
_SETS_DATA = re.compile(r"\.data\b[^=\n]*=(?!=)")  # what is written where the data of a parameter is set
_OF_NORMS = ("running_mean", "running_var")  # buffers of torch's normalization layers
_DEEP = 4  # functions that hand a model on to the one that casts


def part_casts(module: Module) -> list[Cast]:
    """The casts of some of a model's parameters, as the calls outside of the model that lead to them, in the order of
    the text.

    A call in a constructor is one of the object itself, with the key of its `self`.
    """
    return module.once(_part_casts)


def is_out_of_sight(module: Module, cast: Cast) -> bool:
    """Whether only the name of the method that is called tells that it casts parameters."""
    return ir.last_name(cast.call.func) in _METHODS and module.once(CallGraph).find(cast.call) is None


def _part_casts(module: Module) -> list[Cast]:
    found = dict[tuple[int, str, str], Cast]()
    for call, model, dtype in (*_applied(module), *_looped(module), *_by_name(module)):
        for each in _outside(module, call, model, dtype, _DEEP):
            found[each.call.id, each.key, each.inner] = each
    return sorted(found.values(), key=lambda each: each.call.id)


def _applied(module: Module) -> Iterator[tuple[ir.Call, ir.Value, str]]:
    """The calls that apply such a function to each module of a model, with the model and the dtype."""
    for call in module.whole.calling("apply").calls:
        base = ir.called_on(call, "apply")
        given = ir.only_argument(call)
        function = local_callable(module, given) if base is not None and given is not None else None
        dtype = cast_by(module, function) if function is not None else None
        if base is not None and dtype is not None:
            yield call, base, dtype


def _looped(module: Module) -> Iterator[tuple[ir.Call, ir.Value, str]]:
    """The casts in loops over a model's parameters: `for each in net.parameters(): each.data = each.data.half()`."""
    for statement in module.whole.near(_SETS_DATA).statements:
        dtype = _casts_data(module, statement)
        if dtype is None or not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Call):
            continue
        for tensor in _set_data(statement):
            loop = _loop_of(tensor)
            model = ir.called_on(loop.iter, "parameters", "named_parameters") if loop is not None else None
            if model is not None:
                yield statement.value, model, dtype


def _by_name(module: Module) -> Iterator[tuple[ir.Call, ir.Value, str]]:
    """The calls of methods out of sight that by their names cast parameters."""
    for call in module.whole.calling(*_METHODS).calls:
        base = ir.called_on(call, *_METHODS)
        if base is not None and not call.args and module.once(CallGraph).find(call) is None:
            yield call, base, _METHODS[ir.last_name(call.func)]


def cast_by(module: Module, function: ir.Function) -> str | None:
    """The dtype to which a function casts the data of parameters; None where it casts none, or to several dtypes."""
    return module.once(_cast_by, function)


def _cast_by(module: Module, function: ir.Function) -> str | None:
    found = {_casts_data(module, each) for each in ir.walk_statements(function.body)} - {None}
    return found.pop() if len(found) == 1 else None


def _casts_data(module: Module, statement: ir.Statement) -> str | None:
    """The dtype to which a statement casts a parameter's data: `weight.data = weight.data.half()`."""
    if not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Call):
        return None
    if not any(_is_trained(module, each) for each in _set_data(statement)):
        return None
    return cast_to(module, statement.value)


def _set_data(statement: ir.Assign) -> list[ir.Value]:
    """The tensors whose data a statement sets."""
    return [each.base for each in statement.targets if isinstance(each, ir.Attribute) and each.attr == "data"]


def _is_trained(module: Module, tensor: ir.Value) -> bool:
    """Whether a tensor may be a parameter that is trained: no gradient, buffer or item of something, and not frozen."""
    if isinstance(tensor, ir.Attribute):
        if tensor.attr == "grad" or tensor.attr in _OF_NORMS or tensor.attr in module.once(_buffers):
            return False
    elif not isinstance(tensor, ir.Name):
        return False
    loop = _loop_of(tensor)
    if loop is not None and ir.called_on(loop.iter, "buffers", "named_buffers") is not None:
        return False
    return not _is_frozen(module, tensor)


def _loop_of(tensor: ir.Value) -> ir.For | None:
    """The innermost loop that sets a variable anew in each round."""
    loops = [each for each in loops_round(tensor) if isinstance(each, ir.For)] if isinstance(tensor, ir.Name) else []
    return next((each for each in loops if _names(each.target, tensor)), None)


def _names(target: ir.Value, name: ir.Value) -> bool:
    """Whether a target binds a variable, alone or with others."""
    parts = (each for each in ir.walk_values(target) if isinstance(each, ir.Name))
    return isinstance(name, ir.Name) and any(each.name == name.name for each in parts)


def _is_frozen(module: Module, tensor: ir.Value) -> bool:
    """Whether the tests round a tensor hold only where it is frozen: `if not p.requires_grad`."""
    asked = f"{module.text(tensor)}.requires_grad"
    held = (part for test, holds in conditions_round(tensor) for part in parts_that_hold(test, holds))
    return any(_says_frozen(module, test, asked, holds) for test, holds in held)


def _says_frozen(module: Module, test: ir.Value, asked: str, holds: bool) -> bool:
    """Whether a test that comes out one way says that the flag that is asked for is off."""
    if isinstance(test, ir.Compare) and len(test.rights) == 1 and test.ops in (("Is",), ("Equal",)):
        constant = test.rights[0]
        is_on = constant.value if isinstance(constant, ir.Constant) else None
        return is_on is (not holds) and module.text(test.left) == asked
    return not holds and module.text(test) == asked


def _buffers(module: Module) -> set[str]:
    """The names of the buffers that the file registers."""
    given = (each.positional[:1] for each in module.whole.calling("register_buffer").calls)
    names = (each[0].value for each in given if each and isinstance(each[0], ir.Constant))
    return {each for each in names if isinstance(each, str)}


def _outside(
    module: Module, call: ir.Call, model: ir.Value, dtype: str, depth: int, *, inner: str = ""
) -> Iterator[Cast]:
    """The casts that a cast of a model stands for: where that is the `self` of a method, or a parameter, the calls.

    `inner`: what of the model is cast, as the end of a key.
    """
    function, (root, behind) = ir.function_of(call), _root(model)
    cls = class_of_self(root) if root is not None else None
    if behind is None:
        return
    if function is not None and cls is not None and function.name == "__init__":
        yield Cast(call, own_self(cls), dtype, f"{behind}{inner}")
        return
    calls = callers(module, function) if function is not None and depth else []
    handed = [(each, given) for each in calls if (given := _handed(module, function, each, root, cls)) is not None]
    if handed:
        for each, given in handed:
            yield from _outside(module, each, given, dtype, depth - 1, inner=f"{behind}{inner}")
    elif (key := objects(module).key(model)) is not None:
        yield Cast(call, key, dtype, inner)


def _root(value: ir.Value) -> tuple[ir.Name | None, str | None]:
    """The name that attributes and items are taken from, and those as the end of a key; None where an item's place
    can't be told.
    """
    behind: str | None = ""
    while isinstance(value, (ir.Attribute, ir.Subscript)):
        if isinstance(value, ir.Attribute):
            step: str | None = attribute_of("", value.attr)
        else:
            step = item_of("", repr(value.index.value)) if isinstance(value.index, ir.Constant) else None
        behind = step + behind if step is not None and behind is not None else None
        value = value.base
    return (value if isinstance(value, ir.Name) else None), behind


def _handed(
    module: Module, function: ir.Function | None, call: ir.Call, root: ir.Name | None, cls: ir.Class | None
) -> ir.Value | None:
    """What a call of a function hands it for the model: its object, for that of a class, or an argument."""
    if cls is not None:
        return call.func.base if isinstance(call.func, ir.Attribute) else None
    if function is None or root is None or root.name not in [each.name for each in function.params]:
        return None
    return module.once(CallGraph).given_for(call, root.name)


def is_idle(module: Module, function: ir.Function | None, depth: int = _DEEP) -> bool:
    """Whether nothing in sight runs a function that is taken from another file: `convert_to_fp32`, which stands next to
    the one that is called.
    """
    if function is None or module.is_own(function) or not depth:
        return False
    return module.once(_is_idle, function, depth)


def _is_idle(module: Module, function: ir.Function, depth: int) -> bool:
    mentions = module.once(CallSites).mentions(function)
    return all(is_idle(module, ir.function_of(each), depth - 1) for each in mentions)
