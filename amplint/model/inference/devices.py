"""Reader 3: on which device the code trains, and what an autocast region is made of.

Only what the code shows counts: a device that comes from elsewhere is unknown, and unknown is an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.argparse_options import option
from amplint.model.names.reaching_definitions import function_named, reaching, returned
from amplint.model.names.tables import items_at
from amplint.model.objects.autocast_objects import Region
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Defined, Other
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from amplint.model import Module


_FOLLOW = 6
_DTYPES = {f"torch.{name}" for name in ("float16", "half", "bfloat16", "float32", "float", "float64", "double")}


class Device(NamedTuple):
    """One device that a value can be. `kind` is "str", "object" (a torch.device) or "other"; `name` None: not known."""

    kind: str
    name: str | None
    value: ir.Value

    @property
    def type(self) -> str | None:
        """The name without an index."""
        return self.name.partition(":")[0] if self.name is not None else None


def region_devices(module: Module, region: Region) -> list[Device]:
    """The devices that a region can be for."""
    if region.device is not None:
        return [Device("str", region.device, region.call)]
    if region.device_type is None:
        return []
    return devices(module, region.device_type)


def devices(module: Module, value: ir.Value, depth: int = _FOLLOW) -> list[Device]:
    """What a device-like value can be, by where it comes from; never empty."""
    if depth == 0:
        return [Device("other", None, value)]
    if isinstance(value, ir.Constant):
        return [Device("str", value.value, value) if isinstance(value.value, str) else Device("other", None, value)]
    if isinstance(value, ir.Conditional):
        return devices(module, value.then, depth - 1) + devices(module, value.other, depth - 1)
    if isinstance(value, ir.Bool) and value.op == "or":
        return devices(module, value.left, depth - 1) + devices(module, value.right, depth - 1)
    if (first := _first_of_text(value)) is not None:
        said = first.value if isinstance(first, ir.Constant) else None
        return [Device("str", said if isinstance(said, str) and ":" in said else None, value)]
    if isinstance(value, ir.Call):
        return _made_device(module, value, depth)
    if isinstance(value, ir.Attribute):
        return _attribute_device(module, value, depth)
    if isinstance(value, ir.Name):
        return _named_device(module, value, depth)
    if isinstance(value, ir.Subscript) and isinstance(value.index, ir.Constant):
        kept = items_at(module, value.base, value.index.value)
        return [each for item in kept for each in devices(module, item, depth - 1)] or [Device("other", None, value)]
    return [Device("other", None, value)]


def _first_of_text(value: ir.Value) -> ir.Value | None:
    """What a text begins with that is put together: `f"cuda:{rank}"`, `"cuda:" + rank`, `"cuda:{}".format(rank)`."""
    if isinstance(value, ir.FString):
        return value.parts[0] if value.parts else value
    if isinstance(value, ir.Binary) and value.op in ("Add", "Modulo"):
        first = _first_of_text(value.left) or value.left
        return first if isinstance(first, ir.Constant) and isinstance(first.value, str) else None
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr == "format":
        return value.func.base if isinstance(value.func.base, ir.Constant) else None
    return None


def _made_device(module: Module, call: ir.Call, depth: int) -> list[Device]:
    names = module.names.of(call.func)
    if names & {"torch.device", "torch.accelerator.current_accelerator"}:
        if call.positional and "torch.device" in names:
            return [each._replace(kind="object") for each in devices(module, call.positional[0], depth - 1)]
        return [Device("object", None, call)]
    if names == {"builtins.str"} and len(call.positional) == 1:
        return [each._replace(kind="str") for each in devices(module, call.positional[0], depth - 1)]
    if isinstance(call.func, ir.Attribute) and call.func.attr == "get" and len(call.positional) == 2:
        return [Device("other", None, call), *devices(module, call.positional[1], depth - 1)]
    function = function_named(module, call.func) if isinstance(call.func, ir.Name) else None
    if function is not None and not function.is_generator and not function.is_async:
        made = [each.value for each in returned(function) if each.value is not None]
        return [each for value in made for each in devices(module, value, depth - 1)] or [Device("other", None, call)]
    return [Device("other", None, call)]


def _attribute_device(module: Module, value: ir.Attribute, depth: int) -> list[Device]:
    if value.attr == "type":
        return [
            Device("str", each.type, value) if each.kind == "object" else Device("other", None, value)
            for each in devices(module, value.base, depth - 1)
        ]
    if owner_class(value) is not None and (stored := list(module.names.stored(value)) or _of_class(value)):
        found: list[Device] = []
        for each in stored:
            found += devices(module, each, depth - 1) if each is not None else [Device("other", None, value)]
        return found
    if value.attr == "device" and _is_tensor(module, value.base):
        return [Device("object", None, value)]
    return _option(module, value) or [Device("other", None, value)]


def _of_class(value: ir.Attribute) -> list[ir.Value | None]:
    """What its class's body sets an attribute of `self` to, where that is one thing, and no dataclass's default."""
    cls = owner_class(value)
    bindings = cls.scope.bindings.get(value.attr, []) if cls is not None else []
    only = bindings[0] if len(bindings) == 1 else None
    made = ir.statement_of(only.target) if isinstance(only, Assigned) else None
    plain = isinstance(made, ir.Assign) and made.annotation is None
    return [only.value] if isinstance(only, Assigned) and plain else []


def _option(module: Module, value: ir.Attribute) -> list[Device]:
    """What `args.device` can be: the default of its argparse option, and its choices; else anything."""
    found = option(module, value)
    if found is None or not found.is_text:
        return []
    kind = "other" if found.changed else "str"  # `args.device = torch.device(args.device)`
    made = [Device(kind, each.value, value) for each in found.values() if isinstance(each.value, str)]
    return list(dict.fromkeys(made)) if found.choices and not found.changed else [*made, Device(kind, None, value)]


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


def _named_device(module: Module, value: ir.Name, depth: int) -> list[Device]:
    found: list[Device] = []
    for binding in reaching(module.names, value):
        if isinstance(binding, Assigned):
            found += devices(module, binding.value, depth - 1)
        elif isinstance(binding, Other) and isinstance(binding.node, ir.Function):
            found += _parameter_device(module, binding.node, value, depth)
        elif not isinstance(binding, Defined):
            found.append(Device("other", None, value))
    return found or [Device("other", None, value)]


def _parameter_device(module: Module, function: ir.Function, value: ir.Name, depth: int) -> list[Device]:
    param = function.param(value.name)
    if param is None:
        return [Device("other", None, value)]
    annotated = param.annotation is not None and module.names.of(param.annotation) == {"torch.device"}
    found = [Device("object" if annotated else "other", None, value)]
    if param.default is not None:
        found += [each for each in devices(module, param.default, depth - 1) if each.name is not None]
    return found


def is_old_first(module: Module, value: ir.Value) -> bool:
    """Whether a first argument of autocast is one that the old classes take there: a bool or a dtype."""
    if isinstance(value, ir.Constant):
        return isinstance(value.value, bool)
    return bool(module.names.of(value) & _DTYPES)


def is_bool(module: Module, value: ir.Value, depth: int = _FOLLOW) -> bool:
    """Whether a value is evidently a bool: a literal, a test, or a name that is only ever bound to such."""
    if isinstance(value, ir.Constant):
        return isinstance(value.value, bool)
    if isinstance(value, ir.Compare) or (isinstance(value, ir.Unary) and value.op == "Not"):
        return True
    if isinstance(value, ir.Bool):
        return is_bool(module, value.left, depth) and is_bool(module, value.right, depth)
    if isinstance(value, ir.Conditional):
        return is_bool(module, value.then, depth) and is_bool(module, value.other, depth)
    if isinstance(value, ir.Call):
        return bool(module.names.of(value.func) & {"builtins.bool", "builtins.isinstance", "torch.cuda.is_available"})
    if isinstance(value, ir.Name) and depth:
        bindings = module.names.bindings(value)
        return bool(bindings) and all(_binds_bool(module, each, value.name, depth) for each in bindings)
    if isinstance(value, ir.Attribute) and depth and owner_class(value) is not None:
        stored = list(module.names.stored(value))
        return bool(stored) and all(each is not None and is_bool(module, each, depth - 1) for each in stored)
    return False


def _binds_bool(module: Module, binding: object, name: str, depth: int) -> bool:
    if isinstance(binding, Assigned):
        return is_bool(module, binding.value, depth - 1)
    if isinstance(binding, Other) and isinstance(binding.node, ir.Function):
        param = binding.node.param(name)
        if param is None:
            return False
        if param.annotation is not None:
            return module.names.of(param.annotation) == {"builtins.bool"}
        return isinstance(param.default, ir.Constant) and isinstance(param.default.value, bool)
    return False
