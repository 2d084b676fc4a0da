"""What is known of a value's dtype: the lattice of the half-precision reader, its joins and torch's promotion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import NamedTuple

from amplint.model.syntax import ir

HALF, FLOAT32, FLOAT64, INT, COMPLEX, TENSOR = "half", "float32", "float64", "int", "complex", "tensor"
FLOATING = "floating"
NUMBER, TUPLE, LIST, DICT, MODULE, DTYPE, UNKNOWN = "number", "tuple", "list", "dict", "module", "dtype", "unknown"
_TENSORS = (HALF, FLOAT32, FLOATING, FLOAT64, INT, COMPLEX, TENSOR)


# The dtype of what a region gives whose own dtype is not known: one of the half dtypes, if the region is on.
SOME_HALF = frozenset({"half precision"})


class Kind(NamedTuple):
    """What a value is, as far as it is known.

    `what`: a tensor of half precision, of float32, of one of both ("floating"), of float64, whole numbers or truth
    values ("int"), complex numbers, or of a dtype that isn't known ("tensor"); a Python number; a tuple of `items`; a
    list all of whose items are `items[0]`; a dictionary that has `items` under `keys`, and maybe more; a module made by
    one of `made`; the dtype of the tensor `items[0]`; or unknown. What a model that is not in sight gives in a region
    is unknown, and likely half, as its last layer gives it: `likely_half`. Of several things each is.
    """

    what: str
    names: frozenset[str] = frozenset()  # of half: the dtypes that it can be, float16 and bfloat16; of unknown: likely
    region: int = 0  # of half, also likely: the call that made the region it comes from; 0: another way
    cast: int = 0  # of float32: the call that cast a floating tensor up, also a likely one, if only a view came since
    value: float | None = None  # of a number, where it is known
    items: tuple[Kind, ...] = ()
    keys: tuple[str, ...] = ()
    made: tuple[ir.Call, ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether it is surely a tensor."""
        return self.what in _TENSORS

    def can_be(self, name: str) -> bool:
        """Whether it is a half tensor that can be of this dtype."""
        return self.what == HALF and name in self.names

    @property
    def likely_half(self) -> bool:
        """Whether it is what a model out of sight gave in a region of half precision."""
        return self.what == UNKNOWN and bool(self.names)

    def surely(self, name: str) -> bool:
        """Whether it is a half tensor of this dtype and no other."""
        return self.what == HALF and self.names == {name}


UNKNOWN_KIND = Kind(UNKNOWN)


def likely_half(names: frozenset[str], region: int) -> Kind:
    """What a model that is not in sight gives in a region."""
    return Kind(UNKNOWN, names, region)


A_TENSOR = Kind(TENSOR)
IN_FLOATING = Kind(FLOATING)
IN_FLOAT32 = Kind(FLOAT32)
WHOLE = Kind(INT)
A_NUMBER = Kind(NUMBER)


def dictionary(held: Mapping[str, Kind]) -> Kind:
    """A dictionary that holds these under their keys."""
    keys = tuple(sorted(held))
    return Kind(DICT, items=tuple(held[each] for each in keys), keys=keys)


def held_in(kind: Kind) -> dict[str, Kind]:
    """What a dictionary holds, by its keys."""
    return dict(zip(kind.keys, kind.items, strict=True))


def of_dtype(names: Iterable[str | None]) -> Kind:
    """A tensor that is given one of some dtypes, by torch's names for them."""
    found = set(names)
    if found and found <= {"float16", "bfloat16"}:
        return Kind(HALF, frozenset(each for each in found if each is not None))
    if found in ({FLOAT32}, {FLOAT64}):
        return Kind(next(iter(found)) or TENSOR)
    if found and all(each is not None and ("int" in each or each in ("bool", "long", "short")) for each in found):
        return WHOLE
    return A_TENSOR


def join(first: Kind, second: Kind) -> Kind:
    """What holds of a value that is one or the other."""
    if first == second:
        return first
    if first.what == second.what:
        if first.what == HALF and first.names == second.names:
            return Kind(HALF, first.names, second.region if first.region else 0)
        if first.what == FLOAT32:
            return IN_FLOAT32
        if first.what == NUMBER:
            return A_NUMBER
        if first.what in (TUPLE, LIST, DTYPE) and len(first.items) == len(second.items):
            return Kind(first.what, items=tuple(map(join, first.items, second.items)))
        if first.what == DICT:  # a key that only one has can be read from that one alone
            one, other = held_in(first), held_in(second)
            both = {key: join(one[key], other[key]) for key in one.keys() & other.keys()}
            return dictionary({**one, **other, **both})
        if first.what == MODULE:
            return Kind(MODULE, made=tuple(dict.fromkeys((*first.made, *second.made))))
    if {first.what, second.what} == {TUPLE, LIST}:  # what is appended to, and before the first of it
        return Kind(LIST, items=(reduce(join, (*first.items, *second.items)),))
    if {first.what, second.what} <= {HALF, UNKNOWN} and first.names == second.names:
        return first if first.likely_half else second  # one of them is likely half
    for output, several in ((first, second), (second, first)):
        if output.likely_half and _holds_only(several, output.names):  # it may be several, too
            return output
        if output.likely_half and several.what == TUPLE:  # it is taken apart alike, as `(output, None)` is
            items = tuple(join(output, each) for each in several.items)
            return Kind(TUPLE, items=items) if any(each.likely_half for each in items) else UNKNOWN_KIND
    if {first.what, second.what} <= {HALF, FLOAT32, FLOATING}:
        return IN_FLOATING
    return A_TENSOR if first.is_tensor and second.is_tensor else UNKNOWN_KIND


def _holds_only(kind: Kind, names: frozenset[str]) -> bool:
    """Whether a list or tuple holds only what is likely half, or half, of some dtypes."""
    if kind.what in (TUPLE, LIST):
        return bool(kind.items) and all(_holds_only(each, names) for each in kind.items)
    return (kind.likely_half or kind.what == HALF) and kind.names == names


def promoted(kinds: Iterable[Kind]) -> Kind:
    """The result of an op that no list names, by torch's promotion of its operands' dtypes.

    Half with float32 is one of both: a float32 tensor without dimensions does not count beside one with some.
    """
    tensors = [each for each in kinds if each.what != NUMBER]
    if not tensors:
        return A_NUMBER
    floating = [each for each in tensors if each.what != INT]
    if not floating:
        return A_TENSOR  # whole numbers with a Python number, which may have a fraction
    common = _common(floating)
    if common is not None and common.what == HALF:
        return Kind(HALF, common.names, common.region)
    if common is not None and common.what in (FLOAT32, FLOAT64):
        return Kind(common.what)
    if not any(each.is_tensor for each in tensors):
        return UNKNOWN_KIND
    whats = {each.what for each in floating}
    return IN_FLOATING if whats & {HALF, FLOAT32, FLOATING} and not whats & {FLOAT64, COMPLEX} else A_TENSOR


def _common(kinds: list[Kind]) -> Kind | None:
    """What some values all are, of the last one's region where each has one; None where they differ."""
    last = kinds[-1]
    if any(each.what != last.what or each.names != last.names for each in kinds):
        return None
    return last if all(each.region for each in kinds) else last._replace(region=0)


def widest(kinds: Iterable[Kind]) -> Kind:
    """Likewise for tensors that all have dimensions, or that an op promotes whatever they have."""
    found = [each for each in kinds if each.what not in (NUMBER, INT)]
    if found and all(each.what in (HALF, FLOAT32) for each in found) and len({each.what for each in found}) > 1:
        return IN_FLOAT32
    return promoted(found) if found else A_TENSOR
