"""Running a part of a step again, so that the program doesn't notice: what it changes is put back.

Buffers are exchanged for copies, numbers that modules keep, training flags and random numbers are restored, output is
dropped. What can't be run twice is not run: see `amplint.doctor.slices`.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from amplint.doctor.capture import Autocast, Capture, RootCall, tensors_in
from amplint.doctor.casts import Casts
from amplint.doctor.detail import OutsideWrite, storage_of
from amplint.doctor.mute import mute
from amplint.doctor.places import user_place
from amplint.doctor.random_state import RandomState, restored
from amplint.doctor.shadow import Operation
from amplint.doctor.shadow import tensors_in as operands
from amplint.doctor.slices import Guards, NoSlice, Slice, check_module, forward_hooks, guarded, only_records
from amplint.verify.bench.instrument import DEVICES
from amplint.verify.bench.patching import wrap


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


class _Watchful(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Puts back the generators that operations draw from, and lets nothing write to a tensor of the program."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._states: dict[int, tuple[torch.Generator, torch.Tensor]] = {}
        self._own: set[int] = set()  # storages that were made since

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and keep the state that its generator has had."""
        kwargs = kwargs or {}
        generator = kwargs.get("generator")
        if isinstance(generator, torch.Generator) and id(generator) not in self._states:
            self._states[id(generator)] = (generator, generator.get_state())
        if not hasattr(func, "_schema"):  # an operator on functions
            return func(*args, **kwargs)
        for tensor in Operation(func, args, kwargs).targets:
            if (storage := storage_of(tensor)) is not None and storage not in self._own:
                raise OutsideWrite(func._schema.name.rpartition("::")[2].rstrip("_"), user_place())
        result = func(*args, **kwargs)
        given = {storage_of(each) for each in operands((args, kwargs))} if func is not _LIFT else set()
        self._own |= {
            storage for each in operands(result) if (storage := storage_of(each)) is not None and storage not in given
        }
        return result

    @property
    def drawn(self) -> list[tuple[torch.Generator, torch.Tensor]]:
        """The generators that were drawn from, each with the state that it has had."""
        return list(self._states.values())

    def put_back(self) -> None:
        """Set the generators to what they were."""
        for generator, state in self._states.values():
            generator.set_state(state)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.put_back()


_LIFT = torch.ops.aten.lift_fresh.default  # of the numbers in `torch.tensor(...)`


class Replays:
    """Runs computations again, and counts how often and how long."""

    def __init__(self, capture: Capture, casts: Casts, *, is_on: bool) -> None:
        self.casts = casts
        self._capture = capture
        self.is_on = is_on
        self._checked: dict[tuple[int, int], str | None] = {}
        self._guards: Guards = {}
        self.forwards = self.backwards = self.statements = 0
        self._generators: _Watchful | None = None
        self.seconds = 0.0

    def why_not(self, models: Sequence[torch.nn.Module]) -> str | None:
        """Why modules can't be run again, None if they can."""
        if not self.is_on:
            return "nothing is run again (`--no-replay`)"
        for model in models:
            key = (id(model), sum(map(len, forward_hooks(model))))
            if key not in self._checked:
                self._checked[key] = self._why_not(model)
            if (why := self._checked[key]) is not None:
                return why
        return None

    def _why_not(self, model: torch.nn.Module) -> str | None:
        """Why a model can't be run again; what of it can't be, where that is only some lines, is kept."""
        if (why := _needs_others(model)) is not None:
            return why
        try:
            self._guards |= check_module(model)
        except NoSlice as error:
            return f"the model can't be run again: {error}"
        return None

    def rewind(self) -> None:
        """Set the generators that the program has made itself to what they were before the block of `quiet`."""
        if self._generators is not None:
            self._generators.put_back()

    def drawn(self) -> list[tuple[torch.Generator, torch.Tensor]]:
        """The generators that were drawn from in the block of `quiet`, each with the state that it has had before."""
        return self._generators.drawn if self._generators is not None else []

    @contextmanager
    def quiet(self, models: Sequence[torch.nn.Module]) -> Iterator[list[torch.Tensor]]:
        """After the block all is as before it. Yields the tensors that may be written to in it."""
        started = time.perf_counter()
        self._capture.is_quiet = True
        try:
            with ExitStack() as undo:
                undo.enter_context(restored())
                undo.enter_context(mute())
                undo.enter_context(_casts_not_kept())
                undo.enter_context(_default_device())
                if hasattr(torch.compiler, "set_stance"):  # torch 2.6
                    undo.enter_context(torch.compiler.set_stance("force_eager"))
                exchanged = _Exchanged(undo, self.casts)
                self._capture.entered = exchanged.add
                undo.callback(setattr, self._capture, "entered", None)
                self._generators = undo.enter_context(_Watchful())
                for model in models:
                    exchanged.add(model)
                undo.enter_context(guarded(self._guards))
                yield exchanged.copies
        finally:
            self._capture.is_quiet = False
            self.seconds += time.perf_counter() - started


