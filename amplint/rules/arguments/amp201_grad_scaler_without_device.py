"""A `torch.amp.GradScaler` is created without its device, which is cuda by default.

## What it does
Finds `torch.amp.GradScaler(...)` without `device`.

amplint reports nothing if the default, cuda, is right. cuda is right in each of these cases:

- everything in the file is on cuda;
- all autocast regions of the file are for cuda, or are enabled only on cuda (`enabled=device.type == "cuda"`);
- each loss that the scaler scales comes from a region for cuda, or from one that is float16 on cuda and bfloat16 on the
  CPU;
- each region gets its device from other files and has no dtype, and these files name cuda, no other accelerator, and no
  option for the device: a region on the CPU is then bfloat16;
- the file has no losses and no regions, and all regions in the files that import it, or that it imports, are for cuda;
- an assert or an `if` ends the program without CUDA before the scaler is created or used;
- a call before the scaler raises without CUDA (`torch.cuda.set_device`, `torch.cuda.Event`, `.cuda()`).

amplint also reports nothing if:

- the arguments are unpacked (`**kwargs`);
- the call has `enabled=False`;
- `enabled`, or an `if` around the scaler, checks the device;
- `enabled` comes from a settings object, and the code raises for any device but cuda before it creates that object with
  True.

## Why is this bad?
The default device is cuda, on every machine. Without CUDA the scaler warns and disables itself. `scale()` then returns
the loss unchanged, small float16 gradients become zero, and infinities reach the weights. In a test with a loss of
about 1e-4 (not one of the programs below), 3.7 % of the gradients became zero, and the update was off by 10 %.

The finding is an error if a region can run in float16 on a device other than cuda: its dtype is float16, or float16 is
the default on its device (xpu, mps). It is a warning that names the setting if float16 needs a setting other than the
default, and a warning if the file trains on another accelerator in a dtype that amplint doesn't see. It is *likely* if
another file names such an accelerator, and if the file shows neither a region nor a scaled loss.

Otherwise it is a *suspicion*. On the CPU, regions are bfloat16 by default, and a disabled scaler is then right.

## Example
```python
scaler = torch.amp.GradScaler()
with torch.autocast(device.type, dtype=torch.float16):
    loss = criterion(model(batch), target)
```

## Use instead
```python
scaler = torch.amp.GradScaler(device.type)
```

## Fix safety
The fix writes a device type, never an index. Safe:

- all regions of the file name the same device, and the fix writes that device;
- all regions of the file are float16 on cuda and bfloat16 on the CPU, and amplint can't see from which region each
  scaled loss comes (if it can, there is no finding). The fix writes cuda, as a disabled scaler does no harm on the CPU;
- the file shows no device, and the fix writes cuda because the configuration has `device = "cuda"`.

Unsafe:

- the device is chosen when the program runs. The fix writes the device that an autocast call gets (`args.device`,
  `device.type`);
- the device is not cuda, and the file loads a scaler's state or calls `scaler.step` with a closure. The scaler was
  disabled before the fix: its saved state is empty, and an enabled scaler doesn't load an empty state. An enabled
  scaler also raises for a closure;
- the device is xpu, or mps before torch 2.8: `unscale_` may raise because it needs float64;
- the file shows no device, and the configuration names another `device` than cuda.

## Proof
Without CUDA the test program's scaler disables itself with a warning, and its gradients underflow. After the fix, the
gradients agree with the float32 reference within float16's rounding.

With `--device cpu`, `amplint verify` shows the warning in your own step. Without that option, code that names cuda is
checked on cuda, where the scaler is right. Add `--unsafe-fixes` to check unsafe fixes too.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
- [GradScaler on mps](https://github.com/pytorch/pytorch/issues/142397)
- torch/amp/grad_scaler.py: GradScaler disables itself if `device == "cuda" and not torch.cuda.is_available()`"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.base.paths import contents, remembered
from amplint.base.reads import is_file
from amplint.fixes.device_choice import Choice, choose
from amplint.fixes.edits import add_first_argument
from amplint.model.inference.devices import device_of, region_devices
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.formulas import both, negated, possible
from amplint.model.inference.given_fields import given_field
from amplint.model.inference.value_sets import ON_CUDA, OTHER_ACCELERATORS, decided, is_vague
from amplint.model.inference.values import Test
from amplint.model.module import build
from amplint.model.names.version_guards import tests_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.project.importers import in_reach, surely_lack
from amplint.model.syntax import ir
from amplint.model.syntax.lazy_lowering import CannotRead
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import DEFAULT_DTYPE, SCALER
from amplint.model.usage.device_evidence import asks_for_device, device_is_asked, evidence
from amplint.model.usage.requires_cuda import needs_cuda
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import needed_setting, with_setting
from amplint.rules.shared.enabled_flags import scaled_by
from amplint.sources.load import load
from amplint.sources.source import SourceError

if TYPE_CHECKING:
    from amplint.base.target import Target
    from amplint.model import Module

# More files with regions than this are not read for one scaler.
_MOST_FILES = 40
# Where autocast's default is float16, and the scaler's default device is wrong.
_FLOAT16_DEVICES = {each for each, dtype in DEFAULT_DTYPE.items() if dtype == "float16"} - {"cuda"}
# What other files show of the devices that they choose.
_CUDA = re.compile(rb"\bcuda\b")
_OTHER_DEVICES = re.compile(rf"\b(?:{'|'.join(OTHER_ACCELERATORS)})\b|ccelerator|--device\b".encode())

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("GradScaler",),
    shown_by=("warning",),
    simulated=True,
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Constructions of the new scaler that leave the device open."""
    for call in module.calls_of(SCALER):
        if not _leaves_device_open(module, call) or device_is_asked(module, call):
            continue
        if _is_for_cuda(module) or _scales_on_cuda(module, call) or _needs_cuda(module, call):
            continue
        if _is_on_cuda_or_cpu(module):
            continue
        by_setting = _for_cuda_by_setting(module, call)
        if by_setting is Confidence.CERTAIN:
            continue
        other = _float16_elsewhere(module)
        fix, withheld = _fix(module, call)
        yield rule.finding(
            module.span(call),
            _message(module, other),
            fix=fix,
            withheld=withheld,
            severity=Severity.ERROR if other is not None and other.setting is None else None,
            confidence=by_setting if other is not None or by_setting is not None else _confidence(module, call),
        )


