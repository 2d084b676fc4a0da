"""What has to hold for every input, whatever it is."""

from __future__ import annotations

import ast
import io
import re
import time
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from amplint.base.edits import apply
from amplint.base.findings import Applicability, Finding, Fix
from amplint.base.paths import TooLargeError
from amplint.config.formats import FORMATS
from amplint.config.settings import Settings
from amplint.engine import file as engine
from amplint.engine import reading
from amplint.engine.file import check_bytes, fix_bytes
from amplint.engine.reading import read_alone
from amplint.engine.result import Result
from amplint.model import Module
from amplint.registry import all_rules
from amplint.report import Report, render
from amplint.sources.load import load
from amplint.sources.source import LINE_END, Source

T = TypeVar("T")
EVERYTHING = Settings(frozenset(all_rules()), isolated=True)
# Behind a file it makes sure that the file is read: without a word of AMP it would only be searched.
AMP = b"\nfrom torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"
# Seconds of processor time for one run over one file.
LONGEST = 10
_UNREADABLE = ("AMP000", "AMP001")
# Comments that AMP002 may take out, and those that go with the statement of which they tell a tool something.
_DIRECTIVE = re.compile(r"noqa|nosec|(type|pyright|pyre|pytype|mypy|pylint|pragma|fmt|isort|yapf|ruff|amplint):", re.I)
_CAN_T_YET = "can't read this code yet"


class Problem(NamedTuple):
    """Something that does not hold: its kind, for counting, and what it was here."""

    kind: str
    detail: str = ""


class Outcome(NamedTuple):
    """What became of one input."""

    parsed: bool = False
    found: int = 0
    fixed: bool = False
    seconds: float = 0.0
    problems: tuple[Problem, ...] = ()


def judge(data: bytes, path: str, *, fold: bool = True, fix: bool = True) -> Outcome:
    """Lint an input; with `fold` once more without folding, with `fix` fix what can be fixed."""
    problems: list[Problem] = []
    try:
        result, seconds = _timed(lambda: check_bytes(data, path, EVERYTHING))
        problems += _slow("check", seconds)
        problems += _about(result, data)
        python = _python_reads(data)
        problems += _agreement(result, python)
        if python and data.endswith(AMP) and data.count(b"GradScaler") == AMP.count(b"GradScaler"):
            problems += _behind(result)
        fixed = False
        if fold and result.source is not None and result.findings:
            problems += _unfolded(result, data, path)
        if fix and any(_is_made(each.fix) for each in result.findings):
            fixed = True
            problems += _fixing(result, data, path)
    except TooLargeError:
        return Outcome()  # nothing is claimed of it
    except Exception as error:
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else ""
        return Outcome(problems=(*problems, Problem(f"{type(error).__name__} at {place}", str(error))))
    return Outcome(python is True, len(result.findings), fixed, seconds, tuple(problems))


def judge_both(data: bytes, helper: bytes, *, fold: bool = True, fix: bool = True) -> Outcome:
    """Judge a file that imports from another one beside it."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "main.py")
        path.write_bytes(data)
        path.with_name("helper.py").write_bytes(helper)
        return judge(data, str(path), fold=fold, fix=fix)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    answer = work()
    return answer, time.process_time() - started


def _slow(what: str, seconds: float) -> Iterator[Problem]:
    if seconds > LONGEST:
        yield Problem(f"{what} takes over {LONGEST} s", f"{seconds:.1f} s")


def _is_made(fix: Fix | None) -> bool:
    return fix is not None and bool(fix.edits) and fix.applicability is not Applicability.DISPLAY


def _python_reads(data: bytes) -> bool | None:
    """Whether Python itself parses the bytes; None where it gives up."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            data.decode(encoding)  # Python 3.11 takes anything for a comment, as long as it is no file
            ast.parse(data)
    except (RecursionError, MemoryError):
        return None
    except (SyntaxError, ValueError, LookupError):
        return False
    return True


