"""What the runs of a step say: what it does wrong, with numbers, or why that can't be told. No torch here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from amplint.verify.fixtures.proof import ABOUT_AMP, Observed, show, without_places
from amplint.verify.interpreter.sayings import Saying, said

RIGHT, WRONG, UNKNOWN = "right", "wrong", "not checkable"
WARNING = "warning"


# These hang on whose parameters a loss, a clip and an optimizer have.
_BY_OWNERSHIP = ("gradient", "update", "skips")
LINE = re.compile(r"^line \d+( of [^:]*)?: ")


class Fault(NamedTuple):
    """Something that a step does wrong: the observable that shows it, the numbers, and on which path."""

    shows: str
    text: str
    path: str

    @property
    def what(self) -> str:
        """What tells it from others: the observable, of exceptions and warnings with what they say."""
        return f"{self.shows}: {LINE.sub('', self.text)}" if self.shows in ("exception", WARNING) else self.shows


@dataclass
class Judged:
    """What is known of a step: `state` is right, wrong or not checkable, then `reason` says why."""

    state: str
    faults: list[Fault] = field(default_factory=list)
    reason: str = ""
    numbers: str = ""  # of the first path, where nothing is wrong
    dtypes: list[str] = field(default_factory=list, compare=False)  # of the losses, on all paths
    paths: dict[str, list[str]] = field(default_factory=dict, compare=False)  # what is wrong on each, as `Fault.what`
    answers: list[dict[str, Any]] = field(default_factory=list, compare=False)  # of the paths that are wrong
    warned: dict[str, list[int]] = field(default_factory=dict, compare=False)  # by warnings: the lines that have them
    # On each path what was compared ("update: optimizer 2"), how often, and which of these was wrong first; -1: none.
    parts: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict, compare=False)
    unseen: str = field(default="", compare=False)  # what a step that is right may do wrong all the same
    none_used: str = field(default="", compare=False)  # where conditions make it use None as an object, and which
    unfollowed: str = field(default="", compare=False)  # of a step that is wrong: what else it does that can't be seen
    differs: str = field(default="", compare=False)  # where its gradients or updates are first not the reference's
    not_run: list[str] = field(default_factory=list, compare=False)  # what computes a loss in half precision, in words
    unseen_region: str = field(default="", compare=False)  # a context out of sight that is named of autocast, in words
    failing: bool = field(default=False, compare=False)  # it is wrong only where a call runs out of memory
    unscaled: str = field(default="", compare=False)  # where it has a loss in float16 that no scaler scales, in words
    not_tried: list[str] = field(default_factory=list, compare=False)  # assumptions that no run has made, in words
    not_combined: int = field(default=0, compare=False)  # combinations of conditions and assumptions without a run


@dataclass
class Path:
    """The runs of a step with one set of answers."""

    answers: dict[str, Any]
    observed: Observed
    sayings: dict[str, Saying] = field(default_factory=dict)  # how answers are said
    overflows: list[Observed] = field(default_factory=list)  # in one run the gradients of one optimizer do
    free: Observed | None = None  # beside the reference's losses
    reference_end: str = ""  # how the run without AMP ended, where that was by an exception
    assuming: frozenset[str] = frozenset()  # the answers that are assumed: no run has them by itself
    none_used: str = ""  # the line on which it used None as an object: no program is run with such conditions
    reference_backwards: int = 0
    reference_steps: int = 0  # that it asked for
    caught: list[str] = field(default_factory=list)  # exceptions that AMP brings and the program catches
    beyond_caught: list[str] = field(default_factory=list)  # the same, in the runs with an overflow
    fails: bool = False  # a call runs out of memory, as is assumed
    idle: bool = False  # no gradient reaches an optimizer's steps, without AMP either
    not_finite: bool = False  # nor are gradients finite without AMP, and so no step could be compared
    never: bool = False  # the scaler skips every step, however low its scale: the losses are not finite
    stale: bool = False  # a backward goes through parameters that a step has changed since the forward
    of_amp: bool = False  # the exception came of making or entering a region or scaler
    effects: dict[str, str] = field(default_factory=dict)  # lines with calls out of sight that can train, and the calls
    warned: dict[str, set[int]] = field(default_factory=dict)  # by warnings: the lines that have them
    half_losses: dict[str, float] = field(default_factory=dict)  # lines that scale float16 losses, and the start scale
    unsure_losses: dict[str, str] = field(default_factory=dict)  # lines with losses that may be float16, and the calls
    not_run: dict[str, tuple[str, str]] = field(default_factory=dict)  # by lines: calls for losses, and how
    unseen_regions: dict[str, str] = field(default_factory=dict)  # lines with contexts out of sight, named of autocast
    unscaled: str = ""  # a line that has a loss in float16 that no scaler scales, in words
    unsure_dtype: str = ""  # the same of a line that makes a region whose dtype is out of sight
    unseen_model: bool = False  # one was run whose own regions can't be seen
    by_accelerate: bool = False  # accelerate scales the loss, and computes the models that it prepared in a region
    assumed: dict[str, str] = field(
        default_factory=dict
    )  # what says a precision out of sight, and what it is taken for
    remade: int = 0  # how often a scaler was made by the same line, less once

    @property
    def label(self) -> str:
        """The answers in words."""
        return said(self.answers, self.sayings)


def judge(paths: list[Path], *, failed: str, guessed: set[str], missing: list[str]) -> Judged:
    """What the paths of a step show.

    `failed`: why the step, or one of its paths, can't be followed. `guessed`: models that may be any optimizer's.
    `missing`: events that no path came to, a phrase each.
    """
    if failed and not paths:
        return Judged(UNKNOWN, reason=failed)
    found = _judge(paths, failed=failed, guessed=guessed, missing=missing)
    found.unscaled = next((_where(each.unscaled, each) for each in paths if each.unscaled and not each.none_used), "")
    found.not_run = _not_run(paths)
    found.unseen_region = _unseen_region(paths)
    used = next((each for each in paths if each.none_used), None)
    if used is not None:
        found.none_used = _where(used.none_used, used)
    return found


def _where(text: str, path: Path) -> str:
    """What a path shows, with the conditions under which it is taken."""
    return f"{text} where {path.label}" if path.label else text


def _unseen_region(paths: list[Path]) -> str:
    """The first context that may be a region, in words: not where AMP is off, if it is a region where AMP is on."""
    seen = any(each.observed.regions for each in paths)
    for each in paths:
        for where, text in each.unseen_regions.items() if not seen or any(each.observed.enabled) else ():
            return f"{where}: amplint can't see what {_short(text)} does"
    return ""


def _judge(paths: list[Path], *, failed: str, guessed: set[str], missing: list[str]) -> Judged:
    used = [each.none_used for each in paths if each.none_used]
    paths = [each for each in paths if not each.none_used]
    if used and not paths:
        return Judged(UNKNOWN, reason=f"{used[0]} in each run: amplint can't see what the program uses instead")
    seen = [each for each in paths if not each.effects]
    effects = _unseen_effects(paths)
    if paths and not seen:
        return Judged(UNKNOWN, reason=effects[0])
    paths = _that_train(seen)
    told, reason = _by_who_owns_what(paths, guessed)
    unfollowed = next(filter(None, [failed, *missing, *effects]), "")
    if told:
        return replace(_wrong(paths, told), unfollowed=unfollowed)
    if reason := reason or _why_nothing_is_compared(paths) or unfollowed:
        return Judged(UNKNOWN, reason=reason)
    return _right(paths)


def _unseen_effects(paths: list[Path]) -> list[str]:
    """The calls that may train where that can't be seen, in words."""
    return [
        f"{where}: amplint can't see what {_short(text)} does" for each in paths for where, text in each.effects.items()
    ]


