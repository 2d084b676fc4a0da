"""`apex.amp` is unmaintained; torch.amp does the same.

## What it does
Finds every use of `apex.amp`: `initialize`, `scale_loss`, `master_params`, its decorators and its state.

## Why is this bad?
apex's mixed precision has been unmaintained since torch 1.6 brought its own: it patches torch's functions, has to be
built from source, and breaks with new releases of torch.

## Example
```python
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
No fix: the region has to be put round the forward pass, which `amp.initialize` patched behind the scenes.

## Proof
None: apex is not installed where the fixtures run (`shows=none`). The step under "Use instead" is one of the
fixtures'.

## References
- [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
- [apex](https://github.com/NVIDIA/apex)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Finding, Fix, Severity
from amplint.model import ir
from amplint.rules.base import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.WARNING, triggers=("apex.amp", "apex import", "import apex"))

# What torch has instead of each function of apex.amp.
_INSTEAD = {
    "initialize": 'wrap the forward in `torch.autocast("cuda")` and make a `torch.amp.GradScaler("cuda")`',
    "scale_loss": "call `scaler.scale(loss).backward()`",
    "master_params": "clip `model.parameters()` after `scaler.unscale_(optimizer)`: they stay in float32",
    "state_dict": "save `scaler.state_dict()`",
    "load_state_dict": "call `scaler.load_state_dict(...)`",
    "half_function": 'use `@torch.autocast("cuda")`',
    "float_function": 'use `@torch.autocast("cuda", enabled=False)` and `.float()` on the inputs',
    "promote_function": "nothing: autocast promotes by itself",
    "disable_casts": 'use `torch.autocast("cuda", enabled=False)`',
}
_OTHERWISE = "use `torch.autocast` and `torch.amp.GradScaler`"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Uses of apex.amp's functions; where there are none, the import."""
    used = False
    for value in module.references("apex.amp.*"):
        if not (isinstance(value, ir.Name) and value.bound):
            for name in sorted(module.names.of(value)):
                if name.startswith("apex.amp.") and name.count(".") == 2 and not name.endswith("__"):
                    used = True
                    instead = _INSTEAD.get(name.rpartition(".")[2], _OTHERWISE)
                    yield _finding(module.span(value), f"`{name}` is unmaintained; {instead}", instead)
    if not used:
        for statement in module.own.near("apex").statements:
            if isinstance(statement, ir.Import):
                for alias in statement.aliases:
                    full = f"{statement.module}.{alias.name}" if statement.module is not None else alias.name
                    if full == "apex.amp" or full.startswith("apex.amp."):
                        message = f"`apex.amp` is unmaintained; {_OTHERWISE}"
                        yield _finding(module.layout.span(alias), message, _OTHERWISE)


def _finding(span: tuple[int, int], message: str, instead: str) -> Finding:
    advice = instead[0].upper() + instead[1:]
    return rule.finding(span, message, fix=Fix(Applicability.DISPLAY, advice))
