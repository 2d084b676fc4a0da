"""The autocast state functions that name a device are deprecated.

## What it does
Finds `torch.get_autocast_gpu_dtype`, `torch.set_autocast_gpu_dtype`, and for X in cpu, xla, ipu
`torch.{is,set}_autocast_X_enabled` and `torch.{get,set}_autocast_X_dtype`.

amplint reports nothing about `torch.is_autocast_enabled()` without an argument, which is not deprecated and means cuda;
and nothing if the project allows a release of torch without the new functions (before 2.4), which has only the old
names.

## Why is this bad?
Each call gives a `DeprecationWarning`, which Python hides outside `__main__`, and the functions will be removed. The
new functions take the device, so the same code works on every device.

## Example
```python
dtype = torch.get_autocast_gpu_dtype()
if torch.is_autocast_cpu_enabled():
    ...
```

## Use instead
```python
dtype = torch.get_autocast_dtype("cuda")
if torch.is_autocast_enabled("cpu"):
    ...
```

## Fix safety
Safe: the device becomes the first argument. TorchScript has no form of these functions with a device, and compiles a
function with everything that it calls. So in a file that uses TorchScript, a function is not fixed unless it is under
`torch.jit.ignore` or `torch.jit.unused`. There is no fix if the function is passed on instead of called.

An import and all its uses are rewritten together, or not at all. There is no fix, and the finding says why, if one of
the uses can't be rewritten: the name is passed to a function, exported by `__all__` or an `__init__.py`, or in a
`mock.patch` string. Names that one statement imports are rewritten together. If the rule of another one of these names
isn't selected, the old import of that name stays.

## Proof
The fixed test programs run under torch without the `DeprecationWarning`, and return the same state, inside and outside
an autocast region. Code that TorchScript has compiled does not warn, so no test program covers it (`shows=none`).

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
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
    triggers=("autocast_gpu_dtype", "autocast_cpu_", "autocast_xla_", "autocast_ipu_"),
    trial=False,
    not_shown="the warning appears when the function is called, which is usually in a model's own code",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
