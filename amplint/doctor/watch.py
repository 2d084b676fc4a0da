"""The parts of the doctor put together, over a program that has imported torch.

`start` runs the program, and `guard` keeps a bug of the doctor from it. `protocol` (with `units`, `scale`,
`by_hand` and `gradients`) hears the scaler and the optimizers; `regions` hears autocast; `numbers` reads losses and,
with `reads`, what the program reads. `capture` keeps the outermost calls of modules as references. When a value is not
finite, `diagnosis` takes the statements that compute it (`slices`), or the calls. `replay` runs them again and puts
everything back; `detail` (with `origins`, `lineage` and `casts`) looks at each operation.
"""

from __future__ import annotations

import dis
import functools
import importlib
import linecache
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from amplint.doctor.capture import Capture, RootCall
from amplint.doctor.casts import Casts
from amplint.doctor.collector import Collector
from amplint.doctor.diagnosis import Diagnosis
from amplint.doctor.findings import Cause, Evidence, Finding, Place, Report
from amplint.doctor.gradients import Models
from amplint.doctor.guard import Guard
from amplint.doctor.history import History
from amplint.doctor.live import Live
from amplint.doctor.numbers import Numbers, stand_in
from amplint.doctor.options import Options
from amplint.doctor.places import hide_own_frames, is_users, user_place
from amplint.doctor.protocol import Protocol, may_have_modes
from amplint.doctor.readings import HALF
from amplint.doctor.regions import Regions
from amplint.doctor.replay import Replays
from amplint.doctor.rounding import Rounding
from amplint.doctor.sources import Sources
from amplint.explain.search import find
from amplint.verify.bench.instrument import watched
from amplint.verify.bench.patching import patch, wrap

_LOUD = {"AMP407": Cause.NO_GRADIENTS, "AMP502": Cause.OVERFLOW}  # what raises, by its rule; the rest is use
_DTYPES_DIFFER = ("AMP209",)  # what raises where half precision meets float32 outside of autocast


