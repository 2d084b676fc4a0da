"""The autocast kernels of other devices, in Python, in place of the CPU's."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from amplint.model.torch_facts.autocast_ops import OP_LISTS, Cast

_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
_APPENDED = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
# The recurrent layers are cuDNN's on cuda. It casts on its own, weights at each call, and only builds that have it list
# its op.
_RECURRENT = {
    f"{layer}.{form}": Cast.LOW for layer in ("gru", "lstm", "rnn_relu", "rnn_tanh") for form in ("data", "input")
}
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
# Weights of a region by their id, each with its copy in the region's dtype.
_Cache = dict[int, tuple[torch.Tensor, torch.Tensor]]


@contextmanager
def kernels_of(device: str) -> Iterator[Callable[[], None]]:
    """Give the CPU's autocast the op list of `device`, as far as it differs from the CPU's own.

    Yields what forgets the converted weights, as `torch.clear_autocast_cache` does with those of the CPU's kernels.
    """
    cache: _Cache = {}
    casts = {**OP_LISTS[device], **(_RECURRENT if device == "cuda" else {})}
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            # Overriding kernels is the purpose.
            warnings.simplefilter("ignore")
            for op in sorted({*casts, *OP_LISTS["cpu"]}):
                cast = casts.get(op)
                if cast is not OP_LISTS["cpu"].get(op):
                    kept = None if op in _RECURRENT else cache
                    kernel = _kernel(op, cast, kept) if cast else torch.library.fallthrough_kernel
                    library.impl(op, kernel, "AutocastCPU")
        yield cache.clear
    finally:
        library._destroy()


def _kernel(name: str, cast: Cast, cache: _Cache | None) -> Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]:
    """What autocast does with calls of an op: ATen's WrapFunction for `cast`, in Python."""
    op = _overload(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            if cast is Cast.FLOAT32_OUT:
                return op(*args, **(_with_dtype(op, args, kwargs) if _eligible(args[0]) else kwargs))
            if cast is Cast.FLOAT32_APPENDED:
                rest = [each.default_value for each in op._schema.arguments[len(args) :]]
                dtype = torch.float32 if _eligible(args[0]) else args[0].dtype
                return _overload(_APPENDED[name])(*args, *rest, dtype=dtype)
            low = torch.get_autocast_dtype("cpu")
            dtype = torch.float32
            if cast is Cast.LOW:
                dtype = low
            elif cast is Cast.PROMOTE:
                dtype = _widest(low, [*args, *kwargs.values()])
            convert = functools.partial(_converted, dtype=dtype, cache=cache if dtype is low else None)
            return op(*map(convert, args), **{key: convert(value) for key, value in kwargs.items()})

    def banned(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(_BANNED)

    return banned if cast is Cast.BANNED else run


def _overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _eligible(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_cpu
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _with_dtype(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a call, with float32 for its result unless the call says what it wants."""
    names = [each.name for each in op._schema.arguments]
    if len(args) > names.index("dtype") or kwargs.get("dtype") is not None:
        return kwargs
    return {**kwargs, "dtype": torch.float32}


def _widest(low: torch.dtype, values: Sequence[Any]) -> torch.dtype:
    dtype = low
    for value in values:
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if _eligible(each):
                if torch.float32 in (dtype, each.dtype):
                    dtype = torch.float32
                elif each.dtype is not low:
                    raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return dtype


def _converted(value: Any, dtype: torch.dtype, cache: _Cache | None) -> Any:
    """A tensor, or each of several, in `dtype` where autocast may convert it; weights once a region, as in ATen."""
    if isinstance(value, (list, tuple)):
        return [_converted(each, dtype, cache) for each in value]
    if not _eligible(value) or value.dtype is dtype:
        return value
    weight = value.dtype is torch.float32 and value.requires_grad and value.is_leaf and not value._is_view()
    if cache is None or not weight or not torch.is_autocast_cache_enabled():
        return value.to(dtype)
    if id(value) not in cache:
        # Under no_grad too: what is kept must serve a later use that needs gradients.
        with torch.enable_grad():
            # The weight is kept, so that no other tensor can take its id.
            cache[id(value)] = (value, value.to(dtype))
    return cache[id(value)][1]
