"""A constant that float16 can't hold goes into a float16 tensor.

## What it does
Finds numbers beyond 65,504 (for bfloat16: beyond 3.39e38) that are filled into a tensor which an autocast region has
left in half precision:

- by a function that raises: `masked_fill`, `fill_`, `full_like`, ... (an error);
- by `torch.where`, or by an assignment under a mask, where the number becomes inf or -inf (a warning);
- by a sum in place with a mask that is multiplied with the number, or filled with it: `scores += mask * -1e9` (a
  warning, and only `likely`).

The number may be a literal, a constant of the module, an attribute, a default, or `torch.finfo(torch.float32).min`.

amplint reports nothing:

- about -inf, which half precision can hold;
- if the tensor is float32 (after `softmax` on cuda, after `.float()`);
- about sums out of place, such as `scores + mask * -1e9`: they are float32 because the mask is float32;
- if the code checks the dtype.

## Why is this bad?
`scores.masked_fill(mask, -1e9)` raises "value cannot be converted to type c10::Half without overflow". An assignment,
`torch.where` and a sum in place turn the number into -inf without an error: in a softmax, a row in which everything is
masked becomes NaN, and so does the loss.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    scores = q @ k.transpose(-2, -1)
    scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(-1)
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    scores = q @ k.transpose(-2, -1)
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
```

## Fix safety
The fix fills with `torch.finfo(scores.dtype).min` (or `max`). Safe if the tensor is filled once and goes straight into
a softmax. Otherwise unsafe: if other code adds a second mask to the tensor, the sum becomes -inf, and softmax of a row
of -inf is NaN.

For `scores += mask * -1e9`, the fix computes a new tensor in float32 (`scores = scores + mask * -1e9`). Unsafe: other
references to the tensor keep the old tensor.

There is no fix if the tensor has no name, and none for `scores.add_(...)`.

## Proof
In the wrong programs `masked_fill` raises RuntimeError; `where`, the assignment and the sum in place give a loss of
NaN. The updates of the corrected programs agree with the reference.

## References
- [torch.finfo](https://docs.pytorch.org/docs/stable/type_info.html)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.edits import insert
from amplint.fixes.inherited_arguments import module_name
from amplint.model.half.observations import Given, Seen
from amplint.model.inference.numbers import number
from amplint.model.inference.tensor_types import HALF, NUMBER, Kind
from amplint.model.inference.values import asked, values_of
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import following
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import LARGEST_BFLOAT16, LARGEST_FLOAT16, dtype_of, met, shown

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast",),
    not_shown="verify uses a small model and criterion of its own instead of yours",
)

_RAISES = ("masked_fill", "masked_fill_", "fill", "fill_", "full_like", "new_full", "index_fill", "index_fill_")
_LONG = 40
_SILENT = ("setitem", "where")
_SUMS = {"add": 1, "add_": 1, "sub": -1, "sub_": -1}  # the sign of what is added
_FILLS = ("value", "fill_value", "other")
_KEEPS = ("to", "type", "type_as", "float", "unsqueeze", "view", "reshape", "expand", "expand_as", "repeat", "detach")


class _Fill(NamedTuple):
    """A constant that goes into a half tensor."""

    seen: Seen
    tensor: Given
    constant: ir.Value
    value: float

    @property
    def end(self) -> str:
        """What `torch.finfo` calls the number to fill with."""
        return "min" if self.value < 0 else "max"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each constant that a half tensor can't hold."""
    done: set[int] = set()
    for seen in met(module, (*_RAISES, *_SILENT)):
        found = _fill(seen)
        if found is None or seen.node.id in done:
            continue
        done.add(seen.node.id)
        fix, withheld = _fix(module, found)
        yield rule.finding(
            module.span(seen.node),
            _message(module, found),
            fix=fix,
            withheld=withheld,
            severity=Severity.ERROR if seen.spelling in _RAISES else Severity.WARNING,
        )
    for seen in met(module, _SUMS):
        if (added := _sum_in_place(module, seen)) is not None and seen.node.id not in done:
            done.add(seen.node.id)
            fix, withheld = _out_of_place(module, added)
            yield rule.finding(
                module.span(added.node),
                _message_of_sum(module, added),
                fix=fix,
                withheld=withheld,
                severity=Severity.WARNING,
                confidence=Confidence.LIKELY,
            )


def _fill(seen: Seen) -> _Fill | None:
    """The tensor that an operation fills and the constant, where the one can't hold the other."""
    given = _given(seen)
    tensors = [each for each in given if each[1].what == HALF]
    numbers = [(value, kind.value) for value, kind in given if kind.what == NUMBER and value is not None]
    if len(tensors) != 1 or seen.result.what != HALF or not numbers:
        return None
    constant, value = numbers[-1]
    if value is None or math.isinf(value) or not _is_too_large(value, seen.result):
        return None
    return _Fill(seen, tensors[0], constant, value)


