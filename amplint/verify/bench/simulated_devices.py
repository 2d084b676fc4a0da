"""Simulated devices: cuda's, xpu's and mps's autocast on a machine that has none of them.

Inside `simulated("cuda")` torch's Python layer believes in CUDA, whatever is made on it or moved to it lies on the CPU,
and a region follows cuda's op list with cuda's default dtype. So dtypes, overflows, warnings and errors of mixed
precision are those of the device; the arithmetic is the CPU's.

What can't be simulated:

- Tensors say that they are on the CPU (`tensor.device`, `is_cuda`), and so does `torch.get_default_device`. Programs
  ask them for the device of a region: regions for "cpu" count as the device's. A region meant for the CPU can't be
  told apart. Moving a tensor "to the device" gives the tensor itself, never a copy.
- Kernels' own numbers: the order of half-precision sums, TF32, range checks. An op that has no half-precision kernel on
  the CPU raises NotImplementedError. Recurrent layers give the region's dtype on cuda, and the CPU's on the others.
- Several devices, streams, events, memory statistics, `torch.Generator(device)`, storages,
  `torch.load(map_location=device)`, `torch.cuda.FloatTensor`; TorchScript's regions. The device's random state is the
  CPU's.
- Tensors that other threads make: only the calling thread's go to the CPU. Whatever else is changed is changed for the
  whole process.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch
import torch._dynamo  # optimizers load it on first use, and it keeps what it finds: not what is patched here
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from amplint.verify.bench.patching import patch
from amplint.verify.bench.simulated_kernels import kernels_of

DEVICES = ("cuda", "xpu", "mps")

_running: list[str] = []


@contextmanager
def simulated(device: str, *, moves: bool = True) -> Iterator[None]:
    """Run the block as if this machine had a `device` ("cuda", "xpu" or "mps") and no other accelerator.

    Without `moves` nothing in the block makes tensors on it or moves them there, and calls of torch's go undisturbed.

    ValueError: another device. RuntimeError: a simulation is running already.
    """
    if device not in DEVICES:
        raise ValueError(f"can't simulate {device!r}, only {', '.join(DEVICES)}")
    if _running:
        raise RuntimeError(f"{_running[0]} is being simulated already")
    with ExitStack() as undo:
        _running.append(device)
        undo.callback(_running.clear)
        undo.enter_context(_autocast_state(device))
        _believe(device, undo)
        _translate(device, undo)
        forget = undo.enter_context(kernels_of(device))
        patch(undo, torch, "clear_autocast_cache", _then(torch.clear_autocast_cache, forget))
        if moves:
            undo.enter_context(_OnCpu(device))
        yield


# --- the state of autocast


@contextmanager
def _autocast_state(device: str) -> Iterator[None]:
    """Let the CPU's autocast share the state of the device's; put both back at the end, whatever was left open."""
    pair = (device, "cpu")
    before = [(each, torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in pair]
    cached, depth = torch.is_autocast_cache_enabled(), _depth()
    set_enabled, set_dtype, clear = torch.set_autocast_enabled, torch.set_autocast_dtype, torch.clear_autocast_cache
    try:
        clear()
        set_enabled("cpu", torch.is_autocast_enabled(device))
        set_dtype("cpu", torch.get_autocast_dtype(device))
        yield
    finally:
        for each, enabled, dtype in before:
            set_enabled(each, enabled)
            set_dtype(each, dtype)
        torch.set_autocast_cache_enabled(cached)
        while _depth() > depth:
            torch.autocast_decrement_nesting()
        while _depth() < depth:
            torch.autocast_increment_nesting()
        clear()


def _depth() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _translate(device: str, undo: ExitStack) -> None:
    """Make the regions of the device and of "cpu" one."""
    set_enabled, set_dtype, get_dtype = torch.set_autocast_enabled, torch.set_autocast_dtype, torch.get_autocast_dtype

    def sharing(setter: Callable[..., None], default: str) -> Callable[..., None]:
        @functools.wraps(setter)
        def shared(*args: Any, **kwargs: Any) -> None:
            setter(*args, **kwargs)
            named = next((each for each in (*args, *kwargs.values()) if isinstance(each, str)), default)
            of = named.partition(":")[0]  # the setter has taken it
            if of in (device, "cpu"):
                other = "cpu" if of == device else device
                set_enabled(other, torch.is_autocast_enabled(of))
                set_dtype(other, get_dtype(of))

        return shared

    # The old setters name no device.
    for name, default in {
        "set_autocast_enabled": "cuda",
        "set_autocast_dtype": "cuda",
        "set_autocast_gpu_dtype": "cuda",
        "set_autocast_cpu_enabled": "cpu",
        "set_autocast_cpu_dtype": "cpu",
    }.items():
        patch(undo, torch, name, sharing(getattr(torch, name), default))

    # A region said to be for "cpu" is meant for the device: float32 is allowed or not as there. A property, because a
    # wrapper of __init__ would stand between the warnings and the lines that they are about.
    meant = property(
        lambda self: vars(self)["device"],
        lambda self, name: vars(self).update(device=device if name == "cpu" else name),
    )
    patch(undo, torch.autocast, "device", meant)
    # Other threads start with the CPU's own dtype.
    patch(
        undo,
        torch,
        "get_autocast_dtype",
        lambda device_type: get_dtype(device if device_type == "cpu" else device_type),
    )

    cast = torch.amp.autocast_mode._cast
    patch(
        undo,
        torch.amp.autocast_mode,
        "_cast",
        lambda value, device_type, dtype: cast(value, "cpu" if device_type == device else device_type, dtype),
    )

    update = torch.amp.GradScaler.update

    @functools.wraps(update)
    def updated(self: torch.amp.GradScaler, new_scale: Any = None) -> None:
        own = self._device
        if own == device and isinstance(new_scale, torch.Tensor):
            self._device = "cpu"
        try:
            update(self, new_scale)
        finally:
            self._device = own

    patch(undo, torch.amp.GradScaler, "update", updated)


# --- the device itself


def _believe(device: str, undo: ExitStack) -> None:
    """Let torch's Python layer find one device of this kind and no other."""
    own = {
        "device_count": _always(1),
        "current_device": _always(0),
        "set_device": _always(None),
        "synchronize": _always(None),
        "is_bf16_supported": _always(True),
        "is_current_stream_capturing": _always(False),
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "set_rng_state": lambda new_state, *_, **__: torch.set_rng_state(new_state),
    }
    modules: dict[str, ModuleType] = {"cuda": torch.cuda, "xpu": torch.xpu, "mps": torch.mps}
    for name, module in modules.items():
        if hasattr(module, "is_available"):
            patch(undo, module, "is_available", _always(name == device))
    patch(undo, torch.backends.mps, "is_available", _always(device == "mps"))
    patch(undo, torch.backends.mps, "is_built", _always(device == "mps"))
    for name, value in own.items():
        if hasattr(modules[device], name):
            patch(undo, modules[device], name, value)
    general = {
        "is_available": _always(True),
        "current_accelerator": _always(torch.device(device)),
        "device_count": _always(1),
        "current_device_index": _always(0),
        "set_device_index": _always(None),
        "synchronize": _always(None),
        "current_stream": _always(_Stream()),
    }
    if hasattr(torch, "accelerator"):  # since torch 2.6
        for name, value in general.items():
            patch(undo, torch.accelerator, name, value)
    patch(undo, torch.Tensor, "pin_memory", lambda self, *_: self)
    # DataParallel finds no devices, and calls its module.
    patch(undo, sys.modules["torch.nn.parallel.data_parallel"], "_get_available_device_type", _always(None))
    if device == "mps":
        norm = _other_norm(torch.functional.norm)
        patch(undo, torch, "norm", norm)
        patch(undo, torch.functional, "norm", norm)

    enter = DeviceContext.__init__

    def entered(self: DeviceContext, where: Any) -> None:
        enter(self, _local(where, device))

    patch(undo, DeviceContext, "__init__", entered)


