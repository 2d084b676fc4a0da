"""The verdict on a step of a program: its runs before and after the fix, beside what was found in its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from amplint.guide.rule_pages import SEEN_AS
from amplint.registry import shows_of
from amplint.verify.steps.judge import LINE, RIGHT, UNKNOWN, WARNING, WRONG, Fault, Judged

CONFIRMED, CLEAN, REFUTED, MISBEHAVES, NOT_CHECKABLE = "confirmed", "clean", "refuted", "misbehaves", "not checkable"
NO_STEP = "no training step"  # of a function that has AMP, and trains nothing
_DEPRECATED = "only a deprecation warning is left: what was compared is right"
# Says a finding about None that is used as a scaler, or about a variable without a scaler.
_RAISES = re.compile(r"raises (AttributeError|NameError|UnboundLocalError)")
_RAISED = re.compile(r"line (\d+): ")
_WITH_LINES = {"exception", WARNING}
_LEFT = "is left, and the run can't show it"
_FAILING = (
    "the fix repairs its fault; what is left shows only where a call runs out of memory, which the program catches"
)
REPORT = "please report it: https://github.com/amplint/amplint/issues"


class Found(NamedTuple):
    """A finding in a step. `shown`: whether the run shows it too, None where no run can.

    `untried`: it has an unsafe fix, and those are not asked for.
    """

    code: str
    row: int
    message: str
    fixed: bool
    shown: bool | None
    untried: bool = False


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
        if before.state == RIGHT:
            return Verdict(CLEAN, before.unseen)
        if not _is_deprecated_only(before):
            return Verdict(MISBEHAVES)
        return Verdict(NOT_CHECKABLE, before.unfollowed) if before.unfollowed else Verdict(CLEAN, _DEPRECATED)
    if after.state == UNKNOWN:
        if not _warns_only(before):
            return Verdict(MISBEHAVES, f"whether the fix repairs it is not checkable: {after.reason}")
        return Verdict(NOT_CHECKABLE, f"after the fix: {after.reason}")
    if after.state == RIGHT:
        if before.state == RIGHT:
            return Verdict(CLEAN, after.unseen)
        return Verdict(CONFIRMED, "; ".join(filter(None, (_only_warned(before), after.unseen))))
    if after.failing and before.state == WRONG and not before.failing:
        return Verdict(MISBEHAVES, _FAILING)
    explained = shown_by(left)
    if new := _new(before, after, explained):
        return Verdict(REFUTED, f"the fix introduces a new fault: {new}; {REPORT}")
    change = _change(before, after, fixed_rows)
    if (wrong := _left_wrong(after, change, fixed, explained)) is not None:
        return Verdict(REFUTED, f"the fix doesn't repair its fault: {wrong}; {REPORT}")
    mended = _mended(before, change)
    if not _is_deprecated_only(after):
        return Verdict(MISBEHAVES, mended)
    if not (change.gone or change.fewer or change.fewer_lines):
        return Verdict(CLEAN, _DEPRECATED)
    return Verdict(CONFIRMED, _DEPRECATED if _is_deprecated_only(before) else f"{mended}; {_DEPRECATED}")


def _is_deprecated_only(judged: Judged) -> bool:
    """Whether all that is wrong is that torch warns of old names."""
    return bool(judged.faults) and all(each.shows == WARNING and "deprecated" in each.text for each in judged.faults)


def _warns_only(judged: Judged) -> bool:
    """Whether nothing is wrong but what torch warns of."""
    return all(each.shows == WARNING for each in judged.faults)


def _only_warned(before: Judged) -> str:
    """What a fix mends that ends nothing but warnings, in words; "": it mends more."""
    if not _warns_only(before):
        return ""
    deprecated = all("deprecated" in each.text for each in before.faults)
    return f"only a {'deprecation ' if deprecated else ''}warning disappears: what was compared was already right"


def ends_only(before: Judged, after: Judged) -> bool:
    """Whether a fix ends a part of what a step does wrong, and all else that was compared is as it was.

    An exception that is left, or a path that can't be followed, hides what comes after it.
    """
    if before.state != WRONG or after.state != WRONG or after.unfollowed or exception_left(after):
        return False
    was, now = _wrong(before), _wrong(after)
    if was.keys() != now.keys() or not is_no_worse(after, before) or not _numbers(after) <= _numbers(before):
        return False
    warned = {_said(what) for wrong in was.values() for what in wrong if _shows(what) == WARNING}
    return was != now or any(len(after.warned.get(said, ())) < len(before.warned.get(said, ())) for said in warned)


def exception_left(after: Judged) -> str:
    """An exception that ends a step after a fix, in words; "": none does."""
    return next((each.text for each in after.faults if each.shows == "exception"), "")


def is_no_worse(judged: Judged, than: Judged | None) -> bool:
    """Whether a step does nothing wrong, on any path or line, that it doesn't with other fixes."""
    if judged.state == RIGHT:
        return True
    if than is None or judged.state != WRONG or than.state != WRONG:
        return False
    now, most = _wrong(judged), _wrong(than)
    return all(wrong <= most.get(label, set()) for label, wrong in now.items()) and all(
        len(rows) <= len(than.warned.get(said, ())) for said, rows in judged.warned.items()
    )


