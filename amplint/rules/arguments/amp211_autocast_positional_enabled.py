"""A bool is passed to `torch.autocast` as its second argument, which is the dtype.

## What it does
Finds a bool as the second positional argument of `torch.autocast`, such as `torch.autocast("cuda", True)`. The bool may
be a literal, a comparison, or a variable or parameter that is always a bool.

amplint reports nothing if the call may be meant for torch 1.10, whose second parameter is `enabled`, that is, if the
project allows that release, or if the call is in a handler of TypeError or in a branch of a version test.

## Why is this bad?
The second parameter of `torch.autocast` is `dtype`; `enabled` is the third. Entering the region raises `TypeError:
set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not bool`. A frequent cause: the device was put
in front of the arguments of `torch.cuda.amp.autocast`, whose first parameter is `enabled`.

## Example
```python
with torch.autocast("cuda", use_amp):
    loss = criterion(model(batch), target)
```

## Use instead
```python
with torch.autocast("cuda", enabled=use_amp):
    loss = criterion(model(batch), target)
```

## Fix safety
Safe, as the code raised before the fix. The fix turns the second and all later arguments into keyword arguments, in the
order of `torch.cuda.amp.autocast`: `enabled`, `dtype`, `cache_enabled`.

## Proof
The test programs raise before the fix, when the region is entered, and run after it.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.fixes.edits import insert
from amplint.model.inference.dtypes import is_old_first
from amplint.model.inference.python_types import is_bool
from amplint.model.objects.autocast_objects import regions
from amplint.model.torch_facts.signatures import OLD_ORDER
from amplint.model.usage.fallbacks import is_fallback
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE,),
    triggers=("autocast",),
    shown_by=("exception", "warning"),
    simulated=True,
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Calls whose second argument is a bool."""
    if not module.target.guarantees("1.11"):
        return
    for region in regions(module):
        given = region.call.positional
        if region.is_old or region.opaque or len(given) < 2 or not is_bool(module, given[1]):
            continue
        if is_old_first(module, given[0]) or is_fallback(module, region.call):
            continue  # AMP202's: no device at all; or what torch 1.10 takes, in its own place
        edits = tuple(
            insert(module.layout.outer(value)[0], f"{name}=") for name, value in zip(OLD_ORDER, given[1:], strict=False)
        )
        text = module.text(given[1])
        yield rule.finding(
            module.span(given[1]),
            f"`torch.autocast` takes a dtype as its second argument: `{text}` raises TypeError; pass `enabled={text}`",
            fix=Fix(Applicability.SAFE, f"Replace with `enabled={text}`", edits),
        )
