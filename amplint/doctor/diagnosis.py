"""Why a value is not finite: the step is run again, looked at operation by operation, and the first bad one named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from itertools import islice, product
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.modules.batchnorm import _NormBase

from amplint.doctor.births import Birth, Origin
from amplint.doctor.capture import Capture, Group, RootCall, tensors_in
from amplint.doctor.copies import line_that_averages
from amplint.doctor.cuts import Cut, find_cut
from amplint.doctor.detail import CollectiveRefused, Detail, OutsideWrite
from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.gradients import Models, named, parameters_of
from amplint.doctor.graph import graph_leaves, graph_nodes
from amplint.doctor.history import History
from amplint.doctor.places import is_top_level, number, place_of, spoken
from amplint.doctor.readings import has_nan, rows_of
from amplint.doctor.replay import Computation, Replays, in_mode, is_finite, of_call, of_slice, without_scale
from amplint.doctor.rounding import zero_divisor
from amplint.doctor.scale import ScaleLog
from amplint.doctor.slices import (
    NoSlice,
    Slice,
    evaluation_slice_for,
    is_held,
    last_statement_for,
    line_that_sets,
    line_that_updates,
    names_read,
    running_statement,
    slice_for,
    whole_slice_for,
)
from amplint.doctor.sources import Held, Sources, bad_data, first_bad_item, first_bad_line, kept_by, loaders, parts_of

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38}
_NEAR = 64  # nodes between a loss and what a trainer makes of it
_UNLIKE = 0.05  # relative difference of a loss from that in float32 that is one
_OF_HALF = (Origin.OVERFLOW, Origin.CAST, Origin.UNDERFLOW)  # what float32 would not have made
_UNLIKE_OUTPUT = 0.25  # the same of what a model returns
_FEW_CALLS = 4  # of modules whose results are compared
_TINY = 3e-8  # what float16 rounds to 0
_SCALE = 65536.0  # of a new GradScaler
_LARGE_SCALES = (2.0**24, 2.0**32, 2.0**40)  # that a scaler grows to, or is given, where gradients are tiny
_LOST = 0.1  # of the elements of gradients that a scale saves, from which on they are said to underflow
_BACK = 6  # statements that are stepped back through
_SMALLER_STEPS = "use a smaller learning rate, warm-up, or clipping (after `unscale_`)"
_SMALL_MODEL = 1 << 24  # parameters up to which a model is made again
_MOST_SECONDS = 30.0  # that a look takes
_FEW_ROWS = 4  # of a batch that are named
_SEARCHING = 12  # skips in a row that finding the scale may take, where the loss holds scaled gradients
_CAUSES = {
    Origin.OVERFLOW: Cause.OVERFLOW,
    Origin.UNDERFLOW: Cause.UNDERFLOW,
    Origin.MASK: Cause.MASK,
    Origin.MATH: Cause.MATH,
    Origin.CAST: Cause.OVERFLOW,
    Origin.INCOMING: Cause.DATA,
}


class Kind(str, Enum):
    """What was seen not to be finite."""

    LOSS = "the training loss"
    EVALUATION = "a result of evaluation"
    GRADIENTS = "the gradients"
    ZERO = "gradients that are all 0"
    VALUE = "a value that the program uses"
    ABSORBED = "an infinity that the loss absorbs"
    LOST = "gradients that are 0 in float16 alone"
    CUT = "gradients that don't reach parameters"


_FINITE = (Kind.ZERO, Kind.ABSORBED, Kind.LOST, Kind.CUT)  # what is seen while the loss is finite


_Grid = dict[tuple[bool, bool], bool]  # by training mode and by whether autocast is off: whether a run was finite


class _Bad(NamedTuple):
    """Weights (then with the name of the first), or data (then with the tensor), that were not finite before the step.

    `call` is the call of a module that got them.
    """

    text: str
    call: RootCall
    tensor: torch.Tensor | None = None
    name: str = ""

    def first_used(self, place: Place | None) -> tuple[str, ...]:
        """Where that was, for the details of a finding that lies elsewhere."""
        return (f"first used at {spoken(_call_place(self.call) or place)}{self.text}",)


class Seen(NamedTuple):
    """What was seen: tensors that are not finite, or a loss whose gradients are not.

    Attributes:
        kind: Of what kind they are.
        tensors: The tensors, such as the loss before it is scaled.
        scaler_off: Where a scaler was made that is off and was given the loss, if there is one.
        by_hand: For gradients, the factor that the program has multiplied the loss by, and where it went backward.
    """

    kind: Kind
    tensors: Sequence[torch.Tensor]
    scaler_off: Place | None = None
    by_hand: tuple[float, Place | None] = (1.0, None)

    @property
    def is_finite(self) -> bool:
        """Whether the tensors themselves are finite, and only what follows from them may not be."""
        return self.kind in _FINITE or self.kind is Kind.GRADIENTS


class _Look(NamedTuple):
    """What a look at a computation has found.

    Attributes:
        births: Operations that have made values which are not finite, and which reach the result.
        arriving: Values from outside that were not finite and reach it.
        grid: Which runs under other conditions were finite.
        effect: How the result differs from that in float32, where it is finite; what it is without a factor by hand.
    """

    births: list[Birth]
    arriving: list[Birth]
    grid: _Grid
    effect: str


class _Healthy(Exception):
    """What was seen is how the scaler finds its scale."""


class Diagnosis:
    """Names the cause of values that are not finite, in findings."""

    def __init__(
        self,
        capture: Capture,
        models: Models,
        *,
        history: History,
        replays: Replays,
        scalers: Callable[[], Sequence[ScaleLog]],
        optimizers: Callable[[], Sequence[Any]],
        sources: Sources,
    ) -> None:
        self._sources = sources
        self._scalers = scalers
        self._optimizers = optimizers
        self._capture = capture
        self._models = models
        self._history = history
        self._replays = replays
        self._last_evaluation: Seen | None = None  # that was run again

    def of_end(self, error: Exception, frames: Sequence[FrameType]) -> Finding | None:
        """Why the program was ended by an exception, if numbers that are not finite are behind that.

        Args:
            error: The exception.
            frames: The user's frames of its traceback, the innermost first.
        """
        batch = self._batch()
        for frame in frames:
            with suppress(NoSlice):
                part = running_statement(frame, frame.f_lineno)
                births = self._births_before(error, of_slice(part, []))
                if births:
                    finding = self._born(Seen(Kind.VALUE, []), births, place_of(frame), frames=frames)
                    return replace(
                        finding, message=_then(births[0], f"the program ends: {type(error).__name__}", batch)
                    )
        for frame in frames:
            read = names_read(frame)
            for name, value in frame.f_locals.items():
                is_read = name in read and isinstance(value, torch.Tensor)
                if is_read and value.is_floating_point() and has_nan(value):
                    return self.of(Seen(Kind.VALUE, [value]), frames)
        return None

    def _births_before(self, error: Exception, computation: Computation) -> list[Birth]:
        """What was born before a statement raised once more as it did."""
        if self._replays.why_not(self._models.alive()) is not None:
            return []
        models = self._models.alive()
        with self._replays.quiet(models) as buffers, self._detail(buffers) as detail:
            self._replays.statements += 1
            try:
                computation()
            except Exception as again:  # the same, or one that says that it can't be run twice
                if type(again) is type(error):
                    return [birth for birth in detail.births if birth.kind == "nan" or birth.is_overflow]
        return []

    def of(self, seen: Seen, frames: Sequence[FrameType]) -> Finding | None:
        """The finding, None if nothing is wrong, such as gradients that are finite without the scale.

        Args:
            seen: What was seen.
            frames: The user's frames that run, the innermost first, which are looked through for the tensors.
        """
        place = place_of(frames[0]) if frames else None
        if seen.kind is Kind.LOST:
            return self._of_lost(seen, frames, place)
        reasons: list[str] = []
        if not seen.is_finite and (bad := self._bad_before()) is not None:
            made = self._made_bad(seen, bad.tensor, frames, place) or self._source_of(seen, bad, frames, place)
            return made or self._made_in_call(seen, bad, frames, place) or self._incoming(seen, bad, frames, place)
        for computation, part, called in self._computations(seen, frames, reasons):
            at = called or place
            try:
                finding = self._looked_at(seen, computation, part=part, frames=frames, place=at, reasons=reasons)
            except _Healthy:
                return None
            if finding is not None:
                return finding
            if seen.is_finite and not reasons:
                return None
        if (finding := self._of_evaluation(seen, frames, place)) is not None:
            return finding
        if not seen.is_finite and (finding := self._stepped_back(seen, frames, place)) is not None:
            return finding
        return self._not_shown(seen, place, reasons)

    def of_births(self, seen: Seen, births: Sequence[Birth], frames: Sequence[FrameType]) -> Finding:
        """The finding on births that were seen while the program itself ran."""
        finding = self._born(seen, births, place_of(frames[0]) if frames else None, frames=frames)
        return replace(finding, evidence=Evidence.SEEN)

    def of_cut(self, loss: torch.Tensor, frames: Sequence[FrameType], parameters: Sequence[torch.Tensor]) -> Cut | None:
        """The line that cuts the graph between parameters and a loss, None where none is found."""
        for computation, _, _ in self._computations(Seen(Kind.CUT, [loss]), frames, []):
            with suppress(Exception), self._alone(computation):
                self._replays.forwards += 1
                if (cut := find_cut(computation, parameters)) is not None:
                    return cut
        return None

    def _of_lost(self, seen: Seen, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding on gradients that are 0 in float16 alone, if they are many."""
        for computation, _, _ in self._computations(seen, frames, []):
            with suppress(Exception), self._alone(computation):
                effect = self._lost(computation)
                return _of_lost(effect, place, seen.scaler_off) if effect else None
        return None

    @contextmanager
    def _alone(self, computation: Computation) -> Iterator[list[torch.Tensor]]:
        """What is computed again in the block changes nothing. Yields the tensors that may be written to."""
        computation.rewind = self._replays.rewind
        with self._replays.quiet(self._models.alive()) as buffers:
            yield buffers

    def of_explosion(self, growth: str, frames: Sequence[FrameType]) -> Finding:
        """The finding on a loss and weights that explode, and are still finite."""
        place, rise = self._history.rate()
        return Finding(
            Cause.DIVERGENCE,
            Evidence.SEEN,
            f"training diverges: {rise}{growth}",
            place or line_that_updates(frames),
            advice=_SMALLER_STEPS,
        )

    def _detail(self, buffers: Sequence[torch.Tensor]) -> Detail:
        """A look at each operation, which may write to copies of buffers."""
        models = named(self._models.alive())
        return Detail(models, allowed=buffers, casts=self._replays.casts, seconds=_MOST_SECONDS)

    # --- what can be run again

    def _computations(
        self, seen: Seen, frames: Sequence[FrameType], reasons: list[str]
    ) -> Iterator[tuple[Computation, Slice | None, Place | None]]:
        """What computes the tensors again: with the statements that do, or with the line that calls a module."""
        calls, refused = self._calls()
        why: list[str] = [refused] if refused else []
        yield from self._slices(seen, frames, calls, why)
        if not refused and not seen.is_finite:
            bad = [call for call in calls if not is_finite(list(tensors_in(call.output)))]
            yield from ((of_call(call), None, _call_place(call)) for call in bad)
        if not refused and seen.kind is Kind.GRADIENTS:  # of a loss that the model itself has computed
            losses = [call for call in calls if any(map(_is_loss, tensors_in(call.output)))]
            yield from ((of_call(call), None, _call_place(call)) for call in losses)
        reasons += [f"the loss can't be computed again: {text}" for text in why[:1]]

    def _slices(
        self, seen: Seen, frames: Sequence[FrameType], calls: Sequence[RootCall], why: list[str]
    ) -> Iterator[tuple[Computation, Slice, None]]:
        """Statements of the user's that compute a tensor: with the calls of modules, or of a function without them."""
        lines, is_refused = _first_lines(calls), bool(why)
        for frame, wanted in self._holders(seen, frames, calls):
            is_whole = frame.f_code in lines or not calls
            if (is_refused and is_whole) or (seen.is_finite and not is_whole):
                continue
            # In a function that was given the model's output all of it is taken.
            start = None if is_top_level(frame.f_code) and calls else 0
            try:
                part = slice_for(frame, wanted, lines.get(frame.f_code, start))
            except NoSlice as error:
                why.append(str(error))
            else:
                yield of_slice(part, calls if is_whole else []), part, None

    def _holders(
        self, seen: Seen, frames: Sequence[FrameType], calls: Sequence[RootCall]
    ) -> Iterator[tuple[FrameType, torch.Tensor]]:
        """The frames that may hold what was seen, each with the tensor to look for.

        A trainer computes the loss in a function that has returned, and divides what it has returned.
        """
        yield from ((frame, seen.tensors[0]) for frame in frames)
        over = {frame: None for call in calls for frame in call.running if frame not in frames}
        if not over or seen.kind is Kind.EVALUATION:
            return
        nodes = set(islice(graph_nodes(seen.tensors), _NEAR))
        for frame in over:
            for value in frame.f_locals.values():
                if isinstance(value, torch.Tensor) and _is_loss(value) and value.grad_fn in nodes:
                    yield frame, value
                    break

    def _calls(self) -> tuple[list[RootCall], str]:
        """The calls of modules in the step, and why they can't be made again, if so."""
        group = self._group()
        if group is None:
            return [], ""
        if (refused := self._replays.why_not(self._models.alive())) is not None:
            return group.calls, refused
        if not all(call.is_unchanged for call in group.calls):
            return group.calls, "inputs of the model were changed in place, or were too large to keep"
        if any(call.weights != self._capture.weights for call in group.calls):
            return group.calls, "the weights have been stepped since"
        return group.calls, ""

    def _group(self) -> Group | None:
        groups = [group for group in self._capture.groups if group.calls]
        return groups[-1] if groups else None

    def _made_bad(
        self, seen: Seen, tensor: torch.Tensor | None, frames: Sequence[FrameType], place: Place | None
    ) -> Finding | None:
        """The finding on the statement that has made data bad, None where they came so."""
        if tensor is None:
            return None
        for frame, taken in product(frames, (whole_slice_for, last_statement_for)):
            with suppress(NoSlice):
                part = taken(frame, tensor)
                finding = self._looked_at(seen, of_slice(part, []), part=None, frames=(), place=place, reasons=[])
                if finding is not None and finding.cause is not Cause.DATA:
                    return finding
                return self._made_bad_at(seen, part, tensor)
        return None

    def _made_in_call(self, seen: Seen, bad: _Bad, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding on data that the statement itself makes bad: `model(even(x))`; None where it doesn't."""
        for computation, part, _ in self._computations(seen, frames, []) if bad.tensor is not None else ():
            with suppress(_Healthy):
                finding = self._looked_at(seen, computation, part=part, frames=frames, place=place, reasons=[])
                if finding is not None and finding.cause is not Cause.DATA:
                    return finding
        return None

    def _made_bad_at(self, seen: Seen, part: Slice, tensor: torch.Tensor) -> Finding | None:
        """The finding on the line that has made data bad without an operation of torch's, None where none is found."""
        if seen.kind is Kind.EVALUATION or tensor.grad_fn is not None or not has_nan(tensor):
            return None
        with suppress(Exception), self._replays.quiet(self._models.alive()):
            at = first_bad_line(part.run, part.names.values())
            if at is not None:
                name = f"`{part.target}`" if part.target.isidentifier() and "__" not in part.target else "the batch"
                return Finding(Cause.DATA, Evidence.REPRODUCED, _before_model(name, seen), at)
        return None

    def _stepped_back(self, seen: Seen, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding from single statements, the last one first: what they read lies in the function's variables.

        For what modules compute that can't be run again, such as the steps of an environment.
        """
        wanted: torch.Tensor | None = seen.tensors[0] if seen.tensors else None
        for _ in range(_BACK):
            part = _last_statement(frames, wanted) if wanted is not None else None
            if part is None or self._replays.why_not(self._models.alive()) is not None:
                return None
            with suppress(Exception):  # it can't be run again after all
                births = self._look(seen, of_slice(part, [])).births
                if births:
                    return self._born(seen, births, place, frames=frames)
            values = (part.names.get(name) for name in part.inputs)
            wanted = next((each for each in values if isinstance(each, torch.Tensor) and not is_finite([each])), None)
            if wanted is not None and wanted.grad_fn is None:
                return self._made_bad(seen, wanted, frames, place)
        return None

    def _source_of(self, seen: Seen, bad: _Bad, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding on the line that sets what the batch was taken from, None where that isn't known."""
        for held in bad_data(frames, bad.tensor) if bad.tensor is not None else ():
            at = held.place
            if held.frame is not None:
                at = self._line_of(seen, held, held.frame) or line_that_sets(held.frame, held.name.partition(".")[0])
            if at is not None:
                message = _before_model(f"`{held.name}`", seen)
                return Finding(Cause.DATA, Evidence.COMPUTED, message, at, details=bad.first_used(place))
        return self._of_item(seen, bad, frames, place) if bad.tensor is not None else None

    def _of_item(self, seen: Seen, bad: _Bad, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding on the line of a dataset that makes an item bad, None where none is found."""
        for name, loader in loaders(frames):
            with suppress(Exception), self._replays.quiet(self._models.alive()):  # an item can't be taken twice
                if (found := first_bad_item(loader, self._replays.drawn)) is not None:
                    what, at = found
                    message = _before_model(f"{what} of `{name}`", seen)
                    return Finding(Cause.DATA, Evidence.REPRODUCED, message, at, details=bad.first_used(place))
        return None

    def _line_of(self, seen: Seen, held: Held, frame: FrameType) -> Place | None:
        """The line that has made a variable bad: by its operations, or by those of numpy, line by line."""
        if isinstance(held.value, torch.Tensor):
            found = self._made_bad(seen, held.value, [frame], None)
            if found is not None:
                return found.place
        for value in (each for each in (held.value, *parts_of(held.value)) if is_held(frame, each)):
            with suppress(Exception):  # it can't be computed again
                part = last_statement_for(frame, value)
                with self._replays.quiet(self._models.alive()):
                    if (at := first_bad_line(part.run, part.names.values())) is not None:
                        return at
        return None

    # --- looking

    def _looked_at(
        self,
        seen: Seen,
        computation: Computation,
        *,
        part: Slice | None,
        frames: Sequence[FrameType],
        place: Place | None,
        reasons: list[str],
    ) -> Finding | None:
        try:
            look = self._look(seen, computation)
        except _Healthy:
            raise
        except (CollectiveRefused, OutsideWrite) as error:
            reasons.append(str(error))
            return None
        except NoSlice as error:
            reasons.append(f"the model can't be run again: {error}")
            return None
        except Exception as error:  # of the user's code: it can't be run twice after all
            reasons.append(f"running it again failed: {type(error).__name__}: {str(error)[:200]}")
            return None
        if look.births:
            if (negative := self._negative_variance(seen, look.births[0], place)) is not None:
                return negative
            return self._born(seen, look.births, place, frames=frames, grid=look.grid, effect=look.effect)
        if not look.arriving:
            if not seen.is_finite:
                reasons.append("the step was finite when it was run again")
            return None
        for name in part.inputs if part is not None else ():
            value = part.names.get(name) if part is not None else None
            if isinstance(value, torch.Tensor) and value.is_floating_point() and not is_finite([value]):
                if (finding := self._made_bad(seen, value, frames, place)) is not None:
                    return finding
        return self._of_evaluation(seen, frames, place) or self._arrived(seen, look.arriving, frames, place)

    def _of_evaluation(self, seen: Seen, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding from all of an evaluation, with its loops: on what made a total or a list of results bad; None
        where that can't be run again, takes too long, or shows nothing.
        """
        is_known, self._last_evaluation = self._last_evaluation is seen, seen
        is_other = seen.kind is not Kind.EVALUATION or is_known
        if is_other or self._replays.why_not(self._models.alive()) is not None:
            return None
        for frame in frames:
            with suppress(Exception):
                computation = of_slice(evaluation_slice_for(frame, seen.tensors[0]), [])
                with self._alone(computation) as buffers:
                    births, _ = self._births(seen, computation, buffers)
                if births:
                    return self._born(seen, births, place, frames=frames)
        return None

    def _look(self, seen: Seen, computation: Computation) -> _Look:
        """Compute once more, and look at each operation; then a few times more, under other conditions."""
        with self._alone(computation) as buffers:
            births, arriving = self._births(seen, computation, buffers)
            scalers = self._searching(births)
            if scalers and self._is_of_scale(seen, scalers, computation):
                raise _Healthy
            effect = self._unlike(computation) if births and seen.kind is Kind.ABSORBED else ""
            if effect and scalers:
                with without_scale(scalers):
                    effect = self._unlike(computation)
            if births and seen.by_hand[0] > 1 and is_finite(self._scaled_gradients(computation, 1.0)):
                effect = f"they are finite without the factor of {number(seen.by_hand[0])}"
            if seen.kind is Kind.ABSORBED and not effect:
                births = []
            has_grid = births and seen.kind in (Kind.LOSS, Kind.EVALUATION)
            return _Look(births, arriving, self._grid(computation) if has_grid else {}, effect)

    def _searching(self, births: Sequence[Birth]) -> list[torch.amp.GradScaler]:
        """The scalers that may still find a scale at which gradients are finite that a loss is made of."""
        if not births or not births[0].backward:
            return []
        found = [log.scaler() for log in self._scalers() if log.in_a_row < _SEARCHING]
        return [scaler for scaler in found if scaler is not None]

    def _is_of_scale(self, seen: Seen, scalers: Sequence[torch.amp.GradScaler], computation: Computation) -> bool:
        """Whether gradients that a loss is made of are finite without the scale: the scaler will find its own."""
        if seen.is_finite and seen.kind is not Kind.GRADIENTS:
            return False
        with without_scale(scalers):
            if seen.kind is Kind.GRADIENTS:
                return is_finite(self._scaled_gradients(computation, 1.0))
            self._replays.forwards += 1
            return is_finite(computation())

    def _births(
        self, seen: Seen, computation: Computation, buffers: Sequence[torch.Tensor]
    ) -> tuple[list[Birth], list[Birth]]:
        self._replays.forwards += 1
        with self._detail(buffers) as detail:
            values = computation()
            if seen.kind in _FINITE:
                return [birth for birth in detail.births if birth.is_overflow or birth.origin is Origin.CAST], []
            losses = [each for each in values if _is_loss(each)]
            if seen.kind is Kind.GRADIENTS and losses:  # else it is data that is computed
                self._replays.backwards += 1
                values = _gradients(losses, seen.by_hand[0])
        births, arriving = detail.reaching(*values), detail.arriving(*values)
        if seen.kind is Kind.EVALUATION and not _has_nan(seen.tensors):
            # Infinities alone may be meant: an impossible path, a perfect score. Those of half precision are not.
            return [birth for birth in births if birth.origin in _OF_HALF], []
        return births, arriving

    def _unlike(self, computation: Computation) -> str:
        """In words how the loss, or what a model returns, differs from that in float32; "" where it hardly does."""
        self._replays.forwards += 2
        with_it, without = (float(sum(each.double().sum() for each in computation(off=off))) for off in (False, True))
        if math.isfinite(without) and abs(with_it - without) > _UNLIKE * abs(without):
            return f"it is {with_it:.4g} where float32 has {without:.4g}"
        for call in self._calls()[0][:_FEW_CALLS]:
            self._replays.forwards += 2
            outputs = [of_call(call)(off=off) for off in (False, True)] if call.args is not None else []
            share = max((_difference(*pair) for pair in zip(*outputs, strict=False)), default=0.0)
            if share > _UNLIKE_OUTPUT:
                kind = type(call.module).__name__
                return f"the result of `{kind}` differs by {share:.0%} from that in float32"
        return ""

    def _lost(self, computation: Computation) -> str:
        """In words how many gradients are 0 that a scale would save; "" for few."""
        without, scale = self._scaled_gradients(computation, 1.0), _SCALE
        scaled = self._scaled_gradients(computation, scale)
        if not _is_any(scaled) and _is_any(self._scaled_gradients(computation, 1.0, off=True)):
            for scale in _LARGE_SCALES:  # the gradients are too small for the scale of a new scaler, and not 0
                scaled = self._scaled_gradients(computation, scale)
                if _is_any(scaled):
                    break
        saved = sum(int((each != 0).sum()) for each in scaled)
        lost = sum(int(((true != 0) & (each == 0)).sum()) for each, true in zip(without, scaled, strict=True))
        if lost < _LOST * saved or not lost:
            return ""
        return f"in float16 {lost / saved:.0%} of the gradients' elements are 0 that a scale of {scale:,.0f} saves"

    def _scaled_gradients(self, computation: Computation, scale: float, *, off: bool = False) -> list[torch.Tensor]:
        self._replays.forwards += 1
        self._replays.backwards += 1
        return _gradients([each for each in computation(off=off) if _is_loss(each)], scale)

    def _grid(self, computation: Computation) -> _Grid:
        """Which of the four runs are finite: in training and in evaluation mode, with autocast and in float32."""
        grid: _Grid = {}
        for training in (True, False):
            for off in (False, True):
                with in_mode(self._models.alive(), training=training), suppress(RuntimeError):
                    self._replays.forwards += 1
                    grid[training, off] = is_finite(computation(off=off))
        return grid

    # --- in words

    def _batch(self) -> int:
        """How many rows the batch of the step has, 0 where that isn't known."""
        group = self._group()
        call = group.calls[0] if group is not None else None
        tensors = tensors_in((call.args, call.kwargs)) if call is not None else ()
        return next((len(each) for each in tensors if each.dim()), 0)

    def _bad_before(self) -> _Bad | None:
        """What was not finite before the step: the data or the weights."""
        group = self._group()
        if group is None:
            return None
        for call in group.calls:
            bad = [name for name, each in call.module.named_parameters() if not is_finite([each])]
            # In training mode the forward pass itself has changed buffers, and doesn't read what they hold.
            bad += [] if call.module.training else list(_bad_buffers(call.module))
            if bad:
                return _Bad(bad[0] + (f" and {len(bad) - 1} more" if len(bad) > 1 else ""), call, name=bad[0])
        call = group.calls[0]
        for tensor in tensors_in((call.args, call.kwargs)):
            if tensor.is_floating_point() and tensor.grad_fn is None and bool(torch.isnan(tensor).any()):
                return _Bad(_rows(rows_of(tensor, is_nan=True)), call, tensor)
        return None

    def _incoming(self, seen: Seen, bad: _Bad, frames: Sequence[FrameType], place: Place | None) -> Finding:
        where = _call_place(bad.call) or place
        if bad.tensor is not None:
            message = f"the batch holds NaN before the model sees it{bad.text}: {seen.kind.value} can't be finite"
            return Finding(Cause.DATA, Evidence.COMPUTED, message, where, advice="check how the batch is created")
        if (divided := self._divided_by_zero(seen)) is not None:
            return divided
        if (step := self._history.bad_weights) is not None:
            return self._hit_before(seen, step, place)
        message = f"weights are not finite before the forward pass ({bad.text}): {seen.kind.value} can't be finite"
        finding = self._of_weights(message, bad.call, bad.name, where)
        stepped = self._history.stepped_at
        if finding.place == where and stepped is not None and self._history.was_finite(bad.call.module):
            was = f"they were finite before the first step, and an optimizer has stepped last at {spoken(stepped)}"
            return replace(finding, details=(*finding.details, was), advice="")
        if finding.place == where:
            optimized = {id(each) for optimizer in self._optimizers() for each in parameters_of(optimizer)}
            if (written := line_that_averages(frames, bad.call.module, optimized)) is not None:
                return replace(finding, place=written, details=(f"first used at {spoken(where)}",), advice="")
        if finding.place == where and (made := self._line_of_model(frames, bad.call.module)) is not None:
            return replace(finding, place=made, details=(f"first used at {spoken(where)}",))
        return finding

    def _divided_by_zero(self, seen: Seen) -> Finding | None:
        """The finding on a step that has divided by an eps of 0, None if that is not why weights are not finite."""
        found = zero_divisor(self._optimizers())
        if found is None:
            return None
        kind, made = type(found.optimizer).__name__, self._history.made_at(found.optimizer)
        stepped = self._history.stepped_at
        was = f"stepped at {spoken(stepped)}, in step {self._history.steps}" if stepped is not None else ""
        return Finding(
            Cause.UNDERFLOW,
            Evidence.COMPUTED,
            f"the step of `{kind}` divides by 0: its eps of {found.eps:g} is 0 in {found.dtype}, and so is "
            f"`{found.name}` of {found.weights:,} weights, which are not finite now: {seen.kind.value} can't be finite",
            made or stepped,
            details=(was,) if was and made is not None else (),
            advice=f"keep the weights in float32 and let autocast cast them, or pass an eps that {found.dtype} holds",
        )

    def _line_of_model(self, frames: Sequence[FrameType], model: torch.nn.Module) -> Place | None:
        """The line after which numbers are not finite first when a small model is made again; None for none."""
        if sum(each.numel() for each in model.parameters()) > _SMALL_MODEL or not self._replays.is_on:
            return None
        for frame in frames:
            with suppress(Exception):  # it can't be made again
                part = last_statement_for(frame, model)
                with self._replays.quiet([model]):
                    return first_bad_line(part.run, part.names.values())
        return None

    def _negative_variance(self, seen: Seen, birth: Birth, place: Place | None) -> Finding | None:
        """The finding on a layer whose running variance is below 0, None if that is not why its result is NaN."""
        for call in self._calls()[0] if birth.origin is Origin.MATH and birth.kind == "nan" else ():
            for name, layer in call.module.named_modules():
                if not isinstance(layer, _NormBase) or layer.training or layer.running_var is None:
                    continue
                if named(self._models.alive()).get(layer) == birth.module and bool((layer.running_var < 0).any()):
                    full = f"{name}.running_var" if name else "running_var"
                    message = f"`{full}` is negative where the layer takes its root: {seen.kind.value} can't be finite"
                    return self._of_weights(message, call, full, birth.place or place)
        return None

    def of_statistics(self, call: RootCall, name: str, kind: str, place: Place | None) -> Finding:
        """The finding on running statistics that are not finite, in a layer that normalizes by them."""
        what = "its outputs are NaN" if kind == "nan" else "its outputs don't depend on its inputs"
        message = f"`{name}` is {'NaN' if kind == 'nan' else 'infinite'} where the layer normalizes by it: {what}"
        return self._of_weights(message, call, name, _call_place(call) or place)

    def _of_weights(self, message: str, call: RootCall, name: str, read: Place | None) -> Finding:
        """The finding on weights of a model: at the line that loads or writes them, if one is known."""
        source = self._sources.of(call.module, name)
        if source is None:
            advice = "check the checkpoint that they come from" if self._capture.weights == 0 else ""
            lines = " and ".join(map(spoken, self._sources.writers(call.module, name)))
            details = (f"`{name}` is written at {lines}",) if lines else ()
            return Finding(Cause.WEIGHTS, Evidence.COMPUTED, message, read, details=details, advice=advice)
        place, how = source
        details = (f"{how} at {spoken(place)}, first used at {spoken(read)}",) if read is not None else ()
        advice = "check the checkpoint, and the dtype that it was saved in" if how == "loaded" else ""
        return Finding(Cause.WEIGHTS, Evidence.COMPUTED, message, place, details=details, advice=advice)

    def _hit_before(self, seen: Seen, step: int, place: Place | None) -> Finding:
        """The finding where a step of this run has made the weights bad: what was wrong was wrong in that step."""
        message = f"{seen.kind.value} can't be finite: the weights are lost since step {step}"
        return Finding(None, Evidence.NOT_SHOWN, message, place)

    def _arrived(
        self, seen: Seen, arriving: Sequence[Birth], frames: Sequence[FrameType], place: Place | None
    ) -> Finding:
        birth = arriving[0]
        for call in self._calls()[0]:
            for tensor in tensors_in((call.args, call.kwargs)):
                if tensor.is_floating_point() and tensor.grad_fn is None and not is_finite([tensor]):
                    bad = _Bad(_row_text(birth, self._batch()), call, tensor)
                    if (finding := self._source_of(seen, bad, frames, place)) is not None:
                        return finding
        optimized = [each for optimizer in self._optimizers() for each in parameters_of(optimizer)]
        if not is_finite([each.detach() for each in optimized]):
            if (divided := self._divided_by_zero(seen)) is not None:
                return divided
            if (step := self._history.bad_weights) is not None:
                return self._hit_before(seen, step, place)
            message = f"weights that `{birth.op}` reads are not finite: {seen.kind.value} can't be finite"
            message += _row_text(birth, self._batch())
            for call in self._calls()[0]:
                if (name := _first_bad(call.module)) and self._sources.of(call.module, name) is not None:
                    return self._of_weights(message, call, name, birth.place or place)
            return Finding(
                Cause.WEIGHTS,
                Evidence.REPRODUCED,
                message,
                birth.place or place,
                details=_details(birth, self._batch()),
                advice="check where they are loaded or created",
            )
        if (kept := self._of_kept(seen, birth, frames, place)) is not None:
            return kept
        message = f"the data that `{birth.op}` reads has {_article(birth.kind)}: {seen.kind.value} can't be finite"
        return Finding(
            Cause.DATA,
            Evidence.REPRODUCED,
            message + _row_text(birth, self._batch()),
            birth.place or place,
            details=_details(birth, self._batch()),
        )

    def _of_kept(self, seen: Seen, birth: Birth, frames: Sequence[FrameType], place: Place | None) -> Finding | None:
        """The finding on what the program keeps and computes itself, such as a buffer; None where it is data."""
        read = birth.place or place
        for call in self._calls()[0] if birth.parameter else ():
            for name in (_first_bad(call.module), *_bad_buffers(call.module)):
                if name and f".{name}".endswith(f".{birth.parameter}"):
                    message = f"`{name}` is {_named(birth.kind)} where `{birth.op}` reads it: {_cant_be(seen)}"
                    return self._of_weights(message, call, name, read)
        held = kept_by(frames, birth.memory)
        if held is None:
            return None
        if isinstance(held.value, torch.Tensor):
            message = f"`{held.name}` is {_named(birth.kind)} where `{birth.op}` reads it: {_cant_be(seen)}"
            details = (f"written at {spoken(held.place)}, first used at {spoken(read)}",) if held.place else ()
            return Finding(Cause.WEIGHTS, Evidence.REPRODUCED, message, held.place or read, details=details)
        message = f"`{held.name}` holds {_article(birth.kind)}, which the program has computed: {_cant_be(seen)}"
        details = (f"filled at {spoken(held.place)}, first used at {spoken(read)}",) if held.place else ()
        return Finding(None, Evidence.NOT_SHOWN, message, held.place or read, details=details)

    def _born(
        self,
        seen: Seen,
        births: Sequence[Birth],
        place: Place | None,
        *,
        frames: Sequence[FrameType],
        grid: _Grid | None = None,
        effect: str = "",
    ) -> Finding:
        birth = births[0]
        cause = _CAUSES[birth.origin]
        grid = grid or {}
        batch = self._batch()
        said, details = _message(birth, batch), (*_details(birth, batch), *_grid_text(grid))
        growth = self._history.growth(is_beyond=birth.origin is Origin.MATH and birth.is_overflow)
        if growth and cause in (Cause.OVERFLOW, Cause.MATH):
            set_at, rise = self._history.rate()
            return Finding(
                Cause.DIVERGENCE,
                Evidence.REPRODUCED,
                f"training diverges: {rise}{growth}; then {said} and {seen.kind.value} {_is_not(seen)}",
                set_at or line_that_updates(frames) or birth.place or place,
                details=(f"first at {spoken(birth.place)}", *details) if birth.place else details,
                advice=_SMALLER_STEPS,
            )
        message = _then(birth, f"{seen.kind.value} {_is_not(seen)}", batch)
        if cause is Cause.MATH and _is_of_half(grid):
            of_zero = bool(birth.inputs) and not any(birth.inputs)
            cause = Cause.UNDERFLOW if of_zero else cause
            numbers = "a 0 that is not 0 in float32" if of_zero else "numbers that half precision has rounded"
            message = f"`{birth.op}` makes {_named(birth.kind)} of {numbers}, and so {seen.kind.value} {_is_not(seen)}"
        if seen.kind is Kind.GRADIENTS and effect:
            return Finding(
                cause,
                Evidence.REPRODUCED,
                f"{message}: {effect}, and the step was not skipped",
                seen.by_hand[1] or birth.place or place,
                details=(f"first at {spoken(birth.place)}", *details) if birth.place else details,
                advice="use torch.amp.GradScaler, which finds the factor and skips overflows, or a smaller factor",
            )
        if seen.kind in _FINITE:
            message = f"{said}: the loss stays finite, but {effect or 'all its gradients are 0'}"
        return Finding(
            cause,
            Evidence.REPRODUCED,
            message,
            birth.place or place,
            code="AMP504" if _hangs_on_mode(grid) else _code(birth),
            details=details,
            advice="compute it in float32 in both modes" if _hangs_on_mode(grid) else _advice(birth),
        )

    def _not_shown(self, seen: Seen, place: Place | None, reasons: Sequence[str]) -> Finding | None:
        if seen.is_finite or (seen.kind is Kind.EVALUATION and not _has_nan(seen.tensors)):
            return None
        return Finding(
            None,
            Evidence.NOT_SHOWN,
            f"{seen.kind.value} {_is_not(seen)}; the cause could not be shown",
            place,
            details=tuple(dict.fromkeys(reasons)),
        )


def _last_statement(frames: Sequence[FrameType], wanted: torch.Tensor) -> Slice | None:
    """The statement that has computed a tensor last, in the innermost function that has it."""
    for frame in frames:
        with suppress(NoSlice):
            return last_statement_for(frame, wanted)
    return None


def _first_bad(module: torch.nn.Module) -> str:
    """The name of a module's first parameter that is not finite; "" for none."""
    return next((name for name, each in module.named_parameters() if not is_finite([each])), "")


def _is_loss(tensor: torch.Tensor) -> bool:
    return tensor.numel() == 1 and tensor.grad_fn is not None


def _gradients(losses: Sequence[torch.Tensor], scale: float = 1.0) -> list[torch.Tensor]:
    """The gradients of losses, multiplied by a scale, by all parameters that they depend on."""
    losses = [loss for loss in losses if loss.grad_fn is not None]
    leaves = graph_leaves(losses)
    if not leaves:
        return []
    total = torch.stack([loss.float().sum() for loss in losses]).sum() * scale
    # What the program's own graph has saved stays for the program's backward pass.
    found = torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
    return [each for each in found if each is not None]


def _is_any(gradients: Sequence[torch.Tensor]) -> bool:
    """Whether gradients have an element that is not 0."""
    return any(bool(each.any()) for each in gradients)


def _of_lost(effect: str, place: Place | None, scaler_off: Place | None) -> Finding:
    """The finding on float16 without a scale, or with a scaler that is off."""
    if scaler_off is not None:
        return Finding(
            Cause.SCALER_OFF,
            Evidence.REPRODUCED,
            f"the GradScaler is off, regions run in float16, and gradients underflow: {effect}",
            scaler_off,
            code="AMP210",
            details=(f"the loss goes backward at {spoken(place)}",) if place is not None else (),
            advice="enable the scaler wherever the region is in float16",
        )
    return Finding(
        Cause.UNDERFLOW,
        Evidence.REPRODUCED,
        f"the loss is not scaled and gradients underflow: {effect}",
        place,
        code="AMP207",
        advice="scale the loss with a GradScaler, or use bfloat16, which needs none",
    )


def _difference(value: torch.Tensor, true: torch.Tensor) -> float:
    """The relative difference of a tensor from the true one, by their norms; 0 where that can't be said."""
    if value.shape != true.shape or not value.is_floating_point() or not is_finite([true.detach()]):
        return 0.0
    of = float(true.detach().double().norm())
    return float((value.detach().double() - true.detach().double()).norm()) / of if of > 0 else 0.0


def _bad_buffers(model: torch.nn.Module) -> Iterator[str]:
    """The names of buffers that hold NaN, or infinite statistics; masks and tables may hold infinities."""
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(prefix, recurse=False):
            if buffer.is_floating_point() and not is_finite([buffer]):
                if isinstance(module, _NormBase) or has_nan(buffer):
                    yield name


def _grid_text(grid: _Grid) -> list[str]:
    """Which runs were finite, in words."""
    if not grid or all(grid.values()):
        return []
    if all(grid.get((training, False)) is False for training in (True, False)):
        in_float32 = [training for training in (True, False) if grid.get((training, True))]
        if len(in_float32) == 2:
            return ["when repeated in float32, this batch is finite"]
        if not in_float32:
            return ["when repeated in float32, this batch is not finite either"]
    modes = {True: "training mode", False: "evaluation mode"}
    kinds = {True: "in float32", False: "with autocast"}
    failing = [f"{modes[training]} {kinds[off]}" for (training, off), is_finite in grid.items() if not is_finite]
    return [f"when repeated, this batch fails only in {' and in '.join(failing)}"]


def _is_of_half(grid: _Grid) -> bool:
    """Whether this batch fails with autocast in both modes, and in float32 in neither."""
    return len(grid) == 4 and all(is_finite is off for (_, off), is_finite in grid.items())


def _named(kind: str) -> str:
    return "NaN" if kind == "nan" else kind


def _hangs_on_mode(grid: _Grid) -> bool:
    """Whether only evaluation mode fails with autocast, and not in float32: the modes compute in other dtypes."""
    return grid.get((True, False), False) and not grid.get((False, False), True) and grid.get((False, True), False)


def _first_lines(calls: Sequence[RootCall]) -> dict[CodeType, int]:
    """By code of the user's, the line at which it called the first module."""
    lines: dict[CodeType, int] = {}
    for call in calls:
        for code, line in call.frames:
            lines.setdefault(code, line)
    return lines


def _call_place(call: RootCall) -> Place | None:
    if not call.frames:
        return None
    code, line = call.frames[0]
    return Place(code.co_filename, line, code.co_name)


def _is_not(seen: Seen) -> str:
    verb = "are" if seen.kind is Kind.GRADIENTS else "is"
    return f"{verb} {'NaN' if seen.kind is not Kind.GRADIENTS and _has_nan(seen.tensors) else 'not finite'}"


def _before_model(what: str, seen: Seen) -> str:
    return f"{what} has NaN or infinities before the model sees it: {seen.kind.value} can't be finite"


def _cant_be(seen: Seen) -> str:
    return f"{seen.kind.value} can't be finite"


def _has_nan(tensors: Sequence[torch.Tensor]) -> bool:
    return any(has_nan(each.detach()) for each in tensors if each.is_floating_point())


def _then(birth: Birth, follows: str, batch: int) -> str:
    """What happened, and what follows from it."""
    is_of_math = birth.origin is Origin.MATH
    return f"{_message(birth, batch)}, and so {follows}{'; AMP is not the cause' if is_of_math else ''}"


def _message(birth: Birth, batch: int) -> str:
    """What happened, in one clause. `batch` is how many rows the batch has, 0 where that isn't known."""
    of = f"the gradient of `{birth.op}`" if birth.backward else f"`{birth.op}`"
    largest = _LARGEST.get(birth.dtype)
    kind = _named(birth.kind)
    if birth.origin in (Origin.OVERFLOW, Origin.CAST):
        value = ""
        if birth.value is not None and largest:
            value = f": the result should be {number(birth.value)}"
            if birth.dtype == "float16":
                value += f", beyond the largest float16 ({largest:,.0f})"
        what = of
        if birth.origin is Origin.CAST:
            what = f"the cast of `{birth.parameter}`" if birth.parameter else f"the cast of an input of {of}"
        return f"{what} overflows {birth.dtype}{value}"
    if birth.origin is Origin.UNDERFLOW:
        zero = birth.zero
        flushed = (
            f" {zero.value:.3g} became {zero.result:.3g} in {zero.dtype} (`{zero.op}`)" if zero is not None else ""
        )
        return f"{of} makes {kind}, since{flushed or ' a value was flushed to 0'}"
    if birth.origin is Origin.MASK:
        return f"{of} makes NaN of rows that are fully masked{_row_text(birth, batch)}"
    if birth.origin is Origin.MATH:
        what = f"{of} of a tensor without elements" if birth.is_empty else of
        if birth.value is None:
            return f"{what} makes {kind}, in float32 as well{_row_text(birth, batch)}"
        where = birth.dtype if birth.dtype == "float32" else f"{birth.dtype}, and float32 as well"
        value = f"the result should be {number(birth.value)}, beyond the largest float32 ({_LARGEST['float32']:.1e})"
        return f"{what} overflows {where}{_row_text(birth, batch)}: {value}"
    return f"{of} reads values that are not finite"


def _details(birth: Birth, batch: int) -> tuple[str, ...]:
    lines = []
    if birth.module:
        lines.append(f"in the module `{birth.module}`")
    sizes = [number(size) for size in birth.inputs if math.isfinite(size)]
    if sizes and len(sizes) == len(birth.inputs):
        lines.append(f"its inputs are finite, up to {' and '.join(sizes[:3])}")
    if 0 < len(birth.rows) <= _FEW_ROWS and not birth.parameter and birth.origin not in (Origin.MASK, Origin.MATH):
        lines.append(_row_text(birth, batch).strip(" ()"))
    if birth.zero is not None and birth.zero.place is not None:
        lines.append(f"the zero comes from {spoken(birth.zero.place)}")
    lines += [f"called from {spoken(place)}" for place in birth.stack[1:2]]
    return tuple(lines)


def _row_text(birth: Birth, batch: int) -> str:
    """Which rows are bad: of the batch, if there are as many of them; "" where all are."""
    return _rows(birth.rows, " of the batch" if birth.of_rows == batch else f" of {birth.of_rows} in the result")


def _rows(rows: Sequence[int], of: str = "") -> str:
    if not rows:
        return ""
    return f" ({'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows))}{of})"


def _article(kind: str) -> str:
    return "NaN" if kind == "nan" else "an infinity"


def _code(birth: Birth) -> str | None:
    """The rule of the linter that is about it."""
    if birth.origin is Origin.UNDERFLOW and _is_of_constant(birth):
        return "AMP501"
    if birth.origin is Origin.OVERFLOW and not birth.backward and birth.dtype == "float16":
        return "AMP510"
    return None


def _is_of_constant(birth: Birth) -> bool:
    """Whether what became 0 is as small as the constants that float16 can't hold, not a difference that was rounded."""
    zero = birth.zero
    return zero is not None and zero.dtype == "float16" and zero.result == 0 < abs(zero.value) < _TINY


def _advice(birth: Birth) -> str:
    if birth.origin is Origin.OVERFLOW and birth.backward:
        return "compute this part in float32: `with torch.autocast(..., enabled=False)` and `.float()` inputs"
    if birth.origin in (Origin.OVERFLOW, Origin.CAST):
        return "scale the inputs down first, or compute this part in float32 (`.float()`, with autocast disabled)"
    if birth.origin is Origin.UNDERFLOW and not _is_of_constant(birth):
        return "compute that part in float32 (`.float()`, with autocast disabled)"
    if birth.origin is Origin.UNDERFLOW:
        return "compute it in float32, or use a constant that float16 holds (at least 6e-8; as a divisor 1.6e-5)"
    if birth.origin is Origin.MASK:
        return "leave at least one position unmasked in every row, or replace the result of such rows"
    if birth.origin is Origin.MATH and birth.is_empty:
        return "skip it where nothing is selected, or divide a sum by the number, at least 1"
    if birth.origin is Origin.MATH and birth.is_overflow:
        return "keep what it is given smaller, or use a stable function (`log_softmax`, `logsumexp`)"
    if birth.origin is Origin.MATH and birth.op in ("cross_entropy", "nll_loss"):
        return "skip batches in which all targets are `ignore_index` (-100): the mean over no target is NaN"
    if birth.origin is Origin.MATH:
        return "guard the argument (clamp, add a constant, filter)"
    return ""