def _confidence(module: Module, call: ir.Call) -> Confidence:
    """How sure it is that the disabled scaler does harm, where no region is known to be float16 without CUDA.

    Certain where the file trains on another accelerator, or all its regions are for another device. Likely where a
    region may be for a device whose default is float16, where another file of the program names such a device, and
    where the file shows neither a device nor losses. Else a suspicion: on the CPU a region is bfloat16 by default, and
    a disabled scaler is then right.
    """
    if evidence(module).types - {"cuda", "cpu"} or _only_device(module) is not None:
        return Confidence.CERTAIN
    on = [each for each in regions(module) if not is_false(each.enabled)]
    if not on and not scaled_by(module, call) and not _has_other_arm(module, call):
        return Confidence.LIKELY
    shown = [each for each in on if not each.opaque]
    if any((each.device_type is None and not each.is_old) or _types(module, each) & _FLOAT16_DEVICES for each in shown):
        return Confidence.LIKELY
    unknown = any(each.dtype is None and None in (_types(module, each) or {None}) for each in shown)
    return Confidence.LIKELY if unknown and _names_float16_device(module) else Confidence.SUSPICION


def _has_other_arm(module: Module, call: ir.Call) -> bool:
    """Whether the function also creates a scaler with a device: this call is then for releases that take none."""
    function = ir.function_of(call)
    others = (each for each in module.calls_of(SCALER) if each is not call and ir.function_of(each) is function)
    return function is not None and any(not _leaves_device_open(module, each) for each in others)


def _names_float16_device(module: Module) -> bool:
    """Whether another file, by imports, names a device other than cuda on which autocast's default is float16."""
    path = os.path.abspath(module.source.filename)
    return is_file(path) and any(in_reach(path, each.encode()) for each in sorted(_FLOAT16_DEVICES))


class _Elsewhere(NamedTuple):
    """A region that can run in float16 on a device other than cuda, and the setting without which it doesn't."""

    region: ir.Call
    setting: Test | None


def _types(module: Module, region: Region) -> set[str | None]:
    return {each.type for each in region_devices(module, region)}


def _for_cuda_by_setting(module: Module, call: ir.Call) -> Confidence | None:
    """How sure it is that a setting enables a scaler on cuda alone: `enabled` is a field of a class of settings, and
    where the objects are made with it true, other devices have raised, or been left out. None: it is not so.

    Another file that makes such objects may enable it elsewhere.
    """
    enabled = call.keyword("enabled")
    found = given_field(module, enabled) if enabled is not None else None
    known = decided(module)
    if found is None:
        return None
    cls, given = found
    on = [both(known.inside(each.made), known.of(each.value)) for each in given]
    if any(is_vague(each) or possible(each, negated(ON_CUDA)) is not None for each in on):
        return None
    made_here = surely_lack(module.source.filename, re.compile(rb"\b%s\s*\(" % cls.name.encode()))
    return Confidence.CERTAIN if made_here else Confidence.LIKELY


