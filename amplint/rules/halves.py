"""What the rules about half-precision numbers share: how they name things, and the edits that cast up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Fix
from amplint.model import ir
from amplint.model.half import half
from amplint.model.kinds import HALF, Kind
from amplint.rules.editing import insert

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.half_values import Seen

# What half precision holds and what it doesn't (AMP facts measured with torch 2.13).
LARGEST_FLOAT16 = 65504.0
LARGEST_BFLOAT16 = 3.3895313892515355e38
ZERO_FLOAT16 = 2.9802322387695312e-08  # this and less rounds to 0
# Products of matrices, and what is computed as one: operands of two dtypes raise.
PRODUCTS = ("linear", "matmul", "mm", "bmm", "conv1d", "conv2d", "conv3d", "einsum", "addmm", "baddbmm")
_LONG = 40


def met(module: Module, spellings: Iterable[str]) -> Iterator[Seen]:
    """The operations of some spellings, in the order of the text."""
    wanted = frozenset(spellings)
    return (each for each in half(module) if each.spelling in wanted)


def shown(module: Module, value: ir.Value) -> str:
    """A value for a message: as it is written, if that is short."""
    text = module.on_one_line(value)
    return f"`{text}`" if len(text) <= _LONG else "the operand"


def dtype_of(kind: Kind) -> str:
    """The half dtype that a tensor has, for a message."""
    return " or ".join(sorted(kind.names, reverse=True)) if kind.what == HALF else kind.what


def casting_up(module: Module, value: ir.Value) -> list[Edit]:
    """Put `.float()` behind a value, in parentheses where it needs them."""
    start, end = module.layout.outer(value)
    simple = (ir.Name, ir.Attribute, ir.Subscript, ir.Call)
    if isinstance(value, simple) or (start, end) != module.span(value):
        return [insert(end, ".float()")]
    return [insert(start, "("), insert(end, ").float()")]


def up(module: Module, values: Iterable[ir.Value], *, safe: bool = False) -> Fix:
    """The fix that casts some operands to float32."""
    edits = [edit for value in values for edit in casting_up(module, value)]
    applicability = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(applicability, "Compute it in float32", tuple(sorted(edits)))
