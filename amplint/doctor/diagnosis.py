"""Why a value is not finite: the step is run again, looked at operation by operation, and the first bad one named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

import torch

from amplint.doctor.births import Birth, Origin
from amplint.doctor.capture import Capture, Group, RootCall, tensors_in
from amplint.doctor.detail import CollectiveRefused, Detail, OutsideWrite
from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.gradients import Models, named
from amplint.doctor.history import History
from amplint.doctor.places import place_of, spoken, users_frames
from amplint.doctor.protocol import graph_nodes
from amplint.doctor.replay import Computation, Replays, in_mode, is_finite, of_call, of_slice, without_scale
from amplint.doctor.scale import ScaleLog
from amplint.doctor.slices import NoSlice, Slice, slice_for

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38}
_NEAR = 64  # nodes between a loss and what a trainer makes of it
_UNLIKE = 0.05  # relative difference of a loss from that in float32 that is one
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
    ABSORBED = "an infinity that the loss absorbs"


_FINITE = (Kind.ZERO, Kind.ABSORBED)  # what is seen while the loss is finite


class _Bad(NamedTuple):
    """Weights, or data (then with the tensor), that were not finite before the step, and the call that got them."""

    text: str
    call: RootCall
    tensor: torch.Tensor | None


class Seen(NamedTuple):
    """What was seen: tensors that are not finite, or a loss whose gradients are not.

    Attributes:
        kind: Of what kind they are.
        tensors: The tensors, such as the loss before it is scaled.
        scale: The scale of the loss, for gradients.
    """

    kind: Kind
    tensors: Sequence[torch.Tensor]
    scale: float = 1.0


class _Healthy(Exception):
    """What was seen is how the scaler finds its scale."""


class Diagnosis:
    """Names the cause of values that are not finite, in findings."""

    def __init__(
        self,
        capture: Capture,
        models: Models,
        history: History,
        replays: Replays,
        scalers: Callable[[], Sequence[ScaleLog]],
    ) -> None:
        self._scalers = scalers
        self._capture = capture
        self._models = models
        self._history = history
        self._replays = replays

    def of(self, seen: Seen, frame: FrameType | None) -> Finding | None:
        """The finding, None if nothing is wrong, such as gradients that are finite without the scale.

        Args:
            seen: What was seen.
            frame: The frame that runs, from which the user's functions are looked through for the tensors.
        """
        frames = list(users_frames(frame)) if frame is not None else []
        place = place_of(frames[0]) if frames else None
        reasons: list[str] = []
        needs_finding = seen.kind in _FINITE or seen.kind is Kind.GRADIENTS
        if not needs_finding and (bad := self._bad_before()) is not None:
            return self._made_bad(seen, bad.tensor, frames, place) or self._incoming(seen, bad, place)
        for computation, part in self._computations(seen, frames, reasons):
            try:
                finding = self._looked_at(seen, computation, part, frames, place, reasons)
            except _Healthy:
                return None
            if finding is not None:
                return finding
            if needs_finding and not reasons:
                return None
        return self._not_shown(seen, place, reasons)

    # --- what can be run again

    def _computations(
        self, seen: Seen, frames: Sequence[FrameType], reasons: list[str]
    ) -> Iterator[tuple[Computation, Slice | None]]:
        """What computes the tensors again, with the statements that do, where it is not a module alone."""
        calls, refused = self._calls()
        needs_all = seen.kind in _FINITE or seen.kind is Kind.GRADIENTS
        lines = _first_lines(calls)
        why: list[str] = [refused] if refused else []
        for frame, wanted in self._holders(seen, frames, calls):
            is_whole = frame.f_code in lines or not calls
            if (is_whole and refused) or (needs_all and not is_whole):
                continue
            first = lines.get(frame.f_code, 0 if frame.f_code.co_name != "<module>" or not calls else None)
            try:
                part = slice_for(frame, wanted, first)
            except NoSlice as error:
                why.append(str(error))
                continue
            yield of_slice(part, calls if is_whole else []), part
        if not refused and not needs_all:
            bad = [call for call in calls if not is_finite(list(tensors_in(call.output)))]
            yield from ((of_call(call), None) for call in bad)
        if not refused and seen.kind is Kind.GRADIENTS:  # of a loss that the model itself has computed
            yield from ((of_call(call), None) for call in calls if any(map(_is_loss, tensors_in(call.output))))
        reasons += [f"the loss can't be computed again: {text}" for text in why[:1]]

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
        for frame in frames:
            with suppress(NoSlice):
                part = slice_for(frame, tensor, 0)
                finding = self._looked_at(seen, of_slice(part, []), None, (), place, [])
                return finding if finding is not None and finding.cause is not Cause.DATA else None
        return None

    # --- looking

    def _looked_at(
        self,
        seen: Seen,
        computation: Computation,
        part: Slice | None,
        frames: Sequence[FrameType],
        place: Place | None,
        reasons: list[str],
    ) -> Finding | None:
        models = self._models.alive()
        try:
            computation.rewind = self._replays.rewind
            with self._replays.quiet(models) as buffers:
                births, arriving = self._births(seen, computation, buffers)
                if not births and not arriving:
                    if seen.kind not in _FINITE and seen.kind is not Kind.GRADIENTS:
                        reasons.append("the step was finite when it was run again")
                    return None
                if self._is_of_scale(births, computation):
                    raise _Healthy
                grid = self._grid(seen, computation, models) if births else ()
                if seen.kind is Kind.ABSORBED and not (grid := self._unlike(computation)):
                    return None
        except _Healthy:
            raise
        except (CollectiveRefused, OutsideWrite) as error:
            reasons.append(str(error))
            return None
        except Exception as error:  # of the user's code: it can't be run twice after all
            reasons.append(f"running it again failed: {type(error).__name__}: {str(error)[:200]}")
            return None
        if births:
            return self._born(seen, births, place, grid)
        for name in part.inputs if part is not None else ():
            value = part.names.get(name) if part is not None else None
            if isinstance(value, torch.Tensor) and value.is_floating_point() and not is_finite([value]):
                if (finding := self._made_bad(seen, value, frames, place)) is not None:
                    return finding
        return self._arrived(seen, arriving, place)

    def _is_of_scale(self, births: Sequence[Birth], computation: Computation) -> bool:
        """Whether gradients that a loss is made of are finite without the loss scale: the scaler will find its scale."""
        scalers = [log.scaler() for log in self._scalers() if log.in_a_row < _SEARCHING]
        if not births or not births[0].backward or not scalers:
            return False
        self._replays.forwards += 1
        with without_scale([scaler for scaler in scalers if scaler is not None]):
            return is_finite(computation())

    def _births(
        self, seen: Seen, computation: Computation, buffers: Sequence[torch.Tensor]
    ) -> tuple[list[Birth], list[Birth]]:
        self._replays.forwards += 1
        with Detail(named(self._models.alive()), allowed=buffers) as detail:
            values = computation()
            if seen.kind in _FINITE:
                return [birth for birth in detail.births if birth.origin in (Origin.OVERFLOW, Origin.CAST)], []
            if seen.kind is Kind.GRADIENTS:
                self._replays.backwards += 1
                values = _gradients([each for each in values if _is_loss(each)])
        return detail.reaching(*values), detail.arriving(*values)

    def _unlike(self, computation: Computation) -> tuple[str, ...]:
        """In words how the loss differs from that in float32; nothing where it hardly does."""
        self._replays.forwards += 2
        with_it, without = (float(sum(each.double().sum() for each in computation(off=off))) for off in (False, True))
        if not math.isfinite(without) or abs(with_it - without) <= _UNLIKE * abs(without):
            return ()
        return (f"it is {with_it:.4g} where float32 has {without:.4g}",)

    def _grid(self, seen: Seen, computation: Computation, models: Sequence[torch.nn.Module]) -> tuple[str, ...]:
        """Which of the four runs are finite: in training and in evaluation mode, with autocast and in float32."""
        if seen.kind in _FINITE or seen.kind is Kind.GRADIENTS:
            return ()
        words = {}
        for training in (True, False):
            for off in (False, True):
                with in_mode(models, training=training), suppress(RuntimeError):
                    self._replays.forwards += 1
                    words[training, off] = "finite" if is_finite(computation(off=off)) else "NOT finite"
        if len(words) == 4 and all(words[True, off] == words[False, off] for off in (False, True)):
            return (f"this batch: with autocast {words[True, False]}, in float32 {words[True, True]}",)
        modes = {True: "training", False: "evaluation"}
        kinds = {True: "in float32", False: "with autocast"}
        said = [f"{kinds[off]} in {modes[training]} mode {word}" for (training, off), word in words.items()]
        return (f"this batch: {', '.join(said)}",)

    # --- in words

    def _bad_before(self) -> _Bad | None:
        """What was not finite before the step: the data or the weights."""
        group = self._group()
        if group is None:
            return None
        for call in group.calls:
            # In training mode the forward pass itself has changed buffers, and doesn't read what they hold.
            buffers = [] if call.module.training else call.module.named_buffers()
            weights = [*call.module.named_parameters(), *buffers]
            bad = [name for name, each in weights if each.is_floating_point() and not is_finite([each])]
            if bad:
                return _Bad(f"{bad[0]}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else ""), call, None)
        call = group.calls[0]
        for tensor in tensors_in((call.args, call.kwargs)):
            if tensor.is_floating_point() and tensor.grad_fn is None and bool(torch.isnan(tensor).any()):
                return _Bad(_rows(tensor), call, tensor)
        return None

    def _incoming(self, seen: Seen, bad: _Bad, place: Place | None) -> Finding:
        where = _call_place(bad.call) or place
        if bad.tensor is not None:
            message = f"the batch holds NaN before the model sees it{bad.text}: {seen.kind.value} can't be finite"
            return Finding(Cause.DATA, Evidence.COMPUTED, message, where, advice="look at how the batch is made")
        step = self._history.bad_weights
        message = f"weights are not finite before the forward pass ({bad.text}): {seen.kind.value} can't be finite"
        details = (f"they were hit by the step {step}",) if step else ()
        advice = "look at the checkpoint that they come from" if self._capture.weights == 0 else ""
        return Finding(Cause.WEIGHTS, Evidence.COMPUTED, message, where, details=details, advice=advice)

    def _arrived(self, seen: Seen, arriving: Sequence[Birth], place: Place | None) -> Finding:
        birth = arriving[0]
        message = f"{_article(birth.kind)} was in the data that `{birth.op}` reads: {seen.kind.value} can't be finite"
        return Finding(
            Cause.DATA,
            Evidence.REPRODUCED,
            message + _row_text(birth.rows),
            birth.place or place,
            details=_details(birth),
        )

    def _born(self, seen: Seen, births: Sequence[Birth], place: Place | None, grid: tuple[str, ...]) -> Finding:
        birth = births[0]
        cause = _CAUSES[birth.origin]
        details = (*_details(birth), *grid)
        growth = self._history.growth()
        if growth and cause in (Cause.OVERFLOW, Cause.MATH):
            return Finding(
                Cause.DIVERGENCE,
                Evidence.REPRODUCED,
                f"training diverges: {growth}; then {_message(birth)} and {seen.kind.value} {_is_not(seen)}",
                self._history.stepped_at or birth.place or place,
                details=(f"first at {spoken(birth.place)}", *details) if birth.place else details,
                advice="a smaller learning rate, warm-up, or clipping (after `unscale_`)",
            )
        message = f"{_message(birth)}, and so {seen.kind.value} {_is_not(seen)}"
        if seen.kind in _FINITE:
            message = f"{_message(birth)}: the loss stays finite, but {grid[0] if grid else 'all its gradients are 0'}"
            details = _details(birth)
        return Finding(
            cause,
            Evidence.REPRODUCED,
            message,
            birth.place or place,
            code=_code(birth),
            details=details,
            advice=_advice(birth),
        )

    def _not_shown(self, seen: Seen, place: Place | None, reasons: Sequence[str]) -> Finding | None:
        if (
            seen.kind in _FINITE
            or seen.kind is Kind.GRADIENTS
            or (seen.kind is Kind.EVALUATION and not _has_nan(seen.tensors))
        ):
            return None
        return Finding(
            None,
            Evidence.NOT_SHOWN,
            f"{seen.kind.value} {_is_not(seen)}; the cause could not be shown",
            place,
            details=tuple(dict.fromkeys(reasons)),
        )


def _is_loss(tensor: torch.Tensor) -> bool:
    return tensor.numel() == 1 and tensor.grad_fn is not None


def _gradients(losses: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of losses, without a scale, by all parameters that they depend on."""
    losses = [loss for loss in losses if loss.grad_fn is not None]
    leaves = {id(node.variable): node.variable for node in graph_nodes(losses) if hasattr(node, "variable")}
    if not leaves:
        return []
    total = torch.stack([loss.float().sum() for loss in losses]).sum()
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return [each for each in found if each is not None]


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


