"""Regions that a framework opens: `with accelerator.autocast():`, `with fabric.autocast():`; its backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.constructions import constructions
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.values import held, option_read, values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import NOTHING
from amplint.model.torch_facts.names import KEEPS_SCALER
from amplint.model.usage.accelerators import accelerators

if TYPE_CHECKING:
    from amplint.model import Module

_LIBRARIES = ("lightning", "pytorch_lightning", "lightning_fabric")
_FABRIC, _ACCELERATOR = "Fabric", "Accelerator"
# For which neither opens a region.
_WHOLE = ("no", "32", "32-true", "64", "64-true", "16-true", "bf16-true", 32, 64)
_PRECISION = {_FABRIC: "precision", _ACCELERATOR: "mixed_precision"}


class FrameworkRegion(NamedTuple):
    """A region that a call opens. What it is opened for can't be seen: it is chosen with the framework's precision.

    `is_given`: the file gives a precision to what opens it, other than an option that is off by default; else it is
    configured, or that is made, elsewhere.
    """

    region: Region
    is_given: bool


def framework_region(module: Module, call: ir.Call) -> FrameworkRegion | None:
    """The region that a call gives, if that is an Accelerator's or a Fabric's, and it isn't known to open none."""
    func = call.func
    if not isinstance(func, ir.Attribute) or func.attr != "autocast":
        return None
    return module.once(_FrameworkRegions).of(call, func.base)


def is_framework_backward(module: Module, call: ir.Value) -> bool:
    """Whether a call is the backward pass of an Accelerator or a Fabric, which scales where it has to, or of a scaler
    of timm's kind, which also steps the optimizer.
    """
    if not isinstance(call, ir.Call) or not call.args:
        return False
    if is_library_scaler_call(module, call):
        return True
    func = call.func
    if not isinstance(func, ir.Attribute) or func.attr != "backward":
        return False
    return accelerators(module).owns(func.base) or bool(fabrics(module, func.base))


def is_library_scaler_call(module: Module, call: ir.Call) -> bool:
    """Whether a call is one of a scaler of timm's kind, `loss_scaler(loss, optimizer)`: a backward pass and a step."""
    if not objects(module).may_call_library_scaler(call):
        return False
    leaves = (each.value for each in values_of(module, call.func).leaves)
    return any(isinstance(each, ir.Call) and module.names.of(each.func) & KEEPS_SCALER for each in leaves)


class _FrameworkRegions:
    """Remembers the regions of one module, by the ids of their calls."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[int, FrameworkRegion | None] = {}

    def of(self, call: ir.Call, owner: ir.Value) -> FrameworkRegion | None:
        if call.id not in self._known:
            self._known[call.id] = self._find(call, owner)
        return self._known[call.id]

    def _find(self, call: ir.Call, owner: ir.Value) -> FrameworkRegion | None:
        known = accelerators(self._module)
        is_accelerators = known.owns(owner)
        what, made = (_ACCELERATOR, known.made(owner)) if is_accelerators else (_FABRIC, fabrics(self._module, owner))
        if not (is_accelerators or made):
            return None
        given = [each.keyword(_PRECISION[what]) for each in made]
        if made and all(self._opens_none(each, value, what) for each, value in zip(made, given, strict=True)):
            return None
        region = Region(call, None, None, None, None, None, opaque=True)
        return FrameworkRegion(region, any(each is not None and not self._is_off_by_default(each) for each in given))

    def _is_off_by_default(self, precision: ir.Value) -> bool:
        """Whether a precision is an option or a parameter for whose default no region is opened, or is None: then it is
        configured elsewhere.
        """
        read = held(self._module, precision)
        option = option_read(self._module, read) if isinstance(read, ir.Attribute) else None
        if option is not None:
            return isinstance(option.default, ir.Constant) and option.default.value in _WHOLE
        known = [each.value for each in values_of(self._module, precision).leaves if not each.is_open]
        return bool(known) and all(isinstance(each, ir.Constant) and each.value in (None, *_WHOLE) for each in known)

    def _opens_none(self, made: ir.Call, precision: ir.Value | None, what: str) -> bool:
        """Whether what is made with a precision surely opens no region: an Accelerator's may be configured."""
        if precision is None:
            return what == _FABRIC and not made.unpacks("**")
        found = [each.value for each in dtypes(self._module, precision)]
        return bool(found) and all(isinstance(each, ir.Constant) and each.value in _WHOLE for each in found)


def fabrics(module: Module, value: ir.Value) -> list[ir.Call]:
    """The constructions that a value comes from, where they are a Fabric's and nothing else."""
    if not isinstance(value, (ir.Name, ir.Attribute)):
        return []
    made = constructions(module, value)
    return [*made] if all(_makes_fabric(module, each) for each in made) else []


def _makes_fabric(module: Module, call: ir.Call) -> bool:
    names = module.names.of(call.func) - {NOTHING}
    return bool(names) and all(
        each.partition(".")[0] in _LIBRARIES and each.rpartition(".")[2] == _FABRIC for each in names
    )
