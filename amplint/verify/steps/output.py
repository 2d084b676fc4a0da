"""What `amplint verify` found of training code: a table a step for people, a list of JSON objects for programs."""

from __future__ import annotations

import dataclasses
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amplint.base.about import SCHEMA_VERSION
from amplint.base.paths import absolute, shown
from amplint.base.project_root import NOWHERE, Project, Start, project_of, told
from amplint.registry import shows_of
from amplint.verify.fixtures.output import finite, lines_of
from amplint.verify.steps.judge import UNKNOWN, WARNING
from amplint.verify.steps.looks import Kind
from amplint.verify.steps.verdict import NO_STEP, seen_as, shown_by

if TYPE_CHECKING:
    from amplint.verify.steps.judge import Judged
    from amplint.verify.steps.verdict import Found
    from amplint.verify.steps.verify import Checked, StepRow

_HEAD = ("check", "before", "after", "reference")
# What a right step shows; the numbers are relative to it.
_REFERENCE = {
    "exception": "none",
    "warning": "none",
    "gradient": "1.00 x, off by 0%",
    "update": "off by 0%",
    "autocast-state": "no region open",
    "dtype": "a float32 loss",
    "skips": "skipped, scale backed off",
    "learning": "as without AMP",
    "scale": "one scaler",
}
_KINDS = {Kind.NONE: "not a step: ", Kind.HIDDEN: "not checkable: "}  # the others say it themselves
_LINE = re.compile(r"\bline (\d+)\b(?! of )")  # of the file itself
_ROUNDS = re.compile(r"\brounded\b")
_LEAST = 20  # characters of a column of words


def as_tables(
    rows: Sequence[StepRow], width: int = 120, *, explain: bool = False, files: Iterable[Checked] = (), failed: int = 0
) -> str:
    """A block for each step, and a sum, which counts those of the `files` that have none, by why, and what `failed`."""
    blocks = ["\n".join(_block(row, width, explain=explain)) + "\n" for row in rows]
    return "\n".join([*blocks, _sum(rows, files, failed)]) + "\n"


def looked_at(checked: Mapping[str, Checked], start: Start = NOWHERE) -> Iterator[str]:
    """What was looked at in each file, a line each: the functions that have AMP, and why they are steps or not.

    Before the files of a project its folder, and why it is that, for who was started in `start`.
    """
    last: Project | None = None
    for path, found in checked.items():
        project = project_of(os.path.dirname(absolute(path)), start)
        if project != last:
            yield f"project: {told(project)}"
            last = project
        yield from _looked_at(path, found)


def _looked_at(path: str, found: Checked) -> Iterator[str]:
    """What was looked at in a file, a line each."""
    looked = found.looked
    if nothing := _nothing_in(found):
        yield f"{path}: {nothing}"
        return
    read = ", ".join(sorted(shown(each) for each in looked.read))
    yield f"{path}: read{f' with {read}' if read else ''}"
    yield from (f"  {shown(other)} is not read: {why}" for other, why in looked.unread.items())
    if looked.read and not looked.looks and not looked.follow:
        yield "  nothing with AMP in those files is called"
    for each in looked.looks:
        yield f"  {each.row} {each.name}: {_KINDS.get(each.kind, '')}{each.why}"
    yield from (f"  leads to {shown(other)}, which is checked too" for other in looked.follow)


def _nothing_in(found: Checked) -> str:
    """Why there is nothing to look at in a file; "": there is something."""
    looked = found.looked
    if found.has_amp and not looked.looks and not looked.follow and not found.rows:
        return "AMP, but no autocast region and no scaler"
    if not found.has_amp and not looked.follow and not looked.read and not looked.unread:
        return "no AMP"
    return ""


def _block(row: StepRow, width: int, *, explain: bool) -> Iterator[str]:
    where = f"{row.device}{', simulated' if row.simulated else ''}" if row.device else ""
    yield f"{row.path}:{_place(row, row.row)} {row.name}: {row.verdict}{f' ({where})' if where else ''}"
    if row.reason:
        reason = _LINE.sub(lambda found: _line(row, int(found[1])), row.reason)
        yield from textwrap.wrap(reason, width, initial_indent="  ", subsequent_indent="  ")
    cells = list(_cells(row))
    if cells:
        yield from _table(cells, width - 2)
    elif row.before.numbers:
        yield f"  compared with float32: {row.before.numbers}{_rounding(row)}"
    for path in dict.fromkeys(each.path for each in row.before.faults if each.path):
        yield from textwrap.wrap(f"where {path}", width, initial_indent="  ", subsequent_indent="    ")
    for each in row.findings:
        yield f"  {each.code} {_line(row, each.row)}: {_shown(row, each)}{_fixed(row, each)}"
    if row.only_run:
        yield f"  shown only by the run: {', '.join(row.only_run)}"
    if explain:
        yield from _explanation(row)


