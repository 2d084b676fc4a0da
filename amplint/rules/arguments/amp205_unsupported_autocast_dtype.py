"""autocast gets a dtype that its device doesn't support.

## What it does
Finds an autocast region whose dtype is:

- a string;
- float32, float64 or another dtype than float16 and bfloat16, on a device where autocast supports only these two (cpu,
  xpu, mps, hpu). A region for `x.device.type` is reported too, as it may run on such a device;
- float16 on the CPU, if the project allows torch before 2.2.

How serious a finding is:

- If the dtype is a string, or always unsupported, the finding is an error.
- If the region can also run on cuda, or a setting chooses float64 or another unsupported dtype, the finding is a
  warning.
- If float32 is probably meant to disable the region, the finding is a *suspicion* (a note).

Float32 is probably meant to disable the region in these cases:

- a setting or the device chooses float32 among several dtypes;
- float32 is the fallback after half precision failed;
- a call passes float32 to a function whose region also runs on cuda;
- the region's device is that of a tensor.

amplint reports nothing:

- about regions that run only on cuda, where autocast supports these dtypes;
- about disabled regions;
- if `enabled` is false whenever the dtype is unsupported, such as `enabled=precision is not None` with
  `{"bf16": torch.bfloat16, None: torch.float32}[precision]`.

## Why is this bad?
A string raises TypeError when the region is entered. With an unsupported dtype the region warns and disables itself.
The code then runs in the dtypes of its inputs, not in the dtype that was passed: half-precision inputs stay in half
precision.

If float32 is intended, pass `enabled=False`, which doesn't warn, and call `.float()` on inputs that may be in half
precision. If one dtype variable is used for all devices, pass `enabled=dtype != torch.float32`.

## Example
```python
with torch.autocast("cpu", dtype=torch.float32):
    score = head(features)
```

## Use instead
```python
with torch.autocast("cpu", enabled=False):
    score = head(features.float())
```

## Fix safety
There is no fix: amplint can't tell whether half precision or float32 is intended.

## Proof
The wrong programs warn or raise, and the corrected programs run without a warning.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
- torch/amp/autocast_mode.py: the dtypes that each device takes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.inference.devices import device_of, region_devices
from amplint.model.inference.dtypes import HALF, Dtype
from amplint.model.inference.formulas import TRUE, both, contradict, likely, negated, possible
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.inference.values import Doubt, Leaf, together, values_of
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.usage.fallbacks import is_fallback
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import said, turning

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=("autocast & dtype", "autocast & torch.float"),
    shown_by=("exception", "warning"),
    simulated=True,
)

_ONLY_HALF = ("cpu", "xpu", "mps", "hpu")
_OLD_CPU = (
    "before torch 2.2, autocast on the CPU doesn't support float16: the region warns and is disabled, and the code "
    "runs in float32; pass `torch.bfloat16`, or require torch>=2.2"
)
_STAYS_OFF = Fix(Applicability.DISPLAY, "Autocast is then disabled as before, but without the warning")
_ISLAND = Fix(Applicability.DISPLAY, "With `enabled=False` the region runs as now, but without the warning")


_ELSEWHERE = "devices other than cuda"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each region whose dtype is no half type where it has to be one."""
    for region in regions(module):
        if region.dtype is not None and not region.opaque and not is_false(region.enabled):
            finding = _judge(module, region, region.dtype, decided(module).region_dtypes(region))
            if finding is not None:
                yield finding


def _is_of_tensor(module: Module, region: Region) -> bool:
    """`x.device.type`, also by another name."""
    found = decided(module).alternatives(region.device_type) if region.device_type is not None else []
    return bool(found) and all(
        isinstance(each.value, ir.Attribute)
        and each.value.attr == "type"
        and isinstance(each.value.base, ir.Attribute)
        and each.value.base.attr == "device"
        for each in found
    )


def _judge(module: Module, region: Region, given: ir.Value, found: list[Dtype]) -> Finding | None:
    shown = [each for each in found if not each.leaf.is_open] or found
    if all(each.kind == "str" for each in shown):
        by_default = "" if all(each.kind == "str" for each in found) else " by default"
        message = f"`{module.text(given)}` is a string{by_default}: entering the region raises TypeError; "
        return rule.finding(module.span(given), f"{message}pass a `torch.dtype`")
    return _refused(module, region, given, found)


