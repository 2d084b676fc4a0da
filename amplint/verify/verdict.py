"""The verdict on a step of a program: its runs before and after the fix, beside what was found in its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from amplint.verify.judge import RIGHT, UNKNOWN, WRONG, Judged
from amplint.verify.shows import SHOWS

CONFIRMED, CLEAN, REFUTED, MISBEHAVES, NOT_CHECKABLE = "confirmed", "clean", "refuted", "misbehaves", "not checkable"
NO_STEP = "no training step"  # of a function that has AMP, and trains nothing
REPORT = "please report it: https://github.com/amplint/amplint/issues"


class Found(NamedTuple):
    """A finding in a step. `shown`: whether the run shows it too, None where no run can."""

    code: str
    row: int
    message: str
    fixed: bool
    shown: bool | None


class Verdict(NamedTuple):
    """The verdict on a step, and the `reason` for it.

    Confirmed: misbehaves before, and is right after the fix in everything that was compared. Clean: right as it is.
    Misbehaves: no fix changes that, or something is still wrong after it. Refuted: the fix leaves wrong what it is for,
    or makes something wrong. Not checkable.
    """

    verdict: str
    reason: str = ""


def decide(
    before: Judged, after: Judged | None, fixed: Iterable[str], left: Iterable[str], fixed_rows: Set[int] = frozenset()
) -> Verdict:
    """The verdict. `after` is None where no fix touches the step; `fixed` and `left` are codes of its findings.

    `fixed_rows`: the lines before the fix of those that are fixed.
    """
    if before.state == UNKNOWN:
        return Verdict(NOT_CHECKABLE, before.reason)
    if after is None:
        return Verdict(CLEAN if before.state == RIGHT else MISBEHAVES)
    if after.state == UNKNOWN:
        return Verdict(NOT_CHECKABLE, f"after the fix: {after.reason}")
    if after.state == RIGHT:
        return Verdict(CONFIRMED if before.state == WRONG else CLEAN)
    explained = shown_by(left)
    if new := _new(before, after, explained):
        return Verdict(REFUTED, f"the fix brings something new: {new}; {REPORT}")
    was, now = ({each.what: each.shows for each in half.faults} for half in (before, after))
    gone = {shows for what, shows in was.items() if what not in now}
    others = {what for what in now if _is_of_others(what, before, after, fixed_rows)}
    still = {shows for what, shows in now.items() if what not in others}
    if still := still & shown_by(fixed) - explained - gone:
        return Verdict(REFUTED, f"the fix leaves it wrong: {_first(after, still)}; {REPORT}")
    if mended := gone - {*now.values()}:
        return Verdict(MISBEHAVES, f"the fix mends {_listed(mended)}, but not {_listed(now.values())}")
    gone |= {now[what] for what in others if _rows(after, what) < _rows(before, what)}
    if gone:
        return Verdict(MISBEHAVES, f"the fix mends one {_listed(gone)}, and another one is left")
    return Verdict(MISBEHAVES, "the fix is about something that the run doesn't show")


def _is_of_others(what: str, before: Judged, after: Judged, fixed_rows: Set[int]) -> bool:
    """Whether a warning that is left is of lines that had it before, and that no fix is for: there are no more."""
    had = before.warned.get(_said(what), ())
    return 0 < _rows(after, what) <= sum(row not in fixed_rows for row in had)


def _rows(judged: Judged, what: str) -> int:
    """How many lines have a warning."""
    return len(judged.warned.get(_said(what), ()))


def _new(before: Judged, after: Judged, explained: Set[str]) -> str:
    """What is wrong after the fix and was not before, in words; an exception may have hidden what is `explained`."""
    known = {each.what for each in before.faults}.union(*before.paths.values())
    words = {each.what: each.text for each in reversed(after.faults)}
    for label, found in (after.paths or {"": [*words]}).items():
        had = known if label not in before.paths else {*before.paths[label]}
        # What comes in the place of an exception may have been behind it, or have the same cause.
        hidden = {*explained, "exception"} if any(_shows(each) == "exception" for each in had) else set()
        for each in found:
            if each not in had and _shows(each) not in hidden:
                return words.get(each, each)
    return ""


def _shows(what: str) -> str:
    return what.partition(":")[0]


def _said(what: str) -> str:
    return what.partition(": ")[2]


def _listed(observables: Iterable[str]) -> str:
    return " and ".join(sorted(set(observables)))


def shown_by(codes: Iterable[str]) -> set[str]:
    """The observables by which a run shows what rules say."""
    return {each for code in codes if code in SHOWS for each in SHOWS[code].observables}


def _first(judged: Judged, observables: set[str]) -> str:
    return next(each.text for each in judged.faults if each.shows in observables)


def compared(judged: Judged, findings: Sequence[tuple[str, int, str, bool]]) -> list[Found]:
    """The findings of a step (code, line, message, whether it is fixed), each with whether the run shows it."""
    shown = {each.shows for each in judged.faults}
    found = []
    for code, row, message, fixed in findings:
        rule = SHOWS.get(code)
        can = rule is not None and rule.observables and judged.state in (RIGHT, WRONG)
        found.append(Found(code, row, message, fixed, bool(shown & set(rule.observables)) if can and rule else None))
    return found


def unexplained(judged: Judged, findings: Iterable[Found]) -> list[str]:
    """The observables that show something which no finding of the step is about."""
    known = shown_by(each.code for each in findings)
    return list(dict.fromkeys(each.shows for each in judged.faults if each.shows not in known))
