"""Verifying training code: the parent of the process that interprets its steps, before and after the fix."""

from __future__ import annotations

import ast
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, NamedTuple

from amplint.base.findings import Finding, Severity
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes, fix_bytes
from amplint.engine.reading import INVALID_SYNTAX
from amplint.engine.result import FixResult, Result
from amplint.model.project.importers import imports, reaches
from amplint.model.project.resolve_import import look_in
from amplint.model.torch_facts.deprecated_names import unavoidable
from amplint.registry import families
from amplint.sources.load import load
from amplint.sources.parsing import parsed
from amplint.sources.source import Source, SourceError, lines_of
from amplint.verify.fixtures.run import MEMORY, TIMEOUT, Lost, Runner, need_torch
from amplint.verify.steps.judge import UNKNOWN, Fault, Judged
from amplint.verify.steps.looks import NOTHING, Kind, Look, Looked
from amplint.verify.steps.verdict import (
    NO_STEP,
    NOT_CHECKABLE,
    Found,
    Verdict,
    compared,
    decide,
    unexplained,
    unless_unscaled,
    with_errors,
    with_out_of_sight,
    with_place,
)

# A step has one of these words, in its own file or in those that it leads to; what hasn't is not even parsed.
_WORDS = re.compile(rb"autocast|[sS]caler|accelerat")
_NAMES = re.compile(rb"custom_[fb]wd|\bamp\b")  # what else is named of AMP
MODULE = "<module>"
_FILE = 2  # so many times the limit of a run are the steps of one file given
_LIBRARIES = re.compile(rb"lightning|transformers")
_PRECISION = re.compile(rb"precision|fp16|bf16")
_OF_TRAINERS = re.compile(r"Trainer$|^dict$")  # what is given Lightning's options
_MIXED = re.compile(r"(bf)?16(-mixed)?$")
_TRAINS = re.compile(r"\.(backward|step)\(")
_OF_A_FRAMEWORK = "the framework runs the training step: the file has none of its own to run"
_BARE = "the file has no autocast region and no scaler, so there is no step to compare with the one without AMP"


class Limits(NamedTuple):
    """For each step, before and after: seconds, and MiB beyond what torch itself takes."""

    timeout: float = TIMEOUT
    memory: int = MEMORY


@dataclass(frozen=True)
class StepRow:
    """A step's verdict and what it rests on."""

    path: str
    name: str
    row: int
    verdict: str
    reason: str
    device: str
    simulated: bool
    before: Judged
    after: Judged | None
    findings: list[Found]
    only_run: list[str]  # observables that show something which no finding is about
    functions: list[str]  # of the file, that the step runs
    runs: int
    seconds: float
    notes: list[tuple[int, str, str]] = field(default_factory=list)  # what was run: line, text, what it was replaced by
    cells: list[tuple[int, int]] = field(default_factory=list)  # a notebook's: where each starts, its number


class Checked(NamedTuple):
    """What was found of a file: its rows, whether it has AMP, and what was looked at.

    A row is a step's, or that of another function that has AMP: not checkable where it may train, and the step is not
    in sight; no training step where it doesn't.
    """

    rows: list[StepRow]
    has_amp: bool = False
    looked: Looked = NOTHING


class _Half(NamedTuple):
    """A program, before or after the fixes, and what is found in it."""

    source: Source
    findings: Sequence[Finding]

    def inside(self, step: dict[str, Any]) -> list[Finding]:
        """The findings in a step."""
        return [each for each in self.findings if _contains(step, self.source.row(each.start))]


class _Halves(NamedTuple):
    """What is asked about a file, and its program before and after the fixes."""

    file: dict[str, Any]
    before: _Half
    after: _Half
    is_changed: bool
    unsafe: bool  # unsafe fixes are among those that are tried