def _rounding(row: StepRow) -> str:
    """What the difference from float32 is, in words, where there is one."""
    if row.before.numbers.endswith("off by 0%"):
        return ""
    codes = dict.fromkeys(each.code for each in row.findings if _is_of_dtype(each))
    avoidable = f"some of which {' and '.join(codes)} finds avoidable" if codes else "and right"
    return f"; so much is rounding, {avoidable}"


def _is_of_dtype(finding: Found) -> bool:
    """Whether a finding is that something in the step is half: its rounding is in the numbers, and not by itself."""
    return finding.shown is False and "dtype" in shown_by([finding.code])


def _shown(row: StepRow, finding: Found) -> str:
    """Whether the run shows a finding, in words."""
    if _is_of_dtype(finding) and _ROUNDS.search(finding.message):
        return "the run doesn't tell it from other rounding"
    if finding.shown is not None:
        # What is wrong on one device need not be on another: `--device` chooses it.
        where = f" on {row.device}" if row.device else ""
        return "shown by the run" if finding.shown else f"the run{where} doesn't show it"
    shows = shows_of(finding.code)
    if shows is not None and shows.observables:
        return "the step could not be checked"
    return f"no run can show it ({shows.why if shows else 'the rule does not say how'})"


def _fixed(row: StepRow, finding: Found) -> str:
    """What the fixes have done to a finding, in words; empty where it has none that was tried."""
    if not finding.fixed:
        return "; `--unsafe-fixes` tries its fix" if finding.shown and finding.untried else ""
    left = {each.what for each in row.after.faults} if row.after and row.after.state != UNKNOWN else None
    seen = seen_as(row.before, finding.code, finding.row, [(each.code, each.row) for each in row.findings])
    if finding.shown and left is not None and not left & seen:
        return ", gone after the fix"
    return "; not reported after the fixes"


def _cell(row: StepRow, line: int) -> tuple[int | None, int]:
    """The cell of a notebook that has a line of the program, and the line in it."""
    before = [(first, number) for first, number in row.cells if first <= line]
    return (before[-1][1], line - before[-1][0] + 1) if before else (None, line)


def _place(row: StepRow, line: int) -> str:
    cell, line = _cell(row, line)
    return str(line) if cell is None else f"cell {cell}:{line}"


def _line(row: StepRow, line: int) -> str:
    cell, line = _cell(row, line)
    return f"line {line}" if cell is None else f"line {line} of cell {cell}"


def _cells(row: StepRow) -> Iterator[tuple[str, ...]]:
    before, after = (_first_texts(half) for half in (row.before, row.after))
    for what in dict.fromkeys([*before, *after]):
        is_right = "" if row.after is None else _state(row.after)
        yield what[0], before.get(what, "right"), after.get(what, is_right), _REFERENCE.get(what[0], "")


def _first_texts(half: Judged | None) -> dict[tuple[str, str], str]:
    """By what is wrong its first numbers: each warning by itself, of all else one of each kind."""
    found: dict[tuple[str, str], str] = {}
    for each in half.faults if half else ():
        found.setdefault((each.shows, each.what if each.shows == WARNING else ""), each.text)
    return found


def _state(after: Judged) -> str:
    return after.state if after.state != "wrong" else "right"


