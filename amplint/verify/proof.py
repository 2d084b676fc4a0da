"""What a run showed, and whether that is the misbehaviour that a fixture's marker names. No torch here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Tolerance(NamedTuple):
    """Relative errors of gradients and updates that rounding alone explains."""

    worst: float  # of any step: a unit that rounding switches on or off shifts all that lies before it
    least: float  # of the best of three steps or more: rounding itself


# By the widest dtype of the regions and parameters. A correct step, and the smallest misbehaviour, were measured with
# the bench over 60 seeds and with the fixtures:
#   float16   worst 0.049 and 0.092, least 0.018 and 0.032 (both: gradients lost without a scaler)
#   bfloat16  worst 0.054 and 0.40 (one of two losses unscaled); nothing finer
#   float32   0 (a scale is a power of two) and, again, 0.40
TOLERANCE = {"float32": Tolerance(0.001, 0.001), "float16": Tolerance(0.07, 0.024), "bfloat16": Tolerance(0.1, 0.1)}
# A loss curve may be this far from the reference's, relative to how far the reference's moves.
LEARNING = 0.25

# What torch says about the old API, and about a scaler that switches itself off.
ABOUT_AMP = re.compile(r"(?i)(Future|Deprecation|User)Warning:.*(autocast|GradScaler|custom_[fb]wd)")

_PLACE = re.compile(r"\s*\((?:Triggered internally at )?(?:/|[A-Z]:\\)[^()]*\)")

_KEPT = 200  # comparisons that are remembered one by one

CONFIRMED, REFUTED, NOT_EXECUTED = "confirmed", "refuted", "not executed"


@dataclass
class Compared:
    """The extremes of some comparisons with the reference.

    An error is the norm of the difference relative to the reference's norm; `error` is the worst, `least` the best one.
    `factor` is the found norm relative to the reference's, of the worst.
    """

    count: int = 0
    error: float = 0.0
    factor: float = 1.0
    least: float = 0.0
    errors: list[float] = field(default_factory=list, compare=False)  # one by one, of so many as are kept

    def add(self, error: float, factor: float) -> None:
        """Take in one more comparison."""
        if not self.count or error > self.error:
            self.error, self.factor = error, factor
        self.least = min(error, self.least) if self.count else error
        self.count += 1
        if len(self.errors) < _KEPT:
            self.errors.append(error)

    def beyond(self, tolerance: Tolerance) -> bool:
        """Whether this is more than rounding; NaN is."""
        return not self.error <= tolerance.worst or (self.count >= 3 and self.least > tolerance.least)

    def first(self, tolerance: Tolerance) -> int:
        """The first comparison that is beyond it, from 0; -1: they are all within."""
        if not self.beyond(tolerance):
            return -1
        return next((at for at, each in enumerate(self.errors) if not each <= tolerance.worst), 0)


@dataclass
class Observed:
    """What the run of one half showed. Everything but the end of the run needs the watch."""

    end: str = "finished"  # or exception, exited, timed out, out of memory, died
    detail: str = ""  # of the end: the exception's type and message, the exit status, the signal
    warnings: list[str] = field(default_factory=list)  # "Category: message"
    simulated: bool = False  # the device was
    seconds: float = 0.0
    output: str = ""  # the end of what the program printed
    regions: list[str] = field(default_factory=list)  # as entered: "cuda float16", "cpu off"
    dtypes: list[str] = field(default_factory=list)  # of the regions that were on, and of parameters
    backwards: int = 0
    backwards_inside: int = 0  # with a region open
    steps: int = 0  # step requests, also those that a scaler left out
    steps_inside: int = 0
    inside: str = ""  # the region that was open at one of these
    losses: list[float] = field(default_factory=list)
    loss_dtypes: list[str] = field(default_factory=list)
    reference_losses: list[float] = field(default_factory=list)
    clip: Compared = field(default_factory=Compared)  # gradients as a clip saw them, relative to its bound
    read: Compared = field(default_factory=Compared)  # gradients that the program read
    added: Compared = field(default_factory=Compared)  # what the program adds to a gradient, relative to its norm
    gradient: Compared = field(default_factory=Compared)  # gradients that a step used
    update: Compared = field(default_factory=Compared)  # the parameters' change by a step of SGD
    parts: dict[str, Compared] = field(default_factory=dict)  # the same by what was compared: "update: optimizer 2"
    reused: int = 0  # step requests that used gradients which a step had used already
    beyond_bound: float = 0.0  # norm used by a step, relative to the bound of a clip behind the step; 0: no such clip
    late: int = 0  # clips and other changes of nothing but gradients that a step had used
    idle: int = 0  # optimizers that no gradient has reached in any step
    skipped: int = 0  # step requests that a scaler left out
    overflows: int = 0  # step requests with gradients that are not finite
    overflows_applied: int = 0  # those that changed parameters
    carried: int = 0  # attempts at a step whose gradients were not finite in one before, and were not cleared since
    answered: int = 0  # back-offs that there should have been
    backoffs: int = 0  # updates that made a scale smaller
    finite: bool = True  # all parameters, at the end
    enabled: list[bool] = field(default_factory=list)  # scalers
    scales: list[float] = field(default_factory=list)  # at the end

    @classmethod
    def of(cls, values: dict[str, Any]) -> Observed:
        """From what `dataclasses.asdict` makes of one."""
        compared = {key: Compared(**values[key]) for key in ("clip", "read", "added", "gradient", "update")}
        parts = {key: Compared(**each) for key, each in values["parts"].items()}
        return cls(**{**values, **compared, "parts": parts})

    def take_comparisons(self, other: Observed) -> None:
        """Add what another run of the same program, beside its reference, has shown."""
        self.clip, self.read, self.added = other.clip, other.read, other.added
        self.gradient, self.update = other.gradient, other.update
        self.reused, self.beyond_bound, self.late = other.reused, other.beyond_bound, other.late
        self.dtypes = self.dtypes or other.dtypes

    @property
    def tolerance(self) -> Tolerance:
        """What rounding alone explains with these regions."""
        known = (TOLERANCE[each] for each in self.dtypes if each in TOLERANCE)
        return max(known, default=TOLERANCE["float32"])


class Shown(NamedTuple):
    """Whether a half misbehaves (None: it can't be told), and the numbers that say so."""

    misbehaves: bool | None
    text: str


class Proof(NamedTuple):
    """A fixture's verdict, with what was shown before and after the fix."""

    verdict: str
    before: str
    after: str
    reason: str  # why it is refuted, else empty


def prove(shows: str, bad: Observed, fixed: Observed) -> Proof:
    """Whether `bad` misbehaves in the way that `shows` names, and `fixed` doesn't."""
    before, after = (show(shows, half, other) for half, other in ((bad, fixed), (fixed, bad)))
    if after.misbehaves and not _by_itself(shows, fixed):
        # The fixed half is what is right; that it differs from the bad one is no fault.
        after = Shown(False, after.text)
    if shows not in LOCK_STEP and after.misbehaves is False and (fixed.update.count or fixed.gradient.count):
        # Whatever the fixture is to show: what is right trains as its reference does.
        trained = _gradient(fixed, bad)
        wrong = bool(trained.misbehaves) or fixed.update.beyond(fixed.tolerance)
        after = Shown(wrong, f"{after.text}, {trained.text}")
    if before.misbehaves is None:
        reason = "the bad half could not be judged"
    elif not before.misbehaves:
        reason = "the bad half does not misbehave"
    elif after.misbehaves is None:
        reason = "the fixed half could not be judged"
    else:
        reason = "the fixed half misbehaves" if after.misbehaves else ""
    return Proof(REFUTED if reason else CONFIRMED, before.text, after.text, reason)


def show(shows: str, half: Observed, other: Observed) -> Shown:
    """What `half` showed of the observable `shows`; some are judged against the other half."""
    if half.end != "finished" and (half.end != "exception" or shows != "exception"):
        return Shown(None, f"{half.end}: {half.detail}" if half.detail else half.end)
    return _OBSERVABLES[shows](half, other)


def _by_itself(shows: str, half: Observed) -> bool:
    """Whether what a half shows is judged without a look at the other one."""
    if shows == "autocast-state":
        return half.backwards_inside + half.steps_inside > 0
    return shows not in ("dtype", "scale")


def _exception(half: Observed, other: Observed) -> Shown:
    if half.end == "exception":
        return Shown(True, without_places(half.detail))
    # A fixed half that warns is not right either.
    about = _about_amp(half) if other.end == "exception" else []
    return Shown(bool(about), about[0] if about else "no exception")


def _warning(half: Observed, other: Observed) -> Shown:
    about = _about_amp(half)
    return Shown(bool(about), about[0] if about else "no warning")


def _about_amp(half: Observed) -> list[str]:
    return [without_places(each) for each in half.warnings if ABOUT_AMP.match(each)]


def said(error: BaseException) -> str:
    """An exception in one line: its type, and the first line of its message."""
    first = next(iter(str(error).splitlines()), "")[:300]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def without_places(text: str) -> str:
    """A message of torch's without the place in its sources or on this machine's disk."""
    return _PLACE.sub("", text)


def _gradient(half: Observed, other: Observed) -> Shown:
    seen = (half.clip, half.read, half.added, half.gradient)
    if not any(each.count for each in seen):
        return Shown(None, f"no gradients could be compared, {half.skipped} of {half.steps} steps left out")
    tolerance = half.tolerance
    texts = [_factor("clip saw {} the true norm", half.clip, tolerance)] if half.clip.count else []
    if half.read.count:
        texts.append(_factor("gradients read were {} the true ones", half.read, tolerance))
    if half.added.beyond(tolerance):
        texts.append(_factor("what is added to gradients was {} what it is to be", half.added, tolerance))
    texts.append(_off("update", half.update) if half.update.count else _off("gradients", half.gradient))
    return _bounded(half, any(each.beyond(tolerance) for each in seen), texts)


def _update(half: Observed, other: Observed) -> Shown:
    if not half.update.count:
        return Shown(None, f"no step of SGD could be compared, {half.skipped} of {half.steps} left out")
    texts = [_off("update", half.update)]
    if half.reused:
        texts.insert(0, f"{half.reused} of {half.steps} steps used gradients that a step had used")
    return _bounded(half, half.reused > 0 or half.update.beyond(half.tolerance), texts)


def _bounded(half: Observed, misbehaves: bool, texts: list[str]) -> Shown:
    """With what a clip behind the step shows: the reference clips there as well, and so can't show it."""
    if half.beyond_bound > 1 + half.tolerance.worst:
        beyond = f"a step used {_number(half.beyond_bound)} x the norm that the clip behind it allows"
        return Shown(True, ", ".join([beyond, *(texts if misbehaves else ())]))
    return Shown(misbehaves, ", ".join(texts))


def _learning(half: Observed, other: Observed) -> Shown:
    right, found = half.reference_losses, half.losses
    moved = [each - right[0] for each in right[1:]]
    size = math.hypot(*moved) if moved else 0.0
    if not size or len(right) != len(found):
        return Shown(None, f"{len(found)} losses, the reference has {len(right)}")
    off = math.hypot(*(a - b for a, b in zip(found, right, strict=True))) / size
    text = f"loss went by {found[-1] - found[0]:+.3g}, the reference's by {right[-1] - right[0]:+.3g}"
    return Shown(not off <= LEARNING, text)


def _autocast_state(half: Observed, other: Observed) -> Shown:
    texts = []
    if half.backwards_inside:
        texts.append(f"{half.backwards_inside} of {half.backwards} backwards")
    if half.steps_inside:
        texts.append(f"{half.steps_inside} of {half.steps} steps")
    if texts:
        return Shown(True, f"{' and '.join(texts)} with a region open ({half.inside})")
    if (
        not other.backwards_inside + other.steps_inside
        and len(half.regions) == len(other.regions)
        and _on(half) != _on(other)
    ):
        return Shown(True, f"regions: {_list(half.regions)}")
    ran = f"{half.backwards} backwards and {half.steps} steps"
    return Shown(False if half.backwards + half.steps else None, f"{ran}, none with a region open")


def _on(half: Observed) -> list[bool]:
    return [not each.endswith(" off") for each in half.regions]


def _dtype(half: Observed, other: Observed) -> Shown:
    if not half.regions and not half.loss_dtypes:
        return Shown(None, "no loss and no region")
    texts = [f"loss {_list(half.loss_dtypes)}"] if half.loss_dtypes else []
    texts += [f"regions: {_list(half.regions)}"] if half.regions else []
    return Shown(_dtypes(half) != _dtypes(other), ", ".join(texts))


def _dtypes(half: Observed) -> tuple[set[str], set[str]]:
    return set(half.loss_dtypes), {each.rpartition(" ")[2] for each in half.regions}


def _skips(half: Observed, other: Observed) -> Shown:
    if not half.overflows and not half.carried:
        return Shown(None, "no step met an overflow")
    right = not half.overflows_applied and half.finite and half.backoffs == half.answered and not half.carried
    texts = [
        f"{half.overflows_applied} of {half.overflows} steps with an overflow taken",
        f"parameters {'finite' if half.finite else 'not finite'}",
        f"scale backed off {_times(half.backoffs)}"
        + (f", not {_times(half.answered)}" if half.backoffs != half.answered else ""),
    ]
    if half.carried:
        texts.append(f"gradients of the overflow were still there {_times(half.carried)}")
    return Shown(not right, ", ".join(texts))


def _scale(half: Observed, other: Observed) -> Shown:
    if not half.scales:
        return Shown(None, "no scaler")
    states = [f"{scale:g}" if on else "off" for on, scale in zip(half.enabled, half.scales, strict=True)]
    same = (half.enabled, half.scales) == (other.enabled, other.scales)
    return Shown(not same, f"scale at the end: {_list(states)}")


_OBSERVABLES: dict[str, Callable[[Observed, Observed], Shown]] = {
    "exception": _exception,
    "warning": _warning,
    "gradient": _gradient,
    "update": _update,
    "learning": _learning,
    "autocast-state": _autocast_state,
    "dtype": _dtype,
    "skips": _skips,
    "scale": _scale,
}
SHOWS = frozenset({*_OBSERVABLES, "none"})
# The runs that they need: with the reference beside, in lock-step or free, or with an overflow.
LOCK_STEP, FREE, OVERFLOW = ("gradient", "update"), ("learning",), ("skips",)
BARE = ("exception", "warning")  # no watch: what torch says must not pass through it


def _factor(text: str, compared: Compared, tolerance: Tolerance) -> str:
    said = text.format(f"{_number(compared.factor)} x")
    if 0.9 < compared.factor < 1.1 and compared.beyond(tolerance):
        return f"{said}, {_percent(compared.error)} off"
    return said


def _off(what: str, compared: Compared) -> str:
    if not math.isfinite(compared.error):
        return f"{what} not finite"
    if 0 < compared.factor < 0.6 or compared.factor > 1.6:
        return f"{what} {_number(compared.factor)} x the right size"
    return f"{what} off by {_percent(compared.error)}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _percent(value: float) -> str:
    return f"{value * 100:,.0f}%" if value >= 0.1 else f"{value * 100:.2g}%"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _list(items: list[str]) -> str:
    """Each different one, in the order of the first."""
    return ", ".join(dict.fromkeys(items))
