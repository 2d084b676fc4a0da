"""What torch's operations give for operands of some kinds, in an autocast context."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint.model.half.autocast_context import Autocast, AutocastContext, is_listed
from amplint.model.half.layers import plain_weights
from amplint.model.half.observations import Given
from amplint.model.inference.soft_targets import has_soft_targets
from amplint.model.inference.tensor_types import (
    A_TENSOR,
    COMPLEX,
    FLOAT32,
    FLOAT64,
    FLOATING,
    HALF,
    IN_FLOAT32,
    INT,
    LIST,
    NUMBER,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_KIND,
    WHOLE,
    Kind,
    join,
    likely_half,
    promoted,
    widest,
)
from amplint.model.syntax import ir
from amplint.model.torch_facts.autocast_ops import Cast
from amplint.model.torch_facts.op_spellings import BY_INDEX, PRODUCTS, SPELLINGS, Gives, Spelling

if TYPE_CHECKING:
    from amplint.model import Module

_FLOATING = (HALF, FLOAT32, FLOATING)
# What comes of some ops, whatever their operands are.
_ALWAYS = {Gives.NOTHING: A_TENSOR, Gives.WHOLE: WHOLE, Gives.COMPLEX: Kind(COMPLEX)}
_KEEPING = (Gives.PROMOTED, Gives.WIDEST, Gives.FIRST, Gives.FLOATING, Gives.LIKE, Gives.PIECES)
_OF_FACTORS = ("exp", "clamp", "clip", "detach", "float", "to", "mean")
_FACTOR = re.compile(r"(?i)(^|_)(scale|temp|temperature|tau|factor)$")


def result_of(module: Module, spelling: str, operands: Sequence[Given], place: AutocastContext) -> Kind:
    """What a spelling gives for its operands in an autocast context."""
    how = SPELLINGS.get(spelling)
    kinds = [kind for _, kind in operands]
    if how is None or (not kinds and how.gives is not Gives.CREATED):
        return UNKNOWN_KIND
    if place.state == Autocast.UNKNOWN and is_listed(how.ops):
        return A_TENSOR
    if place.state == Autocast.ON:
        casts = place.casts(how.ops)
        likely = _likely(how, operands) if not any(casts) else None
        if likely is not None:
            return likely
        found = [_cast(module, how, cast, kinds, place) for cast in casts]
        result = found[0]
        for each in found[1:]:
            result = join(result, each)
        return result
    if spelling in BY_INDEX:
        likely = _by_index(module, spelling, kinds)
    else:
        likely = _likely_product(kinds) if spelling in PRODUCTS else _likely(how, operands)
    return likely if likely is not None else _own(module, how, kinds)


def _by_index(module: Module, spelling: str, kinds: Sequence[Kind]) -> Kind | None:
    """What a loss gives whose targets aren't known: it has the dtype of its input if these are indices of classes.

    None where it isn't of a known dtype, or they may be probabilities, which are float32.
    """
    given, target = kinds[0], kinds[1] if len(kinds) > 1 else UNKNOWN_KIND
    known = given.what == FLOAT32 or bool(given.names)
    if not known or target.likely_half or target.what not in (UNKNOWN, TENSOR, FLOATING, INT):
        return None
    if target.what == INT or given.what == FLOAT32 or spelling != "cross_entropy":
        return given._replace(cast=0)
    return None if has_soft_targets(module) else likely_half(given.names, given.region)


def _likely(how: Spelling, operands: Sequence[Given]) -> Kind | None:
    """What an op gives of what is likely half, beside half tensors and numbers alone; None where it isn't of that.

    A factor that is called one counts as a number: a learnt temperature has no dimensions, and doesn't promote.
    """
    deciding = operands[1:] if how.ops == ("where",) else operands
    tensors = [kind for value, kind in deciding if kind.what not in (NUMBER, INT) and not _is_factor(value, kind)]
    given = next((kind for kind in reversed(tensors) if kind.likely_half), None)
    keeps = how.gives in _KEEPING or how.ops == ("norm",)
    if given is None or not keeps:
        return None
    alike = all((kind.likely_half or kind.what == HALF) and kind.names == given.names for kind in tensors)
    return given if alike else None


def _likely_product(kinds: Sequence[Kind]) -> Kind | None:
    """What a product of matrices gives, one of which is half or likely half, and others not known: with a float32 one
    it raises. None where it isn't of that.
    """
    tensors = [each for each in kinds if each.what != NUMBER]
    halves = [each for each in tensors if each.names]
    if not halves or len({each.names for each in halves}) > 1 or all(each.what == HALF for each in tensors):
        return None
    others = {each.what for each in tensors if not each.names}
    return likely_half(halves[0].names, halves[0].region) if others <= {UNKNOWN, TENSOR, FLOATING} else None


def _is_factor(value: ir.Value | None, kind: Kind) -> bool:
    """Whether a value is called a factor, or is computed from what is, as `logit_scale.exp()`."""
    while value is not None and (base := ir.called_on(value, *_OF_FACTORS)) is not None:
        value = base
    return kind == UNKNOWN_KIND and value is not None and bool(_FACTOR.search(ir.last_name(value)))


def _cast(module: Module, how: Spelling, cast: Cast | None, kinds: Sequence[Kind], place: AutocastContext) -> Kind:
    """What autocast's treatment of an op gives."""
    if cast is None or how.gives is Gives.COMPLEX:
        return _own(module, how, kinds)
    tensors = [each for each in kinds if each.what != NUMBER]
    whats = {each.what for each in tensors}
    if cast is Cast.LOW:
        if whats & {FLOAT64, INT, COMPLEX} or not place.likely_low:
            return A_TENSOR
        return Kind(HALF, place.low, place.region) if place.low else likely_half(place.likely_low, place.region)
    if cast is Cast.PROMOTE:
        return _promoted_in(place, tensors)
    if cast is Cast.BANNED or whats & {FLOAT64, COMPLEX}:
        return A_TENSOR
    deciding = tensors if cast is Cast.FLOAT32 else tensors[:1]
    return IN_FLOAT32 if any(each.what in _FLOATING or each.likely_half for each in deciding) else A_TENSOR


def _promoted_in(place: AutocastContext, tensors: Sequence[Kind]) -> Kind:
    """What an op gives that a region promotes to the widest of its tensors."""
    floating = [each for each in tensors if each.what != INT]
    if any(each.what not in _FLOATING or (each.what == HALF and each.names != place.low) for each in floating):
        return A_TENSOR
    return widest(floating)


def _own(module: Module, how: Spelling, kinds: Sequence[Kind]) -> Kind:
    """What an op gives that no list names."""
    first = kinds[0] if kinds else UNKNOWN_KIND
    same = first if first.is_tensor else UNKNOWN_KIND
    if how.gives in _ALWAYS:
        return _ALWAYS[how.gives]
    if how.gives is Gives.PROMOTED:
        return promoted(kinds[1:] if how.ops == ("where",) else kinds)
    if how.gives is Gives.WIDEST:
        return widest(kinds)
    if how.gives is Gives.CREATED:
        return IN_FLOAT32 if plain_weights(module) else A_TENSOR
    if how.gives is Gives.PAIR:
        return Kind(TUPLE, items=(first, WHOLE))
    if how.gives is Gives.PIECES:
        return Kind(LIST, items=(same,))
    if how.gives is Gives.FLOATING and first.what not in (*_FLOATING, FLOAT64):
        return A_TENSOR if first.what != UNKNOWN else UNKNOWN_KIND
    return same
