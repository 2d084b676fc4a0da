"""What comments say to amplint: `# noqa: AMP401`, `# amplint: ignore[AMP401]`, `off[AMP4]` and `on`, `ignore-file`.

In brackets a rule or a family may also be named: `ignore[clip-without-unscale]`. A `noqa` with a name has no code, and
so silences all rules, as in flake8.

`off` and `on`, like `ignore-file`, stand on lines of their own. What is off stays off until it is on again, or until
a line of code that is indented less than the comment: the end of its block.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from amplint.registry import all_rules, families, known, meant_by, names, redirects
from amplint.sources.comments import Layout
from amplint.sources.source import Source

# As in flake8, a colon with no code behind it leaves a bare noqa.
_DIRECTIVE = r"""\#\s*(?:
    noqa\b(?:\s*:\s*(?P<noqa>LIST))?
    | amplint:\s*ignore\s*\[(?P<ignore>[^\]\#]*)\]
    | amplint:\s*(?P<switch>ignore-file|off|on)(?![\w-])(?:\s*\[(?P<only>[^\]\#]*)\]|(?!\s*\[))
)"""
_HINT = re.compile(r"noqa|amplint:", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w-])[a-z][\w-]*", re.IGNORECASE)
# A comment behind a comment, as in `noqa: AMP401  # type: ignore`, and not as in `noqa: AMP401 see #12`.
_NEXT = re.compile(r"#\s*[^\W\d]")
# What may name rules behind a `noqa`, and what follows in the same comment.
_NAMES = re.compile(r"\s*:\s*((?:[a-z][\w-]*\s*,\s*)*[a-z][\w-]*)([^#]*)", re.IGNORECASE)
_NEAR = 0.8  # for a name with a slip; words with hyphens are in other comments, too


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What a directive is, and what a code in it: plugins have prefixes of their own."""
    either = "|".join(known().prefixes)
    code, upper = rf"(?:(?:{either})(?!\w)|[A-Z]+\d+)", rf"(?-i:(?:{either})(?!\w)|[A-Z]+\d+)"
    # Behind a blank only what looks like a code in full is one: the words behind the codes say why.
    codes = rf"{upper}(?:\s*,[\s,]*{upper}|\s+(?-i:[A-Z]+\d+(?!\w)))*|{code}(?:\s*,[\s,]*{code})*"
    flags = re.IGNORECASE | re.VERBOSE
    return re.compile(_DIRECTIVE.replace("LIST", codes), flags), re.compile(code, flags)


class Code(NamedTuple):
    """A code or a prefix, or what a name in a comment means; that of an `off` or `on` without codes is empty.

    `former` is what is written, where a rule had that code or name before.
    """

    text: str
    start: int
    end: int
    former: str = ""

    def covers(self, code: str) -> bool:
        """Whether it stands for the rule `code`."""
        return code.startswith(self.text)


class Directive(NamedTuple):
    """What one comment says. It holds for the statement on `rows`; `codes` is None where it says: all.

    `named` are the rules that a `noqa` names where codes should be: it says all, too.
    """

    start: int
    end: int
    comment_end: int
    rows: range
    codes: tuple[Code, ...] | None
    kind: str  # "noqa", "ignore", "ignore-file", "off" or "on"
    alone: bool  # on a line of its own
    named: tuple[Code, ...] = ()


class Range(NamedTuple):
    """The rows on which one code of an `off` holds, but for the prefixes that are on again, and their span."""

    code: Code
    rows: range
    spared: tuple[str, ...]
    start: int
    end: int  # what is put here is in the range

    def covers(self, code: str) -> bool:
        """Whether the rule `code` is off here."""
        return self.code.covers(code) and not code.startswith(self.spared)


class _Open(NamedTuple):
    """A code that is off from a row on, written in a comment that is indented by `width`."""

    code: Code
    since: int
    width: int


def hinted(text: str) -> bool:
    """Whether a text may hold a directive."""
    return _HINT.search(text) is not None


def directives(source: Source, found: Layout) -> Iterator[Directive]:
    """The directives of a text, in its order; of `ignore-file` those on a line of their own."""
    for row, column, comment in found.comments:
        if not hinted(comment):
            continue
        offset = source.offset(row, column + 1)
        alone = not source.line(row)[:column].strip()
        every = (_directive(match, offset, found.statement(row), alone) for match in _patterns()[0].finditer(comment))
        yield from (each for each in every if alone or each.kind != "ignore-file")


def _directive(match: re.Match[str], offset: int, rows: range, alone: bool) -> Directive:
    """A directive in a comment that starts at `offset`."""
    comment = match.string
    group = next((name for name in ("noqa", "ignore", "only") if match[name] is not None), None)
    kind = (match["switch"] or ("ignore" if group == "ignore" else "noqa")).lower()
    codes: tuple[Code, ...] | None = None
    if group:
        codes = tuple(_codes(comment, match.span(group), offset, named=group != "noqa"))
    elif kind in ("off", "on"):
        codes = (Code("", offset + match.start(), offset + match.end()),)
    following = _NEXT.search(comment, match.end())
    end = following.start() if following else len(comment)
    named = tuple(_instead_of_codes(comment, match.end(), offset)) if kind == "noqa" and codes is None else ()
    return Directive(offset + match.start(), offset + end, offset + len(comment), rows, codes, kind, alone, named)


def _instead_of_codes(comment: str, at: int, offset: int) -> Iterator[Code]:
    """The rules that a `noqa` up to `at` in a comment names; none where what follows it is prose."""
    found = _NAMES.match(comment, at)
    words = [*_WORD.finditer(comment, *found.span(1))] if found else []
    # A family's name is also a word of prose.
    if not found or (found[2].strip() and all(each.group().lower() in families() for each in words)):
        return
    code = _patterns()[1]
    meant = [each.group().upper() if code.fullmatch(each.group()) else name_near(each.group()) for each in words]
    if all(meant):
        for word, name in zip(words, meant, strict=True):
            yield Code(meant_by(name or ""), offset + word.start(), offset + word.end())


def name_near(word: str) -> str | None:
    """The name of a rule or family that a word is, or, if it has a hyphen, is most like; None: it is like none."""
    if word.lower() in names():
        return word.lower()
    if "-" not in word:
        return None
    from amplint.config.selection import nearest  # noqa: PLC0415 - only a mistake needs it

    return nearest(word.lower(), [*names()], _NEAR)


def _codes(comment: str, span: tuple[int, int], offset: int, *, named: bool) -> Iterator[Code]:
    """The codes in a part of a comment that starts at `offset`; with `named` the names of rules and families, too."""
    words = [each for each in _WORD.finditer(comment, *span) if named]
    # No part of a name with hyphens is a code: `amp` in `vendor-amp` isn't.
    inside = {at for word in words if "-" in word.group() for at in range(*word.span())}
    found = [each for each in _patterns()[1].finditer(comment, *span) if each.start() not in inside]
    found += (each for each in words if each.group().lower() in names())
    for each in sorted(found, key=lambda each: each.start()):
        word = each.group().lower() if each.group().lower() in names() else each.group().upper()
        former = word if word in redirects() else ""
        yield Code(meant_by(word), offset + each.start(), offset + each.end(), former)


class Ranges:
    """The stretches of a text that are off, and which codes of an `off` each code of an `on` ends."""

    def __init__(self, source: Source, found: Layout, switches: Iterable[Directive]) -> None:
        self.found: list[Range] = []
        self.ended: dict[Code, list[Code]] = {}
        self._source = source
        # What is off, by the prefix and those of its codes that are on again.
        self._open: dict[tuple[str, tuple[str, ...]], list[_Open]] = {}
        self._deepest = 0  # the most that one of these is indented
        starts = deque(rows.start for rows in found.statements)
        for each in switches:
            row = source.row(each.start)
            while starts and starts[0] < row:
                self._leave(starts.popleft())
            for code in each.codes or ():
                if each.kind == "off":
                    width = _width(source.line(row))
                    self._open.setdefault((code.text, ()), []).append(_Open(code, row + 1, width))
                    self._deepest = max(self._deepest, width)
                else:
                    self.ended[code] = self._on(code.text, row)
        while starts and self._open:
            self._leave(starts.popleft())
        for (_, spared), some in self._open.items():
            self._close(some, spared, len(source.line_starts) + 1, len(source.text))

    def _leave(self, row: int) -> None:
        """End what was switched off in blocks that the statement at `row` stands behind."""
        if self._open and (width := _width(self._source.line(row))) < self._deepest:
            for key, some in [*self._open.items()]:
                self._close([one for one in some if one.width > width], key[1], row, self._source.offset(row, 1) - 1)
                self._open[key] = [one for one in some if one.width <= width]
            self._deepest = width

    def _on(self, prefix: str, row: int) -> list[Code]:
        """Switch a prefix on again; what of that was off."""
        ended: list[Code] = []
        some_rule = any(code.startswith(prefix) for code in all_rules())
        for key in [*self._open]:
            text, spared = key
            part = some_rule and prefix.startswith(text) and not prefix.startswith(spared)
            if part or text.startswith(prefix):
                some = self._open.pop(key)
                ended += (one.code for one in some)
                self._close(some, spared, row, self._source.offset(row, 1))
                if not text.startswith(prefix):
                    left = self._open.setdefault((text, (*spared, prefix)), [])
                    left += (one._replace(since=row + 1) for one in some)
        return ended

    def _close(self, some: list[_Open], spared: tuple[str, ...], row: int, end: int) -> None:
        starts = self._source.line_starts
        for code, since, _ in some:
            start = starts[since - 1] if since <= len(starts) else end
            self.found.append(Range(code, range(since, row), spared, start, end))


def _width(line: str) -> int:
    """How far a line is indented, as Python counts."""
    return len(line[: len(line) - len(line.lstrip(" \t\f"))].rpartition("\f")[2].expandtabs(8))
