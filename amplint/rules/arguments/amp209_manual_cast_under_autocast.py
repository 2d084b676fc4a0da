"""A manual cast duplicates what autocast does.

## What it does
Finds `.half()`, `.bfloat16()`, `.to(torch.float16)` and `.to(torch.bfloat16)`:

- on a tensor in the body of an autocast region;
- on a model that is trained, if the file has autocast regions.

amplint reports nothing about:

- casts to float32;
- values that no matrix product uses (autocast casts nothing for a norm or a sum);
- values that are stored, or passed to functions of other packages;
- values that are written to (`out[:] = x.half()`);
- casts of a model after its training;
- casts under an `if` inside the region, and casts in a disabled region.

## Why is this bad?
autocast casts the inputs of matrix products by itself, so the cast of such an input changes nothing. Other casts do
harm:

- half-precision parameters get half-precision gradients and updates, so small updates are lost;
- inputs beyond 65504 become infinite in float16, also if the region is bfloat16;
- losses and targets lose digits, although autocast runs most losses in float32.

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
There is no fix: other code may need the value in half precision.

## Proof
The test programs are not executed (`shows=none`): the difference that a cast makes is as small as the rounding of half
precision.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast): don't call `half()` on model or inputs
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.model.inference.dtypes import HALF
from amplint.model.inference.formulas import TRUE, possible
from amplint.model.inference.value_sets import decided
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import regions
from amplint.model.regions.regions_at import regions_at
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import upwards
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import NOTHING, UNKNOWN
from amplint.model.torch_facts.autocast_ops import OP_LISTS
from amplint.model.torch_facts.autocast_ops import Cast as Casting
from amplint.model.torch_facts.op_spellings import SPELLINGS, spelled
from amplint.model.usage.mentions_of import near_regions
from amplint.model.usage.module_casts import Cast, cast_to, casts
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import comes_before

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.NOTE,
    fixes=(),
    triggers=("autocast & .half(", "autocast & .bfloat16(", "autocast & .to("),
    default=False,
    not_shown="verify uses its own models and inputs",
)

# Methods and functions that store what they are given.
_KEEPS = ("append", "extend", "add", "put", "save", "copy_", "update", "index_copy_", "write", "send")
# Integers have to be cast to something.
_TARGET = re.compile(r"(?i)target|label|mask|one_?hot|soft|^y$|^gt|^t$")
_LAYER = re.compile(r"Linear|Conv|Bilinear|RNN|LSTM|GRU|Attention|Transformer|Sequential|Module")
_NORM = re.compile(r"(?i)norm|(^|_)(bn|ln|gn)(\d|_|$)")  # no product, whoever wrote it
_DISPLAY = Fix(Applicability.DISPLAY, "Keep float32, as autocast casts to half precision what can run in it")


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
            yield _finding(
                module,
                cast.call,
                f"makes the parameters {cast.dtype}: small updates are lost",
            )
    for call in near_regions(module).calls:
        if call.id in told or cast_to(module, call) not in HALF:
            continue
        if _in_region(module, call) and _is_read(module, call):
            yield _finding(
                module,
                call,
                "is a manual cast in an autocast region: operations that autocast runs in float32 get rounded values",
            )


def _in_region(module: Module, call: ir.Call) -> bool:
    """Whether a `with` round a call surely opens a region that isn't off, with no test in between."""
    found = next((each for each in regions_at(module, call) if each.site is None), None)
    if found is None or found.when != TRUE or not isinstance(found.at, ir.With) or is_false(found.region.enabled):
        return False
    tests = (each for each in upwards(ir.statement_of(call)) if isinstance(each.parent, ir.If))
    return not any(found.at in upwards(each.parent) for each in tests if isinstance(each.parent, ir.If))


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
    """Whether what takes the result may be a product, at once or by a variable: what the region casts for."""
    up = call.parent
    if not isinstance(up, ir.Assign):
        return _is_taken(module, call) and not (isinstance(up, ir.Call) and _wants_half(module, up))
    if not all(isinstance(each, ir.Name) for each in up.targets):
        return False
    names = {ir.last_name(each) for each in up.targets}
    if any(_TARGET.search(each) for each in names) or "one_hot" in module.text(call):
        return False
    return _are_read(module, names, ir.function_of(call))


def _are_read(module: Module, names: set[str], function: ir.Function | None) -> bool:
    """Whether what takes one of some variables may be a product, and nothing needs them in half precision."""
    here = [each for each in module.whole.within(function).values if ir.function_of(each) is function]
    if any(isinstance(each, ir.Call) and _is_wanted(module, each, names) for each in here):
        return False
    reads = (each for each in here if isinstance(each, ir.Name) and each.name in names and not each.bound)
    return any(_is_taken(module, each) for each in reads)


def _is_wanted(module: Module, call: ir.Call, names: set[str]) -> bool:
    """Whether a call needs one of some variables in half precision."""
    given = (arg.value for arg in call.args if isinstance(arg.value, ir.Name))
    return any(each.name in names for each in given) and _wants_half(module, call)


def _is_taken(module: Module, value: ir.Value) -> bool:
    """Whether a value is an operand of a matrix product, or an argument of what may make one."""
    up = value.parent
    if isinstance(up, ir.Binary):
        return up.op == "MatrixMultiply"
    given = isinstance(up, ir.Call) and up.func is not value and any(each is value for each in up.positional)
    return isinstance(up, ir.Call) and given and _may_multiply(module, up.func)


def _may_multiply(module: Module, func: ir.Value) -> bool:
    """Whether what is called may make a matrix product of its arguments."""
    names = module.names.of(func) - {UNKNOWN, NOTHING}
    made = objects(module).classes_of(objects(module).key(func)) or names
    layers = {name for name in made if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()}
    if layers:
        return any(_LAYER.search(name) for name in layers)
    if made and all(map(_is_norm, made)):
        return False
    if any(name.startswith("torch.") for name in names):
        return any(_casts(spelled(name) or "") for name in names)
    if isinstance(func, ir.Attribute) and func.attr in SPELLINGS:
        return _casts(func.attr)
    return not _NORM.search(ir.last_name(func))


def _is_norm(name: str) -> bool:
    """Whether a class of the program is a norm by its name, and no layer with a product."""
    last = name.rpartition(".")[2]
    return _NORM.search(last) is not None and _LAYER.search(last) is None


def _casts(spelling: str) -> bool:
    """Whether some device's region casts a function's arguments to its half type."""
    ops = SPELLINGS[spelling].ops if spelling in SPELLINGS else ()
    low = {op.partition(".")[0] for listed in OP_LISTS.values() for op, cast in listed.items() if cast is Casting.LOW}
    return not low.isdisjoint(ops)


def _wants_half(module: Module, call: ir.Call) -> bool:
    """Whether a call keeps its arguments, or is one of another package, whose kernels autocast casts nothing for."""
    if ir.last_name(call.func) in _KEEPS:
        return True
    return any(not name.startswith("torch.") for name in module.names.of(call.func) - {UNKNOWN, NOTHING})


def _finding(module: Module, call: ir.Call, why: str) -> Finding:
    message = f"`{module.on_one_line(call)}` {why}; remove the cast"
    return rule.finding(module.span(call), message, fix=_DISPLAY)
