"""`torch.cuda.amp.GradScaler` and `torch.cpu.amp.GradScaler` are deprecated.

## What it does
Finds every use of the per-device scaler classes: calls, references, `functools.partial`, base classes, annotations and
`isinstance` tests, with every form of import and every alias.

amplint reports nothing if the code uses the new name where it exists, and the old name only for older releases; and
nothing if the project allows a release of torch without `torch.amp.GradScaler` (before 2.3), which has only the old
name.

## Why is this bad?
Since torch 2.4 each call of the class prints a `FutureWarning`, and the class will be removed. A new scaler is not an
instance of the old class, so mixing both breaks `isinstance` tests. The new class takes the device first: if only the
import of `GradScaler(1024.0)` is changed, 1024.0 becomes the device without any error, and the initial scale is
silently 65536.

## Example
```python
from torch.cuda.amp import GradScaler

scaler = GradScaler(1024.0)
```

## Use instead
```python
from torch.amp import GradScaler

scaler = GradScaler("cuda", 1024.0)
```

## Fix safety
Safe: the device is inserted first, every other argument keeps its meaning.

An import and all its uses are rewritten together, or not at all. There is no fix, and the finding says why, if one of
the uses can't be rewritten:

- the name is passed to a function;
- the name is exported by `__all__` or an `__init__.py`;
- the name is in a `mock.patch` string;
- another file of the project imports the name from this file.

Names that one statement imports are rewritten together. If the rule of another one of these names isn't selected, the
old import of that name stays.

A subclass is rewritten only if its constructor passes on keywords. Calls of the old class are not rewritten as long as
the file tests for the old class in a way that can't be rewritten.

## Proof
The fixed test programs run under torch without the `FutureWarning`. The scalers' initial scale, growth and backoff
factors, growth interval, device and `enabled` are those of the old objects.

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
    fixes=(Applicability.SAFE,),
    triggers=("GradScaler & amp",),
    trial=False,
    shown_by=("warning",),
    simulated=True,
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