def _that_train(paths: list[Path]) -> list[Path]:
    """Where only some conditions lead to a backward, the paths with these: without one nothing is trained."""
    return [each for each in paths if each.reference_backwards or each.reference_end] or paths


def _wrong(paths: list[Path], told: list[tuple[Path, Fault]]) -> Judged:
    """What is known of a step that has faults."""
    shown: dict[str, list[str]] = {each.label: [] for each in paths}
    for path, fault in told:
        shown[path.label].append(fault.what)
    answers = {id(path): path.answers for path, _ in told}
    parts = {each.label: _parts(each, shown[each.label]) for each in paths}
    worst = [fault._replace(path=_conditions(fault, told, paths)) for fault in _worst([fault for _, fault in told])]
    differs = next(filter(None, (_first_wrong(path, parts[path.label]) for path, _ in told)), "")
    found = Judged(WRONG, worst, paths=shown, answers=list(answers.values()), warned=_warned(paths), parts=parts)
    return replace(found, differs=differs, failing=all(path.fails for path, _ in told))


def _conditions(fault: Fault, told: list[tuple[Path, Fault]], paths: list[Path]) -> str:
    """The conditions under which a fault shows, in words: without those that no run needs to show it.

    What is assumed is one that is needed, unless a run shows the fault without it.
    A precision out of sight is one of them: the runs have what it is taken for.
    """
    path = next(path for path, each in told if each is fault)
    shown = {id(each): each.answers for each, other in told if other.what == fault.what}
    others = [each.answers for each in paths if id(each) not in shown]
    needed = path.answers
    for question in reversed(path.answers):
        fewer = {each: answer for each, answer in needed.items() if each != question}
        is_needed = question in path.assuming and not _is_had(fewer, [*shown.values()], without=question)
        if not is_needed and not _may_have(fewer, others):
            needed = fewer
    assumed = [] if fault.shows == WARNING else [f"{named} is {taken}" for named, taken in path.assumed.items()]
    beyond = fault.path.removeprefix(path.label).removeprefix(", ")
    return ", ".join(filter(None, [*assumed, said(needed, path.sayings), beyond]))


