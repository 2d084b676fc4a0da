"""What the runs of a step say: what it does wrong, with numbers, or why that can't be told. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from amplint.verify.proof import ABOUT_AMP, Observed, show, without_places

RIGHT, WRONG, UNKNOWN = "right", "wrong", "not checkable"
WARNING = "warning"


# These hang on whose parameters a loss, a clip and an optimizer have.
_BY_OWNERSHIP = ("gradient", "update", "skips")


class Fault(NamedTuple):
    """Something that a step does wrong: the observable that shows it, the numbers, and on which path."""

    shows: str
    text: str
    path: str


@dataclass
class Judged:
    """What is known of a step: `state` is right, wrong or not checkable, then `reason` says why."""

    state: str
    faults: list[Fault] = field(default_factory=list)
    reason: str = ""
    numbers: str = ""  # of the first path, where nothing is wrong
    dtypes: list[str] = field(default_factory=list, compare=False)  # of the losses, on all paths


@dataclass
class Path:
    """The runs of a step with one set of answers."""

    answers: dict[str, Any]
    observed: Observed
    overflow: Observed | None = None
    free: Observed | None = None  # beside the reference's losses
    reference_end: str = ""  # how the run without AMP ended, where that was by an exception
    reference_backwards: int = 0
    stale: bool = False  # a backward goes through parameters that a step has changed since the forward
    of_amp: bool = False  # the exception came of making or entering a region or scaler
    effects: dict[str, str] = field(default_factory=dict)  # lines with calls out of sight that can train, and the calls
    remade: int = 0  # how often a scaler was made by the same line, less once

    @property
    def label(self) -> str:
        """The answers in words."""
        return ", ".join(_answer(question, answer) for question, answer in self.answers.items())


def _answer(question: str, answer: Any) -> str:
    if isinstance(answer, bool):
        return question if answer else f"not ({question})"
    return f"{question} {answer}"


def judge(paths: list[Path], *, failed: str, guessed: set[str], missing: list[str]) -> Judged:
    """What the paths of a step show.

    `failed`: why the step can't be followed. `guessed`: models that may be any optimizer's. `missing`: events that no
    path came to, a phrase each.
    """
    if failed:
        return Judged(UNKNOWN, reason=failed)
    seen = [each for each in paths if not each.effects]
    if paths and not seen:
        where, text = next(iter(paths[0].effects.items()))
        return Judged(UNKNOWN, reason=f"{where}: what {_short(text)} does can't be seen")
    # Where only some conditions lead to a backward, without one nothing is trained.
    paths = [each for each in seen if each.reference_backwards] or seen
    found: dict[tuple[str, str], Fault] = {}
    for path in paths:
        for fault in _faults(path):
            found.setdefault((fault.shows, fault.text), fault)
    faults = list(found.values())
    stale = {each.label for each in paths if each.stale}
    if any(each.path in stale and each.shows in _BY_OWNERSHIP for each in faults):
        faults = [each for each in faults if each.path not in stale or each.shows not in _BY_OWNERSHIP]
        if not faults:
            reason = "a backward goes through parameters that a step has changed since the forward"
            return Judged(UNKNOWN, reason=reason)
    if guessed and any(each.shows in _BY_OWNERSHIP for each in faults):
        faults = [each for each in faults if each.shows not in _BY_OWNERSHIP]
        if not faults:
            return Judged(UNKNOWN, reason=f"which optimizer has the parameters of {min(guessed)} can't be seen")
    if faults:
        return Judged(WRONG, _worst(faults))
    ended = next((each.reference_end for each in paths if each.reference_end), "")
    if ended:
        return Judged(UNKNOWN, reason=f"with AMP switched off the step fails as well: {ended}")
    if missing:
        return Judged(UNKNOWN, reason=missing[0])
    compared = [each.observed for each in paths if each.observed.gradient.count]
    if not compared:
        return Judged(UNKNOWN, reason="no step could be compared with the reference")
    return Judged(RIGHT, numbers=show("gradient", compared[0], compared[0]).text)


def _worst(faults: list[Fault]) -> list[Fault]:
    """One fault an observable, of the first path on which it shows; of warnings each."""
    found: dict[str, Fault] = {}
    for each in faults:
        found.setdefault(each.text if each.shows == WARNING else each.shows, each)
    return list(found.values())


def _faults(path: Path) -> Iterator[Fault]:
    observed = path.observed
    said = observed.detail.partition(": ")[2]
    if observed.end == "exception" and (path.of_amp or _kind(said) != _kind(path.reference_end)):
        yield Fault("exception", without_places(observed.detail), path.label)
    elif path.reference_end:
        return
    for each in observed.warnings:
        if ABOUT_AMP.match(each):
            yield Fault(WARNING, without_places(each), path.label)
    for shows in ("gradient", "update", "autocast-state"):
        if shows == "update" and not observed.update.count:
            continue
        shown = show(shows, _ended_well(observed), _ended_well(observed))
        if shown.misbehaves:
            yield Fault(shows, shown.text, path.label)
    if path.overflow is not None and path.overflow.end == "exception":
        label = f"{path.label}, with an overflow" if path.label else "with an overflow"
        yield Fault("exception", without_places(path.overflow.detail), label)
    elif path.overflow is not None and path.overflow.overflows:
        beyond = path.overflow
        # With several scalers, whose update has to answer can't be told.
        if beyond.overflows_applied or not beyond.finite or not beyond.backoffs:
            yield Fault("skips", show("skips", beyond, beyond).text, path.label)
    if path.free is not None:
        shown = show("learning", path.free, path.free)
        if shown.misbehaves:
            yield Fault("learning", shown.text, path.label)
    if path.remade:
        text = f"a new scaler is made {path.remade + 1} times, and its scale starts anew each time"
        yield Fault("scale", text, path.label)


def _kind(said: str) -> str:
    """The exception's type, and what comes before numbers in what it says."""
    return said[:60]


def _ended_well(observed: Observed) -> Observed:
    """For what was observed until an exception."""
    return replace(observed, end="finished")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
