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
from torch.utils._pytree import tree_map

from amplint.doctor.capture import Autocast, Capture, RootCall, tensors_in
from amplint.doctor.random_state import RandomState, restored
from amplint.doctor.slices import NoSlice, Slice, check_module
from amplint.verify.bench.instrument import DEVICES
from amplint.verify.bench.patching import wrap

_SCALARS = (int, float, bool, str, type(None))


class Computation:
    """Something that computes tensors again, from the state that it started from."""

    def __init__(
        self, run: Callable[[], Any], random: RandomState, autocast: Autocast, inputs: Sequence[Any], *, has_grad: bool
    ) -> None:
        self._run = run
        self._random = random
        self.autocast = autocast
        self.inputs = inputs
        self.has_grad = has_grad

    def __call__(self, *, off: bool = False) -> list[torch.Tensor]:
        """The tensors, computed once more; with `off` without autocast."""
        self._random.set()
        with ExitStack() as conditions:
            conditions.enter_context(torch.set_grad_enabled(self.has_grad))
            conditions.enter_context(self.autocast.applied(off=off))
            if off:
                conditions.enter_context(_regions_off())
            return list(tensors_in(self._run()))


def of_slice(part: Slice, calls: Sequence[RootCall]) -> Computation:
    """The computation that statements of the user's make; what autocast and gradients are set to now is kept."""
    inputs = [part.names.get(name) for name in part.inputs]
    return Computation(part.run, calls[0].random, Autocast.now(), inputs, has_grad=torch.is_grad_enabled())


def of_call(call: RootCall) -> Computation:
    """The computation that a call of a module makes."""
    assert call.args is not None

    def run() -> Any:
        args, kwargs = tree_map(_apart, (call.args, call.kwargs))
        return call.module(*args, **kwargs)

    return Computation(run, call.random, call.autocast, [call.args, call.kwargs], has_grad=call.has_grad)


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


class Replays:
    """Runs computations again, and counts how often and how long."""

    def __init__(self, capture: Capture, *, is_on: bool) -> None:
        self._capture = capture
        self._is_on = is_on
        self._checked: dict[int, str | None] = {}
        self.forwards = self.backwards = 0
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
                yield _exchange(models, undo)
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
