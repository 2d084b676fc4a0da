"""What is found in a document, in the terms of the language server protocol."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import accumulate, pairwise, takewhile

from lsprotocol import types

from amplint.base.about import rule_url
from amplint.base.findings import Applicability, Edit, Finding, Severity
from amplint.guide.rule_pages import as_text
from amplint.registry import all_rules
from amplint.sources.source import Source

_SEVERITY = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_UNUSED = "AMP002"
_DEPRECATED = "AMP1"
_WORD = re.compile(r"\w+")
_SHORT = ("Why is this bad?\n", "Example\n", "Use instead\n")


class Document:
    """A text and what was found in it. `units` is how columns count: `utf-8`, `utf-16` or `utf-32`.

    `untried` gives the findings once their fixes were tried; None where that is done.
    """

    def __init__(
        self,
        source: Source,
        findings: list[Finding],
        version: int | None,
        units: str,
        untried: Callable[[], list[Finding]] | None = None,
    ) -> None:
        self.source = source
        self.findings = findings
        self.version = version
        self.untried = untried
        self._units = units

    def position(self, offset: int) -> types.Position:
        """Where the character at `offset` stands."""
        row = self.source.row(offset)
        before = self._mark(row) + self.source.text[self.source.line_starts[row - 1] : offset]
        return types.Position(row - 1, sum(self._width(each) for each in before))

    def offset(self, place: types.Position) -> int:
        """The character at a place; one behind the end of a line is the line's end, one in a character its start."""
        starts = self.source.line_starts
        if place.line >= len(starts):
            return len(self.source.text)
        mark, line = self._mark(place.line + 1), self.source.line(place.line + 1)
        ends = accumulate(map(self._width, mark + line))
        reached = next((at for at, end in enumerate(ends) if end > place.character), len(mark + line))
        return starts[place.line] + max(reached - len(mark), 0)

    def _mark(self, row: int) -> str:
        """The byte order mark, where a line starts with it: editors count it, and the text is without it."""
        return "\ufeff" * (self.source.bom and row == 1)

    def _width(self, character: str) -> int:
        if self._units == "utf-8":
            return len(character.encode("utf-8", "surrogatepass"))
        return 2 if self._units == "utf-16" and character > "\uffff" else 1

    def range(self, start: int, end: int) -> types.Range:
        """The characters from `start` up to `end`."""
        return types.Range(self.position(start), self.position(end))

    def diagnostics(self) -> list[types.Diagnostic]:
        """All findings, for the editor to underline."""
        return [self.diagnostic(each) for each in self.findings]

    @property
    def result_id(self) -> str:
        """The name of these diagnostics: another for each version of the text, and where what is found differs."""
        found = repr(self.diagnostics()).encode("utf-8", "surrogatepass")
        return f"{self.version}-{blake2b(found, digest_size=8).hexdigest()}"

    def diagnostic(self, finding: Finding) -> types.Diagnostic:
        """One finding, with what to do where amplint can't do it itself, or why it doesn't."""
        more = _by_hand(finding)
        url = rule_url(finding.code)
        tags = []
        if finding.code == _UNUSED:
            tags.append(types.DiagnosticTag.Unnecessary)
        elif finding.code.startswith(_DEPRECATED):
            tags.append(types.DiagnosticTag.Deprecated)
        return types.Diagnostic(
            self.range(finding.start, finding.end),
            "\n".join([finding.said, *more]),
            severity=types.DiagnosticSeverity.Hint if finding.is_suspicion else _SEVERITY[finding.severity],
            code=finding.code,
            code_description=types.CodeDescription(url) if url else None,
            source="amplint",
            tags=tags or None,
            data={"confidence": finding.confidence.value},
        )

    def touching(self, span: types.Range) -> Iterator[Finding]:
        """The findings that a range touches, or a cursor stands in or beside."""
        start, end = self.offset(span.start), self.offset(span.end)
        return (each for each in self.findings if each.start <= end and start <= each.end)

    def hover(self, place: types.Position) -> types.Hover | None:
        """What is wrong at a place, what to do, and why; or the page of a rule whose code is written there."""
        at = self.offset(place)
        row = self.source.row(at)
        start = self.source.line_starts[row - 1]
        for word in _WORD.finditer(self.source.line(row)):
            if start + word.start() <= at <= start + word.end() and word.group() in all_rules():
                span = self.range(start + word.start(), start + word.end())
                return types.Hover(_markdown(_page(word.group())), span)
        found = [each for each in self.findings if each.start <= at < each.end]
        if not found:
            return None
        span = self.range(min(each.start for each in found), max(each.end for each in found))
        said = [f"{each.said}\n\n{text}" if (text := "\n\n".join(_help(each))) else each.said for each in found]
        why = (_why(code) for code in dict.fromkeys(each.code for each in found))
        return types.Hover(_markdown("\n\n---\n\n".join([*said, *why])), span)

    def edits(self, made: Iterable[Edit]) -> list[types.TextEdit]:
        """Edits of the text, as the editor makes them."""
        return [types.TextEdit(self.range(each.start, each.end), each.content) for each in made]

    def edits_to(self, text: str) -> list[types.TextEdit]:
        """Edits of whole lines that make `text` of the document's, and leave alone what is the same in both."""
        before, after = _lines(self.source.text), _lines(text)
        same = _shared(before, after)
        end = _shared(before[same:][::-1], after[same:][::-1])
        starts = [*accumulate(map(len, before), initial=0)]
        steps = difflib.SequenceMatcher(None, before[same : len(before) - end], after[same : len(after) - end])
        return [
            types.TextEdit(self.range(starts[same + a], starts[same + b]), "".join(after[same + c : same + d]))
            for step, a, b, c, d in steps.get_opcodes()
            if step != "equal"
        ]


def _lines(text: str) -> list[str]:
    starts = Source("", text).line_starts
    return [text[start:end] for start, end in pairwise([*starts, len(text)]) if start < end]


def _shared(one: list[str], other: list[str]) -> int:
    """How many lines at their start two texts have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _by_hand(finding: Finding) -> list[str]:
    """What to do by hand, or why amplint doesn't offer the fix that it knows; nothing where it offers one."""
    advice = finding.fix.advice if finding.fix and not finding.fix.edits else None
    return [each for each in (advice, finding.refusal) if each]


def _help(finding: Finding) -> list[str]:
    """What to do about a finding: what its fix does, or what there is to do by hand."""
    if finding.fix is None or not finding.fix.edits:
        return _by_hand(finding)
    unsafe = finding.fix.applicability is not Applicability.SAFE
    return [f"Fix: {finding.fix.message}{' (may change behaviour)' if unsafe else ''}"]


def _why(code: str) -> str:
    """The sections of a rule's page that say why, and show wrong and right code; all of a page that has none."""
    rule, url = all_rules()[code], rule_url(code)
    sections = [f"## {each}" for each in re.split(r"^## ", rule.doc, flags=re.MULTILINE)[1:] if each.startswith(_SHORT)]
    if not sections:
        return _page(code)
    more = f"[More]({url})" if url else f"`amplint rule {code}` says more."
    return "\n\n".join([f"# {rule.name} ({code})", *map(str.strip, sections), more])


def _page(code: str) -> str:
    return as_text([all_rules()[code]]).strip()


def _markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(types.MarkupKind.Markdown, text)
