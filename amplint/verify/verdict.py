"""The verdict on a step of a program: its runs before and after the fix, beside what was found in its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from amplint.verify.judge import RIGHT, UNKNOWN, WARNING, WRONG, Judged
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
    """The verdict on a step: confirmed (misbehaves before, right after), clean (right as it stands), misbehaves (and no
    fix changes it), refuted (the fix leaves it wrong, or makes it so) or not checkable. `reason` says why.
    """

    verdict: str
    reason: str = ""


def decide(before: Judged, after: Judged | None, fixed: Iterable[str], left: Iterable[str]) -> Verdict:
    """The verdict. `after` is None where no fix touches the step; `fixed` and `left` are codes of its findings."""
    if before.state == UNKNOWN:
        return Verdict(NOT_CHECKABLE, before.reason)
    if after is None:
        return Verdict(CLEAN if before.state == RIGHT else MISBEHAVES)
    if after.state == UNKNOWN:
        return Verdict(NOT_CHECKABLE, f"after the fix: {after.reason}")
    was, now = ({each.shows for each in half.faults} for half in (before, after))
    # What other findings of the step explain may stay, and an exception may have hidden it.
    explained = shown_by(left)
    if new := now - was - (explained if "exception" in was else set()):
        return Verdict(REFUTED, f"the fix brings something new: {_first(after, new)}; {REPORT}")
    if before.state == RIGHT:
        return Verdict(CLEAN)
    gone = was - now
    if not _warnings(before) <= _warnings(after):
        gone.add(WARNING)  # what is left is about something else
    if still := (now & shown_by(fixed)) - explained - gone:
        return Verdict(REFUTED, f"the fix leaves it wrong: {_first(after, still)}; {REPORT}")
    if gone:
        return Verdict(CONFIRMED, f"not fixed: {', '.join(sorted(now))}" if now else "")
    return Verdict(MISBEHAVES, "the fix is about something that the run doesn't show")


def _warnings(judged: Judged) -> set[str]:
    return {each.text for each in judged.faults if each.shows == WARNING}


def fewer(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """The codes that occur less often after."""
    return {code for code in before if after.count(code) < before.count(code)}


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