def _given(seen: Seen) -> list[Given]:
    """What an operation is given; what an assignment to an item stores, with the tensor."""
    if seen.spelling != "setitem":
        return [*seen.operands, *(seen.keywords[key] for key in seen.keywords if key in _FILLS)]
    target = ir.statement_of(seen.node)
    if not isinstance(target, ir.Assign) or seen.node not in target.targets or target.value is None:
        return []
    return [seen.operands[0], (target.value, seen.operands[1][1])]


def _is_too_large(value: float, kind: Kind) -> bool:
    return abs(value) > (LARGEST_FLOAT16 if kind.can_be("float16") else LARGEST_BFLOAT16)


def _message(module: Module, found: _Fill) -> str:
    value = found.tensor[0]
    name = shown(module, value) if value is not None else "the tensor"
    kind = found.seen.result
    dtype = dtype_of(kind) if len(kind.names) == 1 else "float16 for one device or dtype of the region"
    spelling = "an assignment" if found.seen.spelling == "setitem" else f"`{found.seen.spelling}`"
    constant = shown(module, found.constant)
    if found.seen.spelling in _RAISES:
        what = f"{constant} is beyond its range, and {spelling} raises RuntimeError"
    else:
        inf = "-inf" if found.value < 0 else "inf"
        what = f"{constant} becomes {inf} in {spelling}, and softmax of a row that is all {inf} is NaN"
    asked = module.text(value) if value is not None and _is_dotted(value) else "tensor"
    return f"{name} is {dtype}: {what}; fill with `torch.finfo({asked}.dtype).{found.end}`"


# --- a mask that is added in place ----------------------------------------------------------------------------------


class _Sum(NamedTuple):
    """A mask times a constant, or filled with it, that is added to a half tensor in place."""

    node: ir.Statement | ir.Value  # the sum
    tensor: Given
    mask: Given
    is_positive: bool


def _sum_in_place(module: Module, seen: Seen) -> _Sum | None:
    """The sum that an operation makes in place, where what is added becomes infinite in the tensor's dtype."""
    statement = ir.statement_of(seen.node)
    augmented = isinstance(statement, ir.AugAssign) and statement.target is seen.node
    if len(seen.operands) != 2 or not (augmented or seen.spelling.endswith("_")):
        return None
    tensor, mask = seen.operands
    if tensor[1].what != HALF or mask[0] is None or mask[1].what == HALF:
        return None
    factor = _factor(module, mask[0])
    if factor is None or math.isinf(factor) or not _is_too_large(factor, tensor[1]):
        return None
    node = statement if augmented else seen.node
    return _Sum(node, tensor, mask, is_positive=factor * _SUMS[seen.spelling] > 0)


def _factor(module: Module, value: ir.Value) -> float | None:
    """The number that a mask is multiplied with or filled with; None where it has several, or none."""
    leaves = (leaf.value for leaf in values_of(module, value).leaves if not leaf.is_open)
    found = {asked(module, _factor_of, leaf, None) for leaf in leaves}
    return found.pop() if len(found) == 1 else None


def _factor_of(module: Module, value: ir.Value) -> float | None:
    if isinstance(value, ir.Unary) and value.op == "Minus":
        found = _factor(module, value.operand)
        return -found if found is not None else None
    if isinstance(value, ir.Binary) and value.op == "Multiply":
        parts = [_number(module, each) for each in (value.left, value.right)]
        numbers = [each for each in parts if each is not None]
        return numbers[0] if len(numbers) == 1 else None
    if not isinstance(value, ir.Call) or not isinstance(value.func, ir.Attribute):
        return None
    name, given = value.func.attr, value.positional
    if name in _KEEPS:
        return _factor(module, value.func.base)
    if name in ("mul", "mul_") and len(given) == 1:
        return _number(module, given[0])
    return _number(module, given[1]) if name in ("masked_fill", "masked_fill_") and len(given) == 2 else None


def _number(module: Module, value: ir.Value) -> float | None:
    kind = number(module, value)
    return kind.value if kind is not None else None


def _message_of_sum(module: Module, found: _Sum) -> str:
    assert found.tensor[0] is not None
    assert found.mask[0] is not None
    inf = "inf" if found.is_positive else "-inf"
    subtracts = isinstance(found.node, ir.AugAssign) and found.node.op == "Sub"
    return (
        f"{shown(module, found.tensor[0])} is {dtype_of(found.tensor[1])}: {'subtracting' if subtracts else 'adding'} "
        f"{_mask(module, found)} in place overflows to {inf}, and softmax of a row that is all {inf} is NaN; "
        f"{'subtract' if subtracts else 'add'} out of place, in float32"
    )