def _is_had(answers: dict[str, Any], by: list[dict[str, Any]], *, without: str) -> bool:
    """Whether one of some runs has these answers, and is asked nothing of another question."""
    return any(answers.items() <= each.items() and without not in each for each in by)


def _may_have(answers: dict[str, Any], by: list[dict[str, Any]]) -> bool:
    """Whether one of some runs has none but these answers, or is not asked: what it does, these don't rule out."""
    return any(all(each.get(question, answer) == answer for question, answer in answers.items()) for each in by)


def _first_wrong(path: Path, parts: dict[str, tuple[int, int]]) -> str:
    """The line of the first step or clip of a path whose gradients are not the reference's; "": there is none."""
    places = path.observed.places
    wrong = [places[part][at] for part, (_, at) in parts.items() if 0 <= at < len(places.get(part, ()))]
    return min(wrong)[1] if wrong else ""


def _right(paths: list[Path]) -> Judged:
    """What is known of a step without faults, if a path of it was compared with the reference."""
    compared = [each.observed for each in paths if each.observed.gradient.count]
    if not compared:
        return Judged(UNKNOWN, reason="no step could be compared with the reference")
    numbers = show("gradient", compared[0], compared[0]).text
    parts = {each.label: _parts(each, ()) for each in paths}
    shown: dict[str, list[str]] = {each.label: [] for each in paths}
    return Judged(RIGHT, numbers=numbers, paths=shown, parts=parts, unseen=_out_of_sight(paths))


def _out_of_sight(paths: list[Path]) -> str:
    """What a step may do wrong though nothing of it shows, in words."""
    for path in paths:
        for where, call in path.unsure_losses.items():
            return f"{where}: amplint can't see whether {_short(call)} gives a float16 loss"
    unsure = next((each.unsure_dtype for each in paths if each.unsure_dtype), "")
    if unsure:
        return unsure
    scaled = any(each.unseen_model and any(each.observed.enabled) for each in paths)
    if scaled and not any(each.observed.regions or each.unseen_regions or each.by_accelerate for each in paths):
        return "the step has a scaler and no region: amplint doesn't look into the model, which may have one"
    assumed = {named: taken for each in paths for named, taken in each.assumed.items()}
    return next((f"amplint can't see {named}: it is taken for {taken}" for named, taken in assumed.items()), "")


def _not_run(paths: list[Path]) -> list[str]:
    """The losses of half precision that the program computes and no run has, a sentence for each line."""
    found = {where: each for path in paths for where, each in path.not_run.items()}
    return [f"{where}: {_short(text)} {how}" for where, (text, how) in found.items()]


def _by_who_owns_what(paths: list[Path], guessed: set[str]) -> tuple[list[tuple[Path, Fault]], str]:
    """The faults that don't hang on what the bench has guessed of models and optimizers, and why others are none."""
    faults = [(path, each) for path in paths for each in _faults(path)]
    reason = ""
    if any(_is_of_stale(path, each) for path, each in faults):
        faults = [(path, each) for path, each in faults if not _is_of_stale(path, each)]
        reason = (
            "with verify's stand-ins, a backward pass uses parameters that a step has changed since the forward pass"
        )
    if guessed and any(each.shows in _BY_OWNERSHIP for _, each in faults):
        faults = [(path, each) for path, each in faults if each.shows not in _BY_OWNERSHIP]
        reason = f"amplint can't see which optimizer has the parameters of {min(guessed)}"
    return faults, reason


def _is_of_stale(path: Path, fault: Fault) -> bool:
    """Whether a fault hangs on what a backward through changed parameters gives.

    What a step takes that goes past the scaler of its own optimizer doesn't.
    """
    bypassed = fault.shows == "skips" and any(each.bypassed for each in path.overflows)
    return path.stale and fault.shows in _BY_OWNERSHIP and not bypassed


def _why_nothing_is_compared(paths: list[Path]) -> str:
    """What a path does without AMP either, so that it can't be compared; "": they all can."""
    ended = next((each.reference_end for each in paths if each.reference_end), "")
    if ended:
        return f"with verify's stand-ins the step also fails without AMP: {ended}"
    for what, labels in (
        ("no step has finite gradients", [each.label for each in paths if each.not_finite]),
        ("no gradient reaches an optimizer's step", [each.label for each in paths if each.idle]),
    ):
        if labels:
            return f"with verify's stand-ins {what}{f' where {labels[0]}' if labels[0] else ''}, even without AMP"
    return ""


