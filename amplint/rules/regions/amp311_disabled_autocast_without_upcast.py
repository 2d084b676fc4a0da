"""Code with autocast disabled still computes with the outer autocast region's half-precision tensors.

## What it does
Finds operations in a region with `enabled=False`, inside another region, that get a tensor which the outer region has
left in half precision. The disabled region may also be in a function or module that the outer region calls. amplint
reports only operations whose inputs autocast would cast: matrix products, losses, norms, softmax, ...

The finding is an error if the operation also has a float32 operand, and raises. It is a warning if the operation runs
in half precision.

Also finds, as *likely*, a criterion in a disabled region that is a parameter of the function (`criterion(outputs,
targets)`), if it gets what a model leaves in half precision, whether or not an outer region is open.

amplint reports nothing:

- if the tensor is cast, for example with `.float()`;
- if amplint can't see where the tensor comes from (except for a cross entropy of what a model returns);
- if the code casts to half precision on purpose.

## Why is this bad?
`enabled=False` disables the casts; it casts nothing itself. A half-precision tensor stays in half precision, and what
should be computed in float32 overflows or is rounded as in the outer region. A product of a half-precision tensor and
a float32 tensor, such as the weights of a layer, raises "mat1 and mat2 must have the same dtype".

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    features = encoder(images)
    with torch.autocast("cuda", enabled=False):
        similarity = features @ features.T
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    features = encoder(images)
    with torch.autocast("cuda", enabled=False):
        similarity = features.float() @ features.float().T
```

## Fix safety
The fix casts the half-precision operands with `.float()`. Safe for functions and operators if all operands are known to
be in half precision. Unsafe for a layer, whose weights may be in half precision too, and if an operand is not known.

## Proof
In the wrong programs sums overflow to inf and the loss becomes NaN, or two dtypes raise RuntimeError. The losses of the
corrected programs agree with the reference.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.half.analysis import half
from amplint.model.half.autocast_context import Autocast, is_listed
from amplint.model.half.observations import OUT_OF_SIGHT, Seen
from amplint.model.inference.tensor_types import FLOAT32, HALF, Kind
from amplint.model.inference.values import parameter_read, values_of
from amplint.model.names.grad_mode import without_gradients
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.syntax import ir
from amplint.model.torch_facts.op_spellings import PRODUCTS, SPELLINGS
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import called, dtype_of, met, shown, up

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast & enabled=False", "autocast & enabled = False", "autocast & (False"),
    not_shown="verify uses a small model and criterion of its own instead of yours",
    formerly=("island-without-upcast",),
)


# What a criterion is called that a function gets.
_CRITERION = re.compile(r"(?i)crit|loss")
_FOLLOW = 4
_OF_ATTENTION = 3  # query, key and value
# An op and those of its operands that are half.
_Found = tuple[Seen, list[tuple[ir.Value, Kind]]]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each op in a nested region that is off, and gets half tensors from the region round it; one for a region."""
    done: set[int] = set()
    found: dict[int, list[_Found]] = {}
    for seen in half(module):
        halves = _halves(seen) if _is_switched_off(seen) and seen.node.id not in done else []
        if halves:
            done.add(seen.node.id)
            found.setdefault(seen.autocast.region, []).append((seen, halves))
    in_criteria: set[int] = set()
    for seen in met(module, (OUT_OF_SIGHT,)):
        if seen.autocast.region not in found and seen.autocast.region not in in_criteria:
            for finding in _of_criterion(module, seen):
                in_criteria.add(seen.autocast.region)
                yield finding
    for region, together in found.items():
        fix = _fix(module, together)
        for seen, halves in together:
            yield _finding(module, seen, halves, fix)._replace(cause=f"upcast {region}")