def _mask(module: Module, found: _Sum) -> str:
    """What is added, for a message."""
    text = module.on_one_line(found.mask[0]) if found.mask[0] is not None else ""
    return f"`{text}`" if len(text) <= _LONG else "the mask"


def _out_of_place(module: Module, found: _Sum) -> tuple[Fix | None, str | None]:
    """The fix that gives the sum a tensor of its own: float32, as the mask is."""
    node, tensor = found.node, found.tensor[0]
    if not isinstance(node, ir.AugAssign):
        return None, "a fix rewrites only `+=` and `-=`; compute the sum out of place by hand"
    if tensor is None or not _is_dotted(tensor):
        return None, "the tensor has no name; assign the tensor to a variable first"
    name, sign = module.text(tensor), "+" if node.op == "Add" else "-"
    start, end = module.layout.outer(node.value)
    edits = [Edit(module.span(tensor)[1], start, f" = {name} {sign} ")]
    if isinstance(node.value, (ir.Conditional, ir.Bool)):
        edits += insert(start, "("), insert(end, ")")
    verb = "Add" if sign == "+" else "Subtract"
    title = f"{verb} out of place, in float32 (other references to `{name}` keep the old tensor)"
    return Fix(Applicability.UNSAFE, title, tuple(edits)), None


# --- the fix --------------------------------------------------------------------------------------------------------


def _fix(module: Module, found: _Fill) -> tuple[Fix | None, str | None]:
    torch, tensor = module_name(module, "torch"), found.tensor[0]
    if torch is None:
        return None, "the fix needs `import torch`, which this file lacks; add that import, and run amplint again"
    if tensor is None or not _is_dotted(tensor):
        return None, "the tensor has no name; assign the tensor to a variable first"
    text = f"{torch}.finfo({module.text(tensor)}.dtype).{found.end}"
    safe = found.value < 0 and _goes_into_softmax(module, found.seen.node) and _is_filled_once(module, found)
    applicability = Applicability.SAFE if safe else Applicability.UNSAFE
    title = f"Fill with `{text}`" + ("" if safe else " (if other code adds a second mask, the sum becomes -inf)")
    return Fix(applicability, title, (Edit(*module.layout.outer(found.constant), text),)), None


def _is_dotted(value: ir.Value) -> bool:
    return isinstance(ir.root(value), ir.Name)


def _goes_into_softmax(module: Module, node: ir.Value) -> bool:
    """Whether what is filled goes straight into a softmax, and nowhere else."""
    parent = node.parent
    if isinstance(parent, (ir.Call, ir.Attribute)) and _is_softmax(module, node):
        return True
    if not isinstance(parent, ir.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ir.Name):
        return False
    name = parent.targets[0].name
    reads = _reads_behind(parent, name)
    if not reads or not _is_softmax(module, reads[0]):
        return False
    return len(reads) == 1 or _binds(ir.statement_of(reads[0]), name)


def _reads_behind(statement: ir.Statement, name: str) -> list[ir.Name]:
    """The reads of a variable in the suite of a statement, behind it."""
    return [
        value
        for each in following(statement)
        for inner in (each, *(s for block in each.blocks() for s in ir.walk_statements(block)))
        for root in inner.values()
        for value in ir.walk_values(root)
        if ir.is_variable(value, name) and not value.bound
    ]


def _binds(statement: ir.Statement, name: str) -> bool:
    """Whether a statement assigns to a variable."""
    return isinstance(statement, ir.Assign) and any(ir.is_variable(each, name) for each in statement.targets)


def _is_softmax(module: Module, value: ir.Value) -> bool:
    """Whether a value is the first operand of a softmax."""
    parent = value.parent
    if isinstance(parent, ir.Attribute):
        return parent.attr == "softmax" and isinstance(parent.parent, ir.Call) and parent.parent.func is parent
    if not isinstance(parent, ir.Call) or not parent.positional or parent.positional[0] is not value:
        return False
    return any(name.endswith(".softmax") and name.startswith("torch.") for name in module.names.of(parent.func))


def _is_filled_once(module: Module, found: _Fill) -> bool:
    """Whether nothing else is filled into the tensor or added to it."""
    own = ir.function_of(found.seen.node)
    name = module.text(found.tensor[0]) if found.tensor[0] is not None else ""
    for each in met(module, (*_RAISES, *_SILENT, "add", "sub", "add_")):
        if each.node is not found.seen.node and ir.function_of(each.node) is own:
            if any(value is not None and module.text(value) == name for value, _ in each.operands):
                return False
            if isinstance(each.node.parent, ir.Assign) and any(
                module.text(t) == name for t in each.node.parent.targets
            ):
                return False
    return True
