"""autocast's `device_type` is not a device type.

## What it does
Finds a `device_type` of `torch.autocast` (and of `custom_fwd`, `custom_bwd`) that is a `torch.device`, a string with an
index ("cuda:0", an f-string, `str(tensor.device)`), a number or None, or a name that torch does not know ("gpu",
"CUDA"). It follows variables and attributes as far as the file shows them. `x.device` is likely a `torch.device` if `x`
is used as a tensor in the same function, or is an input of a model's `forward`.

## Why is this bad?
`device_type` has to be a string such as "cuda". A `torch.device` raises ValueError, "gpu" RuntimeError. "cuda:0" raises
up to torch 2.3; later releases accept it but skip the check that CUDA is available. So it is a warning, and an error
only if the project allows torch 2.3.

## Example
```python
device = torch.device("cuda:0")
with torch.autocast(device_type=device):
    loss = criterion(model(batch), target)
```

## Use instead
```python
device = torch.device("cuda:0")
with torch.autocast(device_type=device.type):
    loss = criterion(model(batch), target)
```

## Fix safety
Safe: `.type` of a device, the name without its index. Unsafe if it is only likely a device, and if the region's dtype
is not a half type, or may not be one: with an index such a region disables itself, without it stays enabled.

## Proof
The fixtures raise before, or (with an index) run as an unchecked region; after the fix they run, with the same dtype in
the region.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.config.defaults import DEVICES
from amplint.fixes.inherited_arguments import module_name
from amplint.model.inference.devices import Device, devices
from amplint.model.inference.dtypes import dtypes
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.torch_facts.names import AUTOCAST
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast", "custom_fwd", "custom_bwd"),
    shown_by=("exception",),
    simulated=True,
)

_TAKES_TYPE = {AUTOCAST, "torch.amp.custom_fwd", "torch.amp.custom_bwd"}
# Attributes that only tensors have, among what has a device.
_OF_TENSORS = (
    "shape", "ndim", "size", "dim", "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "flatten",
    "mean", "sum", "backward",
)  # fmt: skip
# Objects whose `device` is often a string, not a torch.device.
_SETTINGS = ("self", "args", "opt", "opts", "config", "cfg", "hparams", "params", "conf", "options", "hps", "flags")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each device_type that is not the plain name of a device type, by the first thing that shows it."""
    for call in module.calls_of(*_TAKES_TYPE):
        name = module.names.only(call.func)
        if name not in _TAKES_TYPE:
            continue
        # The decorators take theirs by keyword alone.
        value = argument(call, AUTOCAST, "device_type") if name == AUTOCAST else call.keyword("device_type")
        if value is not None:
            found = _judge(module, call, value)
            if found is not None:
                yield found


def _judge(module: Module, call: ir.Call, value: ir.Value) -> Finding | None:
    found = devices(module, value)
    shown = [each for each in found if not each.leaf.is_open] or found
    if all(each.kind == "object" for each in shown):
        return _object(module, value, surely=all(each.kind == "object" for each in found))
    if isinstance(value, ir.Constant) and not isinstance(value.value, (str, bool)):
        message = f'`device_type={module.text(value)}` raises ValueError; pass a string such as "cuda"'
        return rule.finding(module.span(value), message)
    for each in found:
        finding = _of_name(module, call, value, each)
        if finding is not None:
            return finding
    if _is_str_of_tensor_device(module, value):
        assert isinstance(value, ir.Call)
        what = f"`{module.text(value)}` has the index of the tensor's device"
        return _with_index(module, call, value, what, f"{module.text(value.positional[0])}.type")
    if all(_is_likely_object(module, each.value) for each in found):
        return _object(module, value, surely=False)._replace(
            message=f"`{module.text(value)}` is a tensor's `torch.device`: autocast raises ValueError; pass "
            "its `.type`",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
        )
    return None


def _is_likely_object(module: Module, value: ir.Value) -> bool:
    """`x.device`, where x is used as a tensor in the same function."""
    if not isinstance(value, ir.Attribute) or value.attr != "device" or not isinstance(value.base, ir.Name):
        return False
    if value.base.name in _SETTINGS:
        return False
    known = objects(module)
    key = known.own_key(value.base)
    return any(
        isinstance(each, ir.Attribute)
        and each.attr in _OF_TENSORS
        and isinstance(each.base, ir.Name)
        and known.own_key(each.base) == key
        for each in module.whole.within(ir.function_of(value)).values
    ) or _is_input(module, value.base)


