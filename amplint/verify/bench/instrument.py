"""The watch: a `Listener` is told what happens in a program that trains with torch.amp, while it happens."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType, GeneratorType
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from amplint.verify.bench.patching import at_callers_line, patch, wrap

_GRAD: Any = torch.Tensor.grad  # the descriptor itself: reading through it is not watched
_BETWEEN = ("CACHE", "NOT_TAKEN", "EXTENDED_ARG")  # instructions of no meaning of their own; the last: a far jump's


# --- what a listener hears


class Region(NamedTuple):
    """An autocast region: its device as the program wrote it ("cuda:0"), and its dtype, None if it is switched off."""

    device: str
    dtype: str | None

    def __str__(self) -> str:
        return f"{self.device} {self.dtype or 'off'}"


class Clip(NamedTuple):
    """A call of clip_grad_norm_ or clip_grad_value_ (then `order` is inf: the bound is on the largest element)."""

    parameters: list[torch.Tensor]
    bound: float
    order: float


class Listener:
    """What a watched program does. Each method is called at the moment named; by default nothing is done."""

    def scaler_made(self, scaler: torch.amp.GradScaler, asked: bool) -> None:
        """A scaler, or one of a subclass, was constructed; `asked` is whether the program wants it enabled."""

    def scaler_raised(self, scaler: torch.amp.GradScaler, error: Exception) -> None:
        """A method of a scaler has raised."""

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to be constructed: it has no parameters yet."""

    def region_made(self, region: torch.autocast, asked: bool) -> None:
        """An autocast object was constructed; `asked` is whether the program wants it enabled."""

    def region_used(self, region: torch.autocast) -> None:
        """An autocast object is about to be entered."""

    def region_decorates(self, region: torch.autocast) -> None:
        """An autocast object decorates a function."""

    def region_entered(self, region: Region) -> None:
        """A region was entered."""

    def region_left(self) -> None:
        """A region was left."""

    def loss_scaled(self, loss: torch.Tensor) -> None:
        """`scaler.scale(loss)` is about to be computed."""

    def scaled(self, scaler: torch.amp.GradScaler, loss: Any, result: Any) -> None:
        """`scaler.scale(loss)` has returned `result`."""

    def backward_started(self, roots: Sequence[torch.Tensor]) -> None:
        """`backward` was called."""

    def backward_done(self) -> None:
        """Gradients have been accumulated."""

    def unscaled(self, optimizer: Any, scaler: torch.amp.GradScaler) -> None:
        """`scaler.unscale_(optimizer)`, called by the program, has returned."""

    def clipping(self, clip: Clip) -> None:
        """Gradients are about to be clipped."""

    def clipped(self, clip: Clip, norm: Any) -> None:
        """Gradients were clipped; `norm` is what the call returned, None of clip_grad_value_."""

    def gradient_read(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """A line of the program itself read `parameter.grad`; comparisons with None don't count."""

    def gradients_dropped(self, parameters: Sequence[torch.Tensor], value: torch.Tensor | None = None) -> None:
        """`zero_grad` is about to run, or `parameter.grad` to be set: to `value`."""

    def step_requested(self, optimizer: Any, scaler: torch.amp.GradScaler | None) -> None:
        """A step request: an outermost `scaler.step(optimizer)`, or an outermost `optimizer.step()`."""

    def gradients_applied(self, optimizer: Any) -> None:
        """Within a request: the optimizer uses its gradients now. Scaled ones have `optimizer.grad_scale` beside."""

    def step_done(self, optimizer: Any, *, taken: bool) -> None:
        """The end of a step request; `taken` is false if the scaler left it out."""

    def scale_updated(self, scaler: torch.amp.GradScaler, before: float, after: float) -> None:
        """`scaler.update()` of an enabled scaler has returned; the scale before and after. Needs `waits`."""

    def updated(self, scaler: torch.amp.GradScaler, new_scale: float | torch.Tensor | None) -> None:
        """`scaler.update()` has returned, with the scale that it was given, if any."""


def _devices() -> tuple[str, ...]:
    found = []
    for device in ("cuda", "xpu", "mps", "cpu"):
        try:
            torch.is_autocast_enabled(device)
        except RuntimeError:  # a release of torch whose autocast lacks the device
            continue
        found.append(device)
    return tuple(found)


DEVICES = _devices()


def open_regions() -> tuple[Region, ...]:
    """The devices for which autocast is on now, with their dtypes."""
    return tuple(
        Region(device, _name(torch.get_autocast_dtype(device)))
        for device in DEVICES
        if torch.is_autocast_enabled(device)
    )


def gradient(parameter: torch.Tensor) -> torch.Tensor | None:
    """`parameter.grad`, read without being heard."""
    found: torch.Tensor | None = _GRAD.__get__(parameter)
    return found


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# --- the watch


@contextmanager
def watched(listener: Listener, is_own: Callable[[str], bool], *, waits: bool = True) -> Iterator[None]:
    """Tell `listener` what happens in the block.

    Args:
        listener: Who is told.
        is_own: Whether a file, given by its name, is the program's: only there gradient reads count.
        waits: Whether numbers that lie on a device may be read, which waits for the device, and whether reads of
            gradients are heard at all, which makes them slower. Without it `scale_updated` and `gradient_read` are
            not called, and a fused optimizer's step counts as taken.
    """
    with ExitStack() as undo:
        _watch_scalers(listener, undo, waits=waits)
        _watch_steps(listener, undo)
        _watch_backwards(listener, undo)
        if waits:
            _watch_reads(listener, undo, is_own)
        _watch_regions(listener, undo)
        yield


def _watch_scalers(listener: Listener, undo: ExitStack, *, waits: bool) -> None:
    scaler = torch.amp.GradScaler
    requests = _Requests(listener, undo, waits=waits)
    constructor = _Constructor(scaler)

    def made(real: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        listener.scaler_made(self, constructor.call(real, self, args, kwargs))

    def scale(real: Any, self: Any, outputs: Any) -> Any:
        for each in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
            if isinstance(each, torch.Tensor):
                listener.loss_scaled(each)
        result = real(self, outputs)
        listener.scaled(self, outputs, result)
        return result

    def unscale(real: Any, self: Any, optimizer: Any) -> None:
        with _raising(listener, self):
            real(self, optimizer)
        if not requests.running:
            listener.unscaled(optimizer, self)

    def step(real: Any, self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        with requests.scaled(optimizer, self), _raising(listener, self):
            return real(self, optimizer, *args, **kwargs)

    def update(real: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        before = self.get_scale() if waits else 0.0
        with _raising(listener, self):
            real(self, *args, **kwargs)
        if waits and self.is_enabled():
            listener.scale_updated(self, before, self.get_scale())
        listener.updated(self, args[0] if args else kwargs.get("new_scale"))

    for name, wrapper in {
        "__init__": made,
        "scale": scale,
        "unscale_": unscale,
        "step": step,
        "update": update,
    }.items():
        wrap(undo, scaler, name, wrapper)


class _raising:  # noqa: N801 - used as a function; a class costs half of what contextmanager's generator does
    """Tell a listener of an exception that leaves the block; an inner one's is told once."""

    def __init__(self, listener: Listener, scaler: torch.amp.GradScaler) -> None:
        self._listener, self._scaler = listener, scaler

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not hasattr(error, "_amplint_told"):
            error._amplint_told = True  # type: ignore[attr-defined]
            self._listener.scaler_raised(self._scaler, error)


class _Constructor:
    """Constructors' calls of a class: whether they ask for an object that is enabled, and their warnings.

    Loops make the same call over and over: what one has come to is kept by its arguments.
    """

    def __init__(self, owner: type) -> None:
        self._signature = inspect.signature(inspect.unwrap(owner.__init__))  # type: ignore[misc]
        self._known: dict[Any, bool] = {}  # by arguments of calls that don't warn

    def call(self, real: Callable[..., None], made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Make the call; return whether the program wants the object enabled, as far as the arguments say."""
        key: Any = (args, tuple(kwargs.items()))
        try:
            asked = self._known.get(key)
        except TypeError:  # something that can't be hashed
            key = asked = None
        if asked is not None:
            real(made, *args, **kwargs)
            return asked
        _, warned = at_callers_line(lambda: real(made, *args, **kwargs))
        asked = self._asked(made, args, kwargs)
        if key is not None and not warned and len(self._known) < 64:
            self._known[key] = asked
        return asked

    def _asked(self, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            return bool(self._signature.bind(made, *args, **kwargs).arguments.get("enabled", True))
        except TypeError:  # a subclass takes other arguments
            return bool(kwargs.get("enabled", True))


class _Requests:
    """Step requests: which is the outermost call of a step, and whether the step was taken."""

    def __init__(self, listener: Listener, undo: ExitStack, *, waits: bool) -> None:
        self._listener = listener
        self._waits = waits
        self._taken = False
        self._scaled = False
        self._frame: FrameType | None = None  # of the outermost direct step
        for hook in (
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ):
            undo.callback(hook.remove)

    @property
    def running(self) -> bool:
        # An optimizer that raised has told nobody that its step is over.
        if self._frame is not None and not _active(self._frame):
            self._frame = None
        return self._scaled or self._frame is not None

    @contextmanager
    def scaled(self, optimizer: Any, scaler: torch.amp.GradScaler) -> Iterator[None]:
        if self.running:
            yield
            return
        self._scaled, self._taken = True, False
        try:
            self._listener.step_requested(optimizer, scaler)
            yield
            self._listener.step_done(optimizer, taken=self._taken)
        finally:
            self._scaled = False

    def _before(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.running:
            self._frame = sys._getframe(1)
            self._listener.step_requested(optimizer, None)
        found_inf = getattr(optimizer, "found_inf", None)
        is_read = isinstance(found_inf, torch.Tensor) and (self._waits or found_inf.device.type == "cpu")
        self._taken = not (is_read and found_inf.item())  # type: ignore[union-attr]
        if not _closure(args, kwargs):
            self._listener.gradients_applied(optimizer)

    def _after(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _closure(args, kwargs):  # it has made the gradients just now
            self._listener.gradients_applied(optimizer)
        if self._frame is sys._getframe(1):
            self._listener.step_done(optimizer, taken=True)
            self._frame = None


def _closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(map(callable, args[1:])) or callable(kwargs.get("closure"))


def _active(frame: FrameType) -> bool:
    now: FrameType | None = sys._getframe(1)
    while now is not None and now is not frame:
        now = now.f_back
    return now is not None


def _watch_steps(listener: Listener, undo: ExitStack) -> None:
    def made(real: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        listener.optimizer_made(self)
        real(self, *args, **kwargs)

    def drop(real: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(self, torch.nn.Module):
            listener.gradients_dropped(list(self.parameters()))
        else:
            listener.gradients_dropped([each for group in self.param_groups for each in group["params"]])
        real(self, *args, **kwargs)

    wrap(undo, torch.optim.Optimizer, "__init__", made)
    wrap(undo, torch.optim.Optimizer, "zero_grad", drop)
    wrap(undo, torch.nn.Module, "zero_grad", drop)


def _watch_backwards(listener: Listener, undo: ExitStack) -> None:
    depth = 0

    def backward(real: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal depth
        if depth:  # of a checkpoint that recomputes
            real(tensors, *args, **kwargs)
            return
        depth += 1
        try:
            listener.backward_started([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
            real(tensors, *args, **kwargs)
        finally:
            depth -= 1
        listener.backward_done()

    def clip(real: Any, parameters: Any, bound: Any, *args: Any, **kwargs: Any) -> Any:
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        order = float("inf")
        if real.__name__ == "clip_grad_norm_":
            order = float(args[0] if args else kwargs.get("norm_type", 2.0))
        clip = Clip(given, float(bound), order)
        listener.clipping(clip)
        # torch warns of a generator without parameters
        is_generator = isinstance(parameters, GeneratorType)
        result = real((each for each in given) if is_generator else given, bound, *args, **kwargs)
        listener.clipped(clip, result)
        return result

    def clip_norm(real: Any, parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        return clip(real, parameters, max_norm, *args, **kwargs)

    def clip_value(real: Any, parameters: Any, clip_value: Any, *args: Any, **kwargs: Any) -> Any:
        return clip(real, parameters, clip_value, *args, **kwargs)

    wrap(undo, torch.autograd, "backward", backward)
    for module in (torch.nn.utils, torch.nn.utils.clip_grad):
        wrap(undo, module, "clip_grad_norm_", clip_norm)
        wrap(undo, module, "clip_grad_value_", clip_value)


def _watch_reads(listener: Listener, undo: ExitStack, is_own: Callable[[str], bool]) -> None:
    def read(self: torch.Tensor) -> torch.Tensor | None:
        found = gradient(self)
        if found is not None:
            frame = sys._getframe(1)
            if is_own(frame.f_code.co_filename) and not _compares_with_none(frame):
                listener.gradient_read(self, found)
        return found

    def write(self: torch.Tensor, value: torch.Tensor | None) -> None:
        listener.gradients_dropped([self], value)
        _GRAD.__set__(self, value)

    watch = property(read, write, _GRAD.__delete__)
    patch(undo, torch.nn.Parameter, "grad", watch)


@functools.cache
def _looks_at_none(code: Any) -> frozenset[int]:
    """Offsets of the instructions in `code` whose result is compared with None next."""
    found, steps = [], [each for each in dis.get_instructions(code) if each.opname not in _BETWEEN]
    for at, *following in zip(steps, steps[1:], steps[2:], strict=False):
        first, second = following
        loaded = first.opname.startswith("LOAD_CONST") and first.argval is None and second.opname == "IS_OP"
        if loaded or ("JUMP" in first.opname and first.opname.endswith("NONE")):
            found.append(at.offset)
    return frozenset(found)


def _compares_with_none(frame: FrameType) -> bool:
    return frame.f_lasti in _looks_at_none(frame.f_code)


def _watch_regions(listener: Listener, undo: ExitStack) -> None:
    constructor = _Constructor(torch.autocast)

    def made(real: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        listener.region_made(self, constructor.call(real, self, args, kwargs))

    def decorate(real: Any, self: Any, function: Any) -> Any:
        listener.region_decorates(self)
        return real(self, function)

    def enter(real: Any, self: Any) -> Any:
        listener.region_used(self)
        result = real(self)
        listener.region_entered(Region(self.device, _name(self.fast_dtype) if self._enabled else None))
        return result

    def leave(real: Any, self: Any, *args: Any) -> Any:
        result = real(self, *args)
        listener.region_left()
        return result

    wrap(undo, torch.autocast, "__init__", made)
    wrap(undo, torch.autocast, "__call__", decorate)
    wrap(undo, torch.autocast, "__enter__", enter)
    wrap(undo, torch.autocast, "__exit__", leave)
