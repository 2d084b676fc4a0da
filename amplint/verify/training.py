"""Verifying training code: the parent of the process that interprets its steps, before and after the fix."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from amplint.analysis import INVALID_SYNTAX
from amplint.engine import FixResult, Wanted, fix_bytes
from amplint.findings import Finding
from amplint.model.imports import look_in
from amplint.settings import Settings
from amplint.source import Source
from amplint.verify.importers import imports, reaches
from amplint.verify.judge import UNKNOWN, Fault, Judged
from amplint.verify.looks import NOTHING, Kind, Look, Looked
from amplint.verify.run import MEMORY, TIMEOUT, Lost, Runner, need_torch
from amplint.verify.verdict import (
    CONFIRMED,
    NO_STEP,
    NOT_CHECKABLE,
    Found,
    Verdict,
    compared,
    decide,
    fewer,
    unexplained,
)

# A step has one of these words, in its own file or in those that it leads to; what hasn't is not even parsed.
_WORDS = re.compile(rb"autocast|[sS]caler|accelerat")
_MODULE = "<module>"
_LIBRARIES = re.compile(rb"lightning|transformers")
_PRECISION = re.compile(rb"precision|fp16|bf16")
_OF_A_FRAMEWORK = Verdict(NOT_CHECKABLE, "its training step is the framework's, which is out of sight")


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

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()
        self._folder.cleanup()

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
        look_in(settings.src)
        own = bool(_WORDS.search(data))
        if not own and not any(reaches(each, _WORDS.search) for each in imports(os.path.abspath(path))):
            at = _framework(data)
            return Checked([_not_run(path, _MODULE, at, _OF_A_FRAMEWORK)], True) if at else Checked([])
        fixed = fix_bytes(data, path, settings, unsafe=unsafe)
        broken = next((each for each in fixed.before.findings if each.code == INVALID_SYNTAX), None)
        if broken is not None:
            row = _not_run(path, _MODULE, 1, Verdict(NOT_CHECKABLE, f"it can't be parsed: {broken.message}"))
            return Checked([row], True) if own else Checked([])
        source = fixed.before.source or Source.from_bytes(data, path)
        rows = self.compare(path, data, settings, fixed, progress)
        looked, failed = self._look(_asked_of(path, settings), source.text)
        if failed:
            return Checked([*rows, _not_run(path, _MODULE, 1, Verdict(NOT_CHECKABLE, failed))], True)
        idle = not looked.follow and all(each.kind is Kind.NONE for each in looked.looks)
        for each in looked.looks:
            if each.kind is Kind.HIDDEN or idle:
                verdict = Verdict(NO_STEP if idle else NOT_CHECKABLE, each.why)
                rows.append(_not_run(path, each.name, each.row, verdict, source.cells))
        return Checked(rows, bool(looked.looks), looked)

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
        source = found.source or Source.from_bytes(data, path)
        file = _asked_of(path, settings)
        steps, device = self._steps(file, source.text)
        after_text = Source.from_bytes(fixed.data, path).text
        after_steps = self._steps(file, after_text)[0] if after_text != source.text else []
        changes = _changes(source.text, after_text)
        left = [_placed(each, after_text) for each in fixed.result.findings]
        rows = []
        for at, known in enumerate(steps):
            number = sum(each["name"] == known["name"] for each in steps[:at])
            if progress:
                progress(f"{path}: {known['name']}")
            before, told = self._run(file, source.text, known, number, device)
            step = _with_touched(known, told)
            after = None
            same = [each for each in after_steps if each["name"] == step["name"]]
            if len(same) > number and _touches(changes, step, same[number]):
                after, _ = self._run(file, after_text, step, number, device)
            inside = [each for each in found.findings if _contains(step, source.row(each.start))]
            remaining = [each.code for each in left if _is_left(each, step, changes)]
            gone = fewer([each.code for each in inside], remaining)
            verdict = decide(before, after, gone, remaining)
            listed = compared(
                before, [(each.code, source.row(each.start), each.message, each.code in gone) for each in inside]
            )
            rows.append(
                StepRow(
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
            )
        return rows

    def confirmed(
        self, path: str, data: bytes, settings: Settings, wanted: Wanted | None = None
    ) -> tuple[FixResult, Callable[[int], str]]:
        """The fixes of a file that its runs confirm, and what says why another one, at a place, is not made.

        Fixes go together that lie in one step; where the runs of some steps don't confirm theirs, those are left out,
        and so are fixes that lie in no step, or that are not `wanted`.
        """
        whole = fix_bytes(data, path, settings, wanted=wanted)
        rows = self.compare(path, data, settings, whole) if whole.data != data else []
        touched = [row for row in rows if row.after is not None]
        good = {name for row in touched if row.verdict == CONFIRMED for name in row.functions}
        good -= {name for row in touched if row.verdict != CONFIRMED for name in row.functions}
        some = self._only(good, path, data, settings, wanted)
        if some.data not in (whole.data, data):
            again = self.compare(path, data, settings, some)
            if any(row.verdict != CONFIRMED for row in again if row.after is not None):
                some = self._only(set(), path, data, settings, wanted)
        text = Source.from_bytes(some.data, path).text

        def why(start: int) -> str:
            name = _name_at(text, start)
            row = next((row for row in rows if name in row.functions), None)
            if row is None:
                return "no training step that can be run has it"
            return f"its run doesn't confirm it: {row.verdict}{f', {row.reason}' if row.reason else ''}"

        return some, why

    @staticmethod
    def _only(names: set[str], path: str, data: bytes, settings: Settings, wanted: Wanted | None) -> FixResult:
        """The fixes of a file that lie in functions of these names, as far as they are `wanted`."""
        return fix_bytes(
            data,
            path,
            settings,
            wanted=lambda source, findings: [
                each
                for each in (wanted(source, findings) if wanted else findings)
                if names and _name_at(source.text, each.start) in names
            ],
        )

    # --- the worker

    def _steps(self, file: dict[str, Any], text: str) -> tuple[list[dict[str, Any]], str]:
        answer = self._ask({**file, "ask": "steps", "text": text})
        return answer.get("steps", []), answer.get("device", "cpu")

    def _look(self, file: dict[str, Any], text: str) -> tuple[Looked, str]:
        """What was looked at in a text, and why that can't be told."""
        answer = self._ask({**file, "ask": "look", "text": text})
        if "looks" not in answer:
            reason = answer.get("failed") or answer.get("error") or "the worker gave no answer"
            return NOTHING, f"looking for training steps failed: {reason}"
        looks = [Look(name, row, Kind(kind), why) for name, row, kind, why in answer["looks"]]
        return Looked(looks, answer["follow"], answer["read"]), ""

    def _run(
        self, file: dict[str, Any], text: str, step: dict[str, Any], number: int, device: str
    ) -> tuple[Judged, dict[str, Any]]:
        answer = self._ask({**file, "ask": "run", "text": text, "name": step["name"], "number": number})
        if "state" not in answer:
            reason = answer.get("failed") or answer.get("error") or "the worker gave no answer"
            return Judged(UNKNOWN, reason=f"the run failed: {reason}"), {"device": device}
        faults = [Fault(*each) for each in answer["faults"]]
        return Judged(answer["state"], faults, answer["reason"], answer["numbers"], answer["dtypes"]), answer

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        asked |= {"device": self._device, "timeout": self._limits.timeout, "memory": self._limits.memory}
        try:
            return self._runner.ask(asked)
        except Lost as lost:
            return {"failed": str(lost)}


