"""Why a value is not finite: the step is run again, looked at operation by operation, and the first bad one named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
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
from amplint.doctor.replay import Computation, Replays, in_mode, is_finite, of_call, of_slice
from amplint.doctor.slices import NoSlice, slice_for

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38}
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


class Diagnosis:
    """Names the cause of values that are not finite, in findings."""

    def __init__(self, capture: Capture, models: Models, history: History, replays: Replays) -> None:
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
        if (bad := self._bad_before(seen)) is not None and seen.kind is not Kind.GRADIENTS:
            return self._incoming(seen, bad, place)
        reasons: list[str] = []
        for computation, where in self._computations(seen, frames, reasons):
            finding = self._lookedspoken(seen, computation, where or place, reasons)
            if finding is not None:
                return finding
            if seen.kind is Kind.GRADIENTS and not reasons:
                return None
        return self._not_shown(seen, place, reasons)

    # --- what can be run again

    def _computations(
        self, seen: Seen, frames: Sequence[FrameType], reasons: list[str]
    ) -> Iterator[tuple[Computation, Place | None]]:
        group = self._group()
        if group is None or not group.calls:
            reasons.append("no call of a module was seen")
            return
        if (refused := self._replays.why_not(self._models.alive())) is not None:
            reasons.append(refused)
            return
        if not all(call.is_unchanged for call in group.calls):
            reasons.append("inputs of the model were changed in place, or too large to keep")
            return
        if any(call.weights != self._capture.weights for call in group.calls):
            reasons.append("the weights have been stepped since")
            return
        lines = _first_lines(group.calls)
        why: list[str] = []
        for frame in frames:
            try:
                part = slice_for(frame, seen.tensors[0], lines)
            except NoSlice as error:
                why.append(str(error))
                continue
            yield of_slice(part, group.calls), None
        calls = [call for call in group.calls if not is_finite(list(tensors_in(call.output)))]
        if seen.kind is Kind.GRADIENTS:
            calls = []
        for call in calls:
            yield of_call(call), None
        reasons += [f"the loss can't be computed again: {text}" for text in why[:1] if not calls]

    def _group(self) -> Group | None:
        groups = [group for group in self._capture.groups if group.calls]
        return groups[-1] if groups else None

    # --- looking

    def _lookedspoken(
        self, seen: Seen, computation: Computation, place: Place | None, reasons: list[str]
    ) -> Finding | None:
        models = self._models.alive()
        try:
            with self._replays.quiet(models) as buffers:
                births, arriving = self._births(seen, computation, buffers)
                if not births and not arriving:
                    if seen.kind is not Kind.GRADIENTS:
                        reasons.append("the step was finite when it was run again")
                    return None
                grid = self._grid(seen, computation, models) if births else ()
        except (CollectiveRefused, OutsideWrite) as error:
            reasons.append(str(error))
            return None
        except Exception as error:  # of the user's code: it can't be run twice after all
            reasons.append(f"running it again failed: {type(error).__name__}: {str(error)[:200]}")
            return None
        if not births:
            return self._arrived(seen, arriving, place)
        return self._born(seen, births, place, grid)

    def _births(
        self, seen: Seen, computation: Computation, buffers: Sequence[torch.Tensor]
    ) -> tuple[list[Birth], list[Birth]]:
        self._replays.forwards += 1
        with Detail(named(self._models.alive()), allowed=buffers) as detail:
            values = computation()
            if seen.kind is Kind.GRADIENTS:
                self._replays.backwards += 1
                values = self._gradients(values, 1.0)
        return detail.reaching(*values), detail.arriving(*values)

    def _gradients(self, values: Sequence[torch.Tensor], scale: float) -> list[torch.Tensor]:
        losses = [value for value in values if value.grad_fn is not None]
        parameters = [each for model in self._models.alive() for each in model.parameters() if each.requires_grad]
        total = sum(loss.float().sum() * scale for loss in losses)
        if not isinstance(total, torch.Tensor):
            return []
        found = torch.autograd.grad(total, parameters, allow_unused=True)
        return [each for each in found if each is not None]

    def _grid(self, seen: Seen, computation: Computation, models: Sequence[torch.nn.Module]) -> tuple[str, ...]:
        """Which of the four runs are finite: in training and in evaluation mode, with autocast and in float32."""
        if seen.kind is Kind.GRADIENTS:
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

    def _bad_before(self, seen: Seen) -> tuple[str, str, RootCall] | None:
        """What was not finite before the step: the data or the weights; with its name, and the call that got it."""
        group = self._group()
        if group is None:
            return None
        for call in group.calls:
            # In training mode the forward pass itself has changed buffers, and doesn't read what they hold.
            buffers = [] if call.module.training else call.module.named_buffers()
            weights = [*call.module.named_parameters(), *buffers]
            bad = [name for name, each in weights if each.is_floating_point() and not is_finite([each])]
            if bad:
                return "weights", f"{bad[0]}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else ""), call
        call = group.calls[0]
        for tensor in tensors_in((call.args, call.kwargs)):
            if tensor.is_floating_point() and tensor.grad_fn is None and bool(torch.isnan(tensor).any()):
                return "data", _rows(tensor), call
        return None

    def _incoming(self, seen: Seen, bad: tuple[str, str, RootCall], place: Place | None) -> Finding:
        what, text, call = bad
        where = _call_place(call) or place
        if what == "data":
            message = f"the batch holds NaN before the model sees it{text}: {seen.kind.value} can't be finite"
            return Finding(Cause.DATA, Evidence.COMPUTED, message, where, advice="look at how the batch is made")
        step = self._history.bad_weights
        message = f"weights are not finite before the forward pass ({text}): {seen.kind.value} can't be finite"
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
        where = seen.kind.value if seen.kind is not Kind.GRADIENTS else "the gradients"
        message = f"{_message(birth)}, and so {where} {_is_not(seen)}"
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
        if seen.kind is Kind.GRADIENTS or (seen.kind is Kind.EVALUATION and not _has_nan(seen.tensors)):
            return None
        return Finding(
            None,
            Evidence.NOT_SHOWN,
            f"{seen.kind.value} {_is_not(seen)}; the cause could not be shown",
            place,
            details=tuple(dict.fromkeys(reasons)),
        )


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
