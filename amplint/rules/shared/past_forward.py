"""Models that accelerate prepares and that are trained by another method than `forward` (AMP310).

As of accelerate 1.15 (accelerator.py, `prepare_model`): for mixed precision it replaces the `forward` of a model by one
in an autocast region. Other methods of the model run without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import local_class, method
from amplint.model.inference.constructions import constructions
from amplint.model.names.grad_mode import without_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.regions.regions_at import regions_at
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import upwards
from amplint.model.usage.accelerators import accelerators
from amplint.model.usage.frozen_models import frozen

if TYPE_CHECKING:
    from amplint.model import Module

_HALF = {"fp16", "bf16"}
_CALLED = ("forward", "__call__")
# Parts of a model that compute nothing in half precision, by their names and those of what makes them.
_NO_LAYER = re.compile(r"(?i)token|process|transform|extractor|loss|crit|metric|config|schedul|sampl|vocab|optim")
# Methods of libraries' models that run their layers and not `forward`.
_OF_LIBRARIES = (
    (re.compile(r"diffusers\.([\w.]*\.)?(Asymmetric)?(Autoencoder|VQModel)"), ("encode", "decode")),
    (re.compile(r"transformers\.([\w.]*\.)?\w*CLIP\w*Model"), ("get_image_features", "get_text_features")),
)


def past_forward(module: Module) -> Iterator[ir.Call]:
    """The first such call for each model and each method, in functions that call the Accelerator's `backward`."""
    owner, known = accelerators(module), objects(module)
    backwards = [call for call in module.own.called("backward") if owner.kind(call) == "backward"]
    bases = (ir.called_on(call, "backward") for call in backwards)
    precisions = {each for base in bases if base is not None for each in owner.precisions(base)}
    if not precisions & _HALF:
        return
    prepared: dict[str | None, list[ir.Value]] = {}
    for value in (arg.value for call in owner.prepared() for arg in call.args):
        prepared.setdefault(known.key(value), []).append(value)
    training, done = {ir.function_of(call) for call in backwards}, set[str]()
    for call in module.own.calls:
        base = call.func.base if isinstance(call.func, ir.Attribute) else None
        if base is None or ir.last_name(call.func) in _CALLED or ir.function_of(call) not in training:
            continue
        model = base.base if isinstance(base, ir.Attribute) and base.attr == "module" else base  # as DDP keeps it
        key, name = known.key(model), ir.last_name(call.func)
        if key is None or key not in prepared or {key, name} & done or key in frozen(module):
            continue
        if without_gradients(module, call) or regions_at(module, call) or _is_in_its_autocast(module, call):
            continue
        if any(_computes(module, each, name) for each in prepared[key]):
            done |= {key, name}
            yield call


def _is_in_its_autocast(module: Module, node: ir.Node) -> bool:
    """Whether a node is inside `with accelerator.autocast():`."""
    withs = (each for each in upwards(ir.statement_of(node)) if isinstance(each, ir.With))
    bases = (ir.called_on(item.context, "autocast") for each in withs for item in each.items)
    return any(base is not None and accelerators(module).owns(base) for base in bases)


def _computes(module: Module, model: ir.Value, name: str) -> bool:
    """Whether a method of all classes that a model can be of calls a layer of the model, and neither the model itself
    nor anything of autocast.
    """
    made = [each.func for each in constructions(module, model)]
    return bool(made) and all(_is_of_library(module, each, name) or _is_own(module, each, name) for each in made)


def _is_of_library(module: Module, made: ir.Value, name: str) -> bool:
    """Whether a method of what a library's class or `from_pretrained` makes runs layers without `forward`."""
    names = module.names.of(made)
    return bool(names) and all(
        any(pattern.match(each) and name in methods for pattern, methods in _OF_LIBRARIES) for each in names
    )


def _is_own(module: Module, made: ir.Value, name: str) -> bool:
    """Whether a method of a class of the project does."""
    cls = local_class(module, made)
    function = method(module, cls, name) if cls is not None else None
    return function is not None and _calls_layers(module, function)


def _calls_layers(module: Module, function: ir.Function) -> bool:
    if function.cls is None or not function.params:
        return False
    own = function.params[0].name
    calls = [each for each in ir.values_below(function.body) if isinstance(each, ir.Call)]
    if any(ir.is_variable(each.func, own) or "autocast" in ir.last_name(each.func) for each in calls):
        return False
    called = {
        each.func.attr for each in calls if isinstance(each.func, ir.Attribute) and ir.is_variable(each.func.base, own)
    }
    return not called & {*_CALLED} and bool(called & _layers(module, function.cls))


def _layers(module: Module, cls: ir.Class) -> set[str]:
    """The attributes that a class's constructor sets to what calls return, but for tokenizers, losses and the like."""
    made = method(module, cls, "__init__")
    statements = ir.walk_statements(made.body) if made is not None else ()
    return {
        target.attr
        for each in statements
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call)
        for target in each.targets
        if isinstance(target, ir.Attribute) and not _NO_LAYER.search(f"{target.attr} {module.text(each.value.func)}")
    }
