"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are deprecated.

## What it does
Finds every use of these two decorators for the `forward` and `backward` of a `torch.autograd.Function`.

amplint reports nothing if the project allows torch before 2.4, which has only the old names.

## Why is this bad?
Since torch 2.4 each use of an old decorator gives a `FutureWarning`, and torch will remove both. The old decorators
follow only the autocast of CUDA: in a region for another device, `cast_inputs` does nothing. Both new decorators need
`device_type`.

## Example
```python
from torch.cuda.amp import custom_bwd, custom_fwd

class Scale(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx, x, w):
        ...

    @staticmethod
    @custom_bwd
    def backward(ctx, grad):
        ...
```

## Use instead
```python
from torch.amp import custom_bwd, custom_fwd

class Scale(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(ctx, x, w):
        ...

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        ...
```

## Fix safety
Safe: with `device_type="cuda"` the new decorators do what the old ones did. If your Function runs on another device,
change `device_type` by hand.

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
The fixed test programs run without the `FutureWarning`. The decorated `forward` and `backward` run with the same
autocast state as before the fix.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
- [Deprecation in torch 2.4](https://github.com/pytorch/pytorch/pull/126531)
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
    triggers=("custom_fwd & amp", "custom_bwd & amp"),
    trial=False,
    not_shown="verify uses a small model of its own, without custom autograd Functions",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