def _agreement(result: Result, python: bool | None) -> Iterator[Problem]:
    """What Python parses is read, and what it refuses is AMP001, unless a comment asks for silence."""
    if result.source is None or python is None or "ignore-file" in result.source.text.lower():
        return
    refused = [each.message for each in result.findings if each.code == "AMP001"]
    if python and refused and _CAN_T_YET not in refused[0]:
        yield Problem("AMP001 for what Python parses", refused[0])
    if not python and not refused:
        yield Problem("no AMP001 for what Python refuses")


def _behind(result: Result) -> Iterator[Problem]:
    """AMP at the end of a file is found, unless the file can't be read."""
    length = len(result.source.text) if result.source is not None else 0
    place = length - len("GradScaler()\n"), length - len("()\n")
    if not any(
        (each.code == "AMP102" and (each.start, each.end) == place) or each.code == "AMP001" for each in result.findings
    ):
        yield Problem("AMP at the end is not found")


def _about(result: Result, data: bytes) -> Iterator[Problem]:
    """The findings of a file: no failure, and each where there is something."""
    source = result.source
    for each in result.findings:
        if each.code == "AMP000":
            yield Problem(each.message.split(" (please")[0])
        if len(each.message.splitlines()) != 1:
            yield Problem("a message is not one line", each.message)
    if source is None:
        if result.findings:
            yield Problem("findings without a source")
        return
    edges = _edges(source) if any(each.code not in _UNREADABLE for each in result.findings) else None
    for each in result.findings:
        yield from _place(each, source, edges)
    report = Report((result._replace(unsafe=True),))
    for output_format in FORMATS if result.findings else ():
        render(output_format, report)


def _place(finding: Finding, source: Source, edges: _Edges | None) -> Iterator[Problem]:
    text, start, end = source.text, finding.start, finding.end
    if not 0 <= start <= end <= len(text):
        yield Problem(f"{finding.code} is outside of the text", f"{start}-{end} of {len(text)}")
        return
    row, column = source.location(start)
    before = text[:start]
    counted = before.count("\n") + before.count("\r") - before.count("\r\n") + 1
    begun = max(before.rfind("\n"), before.rfind("\r")) + 1
    if (row, column) != (counted, start - begun + 1) or source.offset(row, column) != start:
        yield Problem(f"{finding.code} has another row or column", f"{row}:{column}, offset {start}")
    if finding.code in _UNREADABLE:
        return
    if start == end:
        yield Problem(f"{finding.code} is empty", f"at {row}:{column}")
    if edges is not None and finding.code != "AMP002":
        for offset, good in ((start, edges.starts), (end, edges.ends)):
            if offset not in good and not any(one < offset < two for one, two in edges.strings):
                yield Problem(f"{finding.code} starts or ends within a token", repr(text[start:end]))


class _Edges(NamedTuple):
    """Where tokens start and end in a text, and the strings, inside of which anything may be."""

    starts: frozenset[int]
    ends: frozenset[int]
    strings: tuple[tuple[int, int], ...]


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """The tokens of a text with any line ends; none where `tokenize` does not take what Python does."""
    try:
        return list(tokenize.generate_tokens(io.StringIO(LINE_END.sub("\n", text), newline="\n").readline))
    except (tokenize.TokenError, SyntaxError, ValueError, SystemError):
        return []


def _edges(source: Source) -> _Edges | None:
    tokens = [each for each in _tokens(source.text) if each.string]
    if not tokens:
        return None
    spans = [tuple(source.line_starts[row - 1] + column for row, column in (each.start, each.end)) for each in tokens]
    strings = [span for each, span in zip(tokens, spans, strict=True) if each.string.endswith(("'", '"'))]
    middles = [
        span for each, span in zip(tokens, spans, strict=True) if tokenize.tok_name[each.type].startswith("FSTR")
    ]
    starts, ends = zip(*spans, strict=True)
    return _Edges(frozenset(starts), frozenset(ends), tuple((one, two) for one, two in (*strings, *middles)))


