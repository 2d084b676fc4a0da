"""An autocast region or a GradScaler is for a device other than the one that the code trains on.

## What it does
Finds:

- an autocast region that names one device, if the code around it moves tensors and models only to another device
  (`.to("xpu")`, `.cuda()`, `device="mps"`, `torch.device(...)`);
- an autocast region for an accelerator, if the model that is trained stays on the CPU: the file creates the model,
  names the CPU (such as `map_location="cpu"`) and moves nothing to another device;
- a scaler that names cuda, if the autocast regions of its losses are for another device. `torch.cuda.amp.GradScaler`
  names cuda too. A scaler without a device is AMP201.

Finds, as *likely*:

- such a scaler, if a setting makes a region float16 that can be for mps or xpu;
- a region that trains, whose device type is "cuda" if the device's name contains "cuda", and otherwise "cpu", if the
  device can also be mps or xpu.

The finding is an error if a scaler for cuda is used with float16 on another device, where small gradients become zero.
Otherwise the finding is a warning.

amplint reports nothing:

- if the device is chosen when the program runs, but for a region for the CPU if all devices that can be chosen are
  accelerators, and for the two cases above;
- if the region or the scaler is under an `if`;
- if another function moves tensors, under an `if`, to the device that the region or the scaler names;
- about a region for an accelerator, if the file moves tensors to several accelerators;
- if the file moves tensors to no device at all;
- about disabled regions, and about a region for the CPU if the file also creates tensors on the CPU.

## Why is this bad?
- A region for one device does nothing for tensors on another device: the code runs in float32, and nothing warns.
- A region for cuda is disabled on a machine without CUDA, with a warning.
- A scaler for cuda is disabled on a machine without CUDA, with a warning. If the region is float16, small gradients
  become zero.

## Example
```python
model = Net().to("xpu")
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("xpu", dtype=torch.float16):
    loss = criterion(model(batch), target)
```

## Use instead
```python
model = Net().to("xpu")
scaler = torch.amp.GradScaler("xpu")
with torch.autocast("xpu", dtype=torch.float16):
    loss = criterion(model(batch), target)
```

## Fix safety
Unsafe: after the fix the region runs in half precision, or the scaler scales, and neither did before. On mps before
torch 2.8 and on some XPUs `unscale_` of an enabled scaler raises, because it needs float64.

There is no fix if a variable holds the device, nor for the classes of `torch.cuda.amp`, which take no device.

## Proof
Before the fix, torch warns that a region or scaler for cuda is disabled, or the update is wrong because the scaler is
disabled. After the fix neither happens. The test program with a region for the CPU and tensors on cuda
is not in the table (`shows=none`): it runs without CUDA, with a simulated device.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
- torch/amp/grad_scaler.py: GradScaler disables itself if `device == "cuda" and not torch.cuda.is_available()`"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.device_choice import choose
from amplint.model.inference.devices import device_of, devices, region_devices
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.formulas import possible
from amplint.model.inference.value_sets import decided, is_vague, runs_on
from amplint.model.names.version_guards import tests_of
from amplint.model.objects.amp_objects import scaler_arguments
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.regions.cpu_training import does_nothing, named_cpu, trains_on_cpu
from amplint.model.regions.other_devices import leads_to, left_to_the_cpu, on_other
from amplint.model.regions.training_regions import runs_in, trained
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import DEFAULT_DTYPE, OLD_SCALER, SCALER
from amplint.model.usage.device_evidence import ACCELERATORS, asks_for_device, device_is_asked, evidence
from amplint.model.usage.requires_cuda import needs_cuda
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import scaled_by

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast", "GradScaler"),
    not_shown="verify puts all tensors on one device",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each region and scaler for a device that nothing else in the file is on."""
    every = [each for each in regions(module) if not is_false(each.enabled)]
    if every:
        yield from _regions(module, every)
        yield from _left_to_the_cpu(module, every)
        yield from _scalers(module, every)


def _regions(module: Module, every: list[Region]) -> Iterator[Finding]:
    for region in every:
        found = on_other(module, region)
        if found is None:
            if does_nothing(module, region):
                yield _on_cpu(module, region)
            continue
        others = " or ".join(found.others)
        only = f'"{others}"' if len(found.others) == 1 else None
        fix, withheld = _fix(module, region.device_type, only, "the region then runs in half precision")
        yield rule.finding(
            module.span(region.call),
            f"this region is for {found.device}, but {module.line(found.place)} uses {others}: nothing on {others} "
            f"runs in half precision; use autocast for {others}",
            fix=fix,
            withheld=withheld
            if only is not None
            else "amplint can't tell how this call can get the device that is used",
        )


def _left_to_the_cpu(module: Module, every: list[Region]) -> Iterator[Finding]:
    """The first region that trains with each device type that is the CPU's on other accelerators than cuda."""
    done = set[str]()
    training = {one.region.call.id for each in trained(module) for one in each.entered}
    for region in every:
        others = left_to_the_cpu(module, region) if region.call.id in training else []
        written = module.on_one_line(region.device_type) if region.device_type is not None else ""
        if others and written not in done and module.is_own(region.call):
            done.add(written)
            there = " or ".join(others)
            yield rule.finding(
                module.span(region.call),
                f'on {there} `{written}` is "cpu": this region then casts nothing, and the model runs in float32; pass '
                "the type of the device that is used",
                withheld="amplint can't tell whether half precision is wanted on that device",
                confidence=Confidence.LIKELY,
            )


