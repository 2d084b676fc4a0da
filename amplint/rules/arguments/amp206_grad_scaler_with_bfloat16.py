"""A GradScaler is on where all regions run in bfloat16.

## What it does
Finds a scaler that the file makes and that is, or can be, switched on while every region round the losses that it
scales runs in bfloat16: by a literal, a variable, or a table whose items are all bfloat16. Also where there is no
region and the parameters of all the file's optimizers were cast to bfloat16.

It is silent where some region's dtype isn't known or can be another one, where `enabled` hangs on the dtype or on a
flag that speaks of float16, and where the regions are out of sight.

## Why is this bad?
bfloat16 has float32's exponents: gradients that float32 can hold don't become zero in it, and scaling changes nothing
(20 steps with and without a scaler give the same parameters, bit by bit). What is left is its cost, a look at all
gradients and a wait for the device in each step, and that it leaves out a step, without a word, wherever a gradient is
infinite or NaN.

## Example
```python
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda", enabled=False)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Fix safety
Unsafe: steps with infinite gradients, which the scaler left out, are taken; and a checkpoint then holds an empty state
of the scaler. Where the dtype is kept in a variable that can be read there, `enabled` becomes
`dtype == torch.float16`, so that the scaler comes back with float16.

## Proof
In the fixtures the scaler multiplies by 65,536 to the end before, and is off after; parameters are the same.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.fixes.device_choice import readable_at
from amplint.fixes.inherited_arguments import module_name
from amplint.model.inference.formulas import Formula, both, possible
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.regions.openers import Open
from amplint.model.regions.training_regions import runs_in, trained
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.usage.module_casts import Cast, casts
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import constructions, is_bfloat16, set_enabled
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    triggers=("GradScaler & autocast", "GradScaler & bfloat16"),
    not_shown="a scaler in bfloat16 only costs: gradients and updates are the same",
)

# A flag that speaks of float16, whose path may have no region here.
_HALF = re.compile(r"(?i)fp_?16|f16|half|float16|(?<!\d)16")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each construction of a scaler all of whose losses come out of bfloat16."""
    scaled = [each for each in trained(module) if each.event.kind == "scale"]
    every = [each for each in regions(module) if not is_false(each.enabled)]
    if not scaled or not all(is_bfloat16(module, each) for each in every):
        return
    cast = _bfloat16_parameters(module) if not every else None
    found: dict[int, tuple[ir.Call, list[Open]]] = {}
    for each in scaled:
        made = constructions(module, receiver(each.event))
        if not made or each.unseen or not (each.entered or cast):
            return  # another scaler, or the same one, has losses that can't be told
        for call in made:
            found.setdefault(call.id, (call, []))[1].extend(each.entered)
    for call, entered in found.values():
        if cast is not None:
            if _is_on_with(module, call, decided(module).around(cast.call)):
                yield _finding(module, call, "False", f"the parameters are bfloat16 ({module.line(cast.call)})")
            continue
        on = next((each for each in entered if _is_on_with(module, call, runs_in(module, each, "bfloat16"))), None)
        if on is not None:
            what = f"the losses that this scaler scales come out of bfloat16 ({module.line(on.region.call)})"
            yield _finding(module, call, _condition(module, call, on.region), what)


def _bfloat16_parameters(module: Module) -> Cast | None:
    """The cast to bfloat16 of a model, where all that the file's optimizers own is cast so."""
    owned = {root for roots in objects(module).owns.values() for root in roots}
    last = {each.key: each for each in casts(module)}
    found = [each for key, each in last.items() if key in owned and each.dtype == "bfloat16"]
    return found[0] if owned and len(found) == len(owned) else None


def _is_on_with(module: Module, call: ir.Call, bfloat16: Formula) -> bool:
    """Whether the scaler can be on while all is bfloat16."""
    known = decided(module)
    on = both(known.inside(call), known.of(call.keyword("enabled")))
    if is_vague(on) or call.unpacks("**") or any(_HALF.search(name) for name in on.facts()):
        return False
    return possible(on, bfloat16) is not None


def _finding(module: Module, call: ir.Call, text: str, what: str) -> Finding:
    edit = set_enabled(module, call, text)
    return rule.finding(
        module.span(call),
        f"{what}, which needs no scaling: the scaler costs time and leaves out steps; switch it off",
        fix=Fix(Applicability.UNSAFE, f"Switch it off: `enabled={text}`", (edit,)) if edit is not None else None,
        withheld=None if edit is not None else "its arguments are in the way",
    )


def _condition(module: Module, call: ir.Call, region: Region) -> str:
    """What `enabled` should be: a test of the variable that the dtype is kept in, else False."""
    torch, value = module_name(module, "torch"), region.dtype
    kept = isinstance(value, ir.Attribute) and owner_class(value) is not None
    if isinstance(value, ir.Name):
        kept = all(isinstance(each, Assigned) for each in module.names.bindings(value))
    if torch is None or value is None or not kept or not readable_at(module, value, call):
        return "False"
    return f"{module.text(value)} == {torch}.float16"
