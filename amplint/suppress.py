"""Comments that silence findings: `# noqa`, `# noqa: AMP401,AMP4`, `# amplint: ignore[AMP401]`, and for whole files.

`# amplint: ignore-file` stands on a line of its own. The others hold for the whole statement that they stand in, of a
compound statement for the header.
"""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from amplint.findings import Applicability, Edit, Finding, Fix
from amplint.gate import UNUSED
from amplint.rules import all_rules
from amplint.source import LINE_END, Source

_INTERNAL_ERROR = "AMP000"
_UNREADABLE = "AMP001"

_CODE = r"(?:AMP(?!\w)|[A-Z]+\d+)"
# As in flake8, a colon with no code behind it leaves a bare noqa.
_DIRECTIVE = re.compile(
    rf"""\#\s*(?:
        noqa\b(?:\s*:\s*(?P<noqa>{_CODE}(?:[\s,]+{_CODE})*))?
        | amplint:\s*ignore\[(?P<ignore>[^\]\#]*)\]
        | amplint:\s*(?P<file>ignore-file)(?![\w-])(?:\[(?P<only>[^\]\#]*)\])?
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_ONE_CODE = re.compile(_CODE, re.IGNORECASE)
_HINT = re.compile(r"noqa|amplint:", re.IGNORECASE)
# A comment behind a comment, as in `noqa: AMP401  # type: ignore`, and not as in `noqa: AMP401 see #12`.
_NEXT = re.compile(r"#\s*[^\W\d]")
_NO_CODE = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


class _Code(NamedTuple):
    text: str
    start: int
    end: int


class _Directive(NamedTuple):
    """What one comment says to us. It holds for the statement on `rows`; `codes` is None where it says: all."""

    start: int
    end: int
    comment_end: int
    rows: range
    codes: tuple[_Code, ...] | None
    kind: str  # "noqa", "ignore" or "file"


class Suppressions:
    """The comments of one file, and which of their codes are needed.

    Without `noqa` those that say `noqa` silence nothing: the host sees to them. AMP002 judges them all the same.
    """

    def __init__(self, source: Source, *, noqa: bool = True) -> None:
        self._source = source
        self._noqa = noqa
        self._used: set[_Code] = set()

    @property
    def whole_file(self) -> bool:
        """Whether the file asks to be left alone."""
        return any(each.kind == "file" and each.codes is None for each in self._directives)

    def keep(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that no comment silences."""
        return [finding for finding in findings if not self._silenced(finding)]

    def _silenced(self, finding: Finding) -> bool:
        if finding.code == _INTERNAL_ERROR or not self._directives:
            return False
        row = self._source.row(finding.start)
        silenced = False
        for each in self._directives:
            # A line can't silence that its file was not read.
            if each.kind != "file" and (finding.code == _UNREADABLE or row not in each.rows):
                continue
            counts = self._noqa or each.kind != "noqa"
            if each.codes is None:
                silenced = silenced or counts
                continue
            # Only its own full code silences AMP002: the prefix AMP would hide that it does nothing itself.
            named = [
                code
                for code in each.codes
                if finding.code == code.text or (finding.code != UNUSED and finding.code.startswith(code.text))
            ]
            self._used.update(named)
            silenced = silenced or (counts and bool(named))
        return silenced

    def unused(self, decided: frozenset[str]) -> Iterator[Finding]:
        """AMP002 for each comment with codes that silenced none of the findings shown to `keep`.

        A code is judged if all rules that it stands for are among those `decided`: run on this file, to the end.
        """
        if not _HINT.search(self._source.text):
            return
        for each in self._directives:
            if each.kind == "file" or each.codes is None or any(code.text == UNUSED for code in each.codes):
                continue
            judged = [code for code in each.codes if each.kind == "ignore" or code.text.startswith("AMP")]
            meant = {code: {known for known in all_rules() if known.startswith(code.text)} for code in judged}
            idle = [code for code in judged if code not in self._used and meant[code] <= decided]
            if idle:
                message = _message([c.text for c in idle if meant[c]], [c.text for c in idle if not meant[c]])
                fix = Fix(Applicability.SAFE, "Remove what silences nothing", (self._removal(each, idle),))
                rule = all_rules()[UNUSED]
                yield rule.finding((each.start, each.end), message, fix=fix)

    def _removal(self, directive: _Directive, idle: list[_Code]) -> Edit:
        """Take the codes out of a comment, or, if no other is left in it, the comment out of the text."""
        text = self._source.text
        codes = directive.codes or ()
        if left := [text[code.start : code.end] for code in codes if code not in idle]:
            between = text[codes[0].end : codes[1].start]
            return Edit(codes[0].start, codes[-1].end, between.join(left))
        if directive.end < directive.comment_end:
            return Edit(directive.start, directive.end, "")
        start, end = directive.start, directive.end
        while start > 0 and text[start - 1] in " \t\f":
            start -= 1
        if start in self._source.line_starts:
            line_end = LINE_END.match(text, end)
            return Edit(start, line_end.end() if line_end else end, "")
        return Edit(start, end, "")

    @cached_property
    def _directives(self) -> list[_Directive]:
        if not _HINT.search(self._source.text):
            return []
        comments, statements = _tokenize(self._source.text)
        firsts = [rows.start for rows in statements]
        found: list[_Directive] = []
        for row, column, comment in comments:
            at = bisect_right(firsts, row) - 1
            rows = statements[at] if at >= 0 and row in statements[at] else range(row, row + 1)
            offset = self._source.offset(row, column + 1)
            alone = not self._source.line(row)[:column].strip()
            found += (
                _directive(match, offset, rows) for match in _DIRECTIVE.finditer(comment) if alone or not match["file"]
            )
        return found


def _directive(match: re.Match[str], offset: int, rows: range) -> _Directive:
    """A directive in a comment that starts at `offset`."""
    comment = match.string
    group = next((name for name in ("noqa", "ignore", "only") if match[name] is not None), None)
    codes: tuple[_Code, ...] | None = None
    if group:
        every = _ONE_CODE.finditer(comment, *match.span(group))
        codes = tuple(_Code(each.group().upper(), offset + each.start(), offset + each.end()) for each in every)
    following = _NEXT.search(comment, match.end())
    end = following.start() if following else len(comment)
    kind = "file" if match["file"] else group or "noqa"
    return _Directive(offset + match.start(), offset + end, offset + len(comment), rows, codes, kind)


def _message(idle: list[str], unknown: list[str]) -> str:
    parts = []
    if idle:
        parts.append(f"nothing here is reported as {' or '.join(idle)}")
    if unknown:
        parts.append(f"there is no rule {' or '.join(unknown)}")
    return f"Unused suppression: {', and '.join(parts)}"


def drops_comment(source: Source, edits: Iterable[Edit]) -> bool:
    """Whether edits take away a comment that none of them writes; the one behind a statement goes where that goes."""
    edits = list(edits)
    taking = [each for each in edits if "#" in source.text[each.start : each.end]]
    for row, column, comment in _tokenize(source.text)[0] if taking else ():
        start, line = source.offset(row, 1), source.line(row)
        code = line[:column].strip()
        first = start + len(line) - len(line.lstrip())
        for each in taking:
            if each.start <= start + column < each.end and not any(comment in edit.content for edit in edits):
                if each.content or not code or first < each.start:
                    return True
    return False


def _tokenize(text: str) -> tuple[list[tuple[int, int, str]], list[range]]:
    """The comments (row, column from 0, text) and the rows of each statement, as far as the text can be tokenized."""
    comments: list[tuple[int, int, str]] = []
    statements: list[range] = []
    first = 0
    # tokenize knows no lone \r, which Python does; the columns are the same.
    lines = (f"{line}\n" for line in LINE_END.split(text))
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT:
                comments.append((*token.start, token.string))
            elif token.type == tokenize.NEWLINE:
                statements.append(range(first or token.start[0], token.start[0] + 1))
                first = 0
            elif not first and token.type not in _NO_CODE:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError, ValueError, SystemError):
        pass  # Python's parser reports it. 3.12 and 3.13 raise SystemError for some texts with NUL.
    return comments, statements
