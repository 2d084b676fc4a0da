"""Autocast regions for one device around code that the file puts on others: nothing there runs in half precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.inference.devices import device_of, devices
from amplint.model.inference.values import values_of
from amplint.model.names.version_guards import conditions_of
from amplint.model.objects.autocast_objects import Region
from amplint.model.syntax import ir
from amplint.model.usage.device_evidence import ACCELERATORS, evidence

if TYPE_CHECKING:
    from typing import TypeGuard

    from amplint.model import Module

_MANY = 16  # functions from which a region is looked for


class OnOther(NamedTuple):
    """A region for `device`, and a place that puts what runs in it on one of `others`."""

    device: str
    others: tuple[str, ...]
    place: ir.Value


def on_other(module: Module, region: Region) -> OnOther | None:
    """Which other devices a region's code is on; None if it may be on the region's, or nothing in sight is put there.

    A region for the CPU does nothing for several accelerators, too: on none of them it is open.
    """
    return module.once(_on_other, region)


def _on_other(module: Module, region: Region) -> OnOther | None:
    device = device_of(module, region) if not region.opaque else None
    if device not in {"cpu", *ACCELERATORS}:
        return None
    shown = evidence(module)
    others = shown.types - {"cpu"}
    if not others or device in others or not others <= ACCELERATORS:
        return None
    if device != "cpu":
        if len(others) > 1 or shown.chosen:
            return None
    elif "cpu" in shown.types or ".cpu(" in module.source.text or any(_is_open(module, each) for each in shown.chosen):
        return None
    places = [each for other in sorted(others) for each in shown.places[other]]
    place = next(
        (each for each in sorted(places, key=lambda each: each.id) if leads_to(module, each, region.call)), None
    )
    if place is None or (device == "cpu" and _conditions(place)):
        return None
    return OnOther(device, tuple(sorted(others)), place)


def left_to_the_cpu(module: Module, region: Region) -> list[str]:
    """The accelerators on which a region is one for the CPU, as its device type comes from a test of the device's name:
    `"cuda" if device.startswith("cuda") else "cpu"`, where `device` can be "mps".
    """
    if region.opaque or region.device_type is None or _conditions(region.call):
        return []
    found = set[str]()
    for leaf in values_of(module, region.device_type).leaves:
        if not isinstance(leaf.value, ir.Constant) or leaf.value.value != "cpu":
            continue
        for test in leaf.tests:
            asked = _asks_for_prefix(test.value)
            if asked is not None and test.truth is False and _is_used(module, asked[0]):
                names = {each.value.value for each in values_of(module, asked[0]).leaves if _is_text(each.value)}
                found |= {each for each in names & ACCELERATORS if not each.startswith(asked[1])}
    return sorted(found)


def _is_text(value: ir.Value) -> TypeGuard[ir.Constant]:
    return isinstance(value, ir.Constant) and isinstance(value.value, str)


def _asks_for_prefix(test: ir.Value) -> tuple[ir.Value, str] | None:
    """The variable of which a test asks whether its text has another one, and that: `"cuda" in device`."""
    if isinstance(test, ir.Compare) and test.ops == ("In",) and _is_text(test.left):
        return test.rights[0], str(test.left.value)
    base = ir.called_on(test, "startswith") if isinstance(test, ir.Call) else None
    if isinstance(test, ir.Call) and base is not None and test.positional and _is_text(test.positional[0]):
        return base, str(test.positional[0].value)
    return None


def _is_used(module: Module, device: ir.Value) -> bool:
    """Whether something is put on a device."""
    text = module.on_one_line(device)
    return any(module.on_one_line(each) == text for each in evidence(module).chosen)


def _is_open(module: Module, device: ir.Value) -> bool:
    """Whether a device that is chosen at run time may be any: not one of those that are written out."""
    return any(each.type is None for each in devices(module, device))


def _conditions(node: ir.Node) -> set[tuple[ir.Value, bool]]:
    """The tests that decide on a node with their outcome, but for `if __name__ == "__main__"`."""
    return {
        (test, holds)
        for test, holds in conditions_of(node)
        if not any(ir.last_name(part) == "__name__" for part in ir.walk_values(test))
    }


def leads_to(module: Module, place: ir.Value, region: ir.Call) -> bool:
    """Whether what is put on a device at `place` can be what runs in a region: by its function, class or callers."""
    home = ir.function_of(place)
    around: list[ir.Function | None] = [ir.function_of(region)]
    above, here = _conditions(place), _conditions(region)
    if not here <= above:
        return False  # the region may be for where the code is on another device
    if above:  # elsewhere the region may be for when the test fails
        return home is around[0] and place.id < region.id
    if home is None:
        return True
    for each in around:  # grows
        if each is home or (each is not None and _share_an_object(home, each)):
            return True
        calling = [ir.function_of(call) for call in callers(module, each)] if len(around) < _MANY else []
        outer = each.outer if each is not None else None
        around += [one for one in dict.fromkeys([*calling, outer]) if one not in around]
    return False


def _share_an_object(one: ir.Function, other: ir.Function) -> bool:
    """Whether two functions are methods of one class, and not two tests, which have an object each."""
    are_tests = one.name.startswith("test") and other.name.startswith("test")
    return one.cls is not None and one.cls is other.cls and not are_tests
