"""Watches the numbers of a run: losses, results of evaluation, gradients before a step that no scaler guards."""

# ruff: noqa: D102 - what is heard is documented on Listener
from __future__ import annotations

import dataclasses
import functools
import math
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.jit import _builtins
from torch.overrides import handle_torch_function, has_torch_function_unary

from amplint.doctor.by_hand import NO_HOOKS
from amplint.doctor.capture import Capture, RootCall, is_in_backward, tensors_in
from amplint.doctor.collector import Collector
from amplint.doctor.diagnosis import Diagnosis, Kind, Seen
from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.gradients import parameters_of
from amplint.doctor.graph import graph_nodes, number_of
from amplint.doctor.history import History
from amplint.doctor.live import Live
from amplint.doctor.places import is_users, place_of, user_frame, user_place, users_frames
from amplint.doctor.protocol import Protocol
from amplint.doctor.readings import Reading, all_finite, can_read, can_wait_for, is_readable, may_be_bad
from amplint.doctor.reads import Asked, Reads, is_in
from amplint.doctor.rounding import Rounding
from amplint.doctor.saved import holds_infinity
from amplint.doctor.sources import Buffers, bad_statistics
from amplint.verify.bench.instrument import Listener, gradient
from amplint.verify.bench.patching import at_callers_line, patch

_BUILTINS: Callable[[], dict[int, str]] = _builtins._get_builtin_table  # what can be scripted, by the function's id
_MOST_LOOKS = 6  # diagnoses of a run
_SKIPS = (3, 10, 25)  # skips in a row at which the gradients are looked at
_ZEROS = (2, 6, 20)  # such steps after which the loss is looked at
_EXAMS = 512  # backward passes of which one is looked through; before that the 1st, 2nd, 4th, 8th, ...
_EXAMS_OF_HALF = (2, 32, 256)  # backward passes that are run again where regions are in float16
_NEAR = 64  # nodes between a loss and what is computed from it, such as a sum of losses
_FEW_BAD = 8
_EACH = 4  # steps of which one is asked whether its gradients are all 0
_PRODUCTS = ("MulBackward", "DivBackward")
_TAKEN = 10  # steps after which a skip is looked at by itself
_LATE_LOOKS = 3
_ALL_OF, _HIDDEN_OFTEN, _HIDDEN_HALF = 4, 3, 0.5  # elements; times, and share of the steps, that all are replaced
_MOST_READINGS = 32  # replacements on a device between two losses
_HIDDEN_SHARE = 0.2  # of the steps in which a value that is not finite is replaced, or the step left


