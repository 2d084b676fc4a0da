"""What tensors hold, read in few operations, and only where that waits for no device if the caller asks for that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

MOST_ROWS = 8
HALF = (torch.float16, torch.bfloat16)
_SMALL = 4096  # elements up to which tensors are read together
_flatten = torch._C._nn.flatten_dense_tensors  # one operation for many small tensors


def is_readable(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor lie on the CPU, so that reading them doesn't wait for a device."""
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor._is_zerotensor()


def may_be_bad(tensor: Tensor) -> bool:
    """Whether a tensor can be read without waiting, and holds NaN or infinities."""
    return tensor.is_floating_point() and is_readable(tensor) and not is_finite(tensor.detach())


def all_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether the sums of readable tensors are finite: False also where only a sum overflows.

    Made for what is asked in every step: the small tensors of a dtype are summed in one operation.
    """
    small: dict[torch.dtype, list[Tensor]] = {}
    total = 0.0
    for tensor in tensors:
        if tensor.numel() <= _SMALL:
            small.setdefault(tensor.dtype, []).append(tensor)
        else:
            total += tensor.sum(dtype=_wide(tensor)).item()
    for group in small.values():
        flat = _flatten(group)
        total += flat.sum(dtype=_wide(flat)).item()
    return math.isfinite(total)


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype is torch.float64 else torch.float32


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
        if math.isfinite(tensor.sum(dtype=_wide(tensor)).item()):
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