def _on_cpu(module: Module, region: Region) -> Finding:
    """The finding of a region for accelerators where everything that is trained stays on the CPU."""
    made, named = trains_on_cpu(module), named_cpu(module)
    assert made is not None
    assert named is not None
    device = device_of(module, region)
    return rule.finding(
        module.span(region.call),
        f"this region is for {device}, but the model on {module.line(made)} stays on the CPU and runs in "
        f'float32; move the model and its data to {device}, or use `autocast("cpu")`',
        withheld=f"amplint can't tell which device is intended: {module.line(named)} names the CPU, "
        f"and this line names {device}",
    )


def _scalers(module: Module, every: list[Region]) -> Iterator[Finding]:
    """Scalers that name cuda beside regions for one other accelerator, or that run in float16 on another device."""
    for call in module.calls_of(SCALER, *OLD_SCALER):
        name = module.names.only(call.func)
        given = scaler_arguments(module, call)
        literal = given.get("device")
        if name not in (SCALER, *OLD_SCALER) or is_false(given.get("enabled")) or device_is_asked(module, call):
            continue
        if name == SCALER:
            if literal is None or {each.type for each in devices(module, literal)} != {"cuda"}:
                continue
        elif OLD_SCALER[str(name)] != "cuda":
            continue
        finding = _scaler(module, call, literal if name == SCALER else None, _regions_of(module, call) or every)
        if finding is not None and not needs_cuda(module, call):
            yield finding


def _scaler(module: Module, call: ir.Call, literal: ir.Value | None, of: list[Region]) -> Finding | None:
    """The finding for a scaler for cuda, and the regions of what it scales."""
    found = {str(each.type) for region in of for each in region_devices(module, region)}
    only = len(found) == 1 and found <= ACCELERATORS - {"cuda"}
    on_cuda = evidence(module).places.get("cuda", ()) if only else ()
    if any(leads_to(module, place, region.call) for place in on_cuda for region in of):
        return None
    others = found if only else _float16_elsewhere(module, of)
    by_choice = set() if others else _chosen_elsewhere(module, call)
    others = others or by_choice
    if not others:
        return None
    half = not only or _may_run_in_float16(module, of)
    effect = "small float16 gradients become 0" if half else "float16 losses are not scaled"
    there = " or ".join(sorted(others))
    if len(found) != 1:
        choice = choose(module, call)
        verb, target, device = "can be", "the region's device", choice.text if choice is not None else None
    else:
        verb, target, device = "is", there, f'"{there}"'
    fix, withheld = _fix(module, literal, device, "the scaler is then enabled without CUDA too")
    return rule.finding(
        module.span(call),
        f"this scaler is for cuda, but the region on {module.line(of[0].call)} {verb} for {there}: "
        f"without CUDA the scaler is disabled, and {effect}; create the scaler for {target}",
        fix=fix,
        withheld=withheld,
        severity=Severity.ERROR if half and not by_choice else None,
        confidence=Confidence.LIKELY if by_choice else None,
    )


def _chosen_elsewhere(module: Module, made: ir.Call) -> set[str]:
    """The accelerators other than cuda on which a region can run in float16, by a setting, while its scaler is on."""
    known, found = decided(module), set[str]()
    on = known.of(scaler_arguments(module, made).get("enabled"))
    for each in scaled_by(module, made):
        for entered in () if each.unseen else each.entered:
            runs = runs_in(module, entered, "float16")
            if entered.region.opaque or is_vague(runs) or is_vague(on):
                continue
            types = {one.type for one in region_devices(module, entered.region)} & (ACCELERATORS - {"cuda"})
            found |= {str(one) for one in types if possible(runs, on, runs_on(str(one))) is not None}
    return found


def _may_run_in_float16(module: Module, of: list[Region]) -> bool:
    return any(each.name == "float16" for region in of for each in decided(module).region_dtypes(region))


def _regions_of(module: Module, made: ir.Call) -> list[Region]:
    """The regions that the losses come out of which a scaler scales, but those that are off; none if not in sight."""
    found: dict[int, Region] = {}
    for each in scaled_by(module, made):
        if each.unseen or not each.entered:
            return []
        found |= {one.region.call.id: one.region for one in each.entered if not is_false(one.region.enabled)}
    return list(found.values())


def _float16_elsewhere(module: Module, every: list[Region]) -> set[str]:
    """The devices other than cuda on which the regions can run, where each can be on one, always in float16."""
    found: set[str] = set()
    for region in every:
        types = {each.type for each in region_devices(module, region)} - {None, "cuda"}
        if not module.target.reaches("2.2"):
            types -= {"cpu"}  # before, a region for the CPU in float16 is off
        if not types or region.opaque or any(tests_of(region.call)):
            return set()
        if region.enabled is not None and asks_for_device(module, region.enabled):
            return set()
        if region.dtype is not None:
            if {each.name for each in dtypes(module, region.dtype)} != {"float16"}:
                return set()
        elif any(DEFAULT_DTYPE.get(str(each)) != "float16" for each in types):
            return set()
        found |= set(map(str, types))
    return found


def _fix(module: Module, device: ir.Value | None, other: str | None, effect: str) -> tuple[Fix | None, str | None]:
    """The other device, as it is written, in the place of the literal one; `effect`: what is unsafe about that."""
    if device is None:
        return None, "this class is for cuda only; use the class of `torch.amp`, and pass the device"
    if not isinstance(device, ir.Constant):
        return None, f"other code may use `{module.on_one_line(device)}` too; pass another device to this call by hand"
    if other is None:
        return None, "amplint can't tell how this call can get the region's device"
    edit = Edit(*module.layout.outer(device), other)
    return Fix(Applicability.UNSAFE, f"Replace the device with `{other}` ({effect})", (edit,)), None
