"""The loss scale of a run: which steps were skipped, and whether that is how a scaler finds its scale or a fault.

By torch's documentation (torch.amp, GradScaler) skips are normal while the scale comes down from its start, and once
every few hundred or thousand steps after that.
"""

from __future__ import annotations

import math
import weakref
from itertools import count

import torch

from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.readings import Reading, can_wait_for, is_readable

_CALIBRATION = 25  # skips in a row that finding the scale may take: 2**24 to 1
_SETTLED = 20  # steps taken in a row after which the scale counts as found
_SEARCH = 50  # steps after which the search for the scale is over in any case
_LATE = 0.05  # share of the steps after that which may be skipped
_LATE_OF_GROWTH = 0.1  # the same, where each follows a growth of the scale
_HUGE = 2.0**24  # of a first scale
_BACKOFF = 0.75  # from which on a scale comes down too slowly
_INTERVAL = 200  # steps of growth below which the settings explain skips
_WINDOW = 500  # steps that the share is of
_LARGEST_SCALE = 2.0**127  # that float32 holds, as well as what it is divided into
_FEW = 4  # skips that are never too many


class ScaleLog:
    """What has happened to one scaler's scale."""

    def __init__(self, scaler: torch.amp.GradScaler, place: Place | None) -> None:
        self.scaler = weakref.ref(scaler)
        self.place = place  # where it was made
        self.steps = 0
        self.updates = 0
        self.skips: list[int] = []  # numbers of the skipped steps, from 1
        self.updated_at: Place | None = None
        self.stepped_at: Place | None = None
        self.set_at: Place | None = None  # where the program has set the scale itself
        self.loaded_low: tuple[Place | None, float] | None = None  # where a scale below 1 was loaded, and that
        # The scale of the program's own that no gradient can be divided by: it, the line, and the step before it.
        self.impossible: tuple[float, Place | None, int] | None = None
        self.first = self.value = self.lowest = float(getattr(scaler, "_init_scale", 1.0))
        self._is_loaded = False  # the first scale is that of a saved state
        if not _is_possible(self.first):
            self.impossible = self.first, place, 0
        self.below_one: int | None = None  # the step after which the scale was below 1
        self.jump: tuple[int, float, float] | None = None  # the step, and the scale before and after
        self.in_a_row = 0  # steps skipped last, without one between that was taken
        self.taken_in_a_row = 0
        self.settled: int | None = None  # the step at which the scale counts as found
        self._is_skipped = False  # a step since the last update was
        self._unskipped = 0  # updates in a row without a skip, after the scale has moved
        self._earlier: tuple[int, float, Reading] | None = None  # before the last step: its number, the scale, and it
        # Steps of which only the device knows whether they were skipped: their numbers, and that of the updates before.
        self._unread: list[tuple[int, int, Reading]] = []
        self._backed_off = -1  # the number of updates before the one that a skip which was read late has lowered

    @property
    def taken(self) -> int:
        """How many steps were taken."""
        return self.steps - len(self.skips)

    def stepped(self, *, taken: bool, place: Place | None) -> None:
        """A step was asked for, and taken or skipped."""
        self.steps += 1
        self.stepped_at = place
        if taken:
            self.in_a_row, self.taken_in_a_row = 0, self.taken_in_a_row + 1
            if self.settled is None and self.taken_in_a_row >= _SETTLED:
                self.settled = self.steps
            return
        self.skips.append(self.steps)
        self.in_a_row, self.taken_in_a_row = self.in_a_row + 1, 0
        self._is_skipped = True

    def before_step(self) -> None:
        """A step is about to be asked for: the scale is what the last update made of it, unless it was set."""
        scale = getattr(self.scaler(), "_scale", None)
        if scale is None or not self.updates or not can_wait_for(scale):
            return
        seen = self.steps, self.value, Reading(scale)
        if is_readable(scale):
            self._compare(*seen)
        else:  # to read it now would wait for the device
            self._earlier = seen

    def before_use(self, found_inf: torch.Tensor | None) -> None:
        """The optimizer is about to use its gradients. `found_inf` tells a fused one whether to skip the step."""
        if found_inf is not None and not is_readable(found_inf):
            self._unread.append((self.steps + 1, self.updates, Reading(found_inf)))

    def _compare(self, step: int, value: float, reading: Reading) -> None:
        """Compare what the scale was taken for before a step with what it was."""
        now = reading.value()
        if now != value:
            if self.jump is None:
                self.jump = (step, value, now)
            self.value *= now / value if value else 1.0

    def resolve(self) -> int:
        """Take in what a device has told meanwhile; return how many steps fused optimizers have skipped."""
        if self._earlier is not None:
            self._compare(*self._earlier)
            self._earlier = None
        unread, self._unread = self._unread, []
        skipped = [(number, updates) for number, updates, reading in unread if reading.value()]
        for number, updates in skipped:
            self.skips.append(number)
            self.taken_in_a_row = self.steps - number
            if self.settled is not None and self.settled >= number:
                self.settled = None
            if number == self.steps:
                self.in_a_row = next(run for run in count(1) if number - run not in self.skips)
            if updates == self.updates:
                self._is_skipped, self._backed_off = True, updates
            elif updates != self._backed_off:
                self._back_off(updates)
        return len(skipped)

    def _back_off(self, updates: int) -> None:
        """Make of the scale what the update after a skip has made of it, which was taken for one after a taken step."""
        scaler, self._backed_off = self.scaler(), updates
        if scaler is not None:
            before = self.value / (scaler.get_growth_factor() if self._unskipped == 0 else 1.0)  # where it has grown
            self._unskipped = 0
            self._moved(before * scaler.get_backoff_factor())

    def updated(self, place: Place | None, new_scale: float | torch.Tensor | None) -> None:
        """`update` has returned, with the scale that it was given, if any."""
        scaler = self.scaler()
        self.updates += 1
        self.updated_at = place
        now = self.read(waits=new_scale is not None)
        if now is None and scaler is not None:
            now = self._as_update_does(scaler)
        before, now = self.value, now if now is not None else self.value
        is_kept = new_scale is not None and self._is_skipped and now >= before  # as after no skip
        if scaler is not None and (is_kept or (now != before and not self._is_move(scaler, before, now))):
            self.set_at = place
        if new_scale is not None and not _is_possible(now) and self.impossible is None:
            self.impossible = now, place, self.steps
        self._is_skipped = False
        self._moved(now)

    def _as_update_does(self, scaler: torch.amp.GradScaler) -> float:
        """What `update()` makes of the scale, which lies on a device."""
        self._unskipped = 0 if self._is_skipped else self._unskipped + 1
        if self._is_skipped:
            return self.value * scaler.get_backoff_factor()
        if self._unskipped < scaler.get_growth_interval():
            return self.value
        self._unskipped = 0
        return self.value * scaler.get_growth_factor()

    def _moved(self, value: float) -> None:
        self.value = value
        self.lowest = min(self.lowest, value)
        if value < 1 and self.below_one is None and self.loaded_low is None:
            self.below_one = self.steps

    def _is_move(self, scaler: torch.amp.GradScaler, before: float, now: float) -> bool:
        """Whether the scale has moved as `update()` without arguments moves it."""
        factors = (scaler.get_backoff_factor(), scaler.get_growth_factor())
        return any(math.isclose(now, before * factor, rel_tol=1e-4) for factor in factors)

    def read(self, *, waits: bool = False) -> float | None:
        """The scale; None where that lies on a device that is not to be waited for."""
        scaler = self.scaler()
        scale = getattr(scaler, "_scale", None)
        if scale is None:
            return float(getattr(scaler, "_init_scale", 1.0)) if scaler is not None else None
        return float(scale.item()) if is_readable(scale) or (waits and can_wait_for(scale)) else None

    def now(self) -> float:
        """The scale, read or as the updates have left it."""
        now = self.read()
        return self.value if now is None else now

    def loaded(self, place: Place | None) -> None:
        """A saved state was loaded: the scale is another one, and rightly so."""
        scaler = self.scaler()
        if (now := self.read(waits=True)) is not None and scaler is not None:
            self.value, self._unskipped = now, int(scaler._get_growth_tracker())
            if not self.steps:
                self.first, self.lowest, self._is_loaded = now, now, True
            self.loaded_low = (place, now) if now < 1 else None

    def late(self) -> list[int]:
        """The skipped steps after the scale was found, of the last 500."""
        return [step for step in self.skips if step > max(self._start, self.steps - _WINDOW)]

    @property
    def _start(self) -> int:
        """The step from which on skips count as late."""
        return _SEARCH if self.settled is None else self.settled

    @property
    def is_too_late(self) -> bool:
        """Whether more steps are skipped after the scale was found than growing the scale explains."""
        late = self.late()
        of = min(self.steps - self._start, _WINDOW)
        if len(late) > _FEW and len(late) > _LATE * of:
            # A scale that grows often is too large as often: that alone costs little.
            return len(late) > _LATE_OF_GROWTH * of or len(late) > of / self._interval() + 1
        return False

    def _interval(self) -> int:
        """After how many steps without a skip the scale grows."""
        scaler = self.scaler()
        return scaler.get_growth_interval() if scaler is not None else 2000

    def findings(self) -> list[Finding]:
        """What is wrong with the scale itself."""
        place = self.set_at or self.updated_at or self.stepped_at or self.place
        if self.impossible is not None and self.steps > self.impossible[2]:
            return [self._of_impossible(*self.impossible)]
        if self.loaded_low is not None and self.steps:
            where, low = self.loaded_low
            return [
                Finding(
                    Cause.SCALE,
                    Evidence.SEEN,
                    f"the state that is loaded has a loss scale of {_number(low)}, below 1: small gradients are 0, and "
                    f"the scale takes {self._interval():,} steps to double",
                    where,
                    step=1,
                    details=(self.summary(),),
                    advice="don't load the scaler's state, or find out why the run that saved it skipped its steps",
                )
            ]
        if self.below_one is not None:
            return [
                Finding(
                    Cause.SCALE,
                    Evidence.SEEN,
                    f"the loss scale fell below 1 at step {self.below_one} (now {_number(self.value)}): "
                    "no scale makes these gradients finite, so the loss or the gradients themselves are at fault",
                    place,
                    step=self.below_one,
                    details=(self.summary(),),
                    advice="look at the loss for NaN and inf before the backward pass; a smaller scale can't help",
                )
            ]
        if self.steps >= 2 * _CALIBRATION // 5 and not self.taken:
            return [
                Finding(
                    Cause.SCALE,
                    Evidence.SEEN,
                    f"all {self.steps} steps were skipped: the weights have not changed" + self._why(),
                    place if self._setting is None else self.place,
                    step=1,
                    details=(self.summary(),),
                    advice=self._advice(),
                )
            ]
        if self.is_too_late:
            late = self.late()
            return [
                Finding(
                    Cause.SCALE,
                    Evidence.SEEN,
                    f"{len(late)} of {self.steps} steps were skipped after step {self._start}, too many for "
                    "a scale that has settled" + self._why(),
                    place if self._setting is None else self.place,
                    step=late[0],
                    details=(self.summary(),),
                    advice=self._advice(),
                )
            ]
        if self.jump is not None:
            step, before, after = self.jump
            return [
                Finding(
                    Cause.SCALE,
                    Evidence.SEEN,
                    f"the loss scale jumped from {_number(before)} to {_number(after)} after step {step}, "
                    "but no `update()` of the scaler did that",
                    place,
                    step=step,
                    details=(self.summary(),),
                )
            ]
        return []

    def _of_impossible(self, scale: float, place: Place | None, before: int) -> Finding:
        """The finding on a scale of the program's own that no gradient can be divided by."""
        is_skipped = before + 1 in self.skips
        follows = (
            "every step with it is skipped"
            if is_skipped
            else "gradients divided by it are NaN, which the scaler doesn't see: it looks for infinities before"
        )
        made = f"is set to {_number(scale)} after step {before}" if before else f"starts at {_number(scale)}"
        return Finding(
            Cause.SCALE,
            Evidence.SEEN,
            f"the loss scale {made}: {follows}",
            place,
            step=before + 1,
            details=(self.summary(),),
            advice="leave the scale to the scaler, or skip what is not finite where it is computed",
        )

    def has_settled(self) -> bool:
        """Whether the scale was found, and is well since: what it has made infinite was how it was found."""
        return self.settled is not None and not self.is_too_late and self.below_one is None and self.impossible is None

    @property
    def _setting(self) -> tuple[str, str] | None:
        """What the scaler was made with that explains the skips, and what to do; None where nothing does."""
        scaler = self.scaler()
        if self.set_at is not None or scaler is None:
            return None
        if (interval := scaler.get_growth_interval()) < _INTERVAL:
            why = f"the scale grows every {interval} steps (`growth_interval`), and each time it is too large"
            return why, "leave `growth_interval` at 2000"
        if not self.taken and not self._is_loaded and self.first > _HUGE:
            return f"the scale starts at {_number(self.first)} (`init_scale`)", "leave `init_scale` at 65,536"
        if not self.taken and (factor := scaler.get_backoff_factor()) > _BACKOFF:
            why = (
                f"a skip makes the scale only {factor:g} times as large (`backoff_factor`), from {_number(self.first)}"
            )
            return why, "leave `backoff_factor` at 0.5"
        return None

    def _why(self) -> str:
        if self.set_at is not None:
            return f"; the program sets the scale itself, to {_number(self.value)}"
        return f"; {self._setting[0]}" if self._setting is not None else ""

    def _advice(self) -> str:
        if self.set_at is not None:
            return "leave the scale to the scaler: call `update()` without an argument"
        return self._setting[1] if self._setting is not None else ""

    def summary(self) -> str:
        """The skips and the scale, in numbers."""
        if not self.steps:
            return ""
        path = [self.first, self.lowest, self.value]
        scales = " -> ".join(_number(at) for n, at in enumerate(path) if not n or at != path[n - 1])
        if not self.skips:
            return f"none of {self.steps} steps skipped, scale {scales}"
        when = (
            f"all before step {self.skips[-1] + 1}"
            if self.skips[-1] <= _CALIBRATION and self.skips[-1] < self.steps
            else f"the last at step {self.skips[-1]}"
        )
        return f"{len(self.skips)} of {self.steps} steps skipped, {when}, scale {scales}"


def _is_possible(scale: float) -> bool:
    """Whether gradients can be multiplied, and divided, by a scale."""
    return 1 / _LARGEST_SCALE < scale < _LARGEST_SCALE


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 and math.isfinite(value) else f"{value:.3g}"