def _of_criterion(module: Module, seen: Seen) -> Iterator[Finding]:
    """The finding of a criterion that the function gets, and that gets what a model leaves in half precision."""
    outputs = next(((value, kind) for value, kind in seen.operands if kind.likely_half and value is not None), None)
    if outputs is None or not isinstance(seen.node, ir.Call) or without_gradients(module, seen.node):
        return
    func = seen.node.func
    if not _CRITERION.search(ir.last_name(func)) or parameter_read(module, func) is None:
        return
    if not all(each.is_open for each in values_of(module, func).leaves):
        return  # in sight, where it may cast
    output, criterion = shown(module, outputs[0]), f"`{module.on_one_line(func)}`"
    yield rule.finding(
        module.span(seen.node),
        f"{output} is probably still {dtype_of(outputs[1])} where autocast is disabled, and {criterion} then computes "
        f"in that dtype; cast the tensors of {output} with `.float()`",
        withheld=f"amplint can't see {criterion}, nor the structure of {output}",
        confidence=Confidence.LIKELY,
    )


def _fix(module: Module, together: list[_Found]) -> Fix:
    """The casts of all that a region gets: cast one by one, a product would get half and float32."""
    made = {seen.node.id for seen, _ in together}
    values = {value.id: value for _, halves in together for value, _ in halves if not _is_made(module, value, made)}
    sure = all(kind.what == HALF for seen, _ in together for _, kind in seen.tensors())
    safe = sure and not any(seen.layer is not None or _fails(seen) for seen, _ in together)
    return up(module, [*values.values()], safe=safe)


def _is_made(module: Module, value: ir.Value, made: set[int], depth: int = _FOLLOW) -> bool:
    """Whether a value comes from the result of one of some ops: it is float32 where their operands are."""
    for each in ir.walk_values(value):
        bound = only_assignment(module.names, each) if isinstance(each, ir.Name) and depth else None
        if each.id in made or (bound is not None and _is_made(module, bound.value, made, depth - 1)):
            return True
    return False


def _is_switched_off(seen: Seen) -> bool:
    """Whether an op runs in a region that is off, and would be cast for in one that is on."""
    how = SPELLINGS.get(seen.spelling)
    return seen.autocast.state == Autocast.DISABLED and how is not None and is_listed(how.ops, "cuda")


def _halves(seen: Seen) -> list[tuple[ir.Value, Kind]]:
    """The operands that the region round it has left in half precision; none where the code means half."""
    tensors = seen.tensors()
    if any(kind.what == HALF and not kind.region for _, kind in tensors):
        return []  # beside a tensor that the code casts to half itself, half is meant
    halves = [(value, kind) for value, kind in tensors if kind.what == HALF]
    if seen.spelling == "scaled_dot_product_attention" and len(halves) < _OF_ATTENTION:
        return []  # its operands have one dtype: to cast those that are known would raise
    if not halves and seen.spelling == "cross_entropy":  # for other losses a model out of sight may give float32
        halves = [(value, kind) for value, kind in tensors[:1] if kind.likely_half]
    return halves


def _finding(module: Module, seen: Seen, halves: list[tuple[ir.Value, Kind]], fix: Fix) -> Finding:
    value, kind = halves[0]
    fails = _fails(seen)
    product = called(module, seen)
    other = "the other" if len(seen.tensors()) == 2 else "another"
    others = f"the weights of {product} are" if seen.layer is not None else f"{other} operand of {product} is"
    what = (
        f", but {others} float32: {product} raises RuntimeError" if fails else f": {product} runs in {dtype_of(kind)}"
    )
    likely = "probably " if kind.likely_half else ""
    every = " and ".join(dict.fromkeys(shown(module, each) for each, _ in halves))
    return rule.finding(
        module.span(seen.node),
        f"{shown(module, value)} is {likely}still {dtype_of(kind)} where autocast is disabled{what}; "
        f"call `.float()` on {every}",
        fix=fix,
        severity=Severity.ERROR if fails else Severity.WARNING,
    )


def _fails(seen: Seen) -> bool:
    """Whether a product gets half and float32."""
    kinds = {kind.what for _, kind in seen.tensors()}
    return seen.spelling in PRODUCTS and (FLOAT32 in kinds or seen.layer is not None)
