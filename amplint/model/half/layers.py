"""The layers that a file makes: which calls construct one, what lists of them hold, and the dtype of their weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import passed
from amplint.model.calls.external_calls import local_class
from amplint.model.inference.constructions import constructions
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.tensor_types import FLOAT32, MODULE, UNKNOWN_KIND, Kind
from amplint.model.inference.values import asked, parameter_read
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.names.tables import values_in
from amplint.model.objects.amp_objects import Objects, objects
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

_DEFAULTS = ("set_default_dtype", "set_default_tensor_type")
_CASTS = ("half", "bfloat16", "to", "type")
# What only a model is asked for, and what gives back a model that turns its outputs into float32.
_OF_A_MODEL = ("parameters", "named_parameters", "train", "eval")
_WRAPS_OUTPUTS = ("prepare", "prepare_model", "setup", "setup_module", "initialize")
_BUILDER = re.compile(r"(torchvision\.models|timm|segmentation_models_pytorch|monai\.networks)\.")
# What models are called, also where nothing else in the file says so.
_MODEL = re.compile(r"(?i)(?:\w+_)?(?:model|net|network|unet|backbone|classifier|transformer)")
_LAYER = re.compile(r"torch\.nn\.(modules\.\w+\.)?[A-Z]\w*")


def makes_layer(module: Module, call: ir.Call) -> bool:
    """Whether a call constructs a layer of torch.nn's, or an object of a class of this file."""
    names = classes_of(module, call)
    return (bool(names) and all(map(_LAYER.fullmatch, names))) or local_class(module, call.func) is not None


def classes_of(module: Module, call: ir.Call) -> list[str]:
    """The classes that a call can construct an object of, by their qualified names: all that a table of them has."""
    func = call.func
    found = values_in(module, func.base) if isinstance(func, ir.Subscript) else [func]
    names = [module.names.only(each) for each in found]
    return [each for each in names if each is not None] if None not in names else []


def plain_weights(module: Module) -> bool:
    """Whether nothing in the file casts models to half, or changes the default dtype."""
    return module.once(_plain_weights)


def _plain_weights(module: Module) -> bool:
    return not any(_casts_weights(module, each) for each in module.whole.called(*_DEFAULTS, *_CASTS))


def _casts_weights(module: Module, call: ir.Call) -> bool:
    func = call.func
    if ir.last_name(func) in _DEFAULTS:
        return True
    if not isinstance(func, ir.Attribute):
        return False
    if func.attr in ("to", "type") and not any(_may_be_half(module, arg) for arg in call.args):
        return False
    if isinstance(func.base, ir.Name) and func.base.name == "self":
        return True
    return any(makes_layer(module, each) for each in constructions(module, func.base))


def _may_be_half(module: Module, arg: ir.Arg) -> bool:
    """Whether an argument of `.to` is a dtype other than float32, or one that isn't known."""
    named = arg.keyword == "dtype" or "dtype" in ir.last_name(arg.value).lower()
    return any(each.name != FLOAT32 and (named or each.kind == "dtype") for each in dtypes(module, arg.value))


def is_model(module: Module, value: ir.Value) -> bool:
    """Whether a value is used or made as a model is, and nothing in the file may turn what it gives into float32."""
    key = objects(module).key(value)
    if key is not None and key in module.once(_asked_models):
        return not gives_float32(module, value)
    if isinstance(value, ir.Name) and asked(module, _is_given_models, value, False):
        return not gives_float32(module, value)
    if isinstance(value, ir.Name) and asked(module, _is_one_of_models, value, False):
        return not gives_float32(module, value)
    if isinstance(value, (ir.Name, ir.Attribute)) and asked(module, _is_handed_model, value, False):
        return not gives_float32(module, value)
    made = constructions(module, value) if isinstance(value, (ir.Name, ir.Attribute)) else ()
    return bool(made) and all(any(map(_BUILDER.match, module.names.of(call.func))) for call in made)


def _is_given_models(module: Module, value: ir.Value) -> bool:
    """Whether a name is a parameter that all of the file's calls give models."""
    assert isinstance(value, ir.Name)
    function = ir.parameter_of(module.names.only_binding(value))
    given = passed(module, function, value.name) if function is not None else []
    return bool(given) and all(each is not None and is_model(module, each) for each in given)


