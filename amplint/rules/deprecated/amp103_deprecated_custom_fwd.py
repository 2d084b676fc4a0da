"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are deprecated.

## What it does
Finds every use of the decorators for `torch.autograd.Function` that work for CUDA only.

amplint reports nothing if the project allows a release of torch without `torch.amp.custom_fwd` (before 2.4), which has
only the old name.

## Why is this bad?
Since torch 2.4 each decoration prints a `FutureWarning`. The old decorators look only at CUDA's autocast state: on
another device, `cast_inputs` does nothing.

## Example
```python
from torch.cuda.amp import custom_bwd, custom_fwd

class Scale(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx, x, w):
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
```

## Fix safety
Safe: `device_type="cuda"` says what the old decorators did.

An import and all its uses are rewritten together, or not at all. There is no fix, and the finding says why, if one of
the uses can't be rewritten:

- the name is passed to a function;
- the name is exported by `__all__` or an `__init__.py`;
- the name is in a `mock.patch` string;
- another file of the project imports the name from this file.

Names that one statement imports are rewritten together. If the rule of another one of these names isn't selected, the
old import of that name stays.

## Proof
The fixed test programs run under torch without the `FutureWarning`, and forward and backward of the decorated function
see the same autocast state as before the fix.

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
    not_shown="verify doesn't interpret custom autograd Functions",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Every use of an old name, with the fix of the import that it hangs on."""
    return renames(module).findings(rule)