@contextmanager
def _default_device() -> Iterator[None]:
    """In the block tensors are created on the device that `torch.set_default_device` was given.

    That is a mode, and modes of the program's don't hear of what the doctor does: here this one does, if it is alone.
    """
    has_default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is not None
    is_alone = torch._C._len_torch_function_stack() <= has_default
    with torch._C._EnableTorchFunction() if has_default and is_alone else nullcontext():
        yield


@contextmanager
def _casts_not_kept() -> Iterator[None]:
    """What autocast casts in the block is cast again each time: what it has kept before stays what it is."""

    def enter(real: Any, self: Any) -> Any:
        result = real(self)
        torch.set_autocast_cache_enabled(False)
        return result

    before = torch.is_autocast_cache_enabled()
    with ExitStack() as undo:
        wrap(undo, torch.autocast, "__enter__", enter)
        undo.callback(torch.set_autocast_cache_enabled, before)
        torch.set_autocast_cache_enabled(False)
        yield


class _Exchanged:
    """Lets modules have copies of their buffers, and puts back what they hold; hooks that only record are left out."""

    def __init__(self, undo: ExitStack, casts: Casts) -> None:
        self._undo = undo
        self._casts = casts
        self._known: dict[int, torch.nn.Module] = {}
        self._copied: dict[int, torch.Tensor] = {}
        self.copies: list[torch.Tensor] = []
        shared = torch.nn.modules.module
        for hooks in (shared._global_forward_hooks, shared._global_forward_pre_hooks):
            self._leave_out(hooks, only_records)
        for hooks in (shared._global_backward_hooks, shared._global_backward_pre_hooks):
            self._leave_out(hooks, lambda hook: True)

    def add(self, model: torch.nn.Module) -> None:
        """Take in a module that is about to run, and all in it."""
        if id(model) in self._known:
            return
        for module in model.modules():
            if id(module) not in self._known:
                self._known[id(module)] = module
                self._take(module)

    def _take(self, module: torch.nn.Module) -> None:
        own = module.__dict__
        self._undo.callback(_put_back, own, dict(own))
        for value in own.values():
            if type(value) in _CONTAINERS:
                self._undo.callback(_put_back, value, value.copy())
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            self._leave_out(hooks, only_records)
        for hooks in (module._backward_hooks, module._backward_pre_hooks):
            self._leave_out(hooks, lambda hook: True)
        for parameter in module._parameters.values():
            if parameter is not None and getattr(parameter, "_backward_hooks", None):
                self._leave_out(parameter._backward_hooks, lambda hook: True)  # type: ignore[arg-type]
        for name, buffer in module._buffers.items():
            if buffer is not None and not torch.nn.parameter.is_lazy(buffer):
                if id(buffer) not in self._copied:
                    self._copied[id(buffer)] = buffer.detach().clone()
                    self.copies.append(self._copied[id(buffer)])
                    self._casts.copied(buffer, self.copies[-1])
                module._buffers[name] = self._copied[id(buffer)]

    def _leave_out(self, hooks: dict[int, Any], is_left_out: Callable[[Any], bool]) -> None:
        if any(map(is_left_out, hooks.values())):
            self._undo.callback(_put_back, hooks, hooks.copy())
            for key in [key for key, hook in hooks.items() if is_left_out(hook)]:
                del hooks[key]


_CONTAINERS = (dict, OrderedDict, list, set, deque)


def _put_back(container: Any, before: Any) -> None:
    """Give a container what it held before, and nothing else."""
    if isinstance(container, dict):
        if list(container) != list(before) or any(container[key] is not before[key] for key in before):
            container.clear()
            container.update(before)
    elif isinstance(container, set):
        if container != before:
            container.clear()
            container.update(before)
    elif len(container) != len(before) or any(one is not other for one, other in zip(container, before, strict=True)):
        container.clear()
        container.extend(before)


def _needs_others(model: torch.nn.Module) -> str | None:
    """Why running a model again would need other processes; None if it doesn't."""
    for part in model.modules():
        kind = type(part).__name__
        if kind in ("FullyShardedDataParallel", "FSDPModule") or any(
            base.__name__ == "FSDPModule" for base in type(part).__mro__
        ):
            return "the model is sharded (FSDP): running it again would need all processes"
        if isinstance(part, torch.nn.SyncBatchNorm) and torch.distributed.is_initialized():
            return "the model has SyncBatchNorm: running it again would need all processes"
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
