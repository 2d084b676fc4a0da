"""`torch.cuda.amp.autocast` and `torch.cpu.amp.autocast` are deprecated.

## What it does
Finds every use of the per-device autocast classes: calls, decorators, references, `functools.partial`, base classes and
annotations, with every form of import and every alias. Silent about code that uses the new name if it exists, and the
old name only for older releases.

Silent if the project allows a release of torch without `torch.autocast` (before 1.10), which has only the old name.

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
Safe: positional arguments become keywords, the device comes first, comments and layout stay.

One thing differs: without `dtype`, the old class is always float16 (`torch.cpu.amp`: bfloat16) with the weight cache
on, while the new one takes dtype and cache from an outer region and from `torch.set_autocast_dtype`. If the file shows
another dtype to inherit, the fix writes `dtype=torch.float16`, or is unsafe if the file has no name for torch.

An import and all its uses are rewritten together, or not at all. There is no fix, and the finding says why, if a use
can't be rewritten: if the name is passed to a function, exported by `__all__` or an `__init__.py`, named in a
`mock.patch` string, or imported from this file by another file of the project. Names that one statement imports are
rewritten together; those of rules that aren't selected keep the old import.

## Proof
The fixed fixtures run under torch without the `FutureWarning`, and the regions' device, dtype, `enabled` and
`cache_enabled` are those of the old objects. A matrix of import forms, call forms and layouts is executed in the same
way.

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
