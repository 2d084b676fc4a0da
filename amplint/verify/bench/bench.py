"""The bench: a real training step under torch.amp, and the conditions under which it or a program is run.

Three readers of AMP's behaviour share it, and the watch beside it: fixtures, differential tests against PyTorch, and
the interpreter of a training step. Nothing here judges.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from amplint.verify.bench.instrument import DEVICES
from amplint.verify.bench.patching import patch, wrap

_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


@dataclass
class Bench:
    """A model, its data, optimizers over disjoint parts of it, and a scaler.

    The model is Linear(32, 64)-ReLU-Linear(64, 10), a batch has 64 rows, the loss is cross entropy. Everything follows
    from fixed seeds.
    """

    model: torch.nn.Sequential
    optimizers: list[torch.optim.SGD]
    scaler: torch.amp.GradScaler
    batches: list[tuple[torch.Tensor, torch.Tensor]]

    def loss(self, batch: int) -> torch.Tensor:
        """The mean cross entropy of a batch, a scalar; the region is the caller's."""
        inputs, targets = self.batches[batch]
        return torch.nn.functional.cross_entropy(self.model(inputs), targets)


def make_bench(*, optimizers: int = 1, batches: int = 4, lr: float = 0.1, **scaler: Any) -> Bench:
    """A bench with one optimizer (SGD) over all, or two over a layer each; `scaler` goes to GradScaler("cpu")."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    data = [(torch.randn(64, 32), torch.randint(0, 10, (64,))) for _ in range(batches)]
    parts = [model] if optimizers == 1 else [model[0], model[2]]
    return Bench(
        model,
        [torch.optim.SGD(part.parameters(), lr=lr) for part in parts],
        torch.amp.GradScaler("cpu", **scaler),
        data,
    )


def inject_overflow(parameter: torch.Tensor) -> None:
    """Make one element of the next gradient of `parameter` inf, as a float16 overflow does."""

    def overflow(found: torch.Tensor) -> torch.Tensor:
        hook.remove()
        found = found.clone()
        found.view(-1)[0] = float("inf")
        return found

    hook = parameter.register_hook(overflow)  # type: ignore[no-untyped-call]


@contextmanager
def switched_off() -> Iterator[list[Any]]:
    """The reference's condition: in the block regions and scalers are made with `enabled=False`.

    Yields what they were to have instead, where that was something else.
    """
    others: list[Any] = []

    def off(given: dict[str, Any]) -> dict[str, Any]:
        if given.get("enabled") is not False:
            others.append(given.get("enabled"))
        return {**given, "enabled": False}

    with ExitStack() as undo:
        for owner in (torch.autocast, torch.amp.GradScaler):
            _rebind(undo, owner, off)
        yield others


@contextmanager
def regions_with(**changed: Any) -> Iterator[None]:
    """In the block regions are made with some arguments changed."""
    with ExitStack() as undo:
        _rebind(undo, torch.autocast, lambda given: {**given, **changed})
        yield


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Run the block on a device that is there.

    Tensors are created there, and generators of random numbers, without which a DataLoader doesn't shuffle; regions and
    scalers for the CPU are for the device.
    """

    def moved(given: dict[str, Any]) -> dict[str, Any]:
        return {key: device if key in ("device", "device_type") and on == "cpu" else on for key, on in given.items()}

    with ExitStack() as undo:
        for owner in (torch.autocast, torch.amp.GradScaler):
            _rebind(undo, owner, moved)
        patch(undo, torch, "Generator", _generators_on(device))
        undo.callback(torch.set_default_device, None)
        torch.set_default_device(device)
        yield


def _generators_on(device: str) -> type:
    """What makes generators on a device where none is named, in place of `torch.Generator`."""
    real = torch.Generator

    class OfInstances(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

        def __call__(cls, device: Any = device) -> torch.Generator:
            return real(device)

    return OfInstances("Generator", (), {})


@contextmanager
def without_accelerators() -> Iterator[None]:
    """Run the block as on a machine that has only a CPU."""
    with ExitStack() as undo:
        for module in filter(None, _ACCELERATORS.values()):
            patch(undo, module, "is_available", lambda: False)
        yield


_ACCELERATORS: dict[str, Any] = {
    "cuda": torch.cuda,
    "xpu": getattr(torch, "xpu", None),
    "mps": torch.backends.mps,
}


def is_there(device: str) -> bool:
    """Whether this machine has a device ("cuda", "xpu" or "mps")."""
    module = _ACCELERATORS[device]
    return bool(module and module.is_available())


_ACCELERATED = any(map(is_there, _ACCELERATORS))  # asked before anything is simulated


def reset() -> None:
    """Put torch's global state, as far as a training step's numbers hang on it, and all seeds back to the start."""
    for device in reversed(DEVICES):  # the CPU first: what is simulated shares its state, and has its own default
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, torch.bfloat16 if device == "cpu" else torch.float16)
    torch.set_autocast_cache_enabled(True)
    torch.autocast_increment_nesting()
    while torch.autocast_decrement_nesting() > 0:
        pass
    torch.clear_autocast_cache()
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.autograd.set_detect_anomaly(False)
    torch.use_deterministic_algorithms(False)
    seed()
    random.seed(0)


def seed() -> None:
    """`torch.manual_seed(0)`; where there is no accelerator that takes long, and does no more than this."""
    if _ACCELERATED:
        torch.manual_seed(0)
    else:
        torch.default_generator.manual_seed(0)


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _rebind(undo: ExitStack, owner: type, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Let the constructor of `owner` be called with its arguments changed, all of them by name."""
    signature = _signature(inspect.unwrap(owner.__init__))  # type: ignore[misc]

    def made(real: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            real(self, *args, **kwargs)  # raises, in its own words
            return
        bound.apply_defaults()
        _, *given = bound.arguments.items()
        real(self, **change(dict(given)))

    wrap(undo, owner, "__init__", made)


def runs_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that there is no more memory: that is the run's limit, not the program's fault."""
    return isinstance(error, MemoryError) or any(each in str(error) for each in _NO_MEMORY)
