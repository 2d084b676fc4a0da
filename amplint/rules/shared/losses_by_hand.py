"""Losses that are written out after a region: sums and means of what ops that autocast knows make of half outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.half.analysis import half
from amplint.model.half.autocast_context import Autocast, AutocastContext, listed_devices
from amplint.model.half.observations import Seen
from amplint.model.inference.tensor_types import HALF, Kind
from amplint.model.names.reaching_definitions import reaching
from amplint.model.regions.openers import opens
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.torch_facts.autocast_ops import Cast
from amplint.model.torch_facts.op_spellings import SPELLINGS
from amplint.rules.shared.half_ops import met

if TYPE_CHECKING:
    from amplint.model import Module

_REDUCTIONS = ("mean", "sum")
_IN_FLOAT32 = {Cast.FLOAT32, Cast.FLOAT32_OUT, Cast.FLOAT32_APPENDED}
_FOLLOW = 5


def losses_by_hand(module: Module) -> Iterator[Seen]:
    """The reductions to one number that are half after a region, and would be float32 inside.

    Each is a term of a loss that backward is called on; of several in a statement, the first.
    """
    statements: set[ir.Statement] = set()
    for seen in met(module, _REDUCTIONS):
        if not _is_half(seen) or ir.statement_of(seen.node) in statements:
            continue
        if any(seen.node.id in each.parts for each in trained(module)) and _is_float32_inside(module, seen):
            statements.add(ir.statement_of(seen.node))
            yield seen


def _is_half(seen: Seen) -> bool:
    """Whether a reduction to one number, outside of every region, is made of a region's half output."""
    outside = seen.autocast.state == Autocast.OUTSIDE and len(seen.operands) == 1 and not seen.keywords
    return outside and _is_left_half(seen.operands[0][1])


def _is_left_half(kind: Kind) -> bool:
    return bool(kind.region) and (kind.what == HALF or kind.likely_half)


def _is_float32_inside(module: Module, seen: Seen) -> bool:
    """Whether a region computes in float32, on one of its devices, one of the ops that a reduction is made by.

    What a model out of sight gives may be a loss. It isn't where such an op is no sum: nobody squares a loss.
    """
    kind = seen.operands[0][1]
    inside = AutocastContext(Autocast.ON, devices=_devices(module, kind.region))
    made = {each.id for each in _made_of(module, seen.node, _FOLLOW)}
    return any(
        not _IN_FLOAT32.isdisjoint(inside.casts(SPELLINGS[each.spelling].ops))
        and any(_is_left_half(given) for _, given in each.operands)
        for each in half(module)
        if each.node.id in made and each.spelling in SPELLINGS
        if kind.what == HALF or each.spelling not in _REDUCTIONS
    )


def _devices(module: Module, entered: int) -> tuple[str, ...]:
    """The devices that what is entered can be a region for."""
    opened = opens(module, module.value(entered)).regions
    return tuple({device for opening in opened for device in listed_devices(module, opening.region)})


def _made_of(module: Module, value: ir.Value, depth: int) -> Iterator[ir.Value]:
    """A value, what is below it, and what its variables are assigned."""
    for each in ir.walk_values(value):
        yield each
        for binding in reaching(module.names, each) if isinstance(each, ir.Name) and depth else ():
            if isinstance(binding, Assigned):
                yield from _made_of(module, binding.value, depth - 1)