def _has_nan(tensors: Sequence[torch.Tensor]) -> bool:
    return any(bool(torch.isnan(each.detach()).any()) for each in tensors if each.is_floating_point())


def _message(birth: Birth) -> str:
    """What happened, in one clause."""
    of = f"the gradient of `{birth.op}`" if birth.backward else f"`{birth.op}`"
    largest = _LARGEST.get(birth.dtype)
    if birth.origin in (Origin.OVERFLOW, Origin.CAST):
        value = ""
        if birth.value is not None and largest:
            value = f": its true value is {birth.value:.4g}, {birth.value / largest:.3g} times the largest {birth.dtype} ({largest:,.0f})"
            if largest > 1e6:
                value = f": its true value is {birth.value:.4g}"
        what = of
        if birth.origin is Origin.CAST:
            what = f"the cast of `{birth.parameter}`" if birth.parameter else f"the cast of an input of {of}"
        return f"{what} overflows {birth.dtype}{value}"
    if birth.origin is Origin.UNDERFLOW:
        zero = birth.zero
        flushed = (
            f" {zero.value:.3g} became {zero.result:.3g} in {zero.dtype} (`{zero.op}`)" if zero is not None else ""
        )
        return f"{of} makes {birth.kind}, since{flushed or ' a value was flushed to 0'}"
    if birth.origin is Origin.MASK:
        return f"{of} makes NaN of rows that are masked completely{_row_text(birth.rows)}"
    if birth.origin is Origin.MATH:
        return f"{of} makes {birth.kind} in float32 as well, so AMP is not to blame{_row_text(birth.rows)}"
    return f"{of} reads what is not finite"


