"""A cast to float32 has no effect: autocast computes the matrix product after it in half precision.

## What it does
Finds a tensor that is cast to float32 inside an autocast region (`.float()`, `.to(torch.float32)`), and then goes into
an operation that autocast computes in half precision: a matrix product, `einsum`, a convolution, a linear layer.

The finding is only `likely` if the tensor may have been float32 before the cast: as the result of `F.normalize` on
cuda, or of a model that amplint can't see. The product is computed in half precision in any case.

If there is no fix, amplint reports only the first such operation of a function, as one region can enclose them all.

amplint reports nothing:

- if another operation uses the cast tensor after the product, too (not `z.size(0)` or `z.device`);
- if anything but views of the tensor comes between the cast and the operation;
- if the tensor may come from something other than floating-point arithmetic, such as a mask or an image;
- in a part of the region with `enabled=False`;
- if the cast is for softmax, a norm or a sum.

## Why is this bad?
Autocast casts the arguments of these operations back to half precision. The cast costs memory and time, and changes
nothing: large sums overflow in float16, as they would without the cast.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    scores = torch.einsum("bid,bjd->bij", q.float(), k.float())
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    with torch.autocast(device_type="cuda", enabled=False):
        scores = torch.einsum("bid,bjd->bij", q.float(), k.float())
```

## Fix safety
The fix puts the statement into a region with `enabled=False`. Unsafe: the product becomes slower, and its result is
float32.

There is no fix:

- if an operand may have another dtype than float32: without autocast, a product of two dtypes raises. Call `.float()`
  on all operands;
- if amplint can't tell the region's device;
- if the product is in the first line of an `if`, `for` or `with`.

## Proof
The test programs train with sums that overflow in float16. The loss of the wrong programs becomes NaN; the corrected
programs have the reference's loss.

## References
- [Autocast op reference](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float16)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.disabled_region import switched_off, wrapped
from amplint.fixes.inherited_arguments import module_name
from amplint.model.calls.call_graph import CallGraph
from amplint.model.half.analysis import half
from amplint.model.half.autocast_context import Autocast
from amplint.model.half.observations import Seen
from amplint.model.inference.tensor_types import FLOAT32, HALF
from amplint.model.inference.values import held
from amplint.model.names.reaching_definitions import returned
from amplint.model.syntax import ir
from amplint.model.torch_facts.autocast_ops import Cast
from amplint.model.torch_facts.op_spellings import SPELLINGS
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import called, met, shown

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & .float",),
    not_shown="verify uses a small model and criterion of its own instead of yours",
)

_CASTS = ("float", "to")
_DEEP = 4  # functions, one in the other
# What is asked of a tensor that has nothing to do with its numbers.
_ASKED = {"device", "dtype", "shape", "size", "dim", "ndim", "numel", "requires_grad"}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast to float32 that the next op undoes."""
    products = [name for name, how in SPELLINGS.items() if how.ops]
    undone = [each for each in met(module, products) if _casts_down(each)]
    nodes = {each.node.id for each in undone}
    upcasts = [*met(module, _CASTS)]
    likely = {each.node.id for each in upcasts if each.operands[0][1].what != HALF}
    idle = _idle(module, upcasts)
    done: set[int] = set()
    told: set[tuple[ir.Function | None, str]] = set()
    for seen in undone:
        casts = [
            (value, kind.cast)
            for value, kind in seen.tensors()
            if kind.what == FLOAT32 and kind.cast and kind.cast not in idle
        ]
        cast, made = min(casts, key=lambda each: each[1] in likely, default=(None, 0))
        if cast is None or seen.node.id in done or not _serves_nothing_else(module, cast, nodes):
            continue
        done.add(seen.node.id)
        fix, withheld = _fix(module, seen)
        place = ir.function_of(seen.node), seen.spelling
        if fix is None and place in told:
            continue  # one region by hand serves all of a function's
        told.add(place)
        yield rule.finding(
            module.span(seen.node),
            f"autocast casts {shown(module, cast)} back to {' or '.join(sorted(seen.autocast.low, reverse=True))} for "
            f"{called(module, seen)}: the cast to float32 has no effect; {_to_do(module, seen)}",
            fix=fix,
            withheld=withheld,
            confidence=Confidence.LIKELY if made in likely else None,
        )