class Watching:
    """Everything that watches a program, from now until `undo` is closed."""

    def __init__(
        self,
        options: Options,
        undo: ExitStack,
        failed: Callable[[Exception], None],
        told: Callable[[Finding], None],
    ) -> None:
        self._options = options
        self._models = Models()
        self._collector = Collector()
        self._collector.told = told
        self._capture = Capture(self._models, self._has_returned)
        casts = Casts()
        self._replays = Replays(self._capture, casts, is_on=options.replay)
        self._sources = Sources()
        self._history = history = History(self._models)
        diagnosis = Diagnosis(
            self._capture,
            self._models,
            history=history,
            replays=self._replays,
            scalers=lambda: self._protocol.all_logs,
            optimizers=self._optimizers,
            sources=self._sources,
        )
        self._regions = Regions(self._collector)
        self._capture.threaded = self._regions.threaded
        self._protocol = Protocol(self._collector, self._models)
        afterwards: list[Callable[[], object]] = []
        live = Live(self._models, afterwards, may_have_modes, casts)
        undo.callback(live.close)
        self._numbers = Numbers(
            self._collector,
            self._capture,
            history,
            diagnosis,
            self._protocol,
            live=live,
            rounding=Rounding(self._sources),
            is_careful=options.careful,
        )
        listeners = [self._regions, self._protocol, self._numbers]
        self._guard = Guard(listeners, lambda: self._capture.is_quiet, failed, afterwards)
        self._returned = self._guard.guarded(self._numbers.returned)
        undo.enter_context(watched(self._guard, is_users, waits=False))
        self._capture.install(undo, self._guard)
        self._numbers.install(undo, self._guard.guarded)
        self._watch_cuda(undo)
        self._watch_checkpoints(undo)
        self._watch_gradients(undo)
        self._watch_states(undo)
        self._watch_casts(undo, casts)
        self._watch_schedulers(undo)
        self._watch_hooks(undo)
        hide_own_frames(undo)

    @property
    def is_repeating(self) -> bool:
        """Whether a part of the program is being repeated."""
        return self._capture.is_quiet

    def _has_returned(self, call: RootCall) -> None:
        self._returned(call)

    def _optimizers(self) -> list[Any]:
        """The optimizers that have been seen."""
        return [optimizer for optimizer, _ in self._protocol.units.optimizers()]

    def _watch_hooks(self, undo: ExitStack) -> None:
        for name in ("register_hook", "register_post_accumulate_grad_hook"):
            real: Any = getattr(torch.Tensor, name)

            def register(tensor: Any, hook: Any, real: Any = real) -> Any:
                if callable(hook) and is_users(sys._getframe(1).f_code.co_filename):
                    hook = self._protocol.watched_hook(hook)
                return real(tensor, hook)

            patch(undo, torch.Tensor, name, functools.wraps(real)(register))

    def _watch_states(self, undo: ExitStack) -> None:
        def of_itself(told: Callable[[Any], None]) -> Callable[..., None]:
            return lambda result, itself, *args, **kwargs: told(itself)

        self._after(undo, torch.amp.GradScaler, "load_state_dict", of_itself(self._protocol.state_loaded))
        self._after(undo, torch.nn.Module, "load_state_dict", of_itself(self._sources.loaded))
        for name in ("register_parameter", "register_buffer"):
            self._after(undo, torch.nn.Module, name, self._given)
        for name in ("to", "half", "bfloat16"):
            self._after(undo, torch.nn.Module, name, of_itself(self._sources.moved))

    def _given(self, _: None, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        """A module was given a parameter or buffer."""
        name = str(args[0] if args else kwargs["name"])
        self._sources.given(module, name, getattr(module, name, None))

    def _watch_casts(self, undo: ExitStack, casts: Casts) -> None:
        made = self._guard.guarded(casts.made)

        def casting(real: Any) -> Any:
            def cast(self: Any, *args: Any, **kwargs: Any) -> Any:
                if torch.compiler.is_compiling():
                    return real(self, *args, **kwargs)
                if has_torch_function_unary(self):
                    return handle_torch_function(cast, (self,), self, *args, **kwargs)
                result = real(self, *args, **kwargs)
                if result is not self and getattr(result, "dtype", None) in HALF:  # most calls cast to nothing of half
                    made(self, result)
                return result

            return cast

        for name in ("to", "half", "bfloat16", "type"):
            stand_in(undo, torch.Tensor, name, casting)

    def _watch_schedulers(self, undo: ExitStack) -> None:
        def added(_: None, optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._history.group_added(optimizer)

        self._after(undo, torch.optim.Optimizer, "add_param_group", added)

        def made(_: Any, scheduler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._history.scheduler_made(scheduler, optimizer, user_place())

        self._after(undo, torch.optim.lr_scheduler.LRScheduler, "__init__", made)

    def _watch_gradients(self, undo: ExitStack) -> None:
        def taken(result: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
            self._protocol.gradients_taken(outputs, result)

        self._after(undo, torch.autograd, "grad", taken)

    def _after(self, undo: ExitStack, owner: Any, name: str, told: Callable[..., None]) -> None:
        """Have `told` called after a function or method, with its result and its arguments."""
        tell = self._guard.guarded(told)

        def call(real: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            tell(result, *args, **kwargs)
            return result

        wrap(undo, owner, name, call)

    def _watch_checkpoints(self, undo: ExitStack) -> None:
        """Note whether activations are checkpointed: what their graphs have saved is not looked at."""
        module = importlib.import_module("torch.utils.checkpoint")

        without = self._guard.guarded(self._protocol.checkpointed)

        def used(real: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
            module._amplint_used = True  # type: ignore[attr-defined]
            result = real(function, *args, **kwargs)
            without(function, result)
            return result

        wrap(undo, module, "checkpoint", used)
        undo.callback(vars(module).pop, "_amplint_used", None)

    def _watch_cuda(self, undo: ExitStack) -> None:
        def asked(real: Any) -> bool:
            if is_users(sys._getframe(2).f_code.co_filename):
                self._regions.cuda_asked = True
            return bool(real())

        wrap(undo, torch.cuda, "is_available", asked)

    def report(self, error: BaseException | None) -> Report:
        """What the run came to."""
        self._collector.told = lambda finding: None
        self._guard.guarded(self._numbers.over)(error)
        if isinstance(error, Exception):
            self._ended(error)
        scaler_is_on = bool(self._protocol.logs)
        notes = self._regions.finish(scaler_is_on)
        self._protocol.finish()
        self._numbers.finish()
        self._guard.guarded(self._collector.decide)()
        self._guard.close()
        if self._capture.too_large:
            notes.append("inputs of more than 256 MiB were not kept, so these steps could not be run again")
        return Report(
            tuple(self._collector.sorted()),
            self._protocol.requests,
            self._protocol.skipped,
            "; ".join(summary for log in self._protocol.logs if (summary := log.summary())),
            self._replays.forwards,
            self._replays.backwards,
            self._replays.seconds,
            tuple(notes),
            statements=self._replays.statements,
        )

    def _ended(self, error: Exception) -> None:
        """The program was ended by an exception: is it one that the linter's tables know?"""
        if hasattr(error, "_amplint_told") or _is_users_own(error):
            return
        if _is_of_numbers(error):
            frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
            users = [frame for frame in reversed(frames) if is_users(frame.f_code.co_filename)]
            self._guard.guarded(self._numbers.ended)(error, users)
        text = "".join(traceback.format_exception_only(error))
        known = [hit.message for hit in find(text, asked=False).hits if hit.message.codes]
        if not known:
            return
        code: str | None = known[0].codes[0]
        causes = known[0].causes
        cause = _LOUD.get(known[0].codes[0], Cause.PROTOCOL)
        advice = causes[0].do.rstrip(".") if len(causes) == 1 else ""  # of several it isn't known which one it is
        place = _raised_at(error)
        message = f"raises: {str(error).strip().splitlines()[0][:200]}" if str(error).strip() else "raises"
        advice = advice[:1].lower() + advice[1:]
        if code in _DTYPES_DIFFER and self._regions.ends(message.removeprefix("raises: ")):
            return
        if code in _DTYPES_DIFFER and not self._regions.was_on and place is not None and _speaks_of_autocast(place):
            cause, code = Cause.CASTS_NOTHING, None
            message = f"{message}: no autocast region is enabled"
            advice = "enter `torch.autocast` around the forward pass, or check the condition that disables AMP"
        alike = known[0].codes[1:] if code is not None else ()
        place = place or user_place()
        self._collector.add(Finding(cause, Evidence.SEEN, message, place, code, advice=advice, alike=alike))


def _speaks_of_autocast(place: Place) -> bool:
    """Whether the user's file has a region, which this run has not entered."""
    return any("autocast" in line for line in linecache.getlines(place.path))


def _is_of_numbers(error: Exception) -> bool:
    """Whether an exception can be about values, and not about the program."""
    return isinstance(error, (ValueError, RuntimeError, ArithmeticError, AssertionError))


def _is_users_own(error: BaseException) -> bool:
    """Whether a `raise` or an `assert` of the user's own has raised an exception."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not is_users(last.tb_frame.f_code.co_filename):
        return False
    instructions = dis.get_instructions(last.tb_frame.f_code)
    return any(each.offset == last.tb_lasti and each.opname == "RAISE_VARARGS" for each in instructions)


def _raised_at(error: BaseException) -> Place | None:
    """The innermost line of the user's code in a traceback."""
    place, at = None, error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if is_users(code.co_filename):
            place = Place(code.co_filename, at.tb_lineno, code.co_name, code, at.tb_lasti)
        at = at.tb_next
    return place
