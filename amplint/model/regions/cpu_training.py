"""Training on the CPU: the models that a file makes and trains, and that nothing ever puts on another device."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import parameter_for
from amplint.model.calls.call_sites import passed
from amplint.model.calls.external_calls import bases_in_sight, local_class, local_function, method
from amplint.model.inference.devices import devices, region_devices
from amplint.model.objects.amp_objects import given, objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.project.importers import is_imported
from amplint.model.regions.other_devices import on_other
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.torch_facts.modules import MOVES, RETURNS_ITSELF
from amplint.model.usage.device_evidence import ACCELERATORS, evidence

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.ir import Binding

# What makes a model's weights on the CPU, and what leaves a model that it is given where it is.
_MAKES = re.compile(r"torch\.nn\.(?!parallel\.|DataParallel)|torchvision\.models\.")
_LEAVES = re.compile(
    r"builtins\.|torch\.(optim\.|nn\.(?!parallel\.|DataParallel)|save$|compile$|manual_seed)|copy\.(copy|deepcopy)$|logging\."
)
# Methods that give back the module that they are called of, where they are given no device.
_SAME = {*RETURNS_ITSELF} - {*MOVES} | {"to"}
# What is made on another device, though no call says so.
_MOVED_BY_TYPE = re.compile(r"cuda\.\w*Tensor|set_default_tensor_type")
_CPU = re.compile(r"""["']cpu["']""")
_OPTIMIZER = re.compile(r"torch\.optim\.(\w+\.)?[A-Z]")
_FOLLOW = 6


def does_nothing(module: Module, region: Region) -> bool:
    """Whether a region is for accelerators alone, where the file names the CPU and trains there, or is for one device
    around code that is on others.
    """
    if on_other(module, region) is not None:
        return True
    return is_for_accelerators(module, region) and named_cpu(module) is not None and trains_on_cpu(module) is not None


def is_for_accelerators(module: Module, region: Region) -> bool:
    """Whether a region is for other devices than the CPU alone."""
    types = {each.type for each in region_devices(module, region)}
    return bool(types) and types <= ACCELERATORS and not region.opaque


def named_cpu(module: Module) -> ir.Value | None:
    """A place that puts or loads something on the CPU by its name: `.to("cpu")`, `map_location="cpu"`."""
    return module.once(_named_cpu)


def _named_cpu(module: Module) -> ir.Value | None:
    if not any(map(_CPU.search, module.texts)):
        return None
    loads = (call.keyword("map_location") for call in module.whole.near("map_location").calls)
    places = [*evidence(module).places.get("cpu", []), *(each for each in loads if each is not None)]
    return next((each for each in places if {one.type for one in devices(module, each)} == {"cpu"}), None)


def trains_on_cpu(module: Module) -> ir.Call | None:
    """The construction of a model that is trained on the CPU, as every model is whose parameters an optimizer has.

    All that is done with the models has to be in sight, and nothing in the file may be put on another device.
    """
    return module.once(_trains_on_cpu)


def _trains_on_cpu(module: Module) -> ir.Call | None:
    shown = evidence(module)
    if shown.types - {"cpu"} or shown.chosen:
        return None
    if any(map(_MOVED_BY_TYPE.search, module.texts)) or not any(each.entered for each in trained(module)):
        return None
    unmoved = _Unmoved(module)
    made = [unmoved.made(each) for each in _trained_models(module)]
    if not made or None in made or is_imported(module.source.filename):
        return None
    return made[0]


def _trained_models(module: Module) -> list[ir.Value]:
    """What the optimizers of the file are given the parameters of."""
    return [
        call.func.base
        for call in module.whole.near("parameters").calls
        if isinstance(call.func, ir.Attribute) and call.func.attr in ("parameters", "named_parameters")
        if _is_an_optimizers(module, call)
    ]


def _is_an_optimizers(module: Module, call: ir.Call) -> bool:
    """Whether an optimizer is made of parameters, there and then or of a variable with them."""
    known = objects(module)
    assert isinstance(call.func, ir.Attribute)
    up: ir.Node | None = call
    while isinstance(up, ir.Value):
        if isinstance(up, ir.Call) and any(map(_OPTIMIZER.match, module.names.of(up.func))):
            return True
        up = up.parent
    key = known.key(call.func.base)
    return key is not None and bool(known.owned_by(key))


class _Unmoved:
    """Follows models to where they are made, and to all that is given them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known = objects(module)
        self._followed: set[str] = set()

    def made(self, value: ir.Value, depth: int = _FOLLOW) -> ir.Call | None:
        """The construction that a model comes from; None where it may be moved, or come from out of sight.

        One name at a time: under each of them it may be given to what moves it.
        """
        if not depth:
            return None
        if isinstance(value, ir.Name):
            if not self._stays(self._known.own_key(value)):
                return None
            return self._same([self._bound(each, value.name, depth) for each in self._known.bindings(value)])
        if isinstance(value, ir.Attribute):
            key = self._known.key(value)
            stored = list(self._module.names.stored(value))
            if key is None or not self._stays(key):
                return None
            return self._same([self.made(each, depth - 1) if each is not None else None for each in stored])
        return self._call(value, depth) if isinstance(value, ir.Call) else None

    def _same(self, made: list[ir.Call | None]) -> ir.Call | None:
        return None if not made or None in made else made[0]

    def _bound(self, binding: Binding, name: str, depth: int) -> ir.Call | None:
        if isinstance(binding, Assigned):
            return self.made(binding.value, depth - 1)
        function = binding.node if isinstance(binding, Other) else None
        if not isinstance(function, ir.Function):
            return None
        values = passed(self._module, function, name)
        return self._same([self.made(each, depth - 1) if each is not None else None for each in values])

    def _call(self, call: ir.Call, depth: int) -> ir.Call | None:
        func, names = call.func, self._module.names.of(call.func)
        cls = local_class(self._module, func)
        if cls is not None:
            return call if bases_in_sight(self._module, cls) and method(self._module, cls, "forward") else None
        function = local_function(self._module, func)
        if function is not None:
            return self._same(
                [
                    self.made(each.value, depth - 1) if each.value is not None else None
                    for each in ir.walk_statements(function.body, into=False)
                    if isinstance(each, ir.Return)
                ]
            )
        if names == {"torch.compile"} and call.positional:
            return self.made(call.positional[0], depth - 1)
        if names and all(map(_MAKES.match, names)):
            return call
        if isinstance(func, ir.Attribute) and func.attr in _SAME:
            return self.made(func.base, depth - 1)
        return None

    def _stays(self, key: str) -> bool:
        """Whether nothing out of sight is given the object with a key."""
        if key in self._followed:
            return True
        self._followed.add(key)
        near = self._module.whole.near(key.rpartition(".")[2].rpartition(":")[2])
        named = (*self._known.with_key(near, key), *self._known.with_own_key(near, key))
        return all(
            self._is_left(each)
            for each in named
            if isinstance(each, (ir.Name, ir.Attribute)) and not (isinstance(each, ir.Name) and each.bound)
        )

    def _is_left(self, value: ir.Value) -> bool:
        """Whether a use of a model leaves it where it is: a call that is given it is in sight, or known to."""
        call = value.parent
        if not isinstance(call, ir.Call) or call.func is value:
            return not isinstance(call, (ir.Sequence, ir.Mapping, ir.Starred, ir.Suspend))
        if value not in given(call):
            return True
        names = self._module.names.of(call.func)
        if names and all(map(_LEAVES.match, names)):
            return True
        parameter = parameter_for(self._module, value)
        if parameter is None:
            return False
        function, name = parameter
        return self._stays(self._known.variable(function.scope, name))
