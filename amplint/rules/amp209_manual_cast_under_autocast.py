"""What autocast would cast is cast by hand.

## What it does
Finds `.half()`, `.bfloat16()` and `.to(torch.float16)` in the body of an autocast region, and on a whole model where
the file has regions.

It is silent for casts to float32, for what is stored or handed to functions of other packages, for casts of a model
behind its training, for those under a condition within the region, for values that are written to
(`out[:] = x.half()`), and where the region is off.

## Why is this bad?
It changes nothing at best: the region casts what its matrix products take. At worst it takes away what the region keeps
in float32: a parameter that is half has half gradients and half updates, inputs of 1e5 become infinite in float16
although a bfloat16 region would have kept them, and losses and targets in half lose digits.

## Example
```python
with torch.autocast("cuda"):
    loss = criterion(model(images.half()), target)
```

## Use instead
```python
with torch.autocast("cuda"):
    loss = criterion(model(images), target)
```

## Fix safety
Displayed only: what else reads the value isn't known.

## Proof
The fixtures are not executed (shows=none): under autocast the numbers of a float32 and of a half input are the same.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast): don't call `half()` on model or inputs
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Finding, Fix, Severity
from amplint.model import ir
from amplint.model.casts import Cast, cast_to, casts
from amplint.model.decided import decided
from amplint.model.dtypes import is_false, opened_by, regions
from amplint.model.formulas import possible
from amplint.model.objects import objects
from amplint.model.precision import HALF
from amplint.model.scopes import NOTHING, UNKNOWN
from amplint.rules.base import Rule
from amplint.rules.kept import near_regions
from amplint.rules.switching import comes_before

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.NOTE,
    triggers=("autocast & .half(", "autocast & .bfloat16(", "autocast & .to("),
    default=False,
)

# Methods and functions that store what they are given.
_KEEPS = ("append", "extend", "add", "put", "save", "copy_", "update", "index_copy_", "write", "send")
# Integers have to be cast to something.
_TARGET = re.compile(r"(?i)target|label|mask|one_?hot|soft|^y$|^gt|^t$")
_DISPLAY = Fix(Applicability.DISPLAY, "Leave it in float32; the region casts what it needs")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to a half type in a region, and of the models of the file's optimizers."""
    if all(is_false(each.enabled) for each in regions(module)):
        return
    told: set[int] = set()
    owned = {root for roots in objects(module).owns.values() for root in roots}
    for cast in casts(module):
        if cast.dtype in HALF and cast.key in owned and _meets_region(module, cast):
            told.add(cast.call.id)
            yield _finding(module, cast.call, f"the parameters become {cast.dtype}, which autocast keeps in float32")
    for call in near_regions(module).calls:
        if call.id in told or cast_to(module, call) not in HALF:
            continue
        if _in_region(module, call) and _is_read(module, call):
            yield _finding(module, call, "the region around casts what its products take")


def _in_region(module: Module, call: ir.Call) -> bool:
    """Whether a with statement round a call opens a region that isn't off, the innermost of the regions round it."""
    up: ir.Node | None = ir.statement_of(call).parent
    while isinstance(up, ir.Statement) and not isinstance(up, (ir.Function, ir.Class)):
        if isinstance(up, ir.If):
            return False  # it may be for where autocast is off
        opened = opened_by(module, up) if isinstance(up, ir.With) else []
        if opened:
            return not is_false(opened[-1].enabled)
        up = up.parent
    return False


def _meets_region(module: Module, cast: Cast) -> bool:
    """Whether a region is on where the model is cast, and entered behind that."""
    known, optimizers = decided(module), objects(module).owned_by(cast.key)
    return any(
        possible(known.around(cast.call), known.of(each.enabled)) is not None
        and comes_before(module, cast.call, cast.key, each.call, optimizers)
        for each in regions(module)
        if not is_false(each.enabled)
    )


def _is_read(module: Module, call: ir.Call) -> bool:
    """Whether the result is an argument of a call, or kept in a variable: no item or attribute of something else."""
    up = call.parent
    if isinstance(up, ir.Call):
        return next(iter(up.positional), None) is call and not _wants_half(module, up)
    if not isinstance(up, ir.Assign) or not all(isinstance(each, ir.Name) for each in up.targets):
        return False
    names, function = {ir.last_name(each) for each in up.targets}, ir.function_of(call)
    if any(_TARGET.search(each) for each in names) or "one_hot" in module.text(call):
        return False
    return not any(
        _wants_half(module, each)
        and any(ir.last_name(arg.value) in names for arg in each.args if isinstance(arg.value, ir.Name))
        for each in module.whole.within(function).calls
        if ir.function_of(each) is function
    )


def _wants_half(module: Module, call: ir.Call) -> bool:
    """Whether a call keeps its arguments, or is one of another package, whose kernels autocast casts nothing for."""
    if ir.last_name(call.func) in _KEEPS:
        return True
    return any(not name.startswith("torch.") for name in module.names.of(call.func) - {UNKNOWN, NOTHING})


def _finding(module: Module, call: ir.Call, why: str) -> Finding:
    message = f"`{module.on_one_line(call)}` casts by hand: {why}; leave it out"
    return rule.finding(module.span(call), message, fix=_DISPLAY)