def _other_norm(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.norm` as it goes on mps: by ops that aren't on its list, where on the CPU it takes one that is."""

    @functools.wraps(original)
    def norm(input: torch.Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, **others: Any) -> Any:
        if p in ("nuc", None) or any(each is not None for each in others.values()):
            return original(input, p, dim, keepdim, **others)
        dims = [dim] if isinstance(dim, int) else [*range(input.ndim)] if dim is None else dim
        if p == "fro":
            return torch.ops.aten.frobenius_norm.dim(input, dims, keepdim)
        return torch.ops.aten.norm.ScalarOpt_dim(input, p, dims, keepdim)

    return norm


class _Stream:
    """The only stream. Optimizers ask it whether a graph is being captured, torch.compile where it is."""

    device = torch.device("cpu")

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        pass


class _OnCpu(TorchFunctionMode):
    """Sends to the CPU what a program makes on a device or moves there."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device
        self._move = getattr(torch.Tensor, device, None)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is self._move:
            return args[0]
        if func is torch.device:
            return func(*args, **kwargs)
        if func is torch.Tensor.to:
            args = tuple(_local(each, self._device) for each in args)
        if "device" in kwargs:
            kwargs["device"] = _local(kwargs["device"], self._device)
        return func(*args, **kwargs)


def _local(where: Any, device: str) -> Any:
    """The CPU for a device that is simulated, anything else as it is. Numbers are indices of the simulated device."""
    if isinstance(where, bool):
        return where
    if isinstance(where, (str, int)):
        where = torch.device(where) if isinstance(where, str) else torch.device(device, where)
    return torch.device("cpu") if isinstance(where, torch.device) and where.type == device else where


# --- small helpers


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _then(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both
