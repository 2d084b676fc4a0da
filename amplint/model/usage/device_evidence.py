"""Where the code trains: what a file shows of the devices that its tensors and modules are on, with the places."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.devices import devices
from amplint.model.inference.values import asked, values_of
from amplint.model.names.version_guards import tests_of
from amplint.model.syntax import ir
from amplint.model.syntax.queries import call_of
from amplint.model.syntax.scopes import NOTHING, UNKNOWN
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, OLD_SCALER, SCALER

if TYPE_CHECKING:
    from amplint.model import Module

ACCELERATORS = frozenset(("cuda", "xpu", "npu", "mps", "hpu", "mlu", "musa"))
# Imports that make the names of cuda mean a vendor's device.
_SHIMS = ("transfer_to_npu", "torch_mlu.utils.gpu_migration")
_MAKES_DEVICE = {"torch.device", "torch.accelerator.current_accelerator"}
_SETS_DEVICE = "torch.set_default_device"


class Evidence(NamedTuple):
    """The devices that a file shows its tensors and modules to be on, without autocast's and the scaler's arguments.

    What is put or made on a device counts. An import does not: intel_extension_for_pytorch is for CPUs, too.
    """

    places: dict[str, list[ir.Value]]  # each device with the places that show it
    chosen: tuple[ir.Value, ...]  # devices that are chosen at run time, as written

    @property
    def types(self) -> frozenset[str]:
        """The devices."""
        return frozenset(self.places)


def evidence(module: Module) -> Evidence:
    """Where the file's code trains."""
    return module.once(_evidence)


def _evidence(module: Module) -> Evidence:
    places: dict[str, list[ir.Value]] = {}
    chosen: list[ir.Value] = []
    if any(word in module.source.text for word in _SHIMS):
        return Evidence(places, ())
    words = (*ACCELERATORS, "to", *module.words(*_MAKES_DEVICE, _SETS_DEVICE))
    for call in module.whole.near("device", *map(call_of, sorted(words))).calls:
        func = call.func
        if isinstance(func, ir.Attribute) and func.attr in ACCELERATORS and not _is_module(module, func):
            places.setdefault(func.attr, []).append(call)
            continue
        for value in _device_arguments(module, call):
            if _is_of_a_tensor(value):
                continue  # that is where it is already
            found = devices(module, value)
            for each in found:
                if each.type:
                    places.setdefault(each.type, []).append(value)
            if len({each.type for each in found}) > 1 or any(each.type is None for each in found):
                chosen.append(value)
    return Evidence(places, tuple(chosen))


def _is_of_a_tensor(device: ir.Value) -> bool:
    """Whether a device is that of a tensor that a model's `forward` is given: `torch.arange(n, device=x.device)`."""
    if not isinstance(device, ir.Attribute) or device.attr != "device" or not isinstance(device.base, ir.Name):
        return False
    function = ir.function_of(device)
    given = [each.name for each in function.params[1:]] if function is not None and function.name == "forward" else []
    return device.base.name in given


def _is_module(module: Module, func: ir.Attribute) -> bool:
    return bool(module.names.of(func) - {UNKNOWN, NOTHING})


def _device_arguments(module: Module, call: ir.Call) -> list[ir.Value]:
    """The arguments of a call that say where something goes: `.to(device)`, `device=`, `torch.device(...)`."""
    found: list[ir.Value] = []
    names = module.names.of(call.func)
    if names & _MAKES_DEVICE:
        found.append(call)
    elif names & {AUTOCAST, SCALER, *OLD_AUTOCAST, *OLD_SCALER}:
        return []
    elif names == {_SETS_DEVICE} and call.positional:
        found.append(call.positional[0])
    elif isinstance(call.func, ir.Attribute) and call.func.attr == "to" and call.positional:
        first = call.positional[0]
        if not any(name.startswith("torch.") for name in module.names.of(first)):  # a dtype
            found.append(first)
    if (device := call.keyword("device")) is not None:
        found.append(device)
    return found


def device_is_asked(module: Module, call: ir.Call) -> bool:
    """Whether the code decides by the device whether what a call makes is there or on: in `enabled`, or in a test."""
    enabled = call.keyword("enabled")
    if enabled is not None and asks_for_device(module, enabled):
        return True
    return any(asks_for_device(module, test) for test in tests_of(call))


def asks_for_device(module: Module, test: ir.Value, *types: str) -> bool:
    """Whether a condition asks for the device, or one of some `types`: `device.type == "cuda"`, `cuda.is_available()`.

    Variables, attributes and calls of the file's functions are followed.
    """
    return asked(module, _asks_for, test, False, types or ("cuda", "cpu"))


def _asks_for(module: Module, test: ir.Value, types: tuple[str, ...]) -> bool:
    return any(_is_asked(module, value, types) for value in ir.walk_values(test))


def _is_asked(module: Module, value: ir.Value, types: tuple[str, ...]) -> bool:
    """Whether a value itself, or what it comes from, is about the device."""
    if isinstance(value, ir.Constant):
        return isinstance(value.value, str) and value.value.startswith(types)
    if not isinstance(value, (ir.Name, ir.Attribute, ir.Call)):
        return False
    if isinstance(value, ir.Attribute) and "torch.cuda.is_available" in module.names.of(value):
        return True
    leaves = values_of(module, value).leaves
    origins = dict.fromkeys((*(each.value for each in leaves), *(test.value for each in leaves for test in each.tests)))
    return any(each is not value and asks_for_device(module, each, *types) for each in origins)