class Verifier:
    """Runs steps in one worker, file after file.

    Raises:
        CannotRun: torch is missing or too old.
    """

    def __init__(self, device: str | None = None, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        need_torch()
        self._device = device
        self._limits = limits
        self._folder = TemporaryDirectory(prefix="amplint-", ignore_cleanup_errors=True)
        self._runner = Runner(self._folder.name)
        self._changes = 0  # of files, so far
        self._failed = ""  # why a file's steps were not found
        self._remembered: dict[str, dict[str, Any]] | None = None  # answers, by what was asked

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()
        self._folder.cleanup()

    def forget(self) -> None:
        """A file was written: nothing holds that was read of a project."""
        self._changes += 1

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Ask nothing twice in the block."""
        self._remembered = {}
        try:
            yield
        finally:
            self._remembered = None

    def verify(
        self,
        path: str,
        data: bytes,
        settings: Settings,
        *,
        unsafe: bool | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> list[StepRow]:
        """The rows of a file, with the fixes that amplint offers for it."""
        return self.check(path, data, settings, unsafe=unsafe, progress=progress).rows

    def check(
        self,
        path: str,
        data: bytes,
        settings: Settings,
        *,
        unsafe: bool | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Checked:
        """What is found of a file, with the fixes that amplint offers for it."""
        look_in(settings.src, settings.start)
        own = bool(_WORDS.search(data) or _NAMES.search(data))
        if not own and not any(reaches(each, _WORDS.search) for each in imports(os.path.abspath(path))):
            return _without_steps(path, data, check_bytes(data, path, settings), Checked([]))
        fixed = fix_bytes(data, path, settings, unsafe=unsafe)
        source = _program(path, data, fixed.before)
        if isinstance(source, StepRow):
            return Checked([source], True) if own else Checked([])
        self._failed = ""
        rows = self.compare(path, data, settings, fixed, progress)
        if self._failed:
            why = f"looking for training steps failed: {self._failed}"
            return Checked([_not_run(path, MODULE, 1, Verdict(NOT_CHECKABLE, why))], True)
        looked, failed, at = self._look(_asked_of(path, settings), source.text)
        if failed:
            return Checked([*rows, _not_run(path, MODULE, at, Verdict(NOT_CHECKABLE, failed))], True)
        rows += _rows_beside_steps(path, looked, source.cells)
        checked = Checked(rows, bool(looked.looks) or looked.names_amp, looked)
        return checked if rows or looked.follow else _without_steps(path, data, fixed.before, checked)

    def compare(
        self,
        path: str,
        data: bytes,
        settings: Settings,
        fixed: FixResult,
        progress: Callable[[str], None] | None = None,
    ) -> list[StepRow]:
        """The rows of a file's steps, with the fixes that were made."""
        found = fixed.before
        if any(each.code == INVALID_SYNTAX for each in found.findings):
            return []
        before = _Half(found.source or load(data, path), found.findings)
        after = _Half(load(fixed.data, path), fixed.result.findings)
        file = _asked_of(path, settings)
        began = monotonic()
        steps, device = self._steps(file, before.source.text)
        file["device"] = device  # for what the fixes make of it, too
        halves = _Halves(file, before, after, fixed.data != data, settings.unsafe_fixes)
        # A fix may take away all that a function did beside the steps that it runs: it is compared with itself.
        names = list(dict.fromkeys(each["name"] for each in steps))
        after_steps = self._steps({**file, "names": names}, after.source.text)[0] if halves.is_changed and steps else []
        rows = []
        for at, step in enumerate(steps):
            name = step["name"]
            number = sum(each["name"] == name for each in steps[:at])
            if progress:
                progress(f"{path}: {name}")
            same = [each for each in after_steps if each["name"] == name][number:]
            if monotonic() - began > _FILE * self._limits.timeout:
                rows.append(_not_run(path, name, step["row"], self._out_of_time(), before.source.cells))
                continue
            rows.append(self._row(path, halves, step, same, number))
        return rows

    def _out_of_time(self) -> Verdict:
        limit = _FILE * self._limits.timeout
        return Verdict(
            NOT_CHECKABLE, f"the steps before it took more than {limit:g} s, the limit for one file: --timeout"
        )

    def _row(
        self, path: str, halves: _Halves, step: dict[str, Any], same: list[dict[str, Any]], number: int
    ) -> StepRow:
        """The row of a step, the `number`th of its name; the first of the `same` is that step after the fixes."""
        source = halves.before.source
        before, told = self._run(halves.file, source.text, step, number)
        step = _with_touched(step, told)
        inside = halves.before.inside(step)
        after, remaining = None, inside
        if halves.is_changed:
            after, after_step = self._after(halves, step, before, same, number)
            remaining = halves.after.inside(after_step)
        gone = _gone(source, inside, halves.after.source, remaining)
        fixed_rows = {source.row(each.start) for each in gone}
        verdict = decide(before, after, {each.code for each in gone}, [each.code for each in remaining], fixed_rows)
        listed = compared(before, [(each.code, source.row(each.start), each.message, each in gone) for each in inside])
        if not halves.unsafe:
            needs = (each.is_fixable(unsafe=True) and not each.is_fixable(unsafe=False) for each in inside)
            listed = [found._replace(untried=untried) for found, untried in zip(listed, needs, strict=True)]
        errors = [
            found for each, found in zip(inside, listed, strict=True) if each.severity is Severity.ERROR or found.shown
        ]
        last = after or before
        verdict = with_place(verdict, before, listed)
        verdict = with_out_of_sight(unless_unscaled(with_errors(verdict, before, errors), last), last)
        return StepRow(
            path=path,
            name=step["name"],
            row=step["row"],
            verdict=verdict.verdict,
            reason=verdict.reason,
            device=told.get("device", ""),
            simulated=told.get("simulated", False),
            before=before,
            after=after,
            findings=listed,
            only_run=unexplained(before, listed),
            functions=step["functions"],
            runs=told.get("runs", 0),
            seconds=told.get("seconds", 0.0),
            notes=[(row, text, what) for row, text, what in told.get("notes", ())],
            cells=source.cells,
        )

    def _after(
        self, halves: _Halves, step: dict[str, Any], before: Judged, same: list[dict[str, Any]], number: int
    ) -> tuple[Judged | None, dict[str, Any]]:
        """What a step does after the fixes, and that step; None where they neither touch it nor change what it does."""
        if not same:
            whole = {**step, "rows": [(1, len(lines_of(halves.after.source.text)))]}
            return Judged(UNKNOWN, reason="no step of this name remains"), whole
        text = halves.after.source.text
        after, told = self._run(halves.file, text, same[0], number, before.answers)
        found = _with_touched(same[0], told)
        if _text_of(step, halves.before.source.text) != _text_of(found, text):
            return after, found
        return (after if (after.state, after.paths) != (before.state, before.paths) else None), found

    # --- the worker

    def _steps(self, file: dict[str, Any], text: str) -> tuple[list[dict[str, Any]], str]:
        answer = self._ask({**file, "ask": "steps", "text": text})
        self._failed = answer.get("failed", "")
        return answer.get("steps", []), answer.get("device", "cpu")

    def _look(self, file: dict[str, Any], text: str) -> tuple[Looked, str, int]:
        """What was looked at in a text, and why that can't be told, with the line that shows it."""
        answer = self._ask({**file, "ask": "look", "text": text})
        if "looks" not in answer:
            if answer.get("error"):
                return NOTHING, f"the file can't be parsed: {answer['error']}", answer["row"]
            reason = answer.get("failed") or "the worker gave no answer"
            return NOTHING, f"looking for training steps failed: {reason}", 1
        looks = [Look(name, row, Kind(kind), why) for name, row, kind, why in answer["looks"]]
        return Looked(looks, answer["follow"], answer["read"], answer["unread"], answer["names_amp"]), "", 1

    def _run(
        self, file: dict[str, Any], text: str, step: dict[str, Any], number: int, answers: Sequence[dict[str, Any]] = ()
    ) -> tuple[Judged, dict[str, Any]]:
        wanted = {"ask": "run", "name": step["name"], "number": number, "answers": answers}
        answer = self._ask({**file, "text": text, **wanted})
        if "state" not in answer:
            reason = answer.get("failed") or answer.get("error") or "the worker gave no answer"
            return Judged(UNKNOWN, reason=f"the run failed: {reason}"), {"device": file["device"]}
        known = {each.name: answer[each.name] for each in fields(Judged)}
        known["faults"] = [Fault(*each) for each in answer["faults"]]
        return Judged(**known), answer

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        asked = {
            "changes": self._changes,
            "device": self._device,
            "timeout": self._limits.timeout,
            "memory": self._limits.memory,
            **asked,
        }
        key = json.dumps(asked)
        if self._remembered is not None and key in self._remembered:
            return self._remembered[key]
        try:
            answer = self._runner.ask(asked)
        except Lost as lost:
            answer = {"failed": str(lost)}
        if self._remembered is not None:
            self._remembered[key] = answer
        return answer


def _without_steps(path: str, data: bytes, found: Result, checked: Checked) -> Checked:
    """What is found of a file that has no region and no scaler: AMP all the same where a framework is asked for it, or
    where the linter finds something.

    What a run can't show leaves nothing right of a file that trains; where it trains nothing, only an error does so.
    """
    findings = [each for each in found.findings if not each.code.startswith(families()["internal"])]
    may_ask = bool(_LIBRARIES.search(data) and _PRECISION.search(data))
    source = _program(path, data, found) if findings or may_ask else None
    if not isinstance(source, Source):
        return checked
    at = _framework(source.text) if may_ask else 0
    if not at and not findings:
        return checked
    is_error = any(each.severity is Severity.ERROR for each in findings)
    if not (at or is_error or _TRAINS.search(source.text)):
        return checked._replace(has_amp=True)
    verdict = Verdict(NOT_CHECKABLE, _OF_A_FRAMEWORK if at else _BARE)
    row = _not_run(path, MODULE, at or source.row(findings[0].start), verdict, source.cells)
    listed = [(each.code, source.row(each.start), each.message, False) for each in findings]
    return checked._replace(rows=[replace(row, findings=compared(row.before, listed))], has_amp=True)


def _framework(text: str) -> int:
    """The line on which a file asks a Trainer of Lightning or transformers for mixed precision; 0: it doesn't."""
    try:
        nodes = [*ast.walk(_tree(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    named = any(isinstance(each, ast.Constant) and str(each.value).endswith("-mixed") for each in nodes)
    for call in nodes:
        for each in call.keywords if isinstance(call, ast.Call) else ():
            if isinstance(call, ast.Call) and _is_mixed(call, each, named):
                return each.value.lineno
    return 0


def _is_mixed(call: ast.Call, option: ast.keyword, named: bool) -> bool:
    """Whether an option of a call asks for mixed precision; with Lightning's Fabric the program runs the step.

    An option that is not a literal asks for it if the file names a mixed precision of Lightning's somewhere (`named`).
    """
    value = option.value.value if isinstance(option.value, ast.Constant) else None
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if option.arg in ("fp16", "bf16"):
        return value is True or (value is None and called.endswith("Arguments"))
    if option.arg != "precision" or not _OF_TRAINERS.search(called):
        return False
    return bool(_MIXED.match(str(value))) if isinstance(option.value, ast.Constant) else named


def _asked_of(path: str, settings: Settings) -> dict[str, Any]:
    """What is asked of a file, in any case."""
    return {
        "path": os.path.abspath(path),
        "usual": settings.device,
        "src": settings.src,
        "start": settings.start,
        "unavoidable": unavoidable(settings.target(path)),
    }


def _not_run(path: str, name: str, row: int, verdict: Verdict, cells: Sequence[tuple[int, int]] = ()) -> StepRow:
    """The row of a function that has AMP and that is not run as a step."""
    before = Judged(UNKNOWN, reason=verdict.reason)
    return StepRow(path, name, row, *verdict, "", False, before, None, [], [], [], 0, 0.0, [], [*cells])


def _rows_beside_steps(path: str, looked: Looked, cells: Sequence[tuple[int, int]]) -> Iterator[StepRow]:
    """The rows of what may train out of sight, or, where a file trains nothing, of all that has AMP."""
    idle = not looked.follow and all(each.kind is Kind.NONE for each in looked.looks)
    for each in looked.looks:
        if each.kind is Kind.HIDDEN or idle:
            verdict = Verdict(NO_STEP if idle else NOT_CHECKABLE, each.why)
            yield _not_run(path, each.name, each.row, verdict, cells)


def _program(path: str, data: bytes, found: Result) -> Source | StepRow:
    """The program that a file is, or the row of one that is none."""
    broken = next((each for each in found.findings if each.code == INVALID_SYNTAX), None)
    if broken is not None:
        return _broken(path, found.source.row(broken.start) if found.source is not None else 1, broken.message)
    try:
        return found.source or load(data, path)
    except SourceError as error:  # what has no word of a rule's was not read
        return _broken(path, error.row, str(error))


def _broken(path: str, row: int, why: str) -> StepRow:
    """The row of a file that is no program, or no notebook."""
    return _not_run(path, MODULE, row, Verdict(NOT_CHECKABLE, f"the file can't be parsed: {why}"))


def _with_touched(step: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The step with the functions and lines whose text its run has read: a constructor that makes the scaler."""
    touched = told.get("touched", ())
    return {
        **step,
        "functions": list(dict.fromkeys([*step["functions"], *(name for name, _ in touched)])),
        "rows": [*step["rows"], *((row, row) for _, row in touched)],
    }


def _contains(step: dict[str, Any], row: int) -> bool:
    return any(first <= row <= last for first, last in step["rows"])


def _text_of(step: dict[str, Any], text: str) -> list[str]:
    """The lines that a step consists of."""
    lines = lines_of(text)
    return [line for first, last in step["rows"] for line in lines[first - 1 : last]]


def _gone(source: Source, before: Sequence[Finding], after_source: Source, after: Sequence[Finding]) -> list[Finding]:
    """Those of a step's findings that the fixes have ended: others of the code, as many as are left, have not been.

    Which those are, the text of their lines says, where no fix has changed it.
    """
    left = Counter(each.code for each in after)
    lines = Counter((each.code, after_source.line(after_source.row(each.start)).strip()) for each in after)
    kept = []
    for each in before:
        line = each.code, source.line(source.row(each.start)).strip()
        if lines[line]:
            lines[line] -= 1
            left[each.code] -= 1
            kept.append(each)
    for each in before:
        if each not in kept and left[each.code] > 0:
            left[each.code] -= 1
            kept.append(each)
    return [each for each in before if each not in kept]


@lru_cache(maxsize=4)
def _tree(text: str) -> ast.Module:
    return parsed(text)


def name_at(source: Source, offset: int) -> str:
    """The qualified name of the innermost function around a place in a program."""
    return _named(_tree(source.text).body, source.row(offset), ()) or MODULE


def _named(body: Iterable[ast.AST], row: int, names: tuple[str, ...]) -> str:
    for node in body:
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
        for each in getattr(node, "decorator_list", ()):
            first = min(first, each.lineno)
        if first <= row <= last:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inside = (*names, node.name)
                return _named(node.body, row, inside) or ".".join(inside)
            inside = (*names, node.name) if isinstance(node, ast.ClassDef) else names
            return _named(ast.iter_child_nodes(node), row, inside)
    return ""
