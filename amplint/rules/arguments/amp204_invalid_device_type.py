"""autocast's `device_type` is not a device type.

## What it does
Finds a `device_type` of `torch.autocast` (and of `custom_fwd`, `custom_bwd`) that is:

- a `torch.device`;
- a string with an index ("cuda:0", an f-string, `str(tensor.device)`);
- a number or None;
- a name that torch does not know ("gpu", "CUDA").

amplint follows variables and attributes as far as the file shows them. Two kinds of findings are warnings, and only
`likely`:

- `x.device`, if `x` is used as a tensor in the same function, or is an input of a model's `forward`;
- a parameter that is annotated as a `torch.device`. amplint doesn't report the parameter if the code compares it with a
  string, or a visible call passes a string.

## Why is this bad?
`device_type` has to be a string such as "cuda". Other values raise when the region is created: a `torch.device`, a
number or None raises ValueError (before torch 2.4 RuntimeError), and a name such as "gpu" raises RuntimeError.

What a string with an index does depends on the release of torch:

| torch | with "cuda:0" | the finding |
|---|---|---|
| before 2.4 | RuntimeError | is an error, if the project's requirements allow such a release |
| 2.4 and later, another dtype than float16 and bfloat16 | the region is disabled, with a warning | is a warning |
| 2.4 and later, float16 or bfloat16 | the region is enabled even without CUDA | is a *suspicion* (a note) |

If the project declares no release of torch, the code may run with an older one: the finding is a `likely` warning.

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
Safe: the fix writes `.type` of a device, or the name without its index. If a variable is used only as `device_type`,
the fix changes the value that the variable gets.

Unsafe:

- the finding is `likely`, or the value is a `torch.device` only with the default of an option;
- the value has an index, and the region's dtype can be another than float16 and bfloat16: the region is disabled before
  the fix, and enabled after it;
- `"cuda"` replaces the number of a CUDA device.

## Proof
Before the fix the test programs raise, or they enter a region for a device with an index. That region is disabled if
its dtype is float32, and enabled even on a machine without CUDA. After the fix, the region for "cuda" is enabled for
float32, and disabled on a machine without CUDA.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.config.defaults import DEVICES
from amplint.fixes.inherited_arguments import module_name
from amplint.model.inference.devices import Device, devices, is_used_as_text
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.python_types import kinds
from amplint.model.inference.values import values_of
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
    for call, value in _given(module):
        found = _judge(module, call, value)
        if found is not None:
            yield found


def _given(module: Module) -> Iterator[tuple[ir.Call, ir.Value]]:
    """The calls that take a device type, each with what it is given."""
    for call in module.calls_of(*_TAKES_TYPE):
        name = module.names.only(call.func)
        # The decorators take theirs by keyword alone.
        value = argument(call, AUTOCAST, "device_type") if name == AUTOCAST else call.keyword("device_type")
        if value is not None and name in _TAKES_TYPE:
            yield call, value


def _judge(module: Module, call: ir.Call, value: ir.Value) -> Finding | None:
    found = devices(module, value)
    shown = [each for each in found if not each.leaf.is_open] or found
    if all(each.kind == "object" for each in shown):
        return _object(module, value, found) if not is_used_as_text(module, value) else None
    if isinstance(value, ir.Constant) and not isinstance(value.value, (str, bool)):
        message = f'`device_type={module.text(value)}` raises ValueError; pass a string such as "cuda"'
        return rule.finding(module.span(value), message)
    if kinds(module, value) <= {"int", "float"}:
        fix = Fix(Applicability.UNSAFE, 'Replace with `"cuda"`', (_edit(module, value, '"cuda"'),))
        message = f'`{module.text(value)}` is a number: autocast raises ValueError; pass a string such as "cuda"'
        return rule.finding(module.span(value), message, fix=fix if _is_of_cuda(module, value) else None)
    for each in found:
        finding = _of_name(module, call, value, each)
        if finding is not None:
            return finding
    if _is_str_of_tensor_device(module, value):
        assert isinstance(value, ir.Call)
        what = f"`{module.text(value)}` has the device's index"
        return _with_index(module, (call, value), what, f"{module.text(value.positional[0])}.type")
    if all(_is_likely_object(module, each.value) for each in found):
        return _appending(module, value, f"`{module.text(value)}` is a tensor's `torch.device`", Confidence.LIKELY)
    return None


def _is_of_cuda(module: Module, value: ir.Value) -> bool:
    """Whether a value is the number of a CUDA device."""
    leaves = (each.value for each in values_of(module, value).leaves)
    return all(
        isinstance(each, ir.Call) and module.names.of(each.func) == {"torch.cuda.current_device"} for each in leaves
    )


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


def _object(module: Module, value: ir.Value, found: list[Device]) -> Finding:
    """The finding of a torch.device, by all that it can be."""
    text = module.text(value)
    if all(each.leaf.is_open for each in found):
        return _appending(module, value, f"`{text}` is annotated as a `torch.device`, not a string", Confidence.LIKELY)
    if all(each.kind == "object" for each in found):
        return _appending(module, value, f"`{text}` is a `torch.device`", applicability=Applicability.SAFE)
    return _appending(module, value, f"`{text}` is a `torch.device` by default")


def _appending(
    module: Module,
    value: ir.Value,
    what: str,
    confidence: Confidence | None = None,
    applicability: Applicability = Applicability.UNSAFE,
) -> Finding:
    """The finding whose fix appends `.type`; safe only where the value surely is a torch.device."""
    fix = Fix(applicability, "Append `.type`", (_edit(module, value, f"{_operand(module, value)}.type"),))
    return rule.finding(
        module.span(value),
        f"{what}: autocast raises ValueError; pass `{_operand(module, value)}.type`",
        fix=fix,
        confidence=confidence,
    )


def _of_name(module: Module, call: ir.Call, value: ir.Value, device: Device) -> Finding | None:
    """The finding of a string that autocast does not take."""
    if device.kind != "str" or device.name is None:
        return None
    if _has_index(device):
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
        return _with_index(module, (call, value), f"`{module.text(value)}` has an index", f'"{device.type}"')
    torch = module_name(module, "torch")
    text = f"{torch}.device({module.text(value)}).type" if torch else None
    # An f-string is known by its beginning only.
    name = repr(device.name) if isinstance(device.value, ir.Constant) else f"`{module.on_one_line(device.value)}`"
    what = f"`{module.text(value)}` can be {name} from {module.line(device.value)}, with an index"
    return _with_index(module, (call, value), what, text, device)


def _with_index(
    module: Module, given: tuple[ir.Call, ir.Value], what: str, text: str | None, device: Device | None = None
) -> Finding:
    """The finding of a name with an index; `device`: where a variable has it from, which other calls may have too."""
    call, value = given
    region = region_of(module, call)
    full = region is not None and region.dtype is not None and _may_be_full(module, region.dtype)
    effect, severity, confidence = _effect(module, full)
    together = _calls_with(module, value, device) if device is not None else [(call, value)]
    edits = _at_definition(module, value, together, device) if device is not None else None
    to_do = f"pass `{text}`" if text is not None else "pass only the device's type"
    if edits and device is not None:
        to_do = f'set `{module.text(value)}` to `"{device.type}"`'
    if edits is None and text is not None:
        edits = tuple(_edit(module, each, text) for _, each in together)
    fix = None
    if edits is not None:
        applicability = Applicability.UNSAFE if full else Applicability.SAFE
        fix = Fix(applicability, f"{to_do[0].upper()}{to_do[1:]}", edits)
    return rule.finding(
        module.span(value),
        f"{what}: {effect}; {to_do}",
        fix=fix,
        severity=severity,
        confidence=confidence,
        cause=f"device type {device.value.id}" if device is not None else "",
    )


def _effect(module: Module, full: bool) -> tuple[str, Severity, Confidence]:
    """What happens with an index, in words, and how grave that is; `full`: the dtype may be another than a half one."""
    if not module.target.guarantees("2.4"):
        return "torch before 2.4 raises RuntimeError", Severity.ERROR, Confidence.CERTAIN
    if full:
        effect = "in a dtype other than float16 and bfloat16, the region warns and is disabled"
        return effect, Severity.WARNING, Confidence.CERTAIN
    if not module.target.is_declared:
        return "torch before 2.4 raises RuntimeError", Severity.WARNING, Confidence.LIKELY
    effect = "on a machine without CUDA, the region is not disabled"
    return effect, Severity.NOTE, Confidence.SUSPICION


def _calls_with(module: Module, value: ir.Value, device: Device) -> list[tuple[ir.Call, ir.Value]]:
    """The calls of this file whose `device_type` is written like a value and can be the same device."""
    return [
        (call, each)
        for call, each in _given(module)
        if module.is_own(call)
        and module.text(each) == module.text(value)
        and any(other.value is device.value for other in devices(module, each))
    ]


def _at_definition(
    module: Module, value: ir.Value, together: list[tuple[ir.Call, ir.Value]], device: Device
) -> tuple[Edit, ...] | None:
    """The edits of what a variable is assigned, where it is read for `device_type` only; else None."""
    made = module.names.bound_once(value) if isinstance(value, ir.Name) else None
    if made is None or not isinstance(value, ir.Name) or not module.is_own(device.value):
        return None
    known = objects(module)
    key, given = known.own_key(value), [each for _, each in together]
    names = [each for each in module.whole.near(value.name).values if isinstance(each, ir.Name) and not each.bound]
    if any(each not in given for each in names if known.own_key(each) == key):
        return None
    indexed = {each.value: f'"{each.type}"' for each in devices(module, value) if _has_index(each)}
    if not indexed.keys() <= set(ir.walk_values(made.value)):
        return None
    return tuple(_edit(module, each, text) for each, text in indexed.items())


def _has_index(device: Device) -> bool:
    return device.kind == "str" and ":" in (device.name or "")


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