def _is_handed_model(module: Module, value: ir.Value) -> bool:
    """Whether a value is a parameter with a model's name, or an attribute that keeps one, from out of sight."""
    if not _MODEL.fullmatch(ir.last_name(value)):
        return False
    sources = objects(module).sources(value) if isinstance(value, ir.Attribute) else [value]
    return bool(sources) and all(_is_out_of_sight(module, each) for each in sources)


def _is_out_of_sight(module: Module, value: ir.Value) -> bool:
    """Whether a value is a parameter for which no call of the file gives anything."""
    read = parameter_read(module, value)
    return read is not None and not passed(module, read[0], read[1].name)


def _is_one_of_models(module: Module, value: ir.Value) -> bool:
    """Whether a variable stands for a model, or for one of several: `net = model or self.model`."""
    assert isinstance(value, ir.Name)
    found = only_assignment(module.names, value)
    given = found.value if found is not None else value
    if isinstance(given, (ir.Bool, ir.Conditional)):
        choices = [each for each in list(given.children())[-2:] if not ir.is_none(each)]
    else:
        choices = [given] if isinstance(given, (ir.Name, ir.Attribute)) and given is not value else []
    return any(is_model(module, each) for each in choices) and not any(gives_float32(module, each) for each in choices)


def gives_float32(module: Module, value: ir.Value) -> bool:
    """Whether accelerate, Fabric or DeepSpeed may wrap a model, so that what it gives is float32.

    accelerate does so by `convert_outputs_to_fp32`.
    """
    key = objects(module).key(value)
    return key is not None and key in module.once(_wrapped_models)


def _asked_models(module: Module) -> frozenset[str]:
    """The keys of what parameters are asked of, or is switched to training or evaluation."""
    known = objects(module)
    asked = (
        known.key(call.func.base)
        for call in module.whole.called(*_OF_A_MODEL)
        if isinstance(call.func, ir.Attribute) and all(map(_is_flag, call.positional))
    )
    return frozenset(key for key in asked if key is not None)


def _is_flag(value: ir.Value) -> bool:
    """`model.train(True)`: what trains is given data, or nothing."""
    return isinstance(value, ir.Constant) and isinstance(value.value, bool)


def _wrapped_models(module: Module) -> frozenset[str]:
    """The keys of what is given to, or comes from, a call that wraps models."""
    known = objects(module)
    wrapped = (key for call in module.whole.called(*_WRAPS_OUTPUTS) for key in _taken_and_given(known, call))
    return frozenset(key for key in wrapped if key is not None)


def _taken_and_given(known: Objects, call: ir.Call) -> Iterator[str | None]:
    yield from map(known.key, call.positional)
    statement = ir.statement_of(call)
    for target in statement.targets if isinstance(statement, ir.Assign) else ():
        yield from map(known.key, target.items if isinstance(target, ir.Sequence) else (target,))


def listed_layers(module: Module, kind: Kind) -> Kind:
    """What the lists of layers hold that a value can be."""
    found: list[ir.Call] = []
    for each in kind.made:
        name = ir.last_name(each.func)
        inner = _listed(module, each) if name in ("ModuleList", "Sequential") else None
        if not inner:
            return UNKNOWN_KIND
        found += inner
    return Kind(MODULE, made=tuple(dict.fromkeys(found)))


def _listed(module: Module, call: ir.Call) -> list[ir.Call] | None:
    """The layers that a ModuleList or Sequential is made of; None where one is not in sight."""
    values = list(_items(call.positional if ir.last_name(call.func) == "Sequential" else _contents(call)))
    found: list[ir.Call] = []
    for value in values:
        made = constructions(module, value)
        if not made or not all(makes_layer(module, each) for each in made) or call.unpacks("*"):
            return None
        found += made
    return found


def _contents(call: ir.Call) -> Sequence[ir.Value]:
    given = call.positional[0] if call.positional else None
    return given.items if isinstance(given, ir.Sequence) else [given] if given is not None else ()


def _items(values: Sequence[ir.Value]) -> Iterator[ir.Value]:
    for value in values:
        yield value.elements[0] if isinstance(value, ir.Comprehension) and len(value.elements) == 1 else value
