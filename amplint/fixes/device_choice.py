"""Which device a fix should write: what the code itself uses, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability
from amplint.fixes.inherited_arguments import module_name
from amplint.model.inference.devices import Device, devices, region_devices
from amplint.model.inference.dtypes import is_old_first
from amplint.model.names.reaching_definitions import comes_first, is_bound
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Scope
from amplint.model.syntax.scopes import owner_class
from amplint.model.usage.device_evidence import evidence

if TYPE_CHECKING:
    from amplint.model import Module


# What the text of a device is made of that can be written elsewhere.
_SIMPLE = (ir.Name, ir.Attribute, ir.Constant, ir.Compare, ir.Bool, ir.Unary, ir.Conditional)
_ASKING = {"torch.cuda.is_available", "torch.xpu.is_available", "torch.backends.mps.is_available"}


class Choice(NamedTuple):
    """The device as source text, and how far it can be trusted."""

    text: str
    applicability: Applicability


def choose(module: Module, at: ir.Node) -> Choice | None:
    """The device to write at `at`: the regions' literal, "cuda" where all evidence is cuda, else the chosen one.

    Where the file shows none at all, it is the one that the project's configuration says. None: that neither.
    """
    literals, written = _of_regions(module)
    shown = evidence(module)
    if len(literals) == 1 and not written:
        literal = literals.pop()
        # A region for a device that the file's tensors are not on may be an aside.
        agreed = literal == "cuda" or shown.types <= {literal, "cpu"}
        return Choice(f'"{literal}"', Applicability.SAFE if agreed else Applicability.UNSAFE)
    if not written and not literals and shown.types == {"cuda"} and not shown.chosen:
        return Choice('"cuda"', Applicability.SAFE)
    chosen = _chosen(module, written, [*shown.chosen], at)
    if chosen is not None:
        return Choice(chosen, Applicability.UNSAFE)
    return _configured(module) if not (written or literals or shown.places or shown.chosen) else None


def _configured(module: Module) -> Choice | None:
    """The device of the project, for a file that names none."""
    if module.device is None:
        return None
    # What names no device is for cuda; another one makes a difference, in a file that may be the exception.
    safe = module.device == "cuda"
    return Choice(f'"{module.device}"', Applicability.SAFE if safe else Applicability.UNSAFE)


def _of_regions(module: Module) -> tuple[set[str], list[ir.Value]]:
    """The types of device that regions are for, and the values that they are given as one."""
    literals: set[str] = set()
    written: list[ir.Value] = []
    for region in regions(module):
        literals |= {device.type for device in region_devices(module, region) if device.type}
        given = region.device_type
        if given is not None and not isinstance(given, ir.Constant) and not is_old_first(module, given):
            written.append(given)
    return literals, written


def _chosen(module: Module, written: list[ir.Value], evident: list[ir.Value], at: ir.Node) -> str | None:
    """The text of a device that the code chooses: by a name that regions are given, or else in some other way."""
    names = [value for value in written if isinstance(value, (ir.Name, ir.Attribute))]
    texts = (
        *(as_device_type(module, value, at) or _as_written(module, value, at) for value in names),
        *(as_device_type(module, value, at) for value in (*written, *evident)),
        *(_as_written(module, value, at) for value in written),
    )
    return next((text for text in texts if text is not None), None)


def as_device_type(module: Module, value: ir.Value, at: ir.Node) -> str | None:
    """`value` as a str that names a device's type, as it can be written at `at`; None where it can't."""
    if isinstance(value, ir.Attribute) and value.attr == "type" and readable_at(module, value.base, at):
        return module.text(value)
    if isinstance(value, ir.Call) and module.names.of(value.func) == {"builtins.str"} and len(value.positional) == 1:
        return as_device_type(module, value.positional[0], at)
    if not readable_at(module, value, at):
        return None
    found = devices(module, value)
    if all(each.kind == "object" for each in found):
        return f"{module.text(value)}.type"
    if not all(each.kind == "str" and each.name is not None for each in found):
        return None
    types = {each.type for each in found}
    if not any(_has_index(each) for each in found):
        return module.text(value)
    if len(types) == 1:
        return f'"{types.pop()}"'
    torch = module_name(module, "torch")
    return f"{torch}.device({module.text(value)}).type" if torch is not None else None


def _has_index(device: Device) -> bool:
    return device.name is not None and ":" in device.name


def _as_written(module: Module, value: ir.Value, at: ir.Node) -> str | None:
    """What a region takes as its device, where the same can be written at `at`: a scaler takes it too."""
    inside = list(ir.walk_values(value))
    if not all(isinstance(each, _SIMPLE) or _only_asks(module, each) for each in inside):
        return None
    if any(each.kind == "object" or _has_index(each) for each in devices(module, value)):
        return None  # the region raises, or an index would be written
    read = [each for each in inside if isinstance(each, (ir.Name, ir.Attribute)) and not _is_builtin(module, each)]
    outer = [each for each in read if not (isinstance(each.parent, ir.Attribute) and each.parent in read)]
    return module.text(value) if outer and all(readable_at(module, each, at) for each in outer) else None


def _only_asks(module: Module, value: ir.Value) -> bool:
    """Whether a call gives the same wherever it stands."""
    return isinstance(value, ir.Call) and module.names.of(value.func) <= _ASKING


def _is_builtin(module: Module, value: ir.Value) -> bool:
    return all(each.startswith("builtins.") for each in module.names.of(value))


def readable_at(module: Module, value: ir.Value, at: ir.Node) -> bool:
    """Whether a name or `self.attribute` can be read at `at` and is surely bound there."""
    if isinstance(value, ir.Attribute):
        if owner_class(value) is not None and not _same_function(value, at):
            return _is_kept(value, at)
        return readable_at(module, value.base, at) and (_same_function(value, at) or not _is_stored(module, value))
    if not isinstance(value, ir.Name):
        return False
    home = value.scope.home(value.name)
    here = _scope_at(module, at)
    if home is None or here.home(value.name) is not home:
        return False
    return home is not here or is_bound(home.bindings[value.name], home, at)


def _same_function(value: ir.Value, at: ir.Node) -> bool:
    return ir.function_of(value) is ir.function_of(at)


def _is_stored(module: Module, value: ir.Attribute) -> bool:
    """Whether the file changes such an attribute of any object: `args.device = ...`."""
    near = module.whole.near(value.attr).statements
    targets = [target for each in near if isinstance(each, ir.Assign) for target in each.targets]
    return any(isinstance(each, ir.Attribute) and each.attr == value.attr for each in targets)


def _is_kept(value: ir.Attribute, at: ir.Node) -> bool:
    """Whether `self.attribute`, read in one method, is surely there and the same at `at` in another one."""
    cls, function = owner_class(value), ir.function_of(at)
    if cls is None or function is None or function.cls is not cls or not function.params:
        return False
    stored = cls.stored(value.attr)
    only = stored[0] if len(stored) == 1 else None
    if only is None or ir.last_name(value.base) != function.params[0].name:
        return False
    made, home = ir.statement_of(only), ir.function_of(only)
    if home is function:
        return comes_first(made, at)
    # What __init__ stores is there in the methods that it doesn't call itself.
    if home is None or home.name != "__init__" or made.block is not home.body:
        return False
    return not any(ir.last_name(each) == function.name for each in ir.values_below(home.body))


def _scope_at(module: Module, at: ir.Node) -> Scope:
    function = ir.function_of(at)
    return function.scope if function is not None else module.program.scope