def _table(cells: Sequence[tuple[str, ...]], width: int) -> Iterator[str]:
    shown = [*range(4)] if any(each[2] for each in cells) else [0, 1, 3]
    rows = [tuple(each[at] for at in shown) for each in (_HEAD, *cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) > width and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    for row in rows:
        yield from (f"  {line}" for line in lines_of(row, widths))


def _explanation(row: StepRow) -> Iterator[str]:
    """What was run, line by line, and what was put in the place of what."""
    if not row.notes:
        return
    halves = [
        f"{'/'.join(half.dtypes)} {when}" for half, when in ((row.before, "before"), (row.after, "after")) if half
    ]
    yield f"  dtype of the losses: {', '.join(halves)}"
    last = max(len(_place(row, number)) for number, _, _ in row.notes)
    yield "  what was run:"
    for number, text, what in row.notes:
        short = text if len(text) <= 70 else f"{text[:67]}..."
        yield f"    {_place(row, number) if number else '':>{last}}  {short}{f'  -> {what}' if what else ''}"


_ELSEWHERE = "has its steps in another file", "have their steps in other files"
_ONLY_NAMES = "has AMP, but no autocast region and no scaler", "have AMP, but no autocast region and no scaler"
_NO_AMP = "has no AMP", "have no AMP"


def _group(file: Checked) -> tuple[str, str] | None:
    """What is said of a file that has no row, of one and of several; None: it has one."""
    if file.rows:
        return None
    if file.looked.follow:
        return _ELSEWHERE
    return _ONLY_NAMES if file.has_amp else _NO_AMP


def _sum(rows: Sequence[StepRow], files: Iterable[Checked], failed: int) -> str:
    counts = Counter(row.verdict for row in rows)
    runs, seconds = sum(row.runs for row in rows), sum(row.seconds for row in rows)
    groups = Counter(filter(None, map(_group, files)))
    unlisted = ", ".join(f"{counted(count, 'file')} {said[count > 1]}" for said, count in sorted(groups.items()))
    if failed:
        unlisted = f"{unlisted}{', ' if unlisted else ''}{counted(failed, 'error')}"
    if not rows:
        return f"nothing {'was checked' if failed else 'to check'}: {unlisted or 'no Python files'}"
    said = ", ".join(
        f"{count} {f'with {verdict}' if verdict == NO_STEP else verdict}" for verdict, count in counts.items()
    )
    said += f"; {unlisted}" if unlisted else ""
    speed = f"; {runs} runs in {seconds:.1f} s, {runs / seconds:,.0f} per second" if seconds else ""
    return f"{said}{speed}"


def counted(count: int, noun: str) -> str:
    """A number with what is counted: `1 file`, `2 files`."""
    return f"{count} {noun}{'s' if count > 1 else ''}"


def as_json(rows: Sequence[StepRow]) -> list[dict[str, Any]]:
    """A list of objects, one a step.

    `path`, `step` (its qualified name) and `line` say which. `verdict` is "confirmed", "clean", "misbehaves", "refuted"
    or "not checkable", `reason` says why, or what is left, else null. `device`, and whether it was `simulated`.
    `before` and `after` (null where no fix touches the step) have a `state` (right, wrong, not checkable) with its
    `reason`, `faults` (`shows`: an observable, `text`: its numbers, `path`: the conditions under which it showed),
    `paths` (for all conditions that were run what is wrong under them), `numbers` where it is right, and the `dtypes`
    of its losses. `findings` have `code`, `row`, `message`, `fixed`, `shown` (null: no run can, or none of this step)
    and `untried` (its fix is unsafe, and was not asked for). `only_run`: observables that show something which no
    finding is about. `runs`, `seconds`, and `notes`: what was run, as line, text, and what it was replaced by. `cells`
    of a notebook have the line with which each starts, and its number: lines are counted through all of them.
    """
    return [finite(_object(row)) for row in rows]


def _object(row: StepRow) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "path": row.path,
        "step": row.name,
        "line": row.row,
        "verdict": row.verdict,
        "reason": row.reason or None,
        "device": row.device or None,
        "simulated": row.simulated,
        "before": _half(row.before),
        "after": _half(row.after) if row.after else None,
        "findings": [each._asdict() for each in row.findings],
        "only_run": row.only_run,
        "functions": row.functions,
        "runs": row.runs,
        "seconds": row.seconds,
        "notes": [list(each) for each in row.notes],
        "cells": [list(each) for each in row.cells],
    }


def _half(judged: Judged) -> dict[str, Any]:
    found = {**dataclasses.asdict(judged), "faults": [each._asdict() for each in judged.faults]}
    del (
        found["answers"],
        found["warned"],
        found["unseen"],
        found["none_used"],
        found["unfollowed"],
        found["unseen_region"],
        found["differs"],
        found["failing"],
    )  # which `paths` and `findings` say in words
    return found
