"""The outermost calls of modules, kept as references so that a step that fails can be run again.

Nothing is copied but the state of random numbers, and nothing is kept for longer than the step after the next.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from amplint.doctor.gradients import Models
from amplint.doctor.guard import Guard, is_traced, unheard
from amplint.doctor.places import is_top_level, users_frames
from amplint.doctor.random_state import RandomState
from amplint.doctor.readings import is_capturing
from amplint.verify.bench.instrument import DEVICES
from amplint.verify.bench.patching import patch

_MOST_BYTES = 256 << 20  # of the inputs of a call that are kept
_MOST_CALLS = 32  # of a group
_WRAPPERS = {"DistributedDataParallel", "DataParallel", "OptimizedModule"}
_LOOKS = 4  # calls at which it is looked at what random numbers they draw
_MOST_FRAMES = 8  # of the user's code that a call remembers


class Autocast(NamedTuple):
    """What autocast is set to: by device whether it is on, and its dtype."""

    devices: tuple[tuple[str, bool, torch.dtype], ...]

    @classmethod
    def now(cls) -> Autocast:
        """As it is set."""
        found = tuple((each, torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in DEVICES)
        return cls(found)

    @property
    def is_on(self) -> bool:
        """Whether it is on for some device."""
        return any(on for _, on, _ in self.devices)

    @contextmanager
    def applied(self, *, off: bool = False) -> Iterator[None]:
        """Set in the block, or switched off there; whether casts are kept stays as it is."""
        before = Autocast.now()
        torch.autocast_increment_nesting()  # regions in the block are no outermost ones, which drop what is kept
        try:
            self._set(off=off)
            yield
        finally:
            torch.autocast_decrement_nesting()
            before._set()

    def _set(self, *, off: bool = False) -> None:
        for device, on, dtype in self.devices:
            torch.set_autocast_enabled(device, on and not off)
            torch.set_autocast_dtype(device, dtype)


@dataclass(eq=False)
class RootCall:
    """An outermost call of a module: what is needed to make it again.

    Attributes:
        module: The module.
        args: Its positional arguments, None where they were too large to keep.
        kwargs: Its keyword arguments.
        versions: The tensors among them, each with the version that it had.
        frames: The user's frames that were running, innermost first: their code and line.
        autocast: What autocast was set to.
        has_grad: Whether gradients were recorded.
        random: The state of random numbers before the call.
        output: What the call returned.
    """

    module: torch.nn.Module
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any]
    versions: list[tuple[torch.Tensor, int]]
    frames: list[tuple[CodeType, int]]
    autocast: Autocast
    has_grad: bool
    random: RandomState
    output: Any = None
    weights: int = 0  # how often weights had been stepped
    running: list[FrameType] = field(default_factory=list)  # functions of the user's that ran, until the backward pass

    @property
    def is_unchanged(self) -> bool:
        """Whether the inputs are as they were."""
        return self.args is not None and all(each._version == version for each, version in self.versions)


@dataclass(eq=False)
class Group:
    """The calls between two backward passes, or of one round of an evaluation."""

    calls: list[RootCall] = field(default_factory=list)
    is_closed: bool = False

    @property
    def random(self) -> RandomState | None:
        """The state of random numbers before the first call."""
        return self.calls[0].random if self.calls else None


class Capture:
    """Keeps the outermost calls of modules of the last two groups."""

    def __init__(self, models: Models, returned: Callable[[RootCall], None]) -> None:
        self._models = models
        self._returned = returned  # is told of a call that has returned
        self._thread = threading.get_ident()
        self._is_inside = False
        self.groups: deque[Group] = deque([Group()], maxlen=2)
        self.weights = 0  # steps that have changed weights
        self.entered: Callable[[torch.nn.Module], None] | None = None  # is told of modules that run while it is quiet
        self.threaded: Callable[[torch.nn.Module, Any], bool] | None = None  # is told of other threads' calls
        self._threads: set[int] = set()  # other threads in which a module runs
        self.is_quiet = False  # nothing is captured: the doctor itself runs
        self._looks = _LOOKS  # at whether modules draw random numbers that aren't torch's
        self._draws = True
        self.too_large = 0  # calls whose inputs were not kept

    def install(self, undo: ExitStack, guard: Guard) -> None:
        """Begin to see calls, as long as `guard` is on, which is told what fails in here."""
        main, ident, real = self._thread, threading.get_ident, vars(torch.nn.Module)["__call__"]

        @functools.wraps(real)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:  # as short as it can be: every module comes here
            if self._is_inside or guard.is_off or ident() != main or _is_elsewhere():
                if self.threaded is not None and ident() != main and not (guard.is_off or self.is_quiet):
                    return self._in_thread(real, module, args, kwargs)
                return real(module, *args, **kwargs)
            if self.is_quiet:
                if self.entered is not None:
                    self.entered(module)
                return real(_unwrapped(module), *args, **kwargs)
            self._is_inside = True
            kept = None
            try:
                try:
                    with unheard():
                        kept = self._begin(module, args, kwargs)
                except Exception as error:
                    guard.fail(error)
                output = real(module, *args, **kwargs)
            finally:
                self._is_inside = False
            if kept is not None:
                kept.output = output
                if self._looks:
                    self._look(kept)
                self._returned(kept)
            return output

        patch(undo, torch.nn.Module, "__call__", call)

    def _in_thread(self, real: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a module returns that is called in another thread, of which the outermost ones are told."""
        thread = threading.get_ident()
        if thread in self._threads or _is_elsewhere():
            return real(module, *args, **kwargs)
        self._threads.add(thread)
        try:
            output = real(module, *args, **kwargs)
        finally:
            self._threads.discard(thread)
        told = self.threaded
        with suppress(Exception):  # it is the program's thread
            if told is not None and not told(module, output):
                self.threaded = None
        return output

    def _look(self, call: RootCall) -> None:
        self._looks = 0 if call.random.is_moved() else self._looks - 1
        if not self._looks:
            self._draws = call.random.is_moved()

    @property
    def current(self) -> Group:
        """The group that grows."""
        return self.groups[-1]

    def close(self) -> None:
        """The group is complete: a backward pass has come."""
        self.current.is_closed = True

    def forget_frames(self) -> None:
        """A backward pass is over: what functions have computed for it is let go."""
        for call in self.current.calls:
            call.running.clear()

    def _begin(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RootCall:
        has_grad = torch.is_grad_enabled()
        group = self.current
        is_again = not has_grad and any(call.module is module for call in group.calls)
        begins = has_grad and bool(group.calls) and not group.calls[-1].has_grad  # after what only looks
        if group.is_closed or is_again or begins or len(group.calls) >= _MOST_CALLS:
            self.groups.append(group := Group())
        self._models.add(module)
        versions = [(each, each._version) for each in tensors_in((args, kwargs)) if not each.is_inference()]
        size = sum(each.nbytes for each, _ in versions if each.layout is torch.strided)
        is_large = size > _MOST_BYTES
        self.too_large += is_large
        frames, running = [], []
        for frame in users_frames():
            frames.append((frame.f_code, frame.f_lineno))
            if has_grad and not is_top_level(frame.f_code):
                running.append(frame)
            if len(frames) == _MOST_FRAMES:
                break
        call = RootCall(
            module,
            None if is_large else args,
            {} if is_large else kwargs,
            [] if is_large else versions,
            frames,
            Autocast.now(),
            has_grad,
            RandomState.now(of_torch_alone=not self._draws),
            weights=self.weights,
            running=running,
        )
        group.calls.append(call)
        return call


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module in one that talks to other processes, or that compiles."""
    while type(module).__name__ in _WRAPPERS:
        module = getattr(module, "_orig_mod", None) or module.module  # type: ignore[assignment]
    return module


def _is_elsewhere() -> bool:
    """Whether a backward pass computes a forward pass again, as checkpoints do, or a compiler or CUDA graph records."""
    return is_in_backward() or is_traced() or is_capturing()


def is_in_backward() -> bool:
    """Whether autograd runs a backward pass: what runs now is a hook, a custom Function, or a checkpoint."""
    return torch._C._current_graph_task_id() != -1


def tensors_in(value: Any, depth: int = 4) -> Iterator[torch.Tensor]:
    """The tensors in nested lists, tuples, mappings and plain objects such as a model's output."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for each in value[:256]:
            yield from tensors_in(each, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name, None), depth - 1)