def _refused(module: Module, region: Region, given: ir.Value, found: list[Dtype]) -> Finding | None:
    """The finding of a dtype that a device of the region doesn't take."""
    types = list(dict.fromkeys(each.type for each in region_devices(module, region)))
    named = _refusing(module, region, types, found)
    if not named:
        return None
    if named == types == ["cpu"] and _is_refused_float16(module, found):
        return rule.finding(module.span(given), _OLD_CPU)
    full = next((each for each in found if each.kind == "dtype" and each.name not in HALF), None)
    under = _when(module, region, given, full, everywhere=named == types) if full is not None else None
    if full is None or under is None:
        return None
    never_half = {each.name for each in found}.isdisjoint((None, *HALF))
    # Out of this file, what the call gives is wrong for all of that function's regions.
    cause = f"dtype {full.value.id}" if not module.is_own(region.call) else ""
    if full.name == "float32" and (
        not never_half
        or (set(named) < set(types) and _is_given(module, given, full.leaf))
        or named == [_ELSEWHERE]
        or _is_for_others(module, given)
        or is_fallback(module, given)
    ):
        return rule.finding(
            module.span(given),
            f"{under}{_named(module, given)} is float32: the region warns and is disabled; "
            f"{_off_for(module, region, given)}",
            fix=_STAYS_OFF,
            severity=Severity.NOTE,
            cause=cause,
            confidence=Confidence.SUSPICION,
        )
    half = "`torch.bfloat16` or " if full.name != "float32" or never_half else ""
    device, dtype = f"autocast on {' and '.join(named)} doesn't support", f"torch.{full.name}"
    what = f"{under}`{module.text(given)}` is {dtype}, which {device}" if under else ""
    return rule.finding(
        module.span(given),
        f"{what or f'{device} {_written(module, given, full)}'}: autocast warns and disables itself; "
        f"pass {half}`enabled=False`",
        fix=_ISLAND,
        cause=cause,
        # Where float32 was asked for, it is what the code gets, with a warning.
        severity=None if never_half and named == types else Severity.WARNING,
    )


def _is_given(module: Module, given: ir.Value, leaf: Leaf) -> bool:
    """Whether a call gives a function its dtype as such, or a parameter's default does."""
    is_parameter = isinstance(given, ir.Name) and ir.parameter_of(module.names.only_binding(given)) is not None
    return leaf.doubt is Doubt.DEFAULT or (is_parameter and not leaf.tests)


def _is_refused_float16(module: Module, found: list[Dtype]) -> bool:
    """Whether a region is in float16 and may run under a torch that takes that on cuda only."""
    return {each.name for each in found} == {"float16"} and not module.target.guarantees("2.2")


def _written(module: Module, given: ir.Value, dtype: Dtype) -> str:
    """A dtype as it is written, and which one that is where the text does not say so."""
    text, name = module.text(given), f"torch.{dtype.name}"
    return f"`{text}`" if text == name else f"`{text}` ({name})"


def _named(module: Module, given: ir.Value) -> str:
    """A dtype as the subject of a sentence: by its variable, if it has one."""
    return f"`{module.text(given)}`" if isinstance(given, ir.Name) else "the dtype"


def _off_for(module: Module, region: Region, given: ir.Value) -> str:
    """How to disable a region where its dtype is float32, and only there."""
    if not isinstance(given, ir.Name):
        return "pass `enabled=False` for float32"
    test = f"{given.name} != torch.float32"
    return f"pass `enabled={test}`" if region.enabled is None else f"add `and {test}` to `enabled`"


def _refusing(module: Module, region: Region, types: list[str | None], found: list[Dtype]) -> list[str]:
    """The devices of a region that take half types alone, by their types or, for one of a tensor, in one phrase."""
    surely = all(each.kind == "dtype" and each.name not in (None, *HALF) for each in found)
    if surely and _is_of_tensor(module, region):
        return [_ELSEWHERE]  # it runs wherever its tensors are
    return [each for each in types if each in _ONLY_HALF] if None not in types else []


def _goes_with(module: Module, region: Region, leaf: Leaf) -> bool:
    """Whether the calls that give a region its dtype also give it a device that does not take it, and have it on."""
    every = region_devices(module, region)
    if not any(each.type in _ONLY_HALF and together(module, leaf, each.leaf) for each in every):
        return False
    enabled = values_of(module, region.enabled).leaves if region.enabled is not None else ()
    return not enabled or any(together(module, leaf, each) and not is_false(each.value) for each in enabled)


def _when(module: Module, region: Region, given: ir.Value, full: Dtype, *, everywhere: bool) -> str | None:
    """When a region is on and in a dtype, in words; `everywhere`: on cuda too. None: never, or it can't be told."""
    known, leaf = decided(module), full.leaf
    if leaf.doubt is Doubt.DEFAULT or leaf.by:
        on = both(known.when(leaf._replace(by=())), known.of(region.enabled), known.inside(region.call))
        if not _goes_with(module, region, leaf) or possible(on, TRUE if everywhere else negated(ON_CUDA)) is None:
            return None
        return f"called from {module.line(leaf.by[-1])}, " if leaf.by else "by default, "
    runs = known.is_dtype(given, str(full.name))
    if is_vague(runs):
        return None
    made = both(known.of(region.enabled), known.inside(region.call), TRUE if everywhere else negated(ON_CUDA))
    # A flag that asks what the dtype hangs on knows all that this can be: `enabled=precision is not None`.
    asked = region.enabled is not None and bool(known.of(region.enabled).subjects() & runs.subjects())
    world = (likely if asked else possible)(runs, made)
    if world is None:
        return None
    under = said(module, world, runs, turning(world, runs) or None, device_of(module, region))
    return f"{under}, " if under else ""


def _is_for_others(module: Module, given: ir.Value) -> bool:
    """Whether it decides that a dtype is float32 that the code is not on cuda: no half precision is wanted there."""
    runs = decided(module).is_dtype(given, "float32")
    if not ON_CUDA.facts() <= runs.facts():
        return False
    return contradict(runs, ON_CUDA) or contradict(negated(runs), negated(ON_CUDA))
