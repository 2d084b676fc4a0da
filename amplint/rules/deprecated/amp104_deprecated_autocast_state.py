"""The autocast state functions that name a device are deprecated.

## What it does
Finds `torch.get_autocast_gpu_dtype`, `torch.set_autocast_gpu_dtype` and `torch.{is,set}_autocast_X_enabled`,
`torch.{get,set}_autocast_X_dtype` for X in cpu, xla, ipu. `torch.is_autocast_enabled()` without an argument is not
deprecated (it speaks of cuda) and stays silent.

Silent where the project admits a torch without the new functions (2.4): the old name is the only one there.

## Why is this bad?
Each call gives a `DeprecationWarning`, which Python hides outside `__main__`; then the functions will be gone. The
new ones take the device, so one piece of code serves every device.

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
Safe: the device becomes the first argument. TorchScript has no form of these functions with a device, and compiles
with a function all that this one calls: no fix in the functions of a file that scripts anything, but for those under
`torch.jit.ignore` or `torch.jit.unused`. None either where the function itself is handed on.

An import and all its uses are rewritten together, or not at all: not where a use is out of reach (handed to a
function, exported by `__all__` or an `__init__.py`, named in a `mock.patch` string). Then the finding says why. The
names that one statement imports are rewritten together; those of rules that aren't selected keep the old import.

## Proof
The fixed fixtures run under torch without the `DeprecationWarning` and return the same state, inside and outside a
region. Code that TorchScript has compiled does not warn (`shows=none`).

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
    not_shown="the old names warn when they are called, which is mostly in a model's own code",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
