"""What tensors hold, read in few operations; only where the caller asks for that is a device waited for."""

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


def is_capturing() -> bool:
    """Whether a CUDA graph records what the current stream is asked for: a read would end that with an error."""
    is_used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return bool(is_used) and torch.cuda.is_current_stream_capturing()


def can_wait_for(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor can be read, if only by waiting for its device."""
    return is_plain(tensor) and not (tensor.is_cuda and is_capturing())


def can_read(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Those of some tensors that can be read, as `can_wait_for` has it: made for many."""
    is_captured = is_capturing()
    return [each for each in tensors if is_plain(each) and not (is_captured and each.is_cuda)]


def may_be_bad(tensor: Tensor, *, waits: bool = False) -> bool:
    """Whether a tensor can be read, and holds NaN or infinities. Only with `waits` a device is waited for."""
    if not tensor.is_floating_point() or not (is_readable(tensor) or (waits and can_wait_for(tensor))):
        return False
    return not is_finite(tensor.detach())


class Reading:
    """A number that a device computes, and that is read later: what is computed after it is not waited for."""

    def __init__(self, tensor: Tensor) -> None:
        self._value = tensor.detach().clone() if tensor.dim() == 0 else tensor.detach().sum(dtype=_wide(tensor))
        self._event: torch.Event | None = None
        if self._value.is_cuda:
            stream = torch.cuda.current_stream(self._value.device)
            pinned = torch.empty_like(self._value, device="cpu", pin_memory=True)
            self._value = pinned.copy_(self._value, non_blocking=True)
            self._event = stream.record_event()

    def value(self) -> float:
        """The number, once it is there."""
        if self._event is not None:
            self._event.synchronize()
        return float(self._value)


def all_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether the sums of plain tensors are finite: False also where only a sum overflows.

    Made for what is asked in every step: the small tensors of a dtype are summed in one operation, and a device is
    waited for once.
    """
    small: dict[torch.dtype, list[Tensor]] = {}
    elsewhere: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    total = 0.0
    for each in tensors:
        tensor = torch.view_as_real(each) if each.is_complex() else each
        if tensor.device.type != "cpu":
            if tensor.numel():
                elsewhere.setdefault((tensor.device, tensor.dtype), []).append(tensor)
        elif tensor.numel() <= _SMALL:
            small.setdefault(tensor.dtype, []).append(tensor)
        else:
            total += tensor.sum(dtype=_wide(tensor)).item()
    for group in small.values():
        flat = _flatten(group)
        total += flat.sum(dtype=_wide(flat)).item()
    for group in elsewhere.values():
        total += torch.stack(torch._foreach_norm(group, math.inf)).float().sum().item()
    return math.isfinite(total)


def bad_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Those of some plain tensors that are not finite; a device is waited for once if all are finite."""
    return [] if all_finite(tensors) else [each for each in tensors if not is_finite(each)]


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
    """The norm of all numbers of tensors together; a device is waited for once."""
    squares = 0.0
    elsewhere: dict[torch.device, list[Tensor]] = {}
    for each in tensors:
        if each.device.type == "cpu":
            squares += float(each.detach().double().pow(2).sum())
        else:
            wide = torch.float32 if each.device.type == "mps" else torch.float64
            elsewhere.setdefault(each.device, []).append(torch.linalg.vector_norm(each.detach(), dtype=wide))
    for norms in elsewhere.values():
        squares += float(torch.linalg.vector_norm(torch.stack(norms))) ** 2
    return math.sqrt(squares)


def name_of(dtype: torch.dtype) -> str:
    """A dtype's name, such as "float16"."""
    return str(dtype).removeprefix("torch.")