def _unfolded(result: Result, data: bytes, path: str) -> Iterator[Problem]:
    """The same is found when a file is read in one piece."""

    def read_at_once(*args: Any, **kwargs: Any) -> Module:
        return read_alone(*args, **{**kwargs, "fold": False})

    with mock.patch.object(reading, "read_alone", read_at_once):
        whole = check_bytes(data, path, EVERYTHING)
    if any(each.code == "AMP001" and _CAN_T_YET in each.message for each in whole.findings):
        return
    for each in result.findings:
        if each not in whole.findings:
            yield Problem(f"{each.code} only with folding", each.message)
    for each in whole.findings:
        if each not in result.findings:
            yield Problem(f"{each.code} only without folding", each.message)


def _fixing(result: Result, data: bytes, path: str) -> Iterator[Problem]:
    """What is written is a program, differs only in the edits, and has nothing left to fix."""
    steps: list[tuple[str, list[Fix], str]] = []

    def recorded(text: str, fixes: Iterable[Fix]) -> tuple[str, list[Fix]]:
        new, done = apply(text, fixes)
        steps.append((text, done, new))
        return new, done

    with mock.patch.object(engine, "apply", recorded):
        fixed, seconds = _timed(lambda: fix_bytes(data, path, EVERYTHING, unsafe=True))
    yield from _slow("a round of fixing", seconds / (len(steps) + 1))
    if fixed.before.findings != result.findings:
        yield Problem("another result before fixing than when checking")
    source = result.source
    if fixed.data == data or source is None:
        return
    yield from _about(fixed.result, fixed.data)
    if _python_reads(fixed.data) is False:
        yield Problem("what is written is no program")
    again = fix_bytes(fixed.data, path, EVERYTHING, unsafe=True)
    if again.data != fixed.data:
        yield Problem("a second run changes more", str(dict(again.applied)))
    if again.result.findings != fixed.result.findings:
        yield Problem("another result after fixing than when checking what was written")
    after = load(fixed.data, path)
    if (after.bom, after.encoding) != (source.bom, source.encoding):
        yield Problem("the encoding changed", f"{source.encoding} to {after.encoding}")
    if new := set(LINE_END.findall(after.text)) - (set(LINE_END.findall(source.text)) or {"\n"}):
        yield Problem("a line end that the file does not have", repr(new))
    yield from _chain(source.text, after.text, steps)


def _chain(first: str, last: str, steps: list[tuple[str, list[Fix], str]]) -> Iterator[Problem]:
    """From the first text to the last one nothing changes but by edits, and no comment is lost."""
    at = last
    for text, done, new in reversed(steps):
        if at != new or text == new:
            continue
        if _spliced(text, done) != new:
            yield Problem("something changed outside of the edits")
        for comment in _lost(text, new):
            yield Problem("a comment is lost", f"{comment} by {', '.join(sorted({each.message for each in done}))}")
        at = text
    if at != first:
        yield Problem("something changed outside of the rounds")


def _spliced(text: str, fixes: list[Fix]) -> str:
    """The text with the edits of some fixes, made from the end to the start."""
    edits = list(dict.fromkeys(edit for fix in fixes for edit in fix.edits))
    for _, edit in sorted(enumerate(edits), key=lambda each: (each[1].start, each[1].end, each[0]), reverse=True):
        text = text[: edit.start] + edit.content + text[edit.end :]
    return text


def _lost(text: str, new: str) -> Iterator[str]:
    """The comments that edits take away, but for AMP002's and for what they tell other tools."""
    before, after = (
        Counter(each.string for each in _tokens(of) if each.type == tokenize.COMMENT) for of in (text, new)
    )
    lost = Counter({each: count for each, count in before.items() if not _DIRECTIVE.search(each)}) - after
    yield from +lost