def _leaves_device_open(module: Module, call: ir.Call) -> bool:
    """Whether a construction of the new scaler, one that can be on, is given no device."""
    if module.names.only(call.func) != SCALER or call.unpacks() or call.positional:
        return False
    given = call.keyword("device") or call.keyword("device_type")  # the latter is AMP107's
    return given is None and not is_false(call.keyword("enabled"))


def _message(module: Module, other: _Elsewhere | None) -> str:
    """What is wrong, and what a region that can run in float16 elsewhere loses by it."""
    device = _only_device(module)
    message = "`GradScaler` without `device` is for cuda"
    if other is not None:
        where = device if device is not None else "other devices"
        effect = f": small gradients of the float16 region on {module.line(other.region)} become 0 on {where}"
        needed = with_setting(module, other.setting) if other.setting is not None else ""
        return f"{needed}{message}, and is disabled without CUDA{effect}; pass the device"
    if device is not None:
        region = f"the region on {module.line(regions(module)[0].call)}"
        return f"{message}, but {region} is for {device}: without CUDA the scaler is disabled; pass the device"
    return f"{message}, and is disabled without CUDA; pass the device"


def _only_device(module: Module) -> str | None:
    """The device that all regions of the file are for, where it is another one than cuda."""
    types = {each.type for region in regions(module) for each in region_devices(module, region)}
    return types.pop() if len(types) == 1 and "cuda" not in types else None


def _is_for_cuda(module: Module) -> bool:
    """Whether all that the scaler can scale is on cuda alone, as far as the file shows: it is, too, by default."""
    shown = evidence(module)
    on = [each for each in regions(module) if not is_false(each.enabled)]
    if on and all(device_of(module, each) == "cuda" for each in on):
        return True  # elsewhere the regions are off as well
    if shown.types - {"cuda", "cpu"}:
        return False
    if on:
        return all(_is_on_cuda(module, each) for each in on)
    return "cuda" in shown.types and not shown.chosen


def _scales_on_cuda(module: Module, call: ir.Call) -> bool:
    """Whether all losses that a scaler is seen to scale come out of regions that are not float16 but on cuda."""
    if evidence(module).types - {"cuda", "cpu"}:
        return False
    losses = scaled_by(module, call)
    if not losses:
        return not regions(module) and _project_is_on_cuda(module)
    return all(
        each.entered
        and not each.unseen
        and all(_is_on_cuda(module, of.region) or _is_full_elsewhere(module, of.region) for of in each.entered)
        for each in losses
    )


def _project_is_on_cuda(module: Module) -> bool:
    """Whether the files that this one has to do with, by imports, have regions, and all of them are on cuda."""
    path = os.path.abspath(module.source.filename)
    files = in_reach(path, b"autocast") if is_file(path) else None
    if files is None or len(files) > _MOST_FILES:
        return False
    found = [_opens_on_cuda(each, module.target) for each in files if each != path]
    return True in found and False not in found


@remembered
def _opens_on_cuda(path: str, target: Target) -> bool | None:
    """Whether all regions of a file are on cuda alone; None where it has none that can be on."""
    try:
        other = build(load(contents(path), path), target)
    except (OSError, SourceError, CannotRead):
        return False
    on = [each for each in regions(other) if not is_false(each.enabled)]
    return all(_is_on_cuda(other, each) for each in on) if on else None


def _is_on_cuda_or_cpu(module: Module) -> bool:
    """Whether all regions have their device's default dtype, and the device, which comes from other files, is cuda or
    the CPU: their programs name no other accelerator, and no option for the device.
    """
    on = [each for each in regions(module) if not is_false(each.enabled)]
    if not on or not all(each.dtype is None and not each.opaque for each in on):
        return False
    types = {each.type for region in on for each in region_devices(module, region)} | evidence(module).types
    if None not in types or types - {"cuda", "cpu", None}:
        return False
    path = module.source.filename
    return surely_lack(path, _OTHER_DEVICES) and not surely_lack(path, _CUDA)


def _needs_cuda(module: Module, call: ir.Call) -> bool:
    """Whether a scaler is only created, or only used, where there is CUDA, and no other accelerator is used."""
    if evidence(module).types - {"cuda", "cpu"}:
        return False
    losses = scaled_by(module, call)
    return needs_cuda(module, call) or (bool(losses) and all(needs_cuda(module, each.event.call) for each in losses))