def _parts(path: Path, wrong: Sequence[str]) -> dict[str, tuple[int, int]]:
    """What was compared on a path, how often, and which of these was wrong first, of observables that are `wrong`."""
    observed = path.observed
    found = {part: (each.count, each.first(observed.tolerance)) for part, each in observed.parts.items()}
    if observed.late or observed.beyond_bound > 1 + observed.tolerance.worst:
        found |= dict.fromkeys(("gradient: change after the step", "update: change after the step"), (1, 0))
    if observed.reused:
        found["update: used twice"] = 1, 0
    return {part: (count, at if part.partition(":")[0] in wrong else -1) for part, (count, at) in found.items()}


def _warned(paths: list[Path]) -> dict[str, list[int]]:
    """By what warnings say, as faults have it, the lines that have them on any path."""
    found: dict[str, set[int]] = {}
    for path in paths:
        for warning, rows in path.warned.items():
            found.setdefault(without_places(warning), set()).update(rows)
    return {warning: sorted(rows) for warning, rows in found.items()}


def _worst(faults: list[Fault]) -> list[Fault]:
    """One fault an observable, of the first path on which it shows; of warnings each."""
    found: dict[str, Fault] = {}
    for each in faults:
        found.setdefault(each.text if each.shows == WARNING else each.shows, each)
    return list(found.values())


def _faults(path: Path) -> Iterator[Fault]:
    """What is wrong on a path."""
    observed = path.observed
    raised = observed.end == "exception" and (path.of_amp or _kind(_said(observed)) != _kind(path.reference_end))
    if path.reference_end and not raised:
        return
    if raised:
        yield Fault("exception", without_places(observed.detail), path.label)
    elif path.caught and (not path.fails or observed.steps != path.reference_steps):
        # What a handler catches of its own update is no fault, if training goes on as without AMP.
        yield Fault("exception", f"{without_places(path.caught[0])}, which the program catches", path.label)
    elif not path.stale and observed.steps != path.reference_steps:
        said = f"{observed.steps} steps are requested, {path.reference_steps} without AMP"
        yield Fault("update", said, path.label)
    for each in observed.warnings:
        if ABOUT_AMP.match(each):
            yield Fault(WARNING, without_places(each), path.label)
    for where, start in [*path.half_losses.items()][:1]:
        said = (
            f"{where}: the loss is float16, and at a scale of {start:g} its gradient is inf: the first step is skipped"
        )
        yield Fault("dtype", said, path.label)
    if path.never:
        said = "the loss is not finite at any scale, and the scaler skips every step; in float32 the loss is finite"
        yield Fault("gradient", said, path.label)
    yield from _unlike_the_reference(path)
    yield from _at_overflows(path)
    if path.free is not None and (shown := show("learning", path.free, path.free)).misbehaves:
        yield Fault("learning", shown.text, path.label)
    if path.remade:
        text = f"a new scaler is created {path.remade + 1} times, and each time its scale starts again"
        yield Fault("scale", text, path.label)


def _unlike_the_reference(path: Path) -> Iterator[Fault]:
    """What a path's gradients, updates and regions are against the run without AMP."""
    observed = _ended_well(path.observed)
    for shows in ("gradient", "update", "autocast-state"):
        if shows == "update" and not observed.update.count:
            continue
        shown = show(shows, observed, observed)
        if shown.misbehaves:
            yield Fault(shows, shown.text, path.label)
        elif shows == "gradient" and observed.late:
            yield Fault(shows, "gradients are clipped or changed after the step that used them", path.label)


def _at_overflows(path: Path) -> Iterator[Fault]:
    """What goes wrong where gradients overflow."""
    label = f"{path.label}, with an overflow" if path.label else "with an overflow"
    for each in path.beyond_caught[:1]:
        yield Fault("exception", f"{without_places(each)}, which the program catches", label)
    for beyond in path.overflows:
        if beyond.end == "exception":
            yield Fault("exception", without_places(beyond.detail), label)
        # With several scalers, whose update has to answer can't be told.
        elif beyond.carried or (
            beyond.overflows and (beyond.overflows_applied or not beyond.finite or not beyond.backoffs)
        ):
            yield Fault("skips", show("skips", beyond, beyond).text, path.label)


def _said(observed: Observed) -> str:
    """What an exception says, without its place."""
    return observed.detail.partition(": ")[2]


def _kind(said: str) -> str:
    """The exception's type, and what comes before numbers in what it says."""
    return said[:60]


def _ended_well(observed: Observed) -> Observed:
    """For what was observed until an exception."""
    return replace(observed, end="finished")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
