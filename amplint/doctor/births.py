"""What the op-by-op look finds: births, which are operations that make values that are not finite out of good ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from amplint.doctor.findings import Place

MOST_ROWS = 8


class Origin(str, Enum):
    """Where the values of a birth come from."""

    OVERFLOW = "overflow"  # too large for the dtype, finite in a wider one
    UNDERFLOW = "underflow"  # by something that half precision made 0, or rounded away
    MASK = "mask"  # by infinities that are meant, such as a row that is masked completely
    MATH = "math"  # float64 fails as well
    CAST = "cast"  # a finite value that the dtype of a cast can't hold
    INCOMING = "incoming"  # read from a tensor that was not finite before


@dataclass(frozen=True)
class Flush:
    """Where half precision made a value 0 that is none.

    Attributes:
        place: The user's line.
        op: The operation.
        value: The value in float32, of the largest magnitude where there are several.
        dtype: What it was rounded to.
        result: What it became: 0, or for a difference that was rounded away what was left of it.
    """

    place: Place | None
    op: str
    value: float
    dtype: str
    result: float = 0.0


@dataclass(frozen=True)
class Birth:
    """An operation whose inputs were good and whose output is not finite.

    Attributes:
        origin: Why.
        op: What a user calls it, such as "matmul".
        place: The user's line; in a backward pass the line of the forward operation.
        stack: The user's frames, the innermost first. A backward written by the user stands before the forward line.
        module: The dotted name of the module that ran it, "" outside of all.
        dtype: Of the output, such as "float16".
        backward: Whether it is a backward operation.
        value: The largest magnitude that the result has in float32 (or float64), None where that is not finite, too.
        inputs: The largest finite magnitude of each floating input.
        kind: "inf" or "nan".
        rows: Which indices along dimension 0 of the output are not finite, the first few; empty where all are.
        zero: For UNDERFLOW, where a value became 0.
        parameter: For CAST, the dotted name of the parameter that was cast.
    """

    origin: Origin
    op: str
    place: Place | None
    stack: tuple[Place, ...]
    module: str
    dtype: str
    backward: bool
    value: float | None
    inputs: tuple[float, ...]
    kind: str
    rows: tuple[int, ...] = ()
    zero: Flush | None = None
    parameter: str = ""


class BadTensor(NamedTuple):
    """A tensor that is not finite: its name, "inf" or "nan", and which indices along dimension 0, if not all."""

    name: str
    kind: str
    rows: tuple[int, ...]


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has its numbers in memory of its own, in a type that can hold infinities."""
    return (
        (tensor.is_floating_point() or tensor.is_complex())
        and tensor.layout is torch.strided
        and tensor.device.type != "meta"
        and not tensor.is_nested
        and type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__
        # The zeros of a backward pass have no memory, nor has what FSDP let go of: to read them ends the process.
        and not tensor._is_zerotensor()
        and (tensor.untyped_storage().nbytes() > 0 or tensor.numel() == 0)
    )


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of a plain tensor are finite.

    The sum in float32 is the cheapest test: an infinity or NaN survives in it. Only where it is not finite, the
    numbers themselves are looked at.
    """
    if tensor.numel() == 0:
        return True
    if tensor.is_floating_point():
        wide = torch.float64 if tensor.dtype is torch.float64 else torch.float32
        if math.isfinite(tensor.sum(dtype=wide).item()):
            return True
    return bool(finite_mask(tensor).all())


def finite_mask(tensor: Tensor) -> Tensor:
    """Which numbers of a tensor are finite."""
    try:
        return torch.isfinite(tensor)
    except (RuntimeError, NotImplementedError):  # float8, complex32
        return torch.isfinite(torch.view_as_real(tensor).float() if tensor.is_complex() else tensor.float())


def has_nan(tensor: Tensor) -> bool:
    """Whether a plain tensor holds a NaN."""
    try:
        return bool(torch.isnan(tensor).any())
    except (RuntimeError, NotImplementedError):
        return bool(torch.isnan(tensor.float()).any())


def kind_of(tensor: Tensor) -> str:
    """ "inf" where a tensor that is not finite holds an infinity, else "nan"."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return "inf" if bool(torch.isinf(tensor.float() if tensor.element_size() < 4 else tensor).any()) else "nan"


def rows_of(tensor: Tensor, is_nan: bool = False) -> tuple[int, ...]:
    """Which indices along dimension 0 hold numbers that are not finite (or NaN), the first few; empty where all do."""
    if tensor.dim() == 0:
        return ()
    bad = (tensor.isnan() if is_nan else ~finite_mask(tensor)).reshape(tensor.shape[0], -1).any(dim=1)
    rows: list[int] = bad.nonzero().flatten().tolist()
    return () if len(rows) == tensor.shape[0] else tuple(rows[:MOST_ROWS])


def largest(tensor: Tensor) -> float:
    """The largest finite magnitude in a tensor, 0 where it holds none."""
    if tensor.numel() == 0:
        return 0.0
    magnitudes = tensor.abs() if tensor.element_size() > 1 else tensor.float().abs()
    if not magnitudes.dtype.is_floating_point:
        return float(magnitudes.max())
    return float(magnitudes.nan_to_num(0.0, 0.0, 0.0).max())


def norm(tensors: Iterable[Tensor]) -> float:
    """The norm of all numbers of tensors together."""
    return math.sqrt(sum(float(each.detach().double().pow(2).sum()) for each in tensors))


def name_of(dtype: torch.dtype) -> str:
    """A dtype's name, such as "float16"."""
    return str(dtype).removeprefix("torch.")


def not_finite(tensors: Mapping[str, Tensor]) -> list[BadTensor]:
    """Say which of some tensors are not finite.

    Args:
        tensors: The batch, parameters or buffers by their names.

    Returns:
        Those that hold an infinity or NaN, in their order.
    """
    with torch.no_grad():
        return [
            BadTensor(name, kind_of(tensor), rows_of(tensor))
            for name, tensor in tensors.items()
            if is_plain(tensor) and not is_finite(tensor)
        ]
