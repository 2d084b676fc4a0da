"""A report for people, as JSON and as SARIF."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from amplint.base.about import SCHEMA_VERSION
from amplint.base.findings import Severity
from amplint.base.paths import visible
from amplint.doctor.findings import Cause, Evidence, Finding, Place, Related, Report
from amplint.registry import all_rules
from amplint.report.formats import sarif
from amplint.report.repository_paths import root_of
from amplint.report.text import CYAN, SEVERITY_COLOUR, linked, paint

# What stands for the rule where the linter has none; in SARIF these are rules, too.
_CAUSES = {
    Cause.OVERFLOW: "A result is too large for its dtype, and finite in float32.",
    Cause.UNDERFLOW: "A value became 0 in its dtype, and would not have in float32.",
    Cause.MASK: "All of a row is masked.",
    Cause.MATH: "The result is not finite in float32 either: AMP is not the cause.",
    Cause.DATA: "The batch was not finite.",
    Cause.WEIGHTS: "Parameters, buffers or an average that the program keeps were not finite before the step.",
    Cause.DIVERGENCE: "Numbers grew until they were not finite, or the loss stays worse since the learning rate rose.",
    Cause.PROTOCOL: "The scaler or autocast is used wrongly.",
    Cause.NO_GRADIENTS: "An optimizer steps, and none of its parameters has a gradient.",
    Cause.SCALER_OFF: "A scaler is disabled though the program asked for it, or gradients are 0 for want of its scale.",
    Cause.HIDDEN: "Values that are not finite were replaced or skipped.",
    Cause.CASTS_NOTHING: "No operation of a region, or of its modules in other threads, ran in half precision.",
    Cause.SCALE: "The loss scale itself goes wrong.",
}
_UNKNOWN = "unexplained"
_UNKNOWN_IS = "Something was not finite, and its cause could not be shown."
_IS_MISSED = "the linter doesn't see this"


def as_text(
    report: Report,
    width: int = 100,
    folder: str | None = None,
    *,
    colour: bool = False,
    name: str = "amplint run",
) -> str:
    """What people read: the head line, a block for each finding, what the doctor did, and its notes.

    Paths below `folder` (the current directory) are relative to it. `name` stands at the start.
    """
    lines = [f"{name}: {_head(report)}"]
    if report.scale:
        lines += _wrapped(report.scale, width, "  ")
    for finding in report.findings:
        lines += ["", *_block(finding, width, folder, colour)]
    ending = [*_did(report), *(f"note: {each}" for each in report.notes)]
    if ending and report.findings:
        lines.append("")
    for each in ending:
        lines += _wrapped(each, width, "  ", "    ")
    return "\n".join(lines)


def as_json(report: Report, folder: str | None = None) -> str:
    """What programs read."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "verdict": report.verdict.value,
        "findings": [_object(each, folder) for each in report.findings],
        "steps": report.steps,
        "skipped": report.skipped,
        "scale": report.scale or None,
        "forwards": report.forwards,
        "backwards": report.backwards,
        "statements": report.statements,
        "seconds": round(report.seconds, 3) if math.isfinite(report.seconds) else None,
        "notes": list(report.notes),
        "is_off": report.is_off,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def as_sarif(report: Report, folder: str | None = None) -> str:
    """What GitHub's code scanning and other services read."""
    ids = sorted({_id(each) for each in report.findings})
    notes = [{"level": "note", "message": {"text": each}} for each in report.notes]
    invocation = {"executionSuccessful": not report.is_off, **({"toolExecutionNotifications": notes} if notes else {})}
    results = [_result(each, ids, folder) for each in report.findings]
    return sarif.log([_rule(each) for each in ids], invocation, results)


def _head(report: Report) -> str:
    steps = "no step of an optimizer was seen"
    if report.steps:
        steps = f"{_count(report.steps, 'step')}, {report.skipped or 'none'} skipped"
    off = "amplint disabled itself, " if report.is_off else ""
    if report.findings:
        return f"{_count(len(report.findings), 'problem')}, {off}{steps}"
    if report.is_off:
        return f"{off}{steps}"
    return f"{'healthy' if report.steps else 'nothing found'}, {steps}"


def _block(finding: Finding, width: int, folder: str | None, colour: bool) -> Iterator[str]:
    label = _label(finding)
    place = _where(finding.place, folder)
    known = [finding.evidence.value]
    known += [f"step {finding.step:,}"] if finding.step is not None else []
    known += [f"{finding.times:,} times"] if finding.times > 1 else []
    head = f"{label}{place and f' {place}'}  {_ended(finding.message)} [{', '.join(known)}]"
    first, *more = _wrapped(head, width, "", "  ")
    yield linked(paint(label, SEVERITY_COLOUR[_severity(finding)], colour), label, colour) + first[len(label) :]
    yield from more
    for each in finding.details:
        yield from _wrapped(each, width, "  ", "    ")
    if finding.advice:
        yield from _labelled("help", finding.advice, width, colour)
    if finding.related is not None:
        yield from _linter(finding, finding.related, width, colour)