def _numbers(judged: Judged) -> set[tuple[str, str]]:
    """What is wrong, with its numbers and without its lines, which fixes move."""
    return {(each.shows, LINE.sub("", each.text)) for each in judged.faults}


class _Change(NamedTuple):
    """What the fix does to what is wrong, all as `Fault.what`."""

    gone: set[str]  # from all paths
    fewer: set[str]  # gone from a path that is run after the fix, too
    left: set[str]  # on some path after the fix
    others: set[str]  # of those that are left the warnings of lines that no fix is for
    fewer_lines: set[str]  # the others that fewer lines have after the fix


def _change(before: Judged, after: Judged, fixed_rows: Set[int]) -> _Change:
    was, now = _wrong(before), _wrong(after)
    left = {each for wrong in now.values() for each in wrong}
    others = {what for what in left if _is_of_others(what, before, after, fixed_rows)}
    return _Change(
        gone={each for wrong in was.values() for each in wrong if each not in left},
        fewer={each for label, wrong in was.items() if label in now for each in wrong if each not in now[label]},
        left=left,
        others=others,
        fewer_lines={what for what in others if _rows(after, what) < _rows(before, what)},
    )


def _left_wrong(after: Judged, change: _Change, fixed: Iterable[str], explained: Set[str]) -> str | None:
    """What is left of something that a fix is for and mends nowhere, in words."""
    mended = {*map(_shows, change.gone | change.fewer)}
    for code in fixed:
        still = {*map(_shows, change.left - change.others)} & shown_by([code]) - explained
        if still and not mended & shown_by([code]):
            return _first(after, still)
    return None


def _mended(before: Judged, change: _Change) -> str:
    """What the fix mends of a step that misbehaves after it, in words."""
    parts = {part for compared in before.parts.values() for part in compared}
    told = {each for each in change.gone if each in parts or _shows(each) not in {*map(_shows, change.left)}}
    if told:
        return f"gone after the fix: {_listed(told, change.left)}; left: {_listed(change.left, told)}"
    if fewer := change.fewer | change.fewer_lines:
        return f"gone after the fix in one place, and left in another: {_listed(fewer, ())}"
    return "the run doesn't show what the fix repairs"


def _wrong(judged: Judged) -> dict[str, set[str]]:
    """What is wrong on each path, as `Fault.what`; of what has parts those of them that are."""
    found: dict[str, set[str]] = {}
    for label, wrong in (judged.paths or {"": [each.what for each in judged.faults]}).items():
        parts = {part for part, (_, first) in judged.parts.get(label, {}).items() if first >= 0}
        found[label] = parts.union(each for each in wrong if each not in {*map(_shows, parts)})
    return found