class Numbers(Listener):
    """Hears a run, and adds to the `collector` why something in it is not finite."""

    def __init__(
        self,
        collector: Collector,
        capture: Capture,
        history: History,
        diagnosis: Diagnosis,
        protocol: Protocol,
        *,
        live: Live,
        rounding: Rounding,
        is_careful: bool,
    ) -> None:
        self._live = live
        self._buffers = Buffers()
        self._rounding = rounding
        self._is_careful = is_careful
        self._collector = collector
        self._capture = capture
        self._history = history
        self._diagnosis = diagnosis
        self._protocol = protocol
        self._unscaled: dict[Any, weakref.ref[torch.Tensor]] = {}  # by the node of a scaled loss: the loss
        self._loss: weakref.ref[torch.Tensor] | None = None
        self._by_hand: _ByHand | None = None
        self._looks: Counter[Kind] = Counter()
        self._shown: set[Kind] = set()
        self._bad_step = -1  # the step whose loss was not finite
        self._bad_nodes: deque[int | None] = deque(maxlen=_FEW_BAD)  # numbers of the last losses that were not finite
        self._reads = Reads()
        self._maybe_losses: list[tuple[int, Place | None]] = []  # nodes of numbers that were replaced, and where
        self._late = 0
        self._unread: list[_Unread] = []  # losses on a device that reading them would have waited for
        self._backwards = 0
        self._zeros = 0  # steps with gradients that are all 0, without another between
        self._hidden: Counter[tuple[Place | None, str]] = Counter()
        self._hidden_steps: set[int] = set()
        self._hidden_all: Counter[Place | None] = Counter()  # times that a whole tensor of NaN was replaced
        self._left_out: Counter[Place | None] = Counter()  # times that all of a tensor was NaN, and may be left out
        self._waits: Counter[Hashable] = Counter()  # times that something on a device could have been read
        self._replacements: list[tuple[Reading, Place | None]] = []  # what was replaced on a device, and where
        self._replacing: set[Place | None] = set()  # where what was replaced was bad
        self._known: set[int] = set()  # models whose statistics were looked at

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self._history.optimizer_made(optimizer, user_place())

    # --- losses

    def scaled(self, scaler: torch.amp.GradScaler, loss: Any, result: Any) -> None:
        if isinstance(loss, torch.Tensor) and isinstance(result, torch.Tensor) and result.grad_fn is not None:
            if len(self._unscaled) > 16:
                self._unscaled.clear()
            self._unscaled[result.grad_fn] = weakref.ref(loss)

    def backward_started(self, roots: Sequence[torch.Tensor]) -> None:
        self._capture.close()
        self._history.begin()
        if not roots:
            return
        reference = self._unscaled.pop(roots[0].grad_fn, None)
        unscaled = reference() if reference is not None else None
        loss = roots[0] if unscaled is None else unscaled
        self._loss = weakref.ref(loss)
        self._decide(roots, loss)
        self._read_earlier()
        reading = Reading(loss) if can_wait_for(loss) else None
        is_read = is_readable(loss) or self._is_careful
        if reading is not None and not is_read:
            self._unread.append(_Unread(self._loss, reading, user_place()))
        frame = sys._getframe(1)
        self._by_hand = _ByHand.of(loss, reading, frame) if unscaled is None and reading is not None else None
        births = self._live.end(loss)
        if births and reading is not None and not math.isfinite(reading.value()):
            self._bad_step = self._collector.step
            finding = self._diagnosis.of_births(Seen(Kind.LOSS, [loss]), births, list(users_frames(frame)))
            self._tell(Kind.LOSS, finding, is_of_scale=births[0].backward)
            return
        if is_read and reading is not None and not self._look_at_loss(loss, reading):
            return
        if (case := self._protocol.unreached) is not None:
            self._protocol.cut_found(self._diagnosis.of_cut(loss, list(users_frames(frame)), case.parameters))
        if self._protocol.in_a_row in _SKIPS:
            self._look(Seen(Kind.GRADIENTS, [loss]), frame)
        elif self._zeros in _ZEROS:
            self._look(Seen(Kind.ZERO, [loss]), frame)
        else:
            self._examine(roots, loss, frame)

    def _examine(self, roots: Sequence[torch.Tensor], loss: torch.Tensor, frame: FrameType) -> None:
        """Now and then: infinities that the loss absorbs, and gradients that float16 makes 0."""
        if not self._is_exam():
            return
        self._reads.learn(roots)
        self._protocol.look_for_unregistered(roots)
        self._protocol.look_for_replaced(roots)
        if explosion := self._history.explosion():
            self._collector.add(self._diagnosis.of_explosion(explosion, list(users_frames(frame))))
        held = (value for each in users_frames(frame) for value in list(each.f_locals.values()))
        for finding in self._buffers.look([each for each in held if isinstance(each, torch.nn.Module)]):
            self._collector.add(finding)
        is_half = self._protocol.float16 is not None and self._backwards in _EXAMS_OF_HALF
        if is_half or holds_infinity(roots):
            self._look(Seen(Kind.ABSORBED, [loss]), frame)
        if is_half and loss is roots[0] and not self._protocol.is_scaled(loss):
            self._look(Seen(Kind.LOST, [loss], self._protocol.scaled_by_off), frame)

    def backward_done(self) -> None:
        # A loss on a device is waited for here, while the backward pass still runs there: nothing has to stand still.
        self._read_last()
        self._capture.forget_frames()

    def _read_earlier(self) -> None:
        """Read the losses of earlier backward passes. Their device has computed them long since."""
        for reading, place in self._replacements:
            if not math.isfinite(reading.value()):
                self._replacing.add(place)  # the next time it is looked at
                self._hidden_all[place] += place in self._hidden_all  # as the last one that was looked at
        self._replacements.clear()
        unread, self._unread = self._unread, []
        for each in unread:
            if math.isfinite(value := each.reading.value()):
                self._history.loss(value)
            elif Kind.LOSS not in self._shown and self._bad_step != self._collector.step:
                self._bad_step = self._collector.step
                self._collector.add(
                    Finding(
                        None,
                        Evidence.NOT_SHOWN,
                        "the loss of this backward pass is not finite; the cause could not be shown",
                        each.place,
                        details=("it lies on a device, and was read when the program had gone on",),
                        advice="run it with `--careful`, which reads each loss at once",
                    )
                )

    def _read_last(self) -> None:
        """Read the loss that has gone backward, and what was not read before it."""
        last = self._unread[-1].loss() if self._unread else None
        if last is None:
            self._read_earlier()
            return
        reading = self._unread.pop().reading
        self._read_earlier()
        self._look_at_loss(last, reading)

    def _look_at_loss(self, loss: torch.Tensor, reading: Reading) -> bool:
        """Whether a loss is finite; if not it is diagnosed."""
        if math.isfinite(value := reading.value()):
            self._history.loss(value)
            return True
        self._bad(Seen(Kind.LOSS, [loss]), sys._getframe(1))
        return False

    def _bad(self, seen: Seen, frame: FrameType) -> None:
        if self._bad_step == self._collector.step:
            return
        depended_on = {number_of(node) for node in islice(graph_nodes(seen.tensors), _NEAR)} - {None}
        if depended_on.isdisjoint(self._bad_nodes):  # else it is the loss of an earlier step, which is read once more
            self._bad_step = self._collector.step
            self._bad_nodes.append(number_of(seen.tensors[0].grad_fn))
            self._look(seen, frame)

    def _look(self, seen: Seen, frame: FrameType, *, is_metric: bool = False) -> None:
        """Diagnose what was seen, unless that kind is explained already; of a metric, which may be infinite, it is said
        only what half precision has done to it.
        """
        if self._is_explained(seen.kind):
            return
        self._looks[seen.kind] += 1
        finding = self._diagnosis.of(seen, list(users_frames(frame)))
        if finding is not None and (not is_metric or finding.cause in (Cause.OVERFLOW, Cause.UNDERFLOW)):
            self._tell(seen.kind, finding)

    def _is_explained(self, kind: Kind) -> bool:
        """Whether what is seen of a kind needs no further look."""
        is_explained = kind in self._shown or (Kind.LOSS in self._shown and kind is Kind.GRADIENTS)
        return is_explained or self._looks[kind] >= _MOST_LOOKS

    def _tell(self, kind: Kind, finding: Finding, *, is_of_scale: bool = False) -> None:
        """Add a finding. What a scale may have made that is still looked for, `is_of_scale`, counts only if the scale
        is not found: as what can't be shown of a loss that is made of scaled gradients.
        """
        is_shown = finding.evidence is not Evidence.NOT_SHOWN
        if not is_shown and kind is Kind.LOSS:
            self._live.arm()
        log = self._protocol.scale_in_loss if is_of_scale or not is_shown else None
        if log is not None:
            self._collector.add_unless(finding, log.has_settled)
            return
        if is_shown:
            self._shown.add(kind)
        self._collector.add(finding)

    # --- what the program reads

    def install(self, undo: ExitStack, guarded: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
        """Begin to see scalars that the program reads, and values that it replaces."""
        notice, replaced, summed = guarded(self._read), guarded(self._replaced), guarded(self._summed)
        tensor: Any = torch.Tensor

        def reading(real: Any) -> Any:
            has_warned = False  # torch warns once in a process, if at all

            def read(self: Any) -> Any:
                nonlocal has_warned
                if has_torch_function_unary(self):
                    return handle_torch_function(read, (self,), self)
                if has_warned or not self.requires_grad:
                    value = real(self)
                else:
                    value, has_warned = at_callers_line(lambda: real(self))[0], True
                if value.__class__ is float and not math.isfinite(value):
                    notice(self, sys._getframe(1), True)
                return value

            return read

        def asking(real: Any) -> Any:
            def ask(input: Any, *args: Any, **kwargs: Any) -> Any:
                if torch.compiler.is_compiling():
                    return real(input, *args, **kwargs)
                notice(input, sys._getframe(1), False)
                if has_torch_function_unary(input):
                    return handle_torch_function(ask, (input,), input, *args, **kwargs)
                return real(input, *args, **kwargs)

            return ask

        def replacing(real: Any, told: Callable[..., None] = replaced) -> Any:
            def replace(input: Any, *args: Any, **kwargs: Any) -> Any:
                if torch.compiler.is_compiling():
                    return real(input, *args, **kwargs)
                told(input, sys._getframe(1))
                if has_torch_function_unary(input):
                    return handle_torch_function(replace, (input,), input, *args, **kwargs)
                return real(input, *args, **kwargs)

            return replace

        for name in ("item", "__float__", "tolist"):
            stand_in(undo, tensor, name, reading)
        for owner in (torch, tensor):
            for name in ("isfinite", "isnan", "isinf"):
                stand_in(undo, owner, name, asking)
            for name in ("nan_to_num", "nan_to_num_"):
                stand_in(undo, owner, name, replacing)
            stand_in(undo, owner, "nansum", functools.partial(replacing, told=summed))

    def _read(self, tensor: Any, frame: FrameType, is_bad: bool) -> None:
        """A line has read a number that is not finite (`is_bad`), or asks whether numbers are finite."""
        if frame.f_code.co_name == "__format__" and frame.f_back is not None:  # of tensors, as in an f-string
            frame = frame.f_back
        if not is_users(frame.f_code.co_filename) or not isinstance(tensor, torch.Tensor):
            return
        if not _is_scalar(tensor):
            if tensor.grad_fn is not None and self._count_left_out(tensor, frame):
                self._wait(Kind.VALUE, tensor, frame)
            return
        # Who asks whether a loss is finite waits for the answer, most often at once.
        if not is_bad and not may_be_bad(tensor, waits=tensor.grad_fn is not None):
            return
        if tensor.grad_fn is not None:
            self._wait(Kind.LOSS, tensor, frame)
        elif self._is_evaluating():
            self._look(Seen(Kind.EVALUATION, [tensor]), frame, is_metric=torch.is_grad_enabled())

    def _wait(self, kind: Kind, tensor: torch.Tensor, frame: FrameType) -> None:
        """Diagnose a number that is read, and keep what was found until it is known whether it is a loss's."""
        if self._bad_step == self._collector.step or self._is_explained(kind):
            return
        read = self._reads.read(tensor, place_of(frame))
        if read is None or self._reads.is_root(read):
            self._bad(Seen(kind, [tensor]), frame)
        elif read.nodes.isdisjoint(self._bad_nodes) and self._reads.is_worth_a_look(read, self._open_calls()):
            finding = self._diagnosis.of(Seen(kind, [tensor]), list(users_frames(frame)))
            if finding is not None:
                step = self._collector.step if finding.step is None else finding.step
                self._reads.wait(Asked(read, kind, dataclasses.replace(finding, step=step)))

    def _open_calls(self) -> list[RootCall]:
        """The calls of modules since the last backward pass."""
        return [] if self._capture.current.is_closed else self._capture.current.calls

    def _decide(self, roots: Sequence[torch.Tensor], loss: torch.Tensor) -> None:
        """A backward pass begins: which of the numbers that were read, or replaced, are losses?"""
        for asked in self._reads.backward(roots, [loss]):
            self._is_loss(asked)
        replaced, self._maybe_losses = self._maybe_losses, []
        for number, place in replaced:
            if is_in(number, roots):
                self._is_hidden(place, "the loss")

    def _is_loss(self, asked: Asked) -> None:
        """A number that was read is one of a loss."""
        if not self._is_explained(asked.kind):
            self._looks[asked.kind] += 1
            self._bad_step = asked.finding.step or self._collector.step
            self._bad_nodes.append(asked.read.number)
            self._tell(asked.kind, asked.finding)

    def _is_evaluating(self) -> bool:
        calls = self._capture.current.calls
        return bool(calls) and not self._capture.current.is_closed and not calls[-1].has_grad

    def returned(self, call: RootCall) -> None:
        """A module has returned: where no gradients are recorded, its results are looked at."""
        self._look_at_statistics(call)
        if call.has_grad or Kind.EVALUATION in self._shown or self._looks[Kind.EVALUATION] >= _MOST_LOOKS:
            return
        waits = self._is_look(id(call.module))  # a device; else as often as there is a call
        bad = [each for each in tensors_in(call.output) if may_be_bad(each, waits=waits)]
        if bad and any(True for _ in call.module.parameters()):
            self._look(Seen(Kind.EVALUATION, bad), sys._getframe(1))

    def _look_at_statistics(self, call: RootCall) -> None:
        """Running statistics, at the first call of a model, and at the first one of an evaluation."""
        is_first = not call.has_grad and self._capture.current.calls[:1] == [call]
        if not is_first and id(call.module) in self._known:
            return
        waits = id(call.module) not in self._known or self._is_look(("statistics", id(call.module)))
        self._known.add(id(call.module))
        bad = bad_statistics(call.module, waits=waits)
        if bad is not None and Kind.LOSS not in self._shown and self._history.bad_weights is None:
            self._collector.add(self._diagnosis.of_statistics(call, *bad, user_place()))

    def _replaced(self, tensor: Any, frame: FrameType) -> None:
        """`nan_to_num` is about to replace values."""
        if not isinstance(tensor, torch.Tensor):
            return
        if not is_users(frame.f_code.co_filename):
            return
        if not is_readable(tensor) and can_wait_for(tensor):
            place = place_of(frame)
            if place not in self._replacing and not self._is_look(place):
                if len(self._replacements) < _MOST_READINGS:
                    self._replacements.append((Reading(tensor), place))
                return
        if not may_be_bad(tensor, waits=True):
            return
        is_loss = _is_scalar(tensor) and tensor.grad_fn is not None
        if tensor.numel() >= _ALL_OF and bool(torch.isnan(tensor.detach()).all()):
            self._hidden_all[place_of(frame)] += 1
        if is_loss:
            self._wait(Kind.LOSS, tensor, frame)
            if (number := number_of(tensor.grad_fn)) is not None and len(self._maybe_losses) < _MOST_READINGS:
                self._maybe_losses.append((number, place_of(frame)))
        elif self._is_gradient(tensor, frame):
            self._is_hidden(place_of(frame), "gradients")

    def _summed(self, tensor: Any, frame: FrameType) -> None:
        """`nansum` is about to leave values out."""
        if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None and is_users(frame.f_code.co_filename):
            self._count_left_out(tensor, frame)

    def _count_left_out(self, tensor: torch.Tensor, frame: FrameType) -> bool:
        """Whether a tensor, of which the program may be about to leave out what is NaN, holds a NaN. It is counted if
        that is all of it.
        """
        waits = False
        if not is_readable(tensor):
            place = place_of(frame)
            waits = place in self._left_out or self._is_look(("skipped", place))
        if not may_be_bad(tensor, waits=waits):
            return False
        is_nan = torch.isnan(tensor.detach())
        if tensor.numel() >= _ALL_OF and bool(is_nan.all()):
            self._left_out[place_of(frame)] += 1
        return bool(is_nan.any())

    def _is_hidden(self, place: Place | None, what: str) -> None:
        """In this step a loss, or gradients, that were not finite were replaced."""
        if self._collector.step not in self._hidden_steps:
            self._hidden_steps.add(self._collector.step)
            self._hidden[place, what] += 1

    def _is_gradient(self, tensor: torch.Tensor, frame: FrameType) -> bool:
        """Whether a tensor is a gradient: accumulated, or on its way to a parameter in a hook."""
        in_hook = is_in_backward() and frame.f_code.co_name not in NO_HOOKS
        for optimizer, _ in self._protocol.units.optimizers():
            for parameter in parameters_of(optimizer):
                found = gradient(parameter)
                if found is not None and found.data_ptr() == tensor.data_ptr():
                    return True
                if in_hook and parameter.shape == tensor.shape:
                    return True
        return False

    # --- gradients

    def gradients_applied(self, optimizer: Any) -> None:
        if self._bad_step == self._collector.step and self._history.bad_weights is None and not self._is_scaled():
            self._history.bad_weights = self._collector.step
        self._rounding.before(optimizer)
        if self._bad_step == self._collector.step or Kind.LOSS in self._shown or self._is_scaled():
            return  # explained already
        # Without a scaler this is the only time in a step that a device is waited for until it has computed everything.
        gradients = [found for each in parameters_of(optimizer) if (found := gradient(each)) is not None]
        if not all_finite(can_read(gradients)):
            self._bad_gradients(optimizer)

    def _is_scaled(self) -> bool:
        """Whether a scaler checks the gradients of the step that runs."""
        scaler = self._protocol.current_scaler
        return scaler is not None and scaler.is_enabled()

    def _bad_gradients(self, optimizer: Any) -> None:
        found = (gradient(each) for each in parameters_of(optimizer))
        if all(each is None or bool(torch.isfinite(each).all()) for each in found):
            return
        if self._history.bad_weights is None:
            self._history.bad_weights = self._collector.step
        self._bad_step = self._collector.step
        loss = self._loss() if self._loss is not None else None
        if Kind.GRADIENTS in self._shown:
            return
        frame = sys._getframe(1)
        seen = self._by_hand.seen(users_frames(frame)) if self._by_hand is not None else None
        if seen is None and loss is None:  # gone already: the one that the model itself has computed
            outputs = tensors_in([call.output for call in self._capture.current.calls])
            loss = next((each for each in outputs if _is_scalar(each)), None)
        if seen is None and loss is not None:
            seen = Seen(Kind.GRADIENTS, [loss])
        if seen is not None:
            self._look(seen, frame)
        if Kind.GRADIENTS not in self._shown:
            self._shown.add(Kind.GRADIENTS)
            self._collector.add(
                Finding(
                    None,
                    Evidence.NOT_SHOWN,
                    "the step uses gradients that are not finite: the weights are lost; the cause could not be shown",
                    user_place(),
                )
            )

    def step_done(self, optimizer: Any, *, taken: bool) -> None:
        self._live.begin()
        loss = self._loss() if self._loss is not None else None
        if taken:
            if (finding := self._rounding.after(optimizer, user_place())) is not None:
                self._collector.add(finding)
            self._zeros = self._zeros + 1 if self._is_zero(optimizer) else 0
            self._capture.weights += 1
            self._history.stepped(optimizer, user_place())
            return
        is_late = any(log.taken >= _TAKEN and log.in_a_row for log in self._protocol.logs)
        if is_late and loss is not None and self._late < _LATE_LOOKS and self._bad_step != self._collector.step:
            self._late += 1
            self._look(Seen(Kind.GRADIENTS, [loss]), sys._getframe(1))

    def _is_exam(self) -> bool:
        """Whether this backward pass is one of the few whose graphs are looked through."""
        self._backwards += 1
        return self._is_careful or _is_one_of_few(self._backwards)

    def _is_look(self, at: Hashable) -> bool:
        """Whether this time is one of the few at which a device is waited for, by what is looked at."""
        self._waits[at] += 1
        return self._is_careful or _is_one_of_few(self._waits[at])

    def _is_zero(self, optimizer: Any) -> bool:
        """Whether the gradients that a step has used are all 0. Looked at while the first one is, else now and then."""
        if not self._zeros and self._collector.step % _EACH:
            return False
        for parameter in parameters_of(optimizer):
            found = gradient(parameter)
            if found is not None and not can_wait_for(found):
                return False
            if found is not None and bool(found.any()):
                return False
        return True

    # --- at the end

    def over(self, error: BaseException | None) -> None:
        """The program is over, perhaps ended by an exception: what it has read last has no backward pass to come."""
        is_failure = isinstance(error, SystemExit) and error.code not in (None, 0)
        has_failed = is_failure or isinstance(error, Exception)
        for asked in self._reads.end(is_training=self._history.has_optimizer, has_failed=has_failed):
            self._is_loss(asked)

    def ended(self, error: Exception, frames: Sequence[FrameType]) -> None:
        """The program was ended by an exception, of which these are the user's frames, the innermost first."""
        if not self._shown:
            finding = self._diagnosis.of_end(error, frames)
            if finding is not None:
                self._collector.add(finding)

    def finish(self) -> None:
        """Add what only the whole run shows."""
        if not self._shown and self._history.bad_weights is None and (worse := self._history.worse()):
            self._collector.add(self._diagnosis.of_explosion(worse, ()))
        steps = max(self._collector.step - 1, 1)
        for place in {place for place, _ in self._hidden}:
            self._hidden_all.pop(place, None)
        for place, times in self._hidden_all.items():
            if times >= _HIDDEN_OFTEN and times >= _HIDDEN_HALF * steps:
                self._collector.add(
                    Finding(
                        Cause.HIDDEN,
                        Evidence.SEEN,
                        f"every value was NaN and was replaced, {times} times in {steps} steps: nothing is left of the "
                        "tensor, and the run looks healthy",
                        place,
                        times=times,
                        advice="remove the replacement, and fix what makes the values NaN",
                    )
                )
        self._tell_left_out(steps)
        for (place, what), times in self._hidden.items():
            if times >= 2 and times >= _HIDDEN_SHARE * steps:
                was = "a loss that is not finite was" if what == "the loss" else "gradients that are not finite were"
                self._collector.add(
                    Finding(
                        Cause.HIDDEN,
                        Evidence.SEEN,
                        f"{was} replaced by a number in {times} of {steps} steps: the run looks healthy, but "
                        "learns nothing from them",
                        place,
                        "AMP507",
                        times=times,
                        advice="remove the replacement, and fix what makes them NaN or inf",
                    )
                )

    def _tell_left_out(self, steps: int) -> None:
        """What is all NaN and is skipped, where that leaves no gradients."""
        for place, times in self._left_out.items():
            if self._zeros >= _HIDDEN_OFTEN and times >= _HIDDEN_OFTEN and times >= _HIDDEN_HALF * steps:
                self._collector.add(
                    Finding(
                        Cause.HIDDEN,
                        Evidence.SEEN,
                        f"every value was NaN and was skipped, {times} times in {steps} steps: no gradient but 0 is "
                        "left, and the loss looks healthy",
                        place,
                        times=times,
                        advice="don't skip them, and fix what makes the values NaN",
                    )
                )
                return


def _is_one_of_few(number: int) -> bool:
    """Whether a number is 1, 2, 4, 8 and so on, or a multiple of what these come to."""
    return number & (number - 1) == 0 if number < _EXAMS else number % _EXAMS == 0


class _Unread(NamedTuple):
    """A loss that lies on a device: it, as long as there is, its number, and the line that went backward."""

    loss: weakref.ref[torch.Tensor]
    reading: Reading
    place: Place | None


class _ByHand(NamedTuple):
    """A backward pass of a product or quotient of a loss: `(loss * 1024).backward()`.

    Attributes:
        nodes: The numbers of the nodes next to that of the product.
        value: What it was.
        place: The line of the backward pass.
    """

    nodes: frozenset[int | None]
    value: Reading
    place: Place | None

    @classmethod
    def of(cls, root: torch.Tensor, reading: Reading, frame: FrameType) -> _ByHand | None:
        """What a backward pass from `root` is, None where it starts from anything else."""
        node = root.grad_fn
        if node is None or root.numel() != 1 or not node.name().startswith(_PRODUCTS):
            return None
        nodes = frozenset(number_of(each) for each, _ in node.next_functions) - {None}
        return cls(nodes, reading, place_of(user_frame(frame)))

    def seen(self, frames: Iterable[FrameType]) -> Seen | None:
        """The gradients of the loss in the innermost variable that holds it; None where none does."""
        for frame in frames:
            for value in list(frame.f_locals.values()):
                if isinstance(value, torch.Tensor) and number_of(value.grad_fn) in self.nodes and value.numel() == 1:
                    factor = self.value.value() / number if (number := float(value.detach())) else 1.0
                    return Seen(Kind.GRADIENTS, [value], by_hand=(factor, self.place))
        return None


def stand_in(undo: ExitStack, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Let a function stand in for one of torch's: one that is saved, scripted and overridden as that one is."""
    real = getattr(owner, name)
    function = make(real)
    function.__name__, function.__doc__, function.__module__ = name, real.__doc__, "torch"
    function.__qualname__ = name if owner is torch else f"Tensor.{name}"
    patch(undo, owner, name, function)
    if owner is torch and (known := _BUILTINS().get(id(real))) is not None:
        _BUILTINS()[id(function)] = known
        undo.callback(_BUILTINS().pop, id(function), None)


def _is_scalar(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel() == 1
