"""Runs an operation again with wider numbers, which says whether its dtype is what made it fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Operations that write their first argument and don't read it.
_FILLS = frozenset(
    f"aten::{name}_"
    for name in ("copy", "fill", "zero", "normal", "uniform", "bernoulli", "random", "exponential", "set", "log_normal")
)
# Arguments that are written though the schema doesn't say so.
_ALSO_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
# What the schema calls a write and is none of numbers.
_NO_WRITES = frozenset({"aten::detach_", "aten::requires_grad_", "aten::lift_fresh", "aten::record_stream"})

Swap = Callable[[Tensor], "Tensor | None"]  # a tensor in float32 to take for one of the arguments, None to widen it

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
# Where operations come from that do nothing but compute. What others do when they run twice is not known.
_KNOWN = frozenset({"aten", "prims", "torchvision"})
_DROPOUTS = ("dropout_p", "dropout")


class Signature(NamedTuple):
    """What the schema of an operation says: its name, which arguments it writes, and whether it only writes them."""

    name: str
    positions: tuple[int, ...]
    names: tuple[str, ...]
    is_fill: bool


@functools.lru_cache(maxsize=4096)
def signature_of(func: Any) -> Signature:
    """What the schema of an operation says."""
    name = str(func._schema.name)
    arguments = func._schema.arguments
    positions = set(_ALSO_WRITES.get(name, ()))
    if name not in _NO_WRITES:
        positions |= {at for at, each in enumerate(arguments) if each.alias_info and each.alias_info.is_write}
    is_out = any(getattr(arguments[at], "is_out", arguments[at].kwarg_only) for at in positions)
    names = tuple(str(arguments[at].name) for at in sorted(positions))
    return Signature(name, tuple(sorted(positions)), names, name in _FILLS or is_out)


class Operation(NamedTuple):
    """An operation of `aten` with its arguments as they were before it ran, and its result, if someone needs it.

    The result says what a dropout drew.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any = None

    @property
    def name(self) -> str:
        """Its name, such as "aten::_softmax"."""
        return signature_of(self.func).name

    @property
    def targets(self) -> list[Tensor]:
        """The tensors that it writes."""
        signature = signature_of(self.func)
        if not signature.positions:
            return []
        written = [self.args[at] for at in signature.positions if at < len(self.args)]
        written += [self.kwargs[name] for name in signature.names if name in self.kwargs]
        return list(tensors_in(written))

    def outputs(self, result: Any) -> list[Tensor]:
        """The tensors that it returned, then those that it only wrote."""
        outputs = list(tensors_in(result))
        return outputs + [tensor for tensor in self.targets if not any(tensor is each for each in outputs)]

    def named(self) -> dict[str, Any]:
        """The arguments by their names, with those that were left out at their defaults."""
        arguments = self.func._schema.arguments
        named = {argument.name: argument.default_value for argument in arguments}
        named.update(zip((argument.name for argument in arguments), self.args, strict=False))
        named.update(self.kwargs)
        return named


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in arguments or a result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def is_random(operation: Operation) -> bool:
    """Whether an operation draws random numbers, so that it can't be run again."""
    if torch.Tag.nondeterministic_seeded not in operation.func.tags:
        return False
    named = operation.named()
    return not any(named.get(name) == 0 for name in _DROPOUTS)


def widen(value: Any, dtype: torch.dtype, swap: Swap | None = None) -> Any:
    """Copies of arguments in which each floating tensor and each dtype is at least as wide as `dtype`."""
    if isinstance(value, Tensor):
        swapped = swap(value) if swap is not None else None
        if swapped is not None:
            value = swapped
        if value._is_zerotensor():  # it has no memory to copy
            return torch.zeros(value.shape, dtype=value.dtype, device=value.device)
        if value.is_floating_point() and value.layout is torch.strided:
            return value.to(_wider(value.dtype, dtype), copy=True)
        if value.is_complex() and value.layout is torch.strided:
            return value.to(_wider(value.dtype, _COMPLEX[dtype]), copy=True)
        return value.clone()
    if isinstance(value, torch.dtype):
        return _wider(value, dtype) if value.is_floating_point else value
    if isinstance(value, (list, tuple)):
        return type(value)([widen(item, dtype, swap) for item in value])
    return value


def _wider(have: torch.dtype, want: torch.dtype) -> torch.dtype:
    return want if have.itemsize < want.itemsize else have


def again(operation: Operation, dtype: torch.dtype, swap: Swap | None = None) -> list[Tensor] | None:
    """Run an operation again on wider copies of its arguments.

    Args:
        operation: The operation.
        dtype: The dtype to compute in.
        swap: Tensors to take in place of arguments.

    Returns:
        The tensors that it returns, then those that it only writes; None where it can't be run again.
    """
    devices = {tensor.device.type for tensor in tensors_in((operation.args, operation.kwargs, operation.result))}
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            for device in sorted(devices - {"meta"}):
                stack.enter_context(torch.autocast(device, enabled=False))
            args = widen(operation.args, dtype, swap)
            kwargs = {name: widen(value, dtype, swap) for name, value in operation.kwargs.items()}
            wide = Operation(operation.func, args, kwargs, operation.result)
            other = _OTHERWISE.get(operation.name)
            if other is not None:
                return list(tensors_in(other(wide)))
            if operation.name.partition("::")[0] not in _KNOWN or is_random(operation):
                return None
            return wide.outputs(operation.func(*args, **kwargs))
    except Exception:  # the operation has no kernel for this dtype, or memory doesn't do: it is not known then
        return None


def _dropout(operation: Operation) -> Any:
    """With the mask that was drawn."""
    named = operation.named()
    drawn = operation.result[1]
    return named["input"] * drawn / (1 - named["p"]) if named["p"] < 1 else named["input"] * 0.0, drawn


def _attention(operation: Operation) -> Any:
    """By matrix products: fused kernels don't take each dtype."""
    named = operation.named()
    if named.get("dropout_p"):
        return None
    mask = named.get("attn_mask", named.get("attn_bias"))
    out, *_ = torch.ops.aten._scaled_dot_product_attention_math(
        named["query"], named["key"], named["value"], mask, 0.0, named["is_causal"], None, scale=named.get("scale")
    )
    return out


def _softmax(operation: Operation) -> Any:
    """Without the cast that only half inputs may ask for."""
    named = operation.named()
    return operation.func(named["self"], named["dim"], False)


_OTHERWISE: dict[str, Callable[[Operation], Any]] = {
    "aten::native_dropout": _dropout,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_scaled_dot_product_fused_attention_overrideable": _attention,
}
