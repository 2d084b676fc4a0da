"""Which devices a value can be, and the devices that an autocast region can be for.

Only what the code shows counts: a device that comes from elsewhere is unknown, and unknown is an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import passed
from amplint.model.inference.values import Doubt, Leaf, asked, parameter_read, values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.torch_facts.names import OLD_AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module


# What `torch.accelerator.current_accelerator()` may be, of the devices that autocast has a default dtype for.
_ACCELERATORS = ("cuda", "xpu", "mps")


class Device(NamedTuple):
    """One device that a value can be. `kind` is "str", "object" (a torch.device) or "other"; `name` None: not known.

    `leaf`: what shows it, and when it is this one.
    """

    kind: str
    name: str | None
    value: ir.Value
    leaf: Leaf

    @property
    def type(self) -> str | None:
        """The name without an index."""
        return self.name.partition(":")[0] if self.name is not None else None


def region_devices(module: Module, region: Region) -> list[Device]:
    """The devices that a region can be for."""
    if region.device is not None:
        return [Device("str", region.device, region.call, Leaf(region.call))]
    if region.chosen is not None:
        leaves = values_of(module, region.chosen).leaves
        return [Device("str", _class_device(module, each.value), each.value, each) for each in leaves]
    if region.device_type is None:
        return []
    return devices(module, region.device_type)


def _class_device(module: Module, value: ir.Value) -> str | None:
    """The device of an old class, by its name."""
    return OLD_AUTOCAST.get(module.names.only(value) or "")


def types_of(module: Module, found: list[Device]) -> set[str | None]:
    """The types of some devices; of the accelerator that the machine has, whichever that is, those of all of them."""

    def is_any(each: Device) -> bool:
        made = each.leaf.value
        return isinstance(made, ir.Call) and module.names.of(made.func) == {"torch.accelerator.current_accelerator"}

    types: set[str | None] = set()
    for each in found:
        types.update(_ACCELERATORS if each.type is None and is_any(each) else (each.type,))
    return types


def device_of(module: Module, region: Region) -> str | None:
    """The one device type that a region is for; None where there are several, or where it is unknown."""
    found = {each.type for each in region_devices(module, region)}
    return found.pop() if len(found) == 1 else None


def devices(module: Module, value: ir.Value) -> list[Device]:
    """What a device-like value can be, by where it comes from; never empty."""
    unknown: tuple[Device, ...] = (Device("other", None, value, Leaf(value, is_open=True)),)
    return list(asked(module, _devices, value, unknown))


def _devices(module: Module, value: ir.Value) -> tuple[Device, ...]:
    return tuple(dict.fromkeys(each for leaf in values_of(module, value).leaves for each in _of_leaf(module, leaf)))


def _of_leaf(module: Module, leaf: Leaf) -> Iterator[Device]:
    value = leaf.value
    unknown = Device("other", None, value, leaf)
    if isinstance(value, ir.Attribute) and value.attr == "type":
        for each in devices(module, value.base):
            yield Device("str", each.type, value, each.leaf.under(leaf)) if each.kind == "object" else unknown
    elif leaf.is_open:
        yield unknown._replace(kind="object") if _is_said_to_be_one(module, value) else unknown
    elif isinstance(value, ir.Constant):
        yield _of_literal(value, leaf)
    elif (first := _first_of_text(value)) is not None:
        yield Device("str", _before_index(first), value, leaf)
    elif isinstance(value, ir.Call):
        yield from _made(module, value, leaf)
    elif isinstance(value, ir.Attribute) and value.attr == "device" and _is_tensor(module, value.base):
        yield Device("object", None, value, leaf)
    else:
        yield unknown


def _of_literal(value: ir.Constant, leaf: Leaf) -> Device:
    """The device that a literal names."""
    text = value.value if isinstance(value.value, str) else None
    return Device("str" if text is not None and leaf.doubt is not Doubt.REPLACED else "other", text, value, leaf)


def _before_index(first: ir.Value) -> str | None:
    """The device that a text begins with, where its index follows: `"cuda:"`."""
    said = first.value if isinstance(first, ir.Constant) else None
    return said if isinstance(said, str) and ":" in said else None


def _made(module: Module, call: ir.Call, leaf: Leaf) -> Iterator[Device]:
    """The devices that a call makes: of a name, or as text."""
    names = module.names.of(call.func)
    given = argument(call, "torch.device", "type")
    if given is not None and "torch.device" in names:
        yield from (each._replace(kind="object", leaf=each.leaf.under(leaf)) for each in devices(module, given))
    elif names & {"torch.device", "torch.accelerator.current_accelerator"}:
        yield Device("object", None, call, leaf)
    elif names == {"builtins.str"} and len(call.positional) == 1:
        yield from (
            each._replace(kind="str", leaf=each.leaf.under(leaf)) for each in devices(module, call.positional[0])
        )
    else:
        yield Device("other", None, call, leaf)


def _is_said_to_be_one(module: Module, value: ir.Value) -> bool:
    """Whether a parameter is annotated as a torch.device, and nothing in sight takes it for a text."""
    read = parameter_read(module, value)
    annotation = read[1].annotation if read is not None else None
    said = annotation is not None and module.names.of(annotation) == {"torch.device"}
    return said and not is_used_as_text(module, value) and not _is_given_text(module, value)


def _is_given_text(module: Module, value: ir.Value, depth: int = 4) -> bool:
    """Whether one of the file's calls gives a device's name for a parameter: `config.device.type`, `"cuda"`."""
    read = parameter_read(module, value)
    given = passed(module, read[0], read[1].name) if read is not None and depth else []
    return any(
        each is not None
        and (
            (isinstance(each, ir.Attribute) and each.attr == "type")
            or any(one.kind == "str" for one in devices(module, each))
            or is_used_as_text(module, each)
            or _is_given_text(module, each, depth - 1)
        )
        for each in given
    )


def is_used_as_text(module: Module, value: ir.Value) -> bool:
    """Whether code compares a variable or attribute with texts, which a torch.device never equals: `device != "cpu"`.

    Calls of texts' own methods count, too.
    """
    if not isinstance(value, (ir.Name, ir.Attribute)):
        return False
    known = objects(module)
    key = known.own_key(value)
    same = (each for each in module.whole.near(ir.last_name(value)).values if type(each) is type(value))
    return key is not None and any(known.own_key(each) == key and _is_text_at(each) for each in same)


def _is_text_at(value: ir.Value) -> bool:
    up = value.parent
    if isinstance(up, ir.Compare):
        others = [each for each in up.children() if each is not value]
        named = [item for each in others for item in (each.items if isinstance(each, ir.Sequence) else (each,))]
        return any(isinstance(each, ir.Constant) and isinstance(each.value, str) for each in named)
    method = up.attr if isinstance(up, ir.Attribute) and up.base is value else ""
    return method in ("startswith", "split", "lower", "strip", "partition")


def _first_of_text(value: ir.Value) -> ir.Value | None:
    """What a text begins with that is put together: `f"cuda:{rank}"`, `"cuda:" + rank`, `"cuda:{}".format(rank)`."""
    if isinstance(value, ir.FString):
        return value.parts[0] if value.parts else value
    if isinstance(value, ir.Binary) and value.op in ("Add", "Modulo"):
        first = _first_of_text(value.left) or value.left
        return first if isinstance(first, ir.Constant) and isinstance(first.value, str) else None
    pattern = ir.called_on(value, "format")
    return pattern if isinstance(pattern, ir.Constant) else None


def _is_tensor(module: Module, value: ir.Value) -> bool:
    """`next(model.parameters())`: surely a tensor."""
    return (
        isinstance(value, ir.Call)
        and "builtins.next" in module.names.of(value.func)
        and bool(value.positional)
        and isinstance(value.positional[0], ir.Call)
        and isinstance(value.positional[0].func, ir.Attribute)
        and value.positional[0].func.attr in ("parameters", "buffers")
    )