def _is_of_others(what: str, before: Judged, after: Judged, fixed_rows: Set[int]) -> bool:
    """Whether a warning that is left is of lines that had it before, and that no fix is for: there are no more."""
    had = before.warned.get(_said(what), ())
    return 0 < _rows(after, what) <= sum(row not in fixed_rows for row in had)


def _rows(judged: Judged, what: str) -> int:
    """How many lines have a warning."""
    return len(judged.warned.get(_said(what), ()))


def _new(before: Judged, after: Judged, explained: Set[str]) -> str:
    """What is wrong after the fix and was not before, in words; an exception may have hidden what is `explained`."""
    was = _wrong(before)
    known = {each.what for each in before.faults}.union(*was.values())
    words = {each.what: each.text for each in reversed(after.faults)}
    for label, wrong in _wrong(after).items():
        had = was.get(label, known)
        observables = {*map(_shows, had)}
        # What comes in the place of an exception may have been behind it, or have the same cause.
        raised = "exception" in observables
        hidden = {*explained, "exception"} if raised else explained & observables
        for each in sorted(wrong - had):
            if _shows(each) in hidden or (raised and _was_behind(each, label, before, after)):
                continue
            return words.get(each, words.get(_shows(each), each))
    return ""


def _was_behind(what: str, label: str, before: Judged, after: Judged) -> bool:
    """Whether what is wrong after the fix on a path has no right like before it: that had ended by an exception."""
    if label not in before.parts:
        return False
    if what in ("skips", "learning", "update"):  # only a run that comes to its end says so
        return True
    _, first = after.parts.get(label, {}).get(what, (0, -1))
    return first >= before.parts[label].get(what, (0, -1))[0]


def _shows(what: str) -> str:
    return what.partition(":")[0]


def _said(what: str) -> str:
    return what.partition(": ")[2]


def _listed(whats: Iterable[str], others: Iterable[str]) -> str:
    """Observables, one by one; with their parts where `others` are parts of the same."""
    found: dict[str, list[str]] = {}
    for each in sorted(whats):
        found.setdefault(_shows(each), []).append(_said(each))
    shared = {*map(_shows, others)}
    return ", ".join(
        f"{SEEN_AS[shows]} ({', '.join(parts)})" if shows in shared and any(parts) else SEEN_AS[shows]
        for shows, parts in found.items()
    )


def shown_by(codes: Iterable[str]) -> set[str]:
    """The observables by which a run shows what rules say."""
    return {each for code in codes if (shows := shows_of(code)) for each in shows.observables}


def _first(judged: Judged, observables: set[str]) -> str:
    return next(each.text for each in judged.faults if each.shows in observables)


def compared(judged: Judged, findings: Sequence[tuple[str, int, str, bool]]) -> list[Found]:
    """The findings of a step (code, line, message, whether it is fixed), each with whether the run shows it."""
    places = [(code, row) for code, row, _, _ in findings]
    found = []
    for code, row, message, fixed in findings:
        rule = shows_of(code)
        can = rule is not None and rule.observables and judged.state in (RIGHT, WRONG)
        is_shown = bool(seen_as(judged, code, row, places)) if can else None
        if rule is not None and _is_raised(row, message, judged.none_used):
            is_shown = True
        found.append(Found(code, row, message, fixed, is_shown))
    return found


def seen_as(judged: Judged, code: str, row: int, places: Sequence[tuple[str, int]]) -> set[str]:
    """What a run shows of the finding of a line, as `Fault.what`; `places`: codes and lines of the step's findings.

    What raises or warns on the line of one finding doesn't show another one. What does so on no finding's line shows a
    finding on whose own line nothing does.
    """
    seen = [each for each in judged.faults if each.shows in shown_by([code])]
    lines = {each.what: _lines(judged, each) for each in seen if each.shows in _WITH_LINES}
    own = {what for what, rows in lines.items() if row in rows}
    other = {each.what for each in seen if each.what in lines and not lines[each.what] <= _rows_of(places, each.shows)}
    return {each.what for each in seen if each.what not in lines} | (own or other)


