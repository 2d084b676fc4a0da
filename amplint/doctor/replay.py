"""Running a part of a step again, so that the program doesn't notice: what it changes is put back.

Buffers are exchanged for copies, numbers that modules keep, training flags and random numbers are restored, output is
dropped. What can't be run twice is not run: see `amplint.doctor.slices`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from amplint.doctor.capture import Autocast, Capture, RootCall, tensors_in
from amplint.doctor.random_state import RandomState, restored
from amplint.doctor.slices import NoSlice, Slice, check_module
from amplint.verify.bench.instrument import DEVICES
from amplint.verify.bench.patching import wrap

_SCALARS = (int, float, bool, str, type(None))


class Computation:
    """Something that computes tensors again, from the state that it started from."""

    def __init__(self, run: Callable[[], Any], random: RandomState, autocast: Autocast, *, has_grad: bool) -> None:
        self._run = run
        self._random = random
        self.autocast = autocast
        self.rewind: Callable[[], None] = lambda: None  # puts generators of the program's back
        self.has_grad = has_grad

    def __call__(self, *, off: bool = False) -> list[torch.Tensor]:
        """The tensors, computed once more; with `off` without autocast."""
        self._random.set()
        self.rewind()
        with ExitStack() as conditions:
            conditions.enter_context(torch.set_grad_enabled(self.has_grad))
            conditions.enter_context(self.autocast.applied(off=off))
            if off:
                conditions.enter_context(_regions_off())
            return list(tensors_in(self._run()))


def of_slice(part: Slice, calls: Sequence[RootCall]) -> Computation:
    """The computation that statements of the user's make; what autocast and gradients are set to now is kept."""
    random = calls[0].random if calls else RandomState.now()
    return Computation(part.run, random, Autocast.now(), has_grad=torch.is_grad_enabled())


def of_call(call: RootCall) -> Computation:
    """The computation that a call of a module makes."""
    assert call.args is not None

    def run() -> Any:
        args, kwargs = tree_map(_apart, (call.args, call.kwargs))
        return call.module(*args, **kwargs)

    return Computation(run, call.random, call.autocast, has_grad=call.has_grad)


def _apart(value: Any) -> Any:
    """A tensor apart from the graph that it is in."""
    if isinstance(value, torch.Tensor) and value.grad_fn is not None:
        return value.detach().requires_grad_(value.requires_grad)
    return value


@contextmanager
def _regions_off() -> Iterator[None]:
    """Regions that are entered in the block are switched off."""

    def enter(real: Any, self: Any) -> Any:
        result = real(self)
        for device in DEVICES:
            torch.set_autocast_enabled(device, False)
        return result

    with ExitStack() as undo:
        wrap(undo, torch.autocast, "__enter__", enter)
        yield


class _Generators(TorchDispatchMode):
    """Puts back the generators that operations draw from."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._states: dict[int, tuple[torch.Generator, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and keep the state that its generator has had."""
        generator = (kwargs or {}).get("generator")
        if isinstance(generator, torch.Generator) and id(generator) not in self._states:
            self._states[id(generator)] = (generator, generator.get_state())
        return func(*args, **(kwargs or {}))

    def put_back(self) -> None:
        """Set the generators to what they were."""
        for generator, state in self._states.values():
            generator.set_state(state)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.put_back()


class Replays:
    """Runs computations again, and counts how often and how long."""

    def __init__(self, capture: Capture, *, is_on: bool) -> None:
        self._capture = capture
        self._is_on = is_on
        self._checked: dict[int, str | None] = {}
        self.forwards = self.backwards = 0
        self._generators: _Generators | None = None
        self.seconds = 0.0

    def why_not(self, models: Sequence[torch.nn.Module]) -> str | None:
        """Why modules can't be run again, None if they can."""
        if not self._is_on:
            return "nothing is run again (`--no-replay`)"
        for model in models:
            if id(model) not in self._checked:
                self._checked[id(model)] = _why_not(model)
            if (why := self._checked[id(model)]) is not None:
                return why
        return None

    def rewind(self) -> None:
        """Set the generators that the program has made itself to what they were before the block of `quiet`."""
        if self._generators is not None:
            self._generators.put_back()

    @contextmanager
    def quiet(self, models: Sequence[torch.nn.Module]) -> Iterator[list[torch.Tensor]]:
        """After the block all is as before it. Yields the tensors that may be written to in it."""
        started = time.perf_counter()
        self._capture.is_quiet = True
        try:
            with ExitStack() as undo:
                undo.enter_context(restored())
                undo.enter_context(contextlib.redirect_stdout(io.StringIO()))
                undo.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                undo.callback(logging.disable, logging.root.manager.disable)
                logging.disable(logging.CRITICAL)
                if hasattr(torch.compiler, "set_stance"):  # torch 2.6
                    undo.enter_context(torch.compiler.set_stance("force_eager"))
                buffers = _exchange(models, undo)
                self._generators = undo.enter_context(_Generators())
                yield buffers
        finally:
            self._capture.is_quiet = False
            self.seconds += time.perf_counter() - started


def _exchange(models: Sequence[torch.nn.Module], undo: ExitStack) -> list[torch.Tensor]:
    """Let modules have copies of their buffers, and what they keep in numbers restored; return the copies."""
    copies: dict[int, torch.Tensor] = {}
    for module in {id(part): part for model in models for part in model.modules()}.values():
        undo.callback(module.__dict__.update, {k: v for k, v in module.__dict__.items() if isinstance(v, _SCALARS)})
        for name, buffer in module._buffers.items():
            if buffer is not None:
                if id(buffer) not in copies:
                    copies[id(buffer)] = buffer.detach().clone()
                undo.callback(module._buffers.__setitem__, name, buffer)
                module._buffers[name] = copies[id(buffer)]
    return list(copies.values())


def _why_not(model: torch.nn.Module) -> str | None:
    """Why a model can't be run again."""
    for part in model.modules():
        kind = type(part).__name__
        if kind in ("FullyShardedDataParallel", "FSDPModule") or any(
            base.__name__ == "FSDPModule" for base in type(part).__mro__
        ):
            return "the model is sharded (FSDP): running it again would need all processes"
        if isinstance(part, torch.nn.SyncBatchNorm) and torch.distributed.is_initialized():
            return "the model has SyncBatchNorm: running it again would need all processes"
    try:
        check_module(model)
    except NoSlice as error:
        return f"the model can't be run again: {error}"
    return None


@contextmanager
def without_scale(scalers: Sequence[torch.amp.GradScaler]) -> Iterator[None]:
    """Scalers scale by 1 in the block."""
    before = [(scaler, scaler._scale) for scaler in scalers]
    try:
        for scaler, scale in before:
            scaler._scale = torch.ones_like(scale) if scale is not None else None
        yield
    finally:
        for scaler, scale in before:
            scaler._scale = scale


@contextmanager
def in_mode(models: Sequence[torch.nn.Module], *, training: bool) -> Iterator[None]:
    """Modules in training or in evaluation mode in the block."""
    parts = [part for model in models for part in model.modules()]
    before = [part.training for part in parts]
    for part in parts:
        part.training = training
    try:
        yield
    finally:
        for part, was in zip(parts, before, strict=True):
            part.training = was


def is_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all floating numbers in tensors are finite."""
    return all(bool(torch.isfinite(each).all()) for each in tensors if each.is_floating_point() or each.is_complex())