def _is_full_elsewhere(module: Module, region: Region) -> bool:
    """Whether a region is for cuda and the CPU alone, and float16 on cuda only."""
    types = _types(module, region)
    if not region.is_old and region.device_type is None and region.dtype is None:
        # It raises as it stands (AMP202); with the file's device it is what that one's default makes it.
        return evidence(module).types == {"cuda", "cpu"}
    if region.opaque or not types or not types <= {"cuda", "cpu"}:
        return False
    half = decided(module).region_runs_in(region, "float16")
    return not is_vague(half) and possible(half, negated(ON_CUDA)) is None


def _is_on_cuda(module: Module, region: Region) -> bool:
    """Whether a region can be on with cuda only: by its device, by `enabled`, or by the tests around it."""
    types = _types(module, region)
    if types == {"cuda"}:
        return True
    known = decided(module)
    on = both(known.of(region.enabled), known.around(region.call))
    if region.opaque or possible(on, negated(ON_CUDA)) is not None:
        return False
    # What is not the CPU is cuda only where it can be nothing else.
    tests = [*tests_of(region.call), *([region.enabled] if region.enabled is not None else [])]
    return types <= {"cuda", "cpu"} or any(asks_for_device(module, each, "cuda") for each in tests)


def _fix(module: Module, call: ir.Call) -> tuple[Fix | None, str | None]:
    device = choose(module, call)
    on = [each for each in regions(module) if not is_false(each.enabled)]
    if on and _only_device(module) is None and all(_is_full_elsewhere(module, each) for each in on):
        # On the CPU the regions are bfloat16, where a scaler had better be off.
        device = Choice('"cuda"', Applicability.SAFE)
    if device is None:
        return None, _why_unknown(module)
    edit = add_first_argument(module, call, device.text)
    title = f"Pass the device: `GradScaler({device.text}{', ...' if call.args else ''})`"
    doubt = _doubt(module, device.text)
    if doubt is not None:
        return Fix(Applicability.UNSAFE, f"{title} ({doubt})", (edit,)), None
    if device.applicability is Applicability.UNSAFE:
        title += " (the scaler is then enabled on other devices too)"
    return Fix(device.applicability, title, (edit,)), None


def _why_unknown(module: Module) -> str:
    """Why no device can be written, as far as the file shows one."""
    given = [each.device_type for each in regions(module) if each.device_type is not None]
    places = [*given, *evidence(module).chosen]
    if places:
        return (
            f"amplint can't tell how this call can get the device of {module.line(places[0])}; pass the device's "
            "type by hand"
        )
    if evidence(module).places:
        return "the file uses several devices; pass the device that the scaled loss is on"
    return "the file doesn't show which device the model trains on"


def _doubt(module: Module, device: str) -> str | None:
    """What may raise with a scaler that is on: where it was for cuda, and so off, that went well."""
    if device == '"cuda"':
        return None
    if device == '"mps"' and not module.target.guarantees("2.8"):
        return "before torch 2.8 `unscale_` raises on mps"
    if device == '"xpu"':
        return "`unscale_` needs float64, which some XPUs don't have"
    for call in module.whole.near("load_state_dict", "step").calls:  # an empty state, saved while it was off; a closure
        if isinstance(call.func, ir.Attribute) and objects(module).is_scaler(call.func.base):
            if call.func.attr == "load_state_dict":
                line = module.line(call)
                return f"`load_state_dict` on {line} then raises for checkpoints saved while the scaler was disabled"
            if call.func.attr == "step" and len(call.args) > 1:
                return f"`step` on {module.line(call)} may then raise, as an enabled scaler takes no closure"
    return None


def _float16_elsewhere(module: Module) -> _Elsewhere | None:
    """A region that can be float16 on a device that is not cuda; before others one that is so by default."""
    found = [each for region in regions(module) for each in _runs_elsewhere(module, region)]
    return min(found, key=lambda each: each.setting is not None, default=None)


def _runs_elsewhere(module: Module, region: Region) -> Iterator[_Elsewhere]:
    if region.is_old or region.opaque or is_false(region.enabled):
        return
    types = [each.type for each in region_devices(module, region) if each.type != "cuda"]
    if not types or _is_on_cuda(module, region):
        return
    if region.dtype is None:
        if any(DEFAULT_DTYPE.get(each or "") == "float16" for each in types):
            yield _Elsewhere(region.call, None)
        return
    if possible(decided(module).is_dtype(region.dtype, "float16"), negated(ON_CUDA)) is None:
        return
    for each in dtypes(module, region.dtype):
        if each.name == "float16":
            yield _Elsewhere(region.call, needed_setting(module, each.leaf))