def _lines(judged: Judged, fault: Fault) -> set[int]:
    """The lines that raise or warn as a fault says; 0 for one of another file."""
    if fault.shows == WARNING:
        return {*judged.warned.get(_said(fault.what), [0])}
    raised = _RAISED.match(fault.text)
    return {int(raised[1]) if raised else 0}


def _rows_of(places: Sequence[tuple[str, int]], shows: str) -> set[int]:
    """The lines of the findings that this can show."""
    return {row for code, row in places if shows in shown_by([code])}


def _is_raised(row: int, message: str, none_used: str) -> bool:
    """Whether a finding says that something raises which has raised in a run."""
    kind = _RAISES.search(message)
    if kind is None or not none_used:
        return False
    unbound = kind[1] != "AttributeError"
    return none_used.startswith(f"line {row}: {kind[1]}:") if unbound else "has no value" not in none_used


def with_errors(verdict: Verdict, judged: Judged, errors: Sequence[Found]) -> Verdict:
    """The verdict on a step in which the linter finds `errors`, or what a run shows.

    With one that no run can show it isn't right as far as can be told: not after the fixes if it is left, and not
    before them either. With one that a run shows under conditions that were not compared, it is wrong.
    """
    if verdict.verdict not in (CONFIRMED, CLEAN):
        return verdict
    for each in errors:
        shows = shows_of(each.code)
        if (each.fixed and verdict.verdict == CONFIRMED) or shows is None or shows.observables:
            continue
        if each.shown:
            return Verdict(MISBEHAVES, judged.none_used)
        is_left = "is reported, and the run can't show it, nor what its fix does" if each.fixed else _LEFT
        return Verdict(NOT_CHECKABLE, f"line {each.row}: {each.code} {is_left}: {shows.why}")
    return verdict


def unless_unscaled(verdict: Verdict, last: Judged) -> Verdict:
    """The verdict on a step of which `last` is known: what runs in float16 without a scaler can't be called right."""
    if verdict.verdict not in (CONFIRMED, CLEAN) or not last.unscaled:
        return verdict
    shows = shows_of("AMP207")
    why = shows.why if shows else ""
    return Verdict(NOT_CHECKABLE, f"{last.unscaled}: {why}")


def with_out_of_sight(verdict: Verdict, last: Judged) -> Verdict:
    """The verdict on a step of which `last` is known, with what no run has had of it.

    A region that can't be seen leaves nothing of a clean step; a loss that is not run is another one than the bench's.
    """
    if verdict.verdict not in (CONFIRMED, CLEAN):
        return verdict
    if last.unseen_region and verdict.verdict == CLEAN:
        return Verdict(NOT_CHECKABLE, last.unseen_region)
    told = [verdict.reason, last.unseen_region, *last.not_run[:1]]
    if (others := len(last.not_run) - 1) > 0:
        told.append(f"nor {'is 1 other' if others == 1 else f'are {others} others'}")
    if last.not_combined:
        told.append(f"combinations of conditions and assumptions that were not run: {last.not_combined}")
    return Verdict(verdict.verdict, "; ".join(filter(None, told)))


def with_place(verdict: Verdict, before: Judged, findings: Iterable[Found]) -> Verdict:
    """The verdict on a step that misbehaves, with the line where that begins, if nothing else names a cause."""
    is_told = verdict.verdict != MISBEHAVES or verdict.reason or any(each.shown for each in findings)
    if is_told or not before.differs:
        return verdict
    return Verdict(MISBEHAVES, f"{before.differs} is the first that differs from the run without AMP")


def unexplained(judged: Judged, findings: Iterable[Found]) -> list[str]:
    """The observables that show something which no finding of the step is about."""
    known = shown_by(each.code for each in findings)
    return list(dict.fromkeys(each.shows for each in judged.faults if each.shows not in known))