def _is_input(module: Module, name: ir.Name) -> bool:
    """Whether a name is a parameter of a model's `forward`, and not the model."""
    function = ir.parameter_of(module.names.only_binding(name))
    return (
        function is not None
        and function.name == "forward"
        and function.cls is not None
        and name.name not in [each.name for each in function.params[:1]]
        and any(each.endswith("Module") for base in function.cls.bases for each in module.names.of(base.value))
    )


def _object(module: Module, value: ir.Value, *, surely: bool) -> Finding:
    applicability = Applicability.SAFE if surely else Applicability.UNSAFE
    fix = Fix(applicability, "Append `.type`", (_edit(module, value, f"{_operand(module, value)}.type"),))
    what = f"`{module.text(value)}` is a `torch.device`{'' if surely else ' by default'}"
    message = f"{what}: autocast raises ValueError; pass its `.type`"
    return rule.finding(module.span(value), message, fix=fix)


def _of_name(module: Module, call: ir.Call, value: ir.Value, device: Device) -> Finding | None:
    """The finding of a string that autocast does not take."""
    if device.kind != "str" or device.name is None:
        return None
    if ":" in device.name:
        return _indexed(module, call, value, device)
    return _misnamed(module, value, device) if _is_misnamed(device.name) else None


def _is_misnamed(name: str) -> bool:
    """Whether a name is of no device type, and nearly one's."""
    return name not in DEVICES and (name.lower() in DEVICES or name.lower() == "gpu" or not name)


def _misnamed(module: Module, value: ir.Value, device: Device) -> Finding:
    right = "cuda" if device.name is not None and device.name.lower() == "gpu" else (device.name or "").lower()
    message = f"torch has no device type {device.name!r}: autocast raises RuntimeError"
    fix = None
    if right and device.value is value:
        fix = Fix(Applicability.SAFE, f'Replace with "{right}"', (_edit(module, value, f'"{right}"'),))
    return rule.finding(module.span(value), f'{message}; use "{right or "cuda"}"', fix=fix)


def _indexed(module: Module, call: ir.Call, value: ir.Value, device: Device) -> Finding:
    if device.value is value:
        return _with_index(module, call, value, f"`{module.text(value)}` has an index", f'"{device.type}"')
    torch = module_name(module, "torch")
    text = f"{torch}.device({module.text(value)}).type" if torch else None
    where = module.line(device.value)
    return _with_index(
        module, call, value, f"`{module.text(value)}` can be {device.name!r} ({where}), which has an index", text
    )


def _with_index(module: Module, call: ir.Call, value: ir.Value, what: str, text: str | None) -> Finding:
    refused = not module.target.guarantees("2.4")
    effect = ": torch before 2.4 raises RuntimeError" if refused else ": autocast's device checks don't recognize it"
    message = f"{what}{effect}; pass only the type"
    fix = None
    if text is not None:
        region = region_of(module, call)
        other = region is not None and region.dtype is not None and _may_be_full(module, region.dtype)
        applicability = Applicability.UNSAFE if other else Applicability.SAFE
        fix = Fix(applicability, f"Pass `{text}`", (_edit(module, value, text),))
    return rule.finding(module.span(value), message, fix=fix, severity=Severity.ERROR if refused else Severity.WARNING)


def _may_be_full(module: Module, value: ir.Value) -> bool:
    """Whether the file shows that a region can be given a dtype that it does not take, and switches itself off."""
    return any(
        each.name in ("float32", "float64")
        or (isinstance(each.value, ir.Call) and module.names.of(each.value.func) == {"torch.get_default_dtype"})
        for each in dtypes(module, value)
    )


def _is_str_of_tensor_device(module: Module, value: ir.Value) -> bool:
    """`str(x.device)`, where x is a variable and no bundle of settings."""
    if not isinstance(value, ir.Call) or module.names.of(value.func) != {"builtins.str"} or len(value.positional) != 1:
        return False
    device = value.positional[0]
    return (
        isinstance(device, ir.Attribute)
        and device.attr == "device"
        and isinstance(device.base, ir.Name)
        and device.base.name not in _SETTINGS
    )


def _operand(module: Module, value: ir.Value) -> str:
    text = module.text(value)
    return text if isinstance(value, (ir.Name, ir.Attribute, ir.Call)) else f"({text})"


def _edit(module: Module, value: ir.Value, text: str) -> Edit:
    return Edit(*module.layout.outer(value), text)
