"""Says why an operation whose inputs are finite gives what is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from amplint.doctor.births import Flush, Origin
from amplint.doctor.findings import Place
from amplint.doctor.lineage import Key, Lineage, find_flush, swap_all
from amplint.doctor.readings import finite_mask, largest, name_of
from amplint.doctor.shadow import Operation, Swap, again

CASTS = frozenset({"aten::_to_copy", "aten::copy_", "aten::to", "aten::copy"})
_DIVISIONS = frozenset({"aten::div", "aten::div_", "aten::true_divide", "aten::divide"})
_LARGEST = torch.finfo(torch.float32).max
_FEW = 40  # operations between a mask and the division that fails in a row without any weight


class Origins(NamedTuple):
    """What a birth comes from: see the attributes of `Birth` that have these names."""

    origin: Origin
    value: float | None = None
    zero: Flush | None = None
    parameter: str = ""


@dataclass(frozen=True)
class Output:
    """An output that is not finite, of an operation.

    Attributes:
        operation: The operation with its result.
        tensor: The output.
        index: Which one of the outputs it is.
        inputs: The floating tensors that the operation read.
        keys: The keys of the arguments by their ids.
        place: The user's line.
        op: What a user calls the operation.
    """

    operation: Operation
    tensor: Tensor
    index: int
    inputs: list[Tensor]
    keys: Mapping[int, Key]
    place: Place | None
    op: str

    def wider(self, dtype: torch.dtype, swap: Swap | None = None) -> Tensor | None:
        """The output as a wider dtype has it, None where it can't be computed."""
        outputs = again(self.operation, dtype, swap)
        if outputs is None or self.index >= len(outputs) or outputs[self.index].shape != self.tensor.shape:
            return None
        return outputs[self.index]

    def mended(self, dtype: torch.dtype, swap: Swap | None = None) -> Tensor | None:
        """The same, None also where it isn't finite wherever the output is not."""
        wide = self.wider(dtype, swap)
        return wide if wide is not None and self.is_mended_by(wide) else None

    def is_mended_by(self, wide: Tensor) -> bool:
        """Whether a wider output is finite wherever this one is not."""
        return bool((finite_mask(wide) | finite_mask(self.tensor)).all())


def origin_of(output: Output, lineage: Lineage, is_meant: Callable[[Tensor], bool]) -> Origins:
    """Say why an output is not finite though the inputs are.

    Args:
        output: The output.
        lineage: How the inputs were computed.
        is_meant: Whether a tensor holds infinities that are meant.

    Returns:
        The origin with what belongs to it. It is OVERFLOW for a cast, too. What overflows float32 is MATH with a value.
    """
    wide = output.wider(torch.float32)
    if wide is None and output.tensor.dtype.itemsize <= 2:  # a kernel for half precision alone
        return Origins(Origin.OVERFLOW)
    if wide is not None and output.is_mended_by(wide):
        flush = _flushed_constant(output, wide)
        return Origins(Origin.UNDERFLOW if flush else Origin.OVERFLOW, largest(wide), flush)
    arguments = (output.operation.args, output.operation.kwargs)
    values = lineage.wide(arguments, output.keys)
    if values:
        wide = output.mended(torch.float32, swap_all(output.keys, values))
        if wide is not None:
            bad = ~finite_mask(output.tensor)
            return Origins(Origin.UNDERFLOW, largest(wide), find_flush(lineage, arguments, output.keys, values, bad))
    wide = output.mended(torch.float64)
    if wide is not None:
        return Origins(Origin.MATH, value if (value := largest(wide)) > _LARGEST else None)
    return Origins(Origin.MASK if _has_lost_mask(output, lineage, is_meant) else Origin.MATH)


def lost_beside_infinities(output: Output) -> float | None:
    """The largest true magnitude of what overflows beside infinities that the inputs hold, None if nothing does."""
    wide = output.wider(torch.float32)
    if wide is None:
        return None
    lost = finite_mask(wide) & ~finite_mask(output.tensor)
    return largest(wide[lost]) if bool(lost.any()) else None


def is_log_of_mask(output: Output, lineage: Lineage) -> bool:
    """Whether the logarithm of a mask is taken, which makes an additive mask of one that holds 0 and 1."""
    if output.operation.name not in ("aten::log", "aten::log_") or len(output.inputs) != 1:
        return False
    (tensor,) = output.inputs
    return bool((tensor == 1).any()) and _is_mask(tensor, output.keys, lineage)


def _is_mask(tensor: Tensor, keys: Mapping[int, Key], lineage: Lineage, depth: int = 8) -> bool:
    """Whether a tensor holds 0 and 1 and nothing else, and what it was computed from as well."""
    if not bool(((tensor == 0) | (tensor == 1)).all()):
        return False
    key = keys.get(id(tensor))
    recipes = lineage.sources(key) if key is not None and depth else []
    return all(
        _is_mask(source, recipe.keys, lineage, depth - 1)
        for recipe in recipes
        for source in recipe.inputs
        if source.is_floating_point()
    )


def is_attention(name: str) -> bool:
    """Whether an operation of `aten` has a softmax within it that can't be seen."""
    return "attention" in name or "encoder_layer" in name


def numbers_in(value: Any) -> Iterator[float]:
    """The floating numbers in arguments."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from numbers_in(item)
    elif isinstance(value, Mapping):
        yield from numbers_in(tuple(value.values()))


def _flushed_constant(output: Output, wide: Tensor) -> Flush | None:
    """A number in the program that is 0 in the dtype of the operation, where the true result would fit."""
    dtype = output.tensor.dtype
    if not dtype.is_floating_point or largest(wide) > torch.finfo(dtype).max:
        return None
    for number in numbers_in((output.operation.args, output.operation.kwargs)):
        if number and math.isfinite(number) and not float(torch.tensor(number, dtype=dtype)):
            return Flush(output.place, output.op, number, name_of(dtype))
    return None


def _has_lost_mask(output: Output, lineage: Lineage, is_meant: Callable[[Tensor], bool]) -> bool:
    """Whether no weight is left in a row because all of it was masked by infinities."""
    if is_attention(output.operation.name):
        named = output.operation.named()
        return any(isinstance(named[name], Tensor) for name in named if "mask" in name or name == "attn_bias")
    if output.operation.name not in _DIVISIONS:
        return False
    recipes = lineage.before(output.keys)[:_FEW]
    return any(is_meant(tensor) for recipe in recipes for tensor in recipe.inputs)
