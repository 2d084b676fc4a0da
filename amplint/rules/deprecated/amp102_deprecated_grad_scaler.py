"""`torch.cuda.amp.GradScaler` and `torch.cpu.amp.GradScaler` are deprecated.

## What it does
Finds every use of these two classes: calls, `functools.partial`, base classes, annotations and `isinstance` tests,
under every form of import and every alias.

amplint reports nothing if:

- the code checks which names torch has, and uses the old name only with older releases;
- the project allows torch before 2.3, which has only the old name.

## Why is this bad?
Since torch 2.4 each call of an old class gives a `FutureWarning`, and torch will remove the classes. A scaler of the
new class is not an instance of an old class, so `isinstance` tests fail in code that uses both.

The new class takes the device as its first argument. So it isn't enough to change the import: `GradScaler(1024.0)` then
takes 1024.0 as the device, raises nothing, and starts with a scale of 65536.

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
Safe: the fix inserts the device as the first argument, and every other argument keeps its meaning.

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

A subclass is rewritten only if it has no other base class, and has an `__init__` that passes nothing but keyword
arguments to the `__init__` of the old class (and no `**kwargs`).

If the file also uses the new class, an `isinstance` test for the old class stays, as it may be meant for the old class
only. Then all uses of the old class stay, as the test would be false for objects of the new class.

## Proof
The fixed test programs run without the `FutureWarning`. Initial scale, growth and backoff factors, growth interval,
device and `enabled` of each scaler are the same as before the fix.

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