def _linter(finding: Finding, related: Related, width: int, colour: bool) -> Iterator[str]:
    """What the linter says, in lines."""
    if related.fix:
        yield from _labelled("fix", related.fix, width, colour)
    elif related.message:
        yield from _labelled("linter", related.message, width, colour)
    elif related.is_missed:
        yield from _wrapped(f"{_IS_MISSED}{_even_selected(finding.code)}", width, "  ", "    ")
    if related.command:  # on one line, to be copied
        yield f"    {visible(related.command)}"


def _even_selected(code: str | None) -> str:
    """What is to be said of a rule that is off by default: it has been asked."""
    rule = all_rules().get(code or "")
    return "" if rule is None or rule.default else f", even with {rule.code} selected (it is off by default)"


def _labelled(label: str, text: str, width: int, colour: bool) -> Iterator[str]:
    first, *more = _wrapped(f"{label}: {text}", width, "  ", "    ")
    yield f"  {paint(label, CYAN, colour)}{first[2 + len(label) :]}"
    yield from more


def _did(report: Report) -> Iterator[str]:
    """What was repeated, which the user has a right to know."""
    did = [
        f"the {what} {'once' if times == 1 else f'{times:,} times'}"
        for what, times in (
            ("forward pass", report.forwards),
            ("backward pass", report.backwards),
            ("line that raised", report.statements),
        )
        if times
    ]
    if did:
        yield f"amplint repeated {_listed(did)}, in {report.seconds:.1f} s"


def _listed(texts: Sequence[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _label(finding: Finding) -> str:
    return finding.code or (finding.cause.value if finding.cause else _UNKNOWN)


def _severity(finding: Finding) -> Severity:
    return Severity.WARNING if finding.evidence is Evidence.NOT_SHOWN else Severity.ERROR


def _ended(message: str) -> str:
    return message.rstrip(".")


def _where(place: Place | None, folder: str | None) -> str:
    return "" if place is None else f"{visible(_path(place, folder))}:{place.line}"


def _path(place: Place, folder: str | None) -> str:
    """A path as it is told: from the folder that the program was started in where it is below it."""
    folder = os.getcwd() if folder is None else folder
    if place.path.startswith("<"):
        return place.path
    path = os.path.normpath(os.path.join(folder, place.path))
    below = folder.rstrip(os.sep) + os.sep
    if path.startswith(below):
        return path[len(below) :]
    return path if os.path.isabs(place.path) else place.path  # as the command has it, and the details


def _wrapped(text: str, width: int, indent: str, behind: str | None = None) -> list[str]:
    """A text in lines, of which none is empty; what it says on lines of its own stays there."""
    lines: list[str] = []
    for each in text.splitlines() or [""]:
        start = indent if behind is None or not lines else behind
        more = indent if behind is None else behind
        lines += wrap(
            visible(each),
            max(width, 40),
            initial_indent=start,
            subsequent_indent=more,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines or [indent]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _object(finding: Finding, folder: str | None) -> dict[str, Any]:
    place, related = finding.place, finding.related
    return {
        "code": finding.code,
        "cause": finding.cause.value if finding.cause else None,
        "path": _path(place, folder) if place else None,
        "line": place.line if place else None,
        "evidence": finding.evidence.value,
        "message": finding.message,
        "step": finding.step,
        "times": finding.times,
        "details": list(finding.details),
        "advice": finding.advice or None,
        "linter": related
        and {
            "message": related.message or None,
            "fix": related.fix or None,
            "command": related.command or None,
            "is_missed": related.is_missed,
        },
    }


def _id(finding: Finding) -> str:
    """The rule of a result: the linter's, or the cause."""
    return finding.code if finding.code in all_rules() else f"run-{_label(finding)}".lower()


def _rule(name: str) -> dict[str, Any]:
    if name in all_rules():
        return sarif.as_rule(all_rules()[name])
    text = next((text for cause, text in _CAUSES.items() if name == f"run-{cause.value}"), _UNKNOWN_IS)
    return {
        "id": name,
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "properties": {"tags": ["pytorch", "amp"], "problem.severity": "error"},
    }


def _result(finding: Finding, ids: list[str], folder: str | None) -> dict[str, Any]:
    said = [_ended(finding.message), *finding.details, *([finding.advice] if finding.advice else [])]
    return {
        "ruleId": _id(finding),
        "ruleIndex": ids.index(_id(finding)),
        "level": _severity(finding).value,
        "message": {"text": "\n".join(said)},
        "locations": list(_locations(finding.place, folder)),
        "occurrenceCount": max(finding.times, 1),
        "properties": {
            "evidence": finding.evidence.value,
            "cause": finding.cause.value if finding.cause else None,
            "step": finding.step,
        },
    }


def _locations(place: Place | None, folder: str | None) -> Iterable[dict[str, Any]]:
    if place is not None and not place.path.startswith("<"):
        folder = os.getcwd() if folder is None else folder
        where = sarif.artifact(os.path.join(folder, place.path), root_of(Path(folder)))
        yield {"physicalLocation": {"artifactLocation": where, "region": {"startLine": max(place.line, 1)}}}
