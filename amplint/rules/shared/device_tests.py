"""Tests of a torch.device that compare it with a text, which it never equals, and that decide about AMP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.inference.devices import devices
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import Doubt
from amplint.model.objects.amp_objects import scaler_arguments
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.torch_facts.names import SCALERS
from amplint.rules.shared.precision_tests import half_dtype, names_switch

if TYPE_CHECKING:
    from amplint.model import Module

_ACCELERATORS = ("cuda", "xpu", "mps", "npu", "hpu")
_OPS = ("Equal", "NotEqual", "In", "NotIn")


def device_tests(module: Module) -> list[tuple[ir.Compare, ir.Value]]:
    """The file's comparisons of a torch.device with the name of an accelerator, on which AMP hangs, and the device.

    A comparison with "cpu" is left out: that it is never true leaves AMP on.
    """
    found = {}
    for test in module.own.near(*_ACCELERATORS).values:
        if isinstance(test, ir.Compare) and (device := _device_in(module, test)) is not None:
            found[test.id] = (test, device)
    if not found:
        return []
    deciding = {each.id for value in _deciding(module) for each in ir.walk_values(value)}
    return [each for number, each in found.items() if number in deciding or _is_kept_as_switch(each[0])]


def _device_in(module: Module, test: ir.Compare) -> ir.Value | None:
    """The side of a comparison that is surely a torch.device, where the other one is texts."""
    if len(test.ops) != 1 or test.ops[0] not in _OPS:
        return None
    pairs = [(test.left, test.rights[0])]
    if test.ops[0] in _OPS[:2]:
        pairs.append((test.rights[0], test.left))
    for device, other in pairs:
        texts = other.items if isinstance(other, ir.Sequence) and test.ops[0] in _OPS[2:] else (other,)
        if all(isinstance(each, ir.Constant) and _names_accelerator(each.value) for each in texts) and texts:
            known = devices(module, device)
            if all(each.kind == "object" and each.leaf.doubt < Doubt.GUESSED for each in known):
                return device
    return None


def _names_accelerator(text: object) -> bool:
    return isinstance(text, str) and text.partition(":")[0] in _ACCELERATORS


def _deciding(module: Module) -> Iterator[ir.Value]:
    """What decides whether regions and scalers are on, and on a half type; variables with their values."""
    known = decided(module)
    for value in _asked(module):
        yield value
        for part in ir.walk_values(value):
            if isinstance(part, (ir.Name, ir.Attribute)):
                yield from (each.value for each in known.alternatives(part))


def _asked(module: Module) -> Iterator[ir.Value]:
    switches = [(each.call, each.enabled) for each in regions(module)]
    switches += [(each, scaler_arguments(module, each).get("enabled")) for each in module.calls_of(*SCALERS)]
    for call, enabled in switches:
        if enabled is not None:
            yield enabled
        yield from (test for test, _ in conditions_round(call))
    for value in module.own.near("float16", "half", "bfloat16").values:
        if isinstance(value, (ir.Name, ir.Attribute)) and half_dtype(module, value) is not None:
            yield from (test for test, _ in conditions_round(value))


def _is_kept_as_switch(test: ir.Value) -> bool:
    """Whether a test is a part of what a switch of AMP gets, by its name: `use_amp = device == "cuda"`."""
    value: ir.Node = test
    while isinstance(value.parent, (ir.Bool, ir.Unary, ir.Conditional)):
        value = value.parent
    up = value.parent
    if isinstance(up, ir.Assign):
        return any(names_switch(ir.last_name(each)) for each in up.targets)
    if isinstance(up, ir.Call):
        return any(arg.value is value and names_switch(arg.keyword or "") for arg in up.args)
    return False