def _idle(module: Module, upcasts: list[Seen]) -> set[int]:
    """The casts of what is float32 already, and that no op in a region has computed: of inputs."""
    bases = ((each.node.id, *each.operands[0]) for each in upcasts)
    of_float32 = [(cast, base) for cast, base, kind in bases if base is not None and kind.what == FLOAT32]
    if not of_float32:
        return set()
    computed = {each.node.id for each in half(module) if each.autocast.state == Autocast.ON}
    computed -= {each.node.id for each in upcasts}
    return {cast for cast, base in of_float32 if not _is_computed(module, base, computed)}


def _is_computed(module: Module, value: ir.Value, computed: set[int], depth: int = _DEEP) -> bool:
    """Whether an op has computed a value, also in a function of the project that gives it."""
    made = held(module, value)
    callee = module.once(CallGraph).find(made) if isinstance(made, ir.Call) and depth else None
    given = [each.value for each in returned(callee.function)] if callee is not None else []
    return made.id in computed or (
        bool(given) and all(each is not None and _is_computed(module, each, computed, depth - 1) for each in given)
    )


def _to_do(module: Module, seen: Seen) -> str:
    """What to do: without autocast, operands of two dtypes raise."""
    op = called(module, seen)
    where = "under `autocast(enabled=False)`"
    if all(kind.what == FLOAT32 for _, kind in seen.tensors()):
        return f"compute {op} {where}"
    return f"compute {op} {where}, with `.float()` on all operands"


def _casts_down(seen: Seen) -> bool:
    """Whether the region casts the op's operands to half, on every device that it can be for."""
    ops = SPELLINGS[seen.spelling].ops
    return (
        seen.autocast.state == Autocast.ON
        and bool(seen.autocast.low)
        and all(each is Cast.LOW for each in seen.autocast.casts(ops))
    )


def _serves_nothing_else(module: Module, cast: ir.Value, undone: set[int]) -> bool:
    """Whether a variable that holds what was cast goes only into ops that cast it back."""
    if not isinstance(cast, ir.Name):
        return not isinstance(cast, ir.Attribute)
    function = ir.function_of(cast)
    return all(
        any(above.id in undone for above in _above(read))
        for read in module.whole.within(function).values
        if isinstance(read, ir.Name) and read.name == cast.name and not read.bound and read.id >= cast.id
        if not (isinstance(read.parent, ir.Attribute) and read.parent.attr in _ASKED)
        if ir.function_of(read) is function
    )


def _above(value: ir.Value) -> Iterator[ir.Value]:
    up: ir.Node | None = value
    while isinstance(up, ir.Value):
        yield up
        up = up.parent


def _fix(module: Module, seen: Seen) -> tuple[Fix | None, str | None]:
    """Put the statement into a region that is off."""
    statement = ir.statement_of(seen.node)
    if len(seen.autocast.devices) != 1:
        return None, "amplint can't tell which device the region is for; make the change by hand"
    if any(kind.what != FLOAT32 for _, kind in seen.tensors()) or not _is_all_written(module, seen):
        return (
            None,
            "amplint can't tell which operands need a cast; cast each of them to float32 by hand",
        )
    if not isinstance(statement, (ir.Assign, ir.Expr, ir.Return)):
        return (
            None,
            "the product is part of an `if`, `for` or `with` line; compute the product in a statement before that line",
        )
    header = switched_off(module, f'"{seen.autocast.devices[0]}"')
    if header is None:
        if module_name(module, "torch") is None:
            return None, "the fix needs `import torch`, which this file lacks; add that import, and run amplint again"
        return None, "the project allows a torch without `torch.autocast`"
    edits = wrapped(module, statement, header)
    if edits is None:
        return None, "the statement is on one line with other code"
    return Fix(
        Applicability.UNSAFE,
        f"Compute {called(module, seen)} under `autocast(enabled=False)` (slower, and the result is float32)",
        tuple(edits),
    ), None


def _is_all_written(module: Module, seen: Seen) -> bool:
    """Whether no other op of half precision stands in the statement, which moves as a whole."""
    statement = ir.statement_of(seen.node)
    return not any(
        each.node is not seen.node and ir.statement_of(each.node) is statement and each.result.what != FLOAT32
        for each in half(module)
        if each.spelling in SPELLINGS and SPELLINGS[each.spelling].ops and _casts_down(each)
    )