def _details(birth: Birth) -> tuple[str, ...]:
    lines = []
    if birth.module:
        lines.append(f"in the module `{birth.module}`")
    sizes = [f"{size:.4g}" for size in birth.inputs if math.isfinite(size)]
    if sizes:
        lines.append(f"its inputs are finite, up to {' and '.join(sizes[:3])}")
    if birth.rows and not birth.parameter and birth.origin not in (Origin.MASK, Origin.MATH):
        lines.append(_row_text(birth.rows).strip(" ()"))
    if birth.zero is not None and birth.zero.place is not None:
        lines.append(f"the zero comes from {spoken(birth.zero.place)}")
    lines += [f"called from {spoken(place)}" for place in birth.stack[1:2]]
    return tuple(lines)


def _rows(tensor: torch.Tensor) -> str:
    if tensor.dim() < 2:
        return ""
    bad = torch.isnan(tensor).flatten(1).any(1).nonzero().flatten().tolist()
    return _row_text(bad[:8]) if len(bad) < tensor.shape[0] else ""


def _row_text(rows: Sequence[int]) -> str:
    if not rows:
        return ""
    return f" ({'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows))})"


def _article(kind: str) -> str:
    return "NaN" if kind == "nan" else "an infinity"


def _code(birth: Birth) -> str | None:
    """The rule of the linter that is about it."""
    if birth.origin is Origin.UNDERFLOW:
        return "AMP501"
    if birth.origin is Origin.OVERFLOW and not birth.backward and birth.dtype == "float16":
        return "AMP510"
    return None


def _advice(birth: Birth) -> str:
    if birth.origin is Origin.OVERFLOW and birth.backward:
        return "compute this part in float32: `with torch.autocast(..., enabled=False)` and `.float()` inputs"
    if birth.origin in (Origin.OVERFLOW, Origin.CAST):
        return "scale the inputs down first, or compute this part in float32 (`.float()`, autocast off)"
    if birth.origin is Origin.UNDERFLOW:
        return "compute it in float32, or use a constant that float16 holds (at least 6e-8; as a divisor 1.6e-5)"
    if birth.origin is Origin.MASK:
        return "leave a place unmasked in every row, or replace the result of such rows"
    if birth.origin is Origin.MATH:
        return "guard the argument (clamp, add a constant, filter)"
    return ""
