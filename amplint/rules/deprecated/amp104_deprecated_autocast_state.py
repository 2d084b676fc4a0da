"""The autocast state functions that name a device are deprecated.

## What it does
Finds:

- `torch.get_autocast_gpu_dtype` and `torch.set_autocast_gpu_dtype`;
- `torch.is_autocast_X_enabled`, `torch.set_autocast_X_enabled`, `torch.get_autocast_X_dtype` and
  `torch.set_autocast_X_dtype`, where X is cpu, xla or ipu.

amplint reports nothing:

- about `torch.is_autocast_enabled()` without an argument, which is not deprecated and means cuda;
- if the project allows torch before 2.4, which has only the old names.

## Why is this bad?
Each call gives a `DeprecationWarning` (Python shows it only if the call is in the main program), and torch will remove
the functions. The new functions take the device as an argument, so the same code works on every device.

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
Safe: the device becomes the first argument.

The fix rewrites an import together with all uses of the imported names. If one use can't be rewritten, the fix rewrites
none of them, and the finding says why. A use can't be rewritten if:

- another part of the file tests whether torch has the new name, and the project doesn't say which releases of torch it
  supports: the file may support releases without the new name;
- the name is passed to a function other than `functools.partial` and `isinstance`;
- the name is exported by `__all__` or by an `__init__.py`;
- the name is in a `mock.patch` string;
- another file of the project imports the name from this file;
- TorchScript may compile the code: TorchScript doesn't know the new functions. This holds for all functions of a file
  that uses TorchScript, except those under `torch.jit.ignore` or `torch.jit.unused`.

One statement may import old names that different rules report (AMP101 to AMP104). If one of these rules isn't selected,
its names keep their old import.

## Proof
The fixed test programs run without the `DeprecationWarning`, and return the same state as before the fix, inside and
outside an autocast region. Code that TorchScript has compiled does not warn, so the test program with TorchScript shows
nothing (`shows=none`).

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
    not_shown="verify uses a small model of its own, and these functions are usually called in the model",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
