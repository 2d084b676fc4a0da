"""`torch.cuda.amp.autocast` and `torch.cpu.amp.autocast` are deprecated.

## What it does
Finds every use of the per-device autocast classes: calls, decorators, references, `functools.partial`, base classes and
annotations, with every form of import and every alias.

amplint reports nothing if the code uses the new name where it exists, and the old name only for older releases; and
nothing if the project allows a release of torch without `torch.autocast` (before 1.10), which has only the old name.

## Why is this bad?
Since torch 2.4 each construction prints a `FutureWarning`, and the class will be removed. The new class takes the
device first, so changing only the import raises: `autocast(True)` becomes a `ValueError`, `autocast()` a `TypeError`.

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
Safe: positional arguments become keywords, the device comes first, comments and layout stay. A call that already has a
`device_type`, which the old class refuses (AMP107), keeps it.

The two classes differ in one thing. Without `dtype`, the old class is always float16 (`torch.cpu.amp`: bfloat16) with
the weight cache on, while the new class takes dtype and cache from an outer region and from `torch.set_autocast_dtype`.
If the file shows another dtype to inherit, the fix writes `dtype=torch.float16`; if the file has no name for torch, the
fix is then unsafe.

An import and all its uses are rewritten together, or not at all. There is no fix, and the finding says why, if one of
the uses can't be rewritten:

- the name is passed to a function;
- the name is exported by `__all__` or an `__init__.py`;
- the name is in a `mock.patch` string;
- another file of the project imports the name from this file.

Names that one statement imports are rewritten together. If the rule of another one of these names isn't selected, the
old import of that name stays.

## Proof
The fixed test programs run under torch without the `FutureWarning`, and the regions' device, dtype, `enabled` and
`cache_enabled` are those of the old objects. Tests also run all combinations of import forms, call forms and layouts in
the same way.

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