def _framework(data: bytes) -> int:
    """The line on which a file asks Lightning or transformers for mixed precision; 0: it doesn't."""
    if not (_LIBRARIES.search(data) and _PRECISION.search(data)):
        return 0
    try:
        calls = [each for each in ast.walk(ast.parse(data)) if isinstance(each, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    for call in calls:
        for each in call.keywords:
            if each.arg in ("precision", "fp16", "bf16") and isinstance(each.value, ast.Constant):
                if each.value.value is True or re.match(r"b?f?16", str(each.value.value)):
                    return each.value.lineno
    return 0


def _asked_of(path: str, settings: Settings) -> dict[str, Any]:
    """What is asked of a file, in any case."""
    return {"path": os.path.abspath(path), "usual": settings.device, "src": settings.src}


def _not_run(path: str, name: str, row: int, verdict: Verdict, cells: Sequence[tuple[int, int]] = ()) -> StepRow:
    """The row of a function that has AMP and that is not run as a step."""
    before = Judged(UNKNOWN, reason=verdict.reason)
    return StepRow(path, name, row, *verdict, "", False, before, None, [], [], [], 0, 0.0, [], [*cells])


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


class _Left(NamedTuple):
    """A finding that a fix leaves: its line in the new text, and the innermost function around it."""

    code: str
    row: int
    function: str


def _placed(finding: Finding, text: str) -> _Left:
    return _Left(finding.code, text.count("\n", 0, finding.start) + 1, _name_at(text, finding.start))


def _is_left(finding: _Left, step: dict[str, Any], changes: _Changes) -> bool:
    """Whether a finding that is left is one of a step: of the module's own code only the lines that its run reads."""
    if finding.function == _MODULE and step["name"] != _MODULE:
        before = changes.same.get(finding.row)
        return before is None or _contains(step, before)
    return finding.function in step["functions"] or step["name"] == _MODULE


class _Changes(NamedTuple):
    """What a fix changes: the lines that go, the lines that come, and the functions that those come in.

    `same` has the other lines of the new text, each with its number in the old one.
    """

    gone: list[int]
    come: list[int]
    functions: set[str]
    same: dict[int, int]


def _changes(before: str, after: str) -> _Changes:
    """The lines that differ between two texts, by their numbers in each."""
    old, new = before.split("\n"), after.split("\n")
    if before == after:
        return _Changes([], [], set(), {row: row for row in range(1, len(new) + 1)})
    gone: list[int] = []
    come: list[int] = []
    same: dict[int, int] = {}
    for what, first, last, start, end in SequenceMatcher(None, old, new).get_opcodes():
        if what == "equal":
            same |= zip(range(start + 1, end + 1), range(first + 1, last + 1), strict=True)
        else:
            gone += range(first + 1, last + 1)
            come += range(start + 1, end + 1)
    body = ast.parse(after).body
    return _Changes(gone, come, {_named(body, row, ()) for row in come} - {""}, same)


def _touches(changes: _Changes, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a fix changes a step: its functions, or what they take from a line elsewhere, as a scaler's making.

    `before` has the lines and functions that its run has read, `after` only its own.
    """
    if any(_contains(before, row) for row in changes.gone) or any(_contains(after, row) for row in changes.come):
        return True
    return not changes.functions.isdisjoint(before["functions"])


def _name_at(text: str, offset: int) -> str:
    """The qualified name of the innermost function round a place in a text."""
    row = text.count("\n", 0, offset) + 1
    return _named(ast.parse(text).body, row, ()) or _MODULE


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
