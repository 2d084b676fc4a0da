"""`torch.cuda.amp.autocast` and `torch.cpu.amp.autocast` are deprecated.

## What it does
Finds every use of these two classes: calls, decorators, `functools.partial`, base classes and annotations, under every
form of import and every alias.

amplint reports nothing if:

- the code checks which names torch has, and uses the old name only with older releases;
- the project allows torch before 1.10, which has only the old name.

## Why is this bad?
Since torch 2.4 each call of an old class gives a `FutureWarning`, and torch will remove the classes. The new class
takes the device as its first argument. So it isn't enough to change the import: `autocast(True)` then raises
ValueError, and `autocast()` raises TypeError.

## Example
```python
from torch.cuda.amp import autocast

with autocast(True, torch.bfloat16):
    loss = model(batch)
```

## Use instead
```python
from torch.amp import autocast

with autocast("cuda", enabled=True, dtype=torch.bfloat16):
    loss = model(batch)
```

## Fix safety
Safe: the fix inserts the device as the first argument, and turns positional arguments into keyword arguments. Comments
and layout stay. A call that already passes `device_type` keeps that argument, which the old class doesn't take (it
raises: see AMP107). If the project allows torch 1.10 or 1.11, the fix writes `torch.autocast`, as these releases have
no `torch.amp.autocast`.

The two classes have different defaults:

- without `dtype`, the old class uses float16 (`torch.cpu.amp`: bfloat16). The new class uses the dtype of an outer
  region, or else the one that `torch.set_autocast_dtype` has set. If the file has another dtype in a region or in a
  call of `torch.set_autocast_dtype`, the fix also writes the old default, such as `dtype=torch.float16`. If the file
  has no `import torch`, or the call unpacks `**`, the fix can't write the dtype: the region may then get another dtype,
  so the fix is unsafe;
- without `cache_enabled`, the old class caches weights. The new class does what an outer region does. If the file
  disables the cache somewhere, the fix also writes `cache_enabled=True`.

The fix rewrites an import together with all uses of the imported names. If one use can't be rewritten, the fix rewrites
none of them, and the finding says why. A use can't be rewritten if:

- another part of the file tests whether torch has the new name, and the project doesn't say which releases of torch it
  supports: the file may support releases without the new name;
- the name is passed to a function other than `functools.partial` and `isinstance`;
- the name is exported by `__all__` or by an `__init__.py`;
- the name is in a `mock.patch` string;
- another file of the project imports the name from this file.

One statement may import old names that different rules report (AMP101 to AMP104). If one of these rules isn't selected,
its names keep their old import.

## Proof
The fixed test programs run without the `FutureWarning`. Device, dtype, `enabled` and `cache_enabled` of each region are
the same as before the fix, with all combinations of import forms, call forms and layouts.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
- [Deprecation in torch 2.4](https://github.com/pytorch/pytorch/pull/126527)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Severity
from amplint.fixes.rename import renames
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=(
        "autocast & .amp & cuda",
        "autocast & .amp & cpu",
        "autocast & cuda import & amp",
        "autocast & cpu import & amp",
    ),
    trial=False,
    shown_by=("warning", "exception"),
    simulated=True,
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
