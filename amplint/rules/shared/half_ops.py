"""What the rules about half-precision numbers share: how they name things, and the edits that cast up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Fix
from amplint.fixes.edits import insert
from amplint.model.half.analysis import half
from amplint.model.inference.tensor_types import Kind
from amplint.model.inference.values import asked, values_of
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.half.observations import Seen

# What half precision holds and what it doesn't (AMP facts measured with torch 2.13).
LARGEST_FLOAT16 = 65504.0
LARGEST_BFLOAT16 = 3.3895313892515355e38
ZERO_FLOAT16 = 2.9802322387695312e-08  # this and less rounds to 0
_LONG = 40


def met(module: Module, spellings: Iterable[str]) -> Iterator[Seen]:
    """The operations of some spellings, in the order of the text."""
    wanted = frozenset(spellings)
    return (each for each in half(module) if each.spelling in wanted)


def shown(module: Module, value: ir.Value) -> str:
    """A value for a message: as it is written, if that is short."""
    text = module.on_one_line(value)
    return f"`{text}`" if len(text) <= _LONG else "the operand"


def called(module: Module, seen: Seen) -> str:
    """An operation for a message, by what is written: the method that a model calls isn't what torch calls the op."""
    if isinstance(seen.node, ir.Call) and ir.last_name(seen.node.func) != seen.spelling:
        return f"`{module.on_one_line(seen.node.func)}`"
    is_product = isinstance(seen.node, ir.Binary) and seen.node.op == "MatrixMultiply"
    return "the matrix product" if is_product else f"`{seen.spelling}`"


def dtype_of(kind: Kind) -> str:
    """The half dtype that a tensor has, for a message."""
    return " or ".join(sorted(kind.names, reverse=True)) if kind.names else kind.what


def casting_up(module: Module, value: ir.Value) -> list[Edit]:
    """Put `.float()` behind a value, in parentheses where it needs them."""
    start, end = module.layout.outer(value)
    simple = (ir.Name, ir.Attribute, ir.Subscript, ir.Call)
    if isinstance(value, simple) or (start, end) != module.span(value):
        return [insert(end, ".float()")]
    return [insert(start, "("), insert(end, ").float()")]


def up(
    module: Module,
    values: Sequence[ir.Value],
    *,
    safe: bool = False,
    effect: str = "later results may become float32 too",
) -> Fix:
    """The fix that casts some operands to float32; if it isn't safe, `effect` says why."""
    edits = [edit for value in values for edit in casting_up(module, value)]
    title = f"Call `.float()` on {' and '.join(dict.fromkeys(shown(module, each) for each in values))}"
    if safe:
        return Fix(Applicability.SAFE, title, tuple(sorted(edits)))
    return Fix(Applicability.UNSAFE, f"{title} ({effect})", tuple(sorted(edits)))


# What gives one number of a tensor where no dimension is given, and what leaves a tensor's dimensions as they are.
_REDUCES = ("amax", "amin", "max", "min", "mean", "sum", "std", "var", "norm", "median", "prod", "nanmean", "nansum")
_KEEPS = (
    "abs", "sqrt", "rsqrt", "exp", "log", "square", "neg", "detach", "clone", "float", "half", "to", "add", "sub",
    "mul", "clamp", "clamp_min", "clamp_max", "clip", "item",
)  # fmt: skip


def is_one_number(module: Module, value: ir.Value) -> bool:
    """Whether a tensor has no dimensions, going by the reductions that it is made by: its dtype doesn't promote."""
    leaves = (leaf for leaf in values_of(module, value).leaves if not leaf.is_open)
    return any(asked(module, _is_made_one_number, leaf.value, False) for leaf in leaves)


def _is_made_one_number(module: Module, value: ir.Value) -> bool:
    if isinstance(value, ir.Unary):
        return is_one_number(module, value.operand)
    if isinstance(value, ir.Binary):
        parts = [each for each in (value.left, value.right) if not isinstance(each, ir.Constant)]
        return bool(parts) and all(is_one_number(module, each) for each in parts)
    return isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and _gives_one_number(module, value)


def _gives_one_number(module: Module, call: ir.Call) -> bool:
    """Whether a method, or a function of a module, reduces a tensor to one number, or keeps the number that it is."""
    assert isinstance(call.func, ir.Attribute)
    of_torch = any(each.startswith("torch.") for each in module.names.of(call.func))
    given = call.positional if of_torch else (call.func.base, *call.positional)
    name = call.func.attr
    if name in _REDUCES:
        at_most = 2 if name == "norm" else 1
        return len(given) <= at_most and call.keywords.keys().isdisjoint(("dim", "axis", "keepdim"))
    return name in _KEEPS and bool(given) and is_one_number(module, given[0])


def divided_by(value: ir.Value) -> ir.Value | None:
    """What a value divides, directly or behind such as `.sqrt()`."""
    node: ir.Node | None = value
    while node is not None:
        up = node.parent
        if isinstance(up, ir.Binary):
            return up.left if up.op == "Divide" and up.right is node else None
        arg = up.parent if isinstance(up, (ir.Attribute, ir.Arg)) else up
        if not isinstance(arg, ir.Call) or ir.last_name(arg.func) not in _KEEPS:
            return None
        node = arg
    return None
