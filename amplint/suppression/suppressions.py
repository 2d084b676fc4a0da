"""Which findings comments silence, which fixes they keep away, and which of them do nothing (AMP002).

A `noqa` or an `ignore` holds for the whole statement that it stands in, of a compound statement for the header. What
comments say, and how far `off` reaches, is in `amplint.suppression.directives`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from amplint.base.findings import Applicability, Edit, Finding, Fix, withhold
from amplint.registry import all_rules, known, names
from amplint.sources.comments import Layout, layout
from amplint.sources.source import LINE_END, Source
from amplint.suppression.byte_scan import UNUSED, names_codes
from amplint.suppression.directives import Code, Directive, Range, Ranges, directives, hinted, name_near

_INTERNAL_ERROR, _UNREADABLE = UNSUPPRESSIBLE = ("AMP000", "AMP001")
_SWITCHES = ("off", "on")
# Rules whose fixes share an import: one of them may change a line that another one marks.
_RENAMES = ("AMP101", "AMP102", "AMP103", "AMP104")
_FILE = 0  # the row of what holds for all rows


class Suppressions:
    """The comments of one file, and which of their codes are needed.

    Without `noqa` those that say `noqa` silence nothing: the host sees to them. AMP002 judges them all the same.
    """

    def __init__(self, source: Source, *, noqa: bool = True) -> None:
        self._source = source
        self._noqa = noqa
        self._used: set[Code] = set()

    @property
    def whole_file(self) -> bool:
        """Whether the file asks to be left alone."""
        if "ignore-file" not in self._small:
            return False  # to look for comments takes longer
        return any(each.kind == "ignore-file" and each.codes is None for each in self.directives)

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """The codes and names in comments that rules had before, with the row of the first, after its cell if any."""
        found: dict[str, str] = {}
        for each in self.directives:
            for code in each.codes or ():
                if code.former:
                    cell, row, _ = self._source.place(code.start)
                    found.setdefault(code.former, f"{row}" if cell is None else f"cell {cell}:{row}")
        return tuple(found.items())

    def keep(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that no comment silences, without the fixes that would change what comments keep as it is."""
        left: list[Finding] = []
        reaching: dict[tuple[Edit, ...], str] = {}
        for finding in findings:
            reached = self._reached(finding.code, finding.fix) if finding.fix else []
            if finding.fix and reached:
                reaching[finding.fix.edits] = "the fix would change lines where amplint is off"
            if not self._silenced(finding):
                self._used.update(part.code for part in reached if part.covers(finding.code))
                left.append(finding)
            elif finding.fix and finding.fix.edits:
                # It belongs to others too, as the fix of an import does to all that is imported.
                at = f"{self._source.named(finding.start)}, where a comment silences {finding.code}"
                reaching.setdefault(finding.fix.edits, f"the fix would also change {at}")
        for finding in left if self.directives else ():
            if finding.fix and finding.code != UNUSED:
                self._protect(finding, finding.fix, reaching)
        return withhold(left, reaching)

    def _protect(self, finding: Finding, fix: Fix, reaching: dict[tuple[Edit, ...], str]) -> None:
        """Add to `reaching` why a fix is kept away, if it changes what is to stay as it is."""
        for start, codes in self._protected(finding, fix):
            self._used.update(codes)
            named = " and ".join(dict.fromkeys(code.text for code in codes)) or finding.code
            why = f"the fix would change {self._source.named(start)}, where a comment silences {named}"
            reaching.setdefault(fix.edits, why)

    def _protected(self, finding: Finding, fix: Fix) -> Iterator[tuple[int, list[Code]]]:
        """Where a fix changes what is written, although a comment there silences its rule."""
        own = self.layout.statement(self._source.row(finding.start)).start
        for edit in fix.edits:
            inserts = edit.start == edit.end
            if inserts and finding.code not in _RENAMES:
                continue  # it stands at the finding
            last = edit.start if inserts else edit.end - 1
            for row in range(self._source.row(edit.start), self._source.row(last) + 1):
                statement = self.layout.statement(row).start
                if inserts and statement == own:
                    continue
                codes = (finding.code,) if statement == own else _related(finding.code)
                for each in self._holding.get(statement, ()):
                    if each.codes is None:
                        yield edit.start, []
                    elif named := [of for of in each.codes if any(_names(of.text, one) for one in codes)]:
                        yield edit.start, named

    def _silenced(self, finding: Finding) -> bool:
        if finding.code == _INTERNAL_ERROR or not self.directives:
            return False
        row = self._source.row(finding.start)
        silenced = False
        # A line can't silence that its file was not read.
        near = [] if finding.code == _UNREADABLE else self._holding.get(self.layout.statement(row).start, [])
        for each in (*self._holding.get(_FILE, []), *near):
            counts = self._noqa or each.kind != "noqa"
            if each.named and finding.code == UNUSED:
                continue  # which tells that it silences all
            if each.codes is None:
                silenced = silenced or counts
                continue
            named = [code for code in each.codes if _names(code.text, finding.code)]
            self._used.update(named)
            silenced = silenced or (counts and bool(named))
        return (finding.code != _UNREADABLE and self._is_off(row, finding.code)) or silenced

    def _is_off(self, row: int, code: str) -> bool:
        """Whether a rule is off on a line; all that says so is used."""
        ranges = (part for prefix, parts in self._parts.items() if _names(prefix, code) for part in parts)
        codes = [part.code for part in ranges if row in part.rows and part.covers(code)]
        self._used.update(codes)
        return bool(codes)

    def _reached(self, code: str, fix: Fix) -> list[Range]:
        """What is off that a fix of the rule `code` would change, or of which it would change how far it is off."""
        if code == UNUSED:
            return []
        return [part for part in self._ranges.found if any(self._reaches(edit, part, code) for edit in fix.edits)]

    def _reaches(self, edit: Edit, part: Range, code: str) -> bool:
        """Whether an edit for `code` changes what is off, or how far it is."""
        start, covers = part.start, any(map(part.covers, _related(code)))
        if not (self._source.text[edit.start : edit.end] + edit.content).strip():
            # Lines that are indented anew may leave the block, or take the comment above the range with them.
            start, covers = self._source.offset(max(self._source.row(start) - 1, 1), 1), True
        return covers and edit.end >= start and edit.start <= part.end

    def unused(self, decided: frozenset[str]) -> Iterator[Finding]:
        """AMP002 for each comment with codes that silenced none of the findings shown to `keep`.

        A code is judged if all rules that it stands for are among those `decided`: run on this file, to the end. An
        `off` without codes stands for those that are on by default.
        """
        for directive in self.directives if names_codes(self._small.encode("utf-8", "replace")) else ():
            codes = directive.codes
            if directive.named:
                yield self._silences_all(directive)
            if directive.kind == "ignore-file" or codes is None or any(code.text == UNUSED for code in codes):
                continue
            if directive.kind in _SWITCHES and not directive.alone:
                yield self._finding(directive, f"`{directive.kind}` must be on its own line", ())
            elif not codes:
                yield self._names_none(directive)
            elif directive.kind == "on":
                yield from self._ends_nothing(directive, codes)
            elif idle := [code for code in codes if self._idle(directive, code, decided)]:
                edits = self._removal(directive, idle), *self._ends(idle)
                yield self._finding(directive, _message(idle), edits)

    def _silences_all(self, directive: Directive) -> Finding:
        """AMP002 for a `noqa` that names rules: without a code it silences all."""
        words = [self._source.text[each.start : each.end] for each in directive.named]
        words = [word for word, each in zip(words, directive.named, strict=True) if word.upper() != each.text]
        codes = ", ".join(each.text for each in directive.named)
        said = f"a `noqa` takes only codes; with {_listed(words)} it silences all rules here"
        if any(word.lower() not in names() for word in words):  # what is meant is a guess
            return self._found(directive, f"{said}; did you mean {codes}?", None)
        edit = Edit(directive.named[0].start, directive.named[-1].end, codes)
        fix = Fix(Applicability.SAFE, f"Replace by {codes}", (edit,))
        return self._found(directive, f"{said}; write `# noqa: {codes}`", fix)

    def _names_none(self, directive: Directive) -> Finding:
        """AMP002 for brackets in which nothing means a rule; if something is like a name, the comment stays."""
        message = "the comment names no rule"
        words = re.findall(r"[\w-]+", self._source.text[directive.start : directive.end].partition("[")[2])
        if near := next(filter(None, map(name_near, words)), None):
            return self._finding(directive, f"{message}; did you mean {near}?", ())
        return self._finding(directive, message, (self._removal(directive, []),))

    def _ends_nothing(self, directive: Directive, codes: Iterable[Code]) -> Iterator[Finding]:
        """AMP002 for those of an `on`'s codes that are not off where it stands."""
        if idle := [code for code in codes if not self._ranges.ended[code]]:
            said = " or ".join(code.text for code in idle)
            message = f"{said} is not off here" if said else "nothing is off here"
            yield self._finding(directive, message, (self._removal(directive, idle),))

    def _idle(self, directive: Directive, code: Code, decided: frozenset[str]) -> bool:
        """Whether a code, which ran, silences nothing; of what `noqa` says only our codes are judged."""
        if code in self._used or (directive.kind == "noqa" and not code.text.startswith(known().prefixes)):
            return False
        if code.text.startswith(known().broken):
            return False
        return all(
            known in decided
            for known, rule in all_rules().items()
            if code.covers(known) and (code.text or rule.default)
        )

    def _finding(self, directive: Directive, message: str, edits: tuple[Edit, ...]) -> Finding:
        fix = Fix(Applicability.SAFE, "Remove the unused suppression", tuple(sorted(edits))) if edits else None
        return self._found(directive, f"unused suppression: {message}", fix)

    def _found(self, directive: Directive, message: str, fix: Fix | None) -> Finding:
        return all_rules()[UNUSED].finding((directive.start, directive.end), message, fix=fix)

    def _removal(self, directive: Directive, idle: list[Code]) -> Edit:
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
        if self._source.location(start)[1] == 1:
            line_end = LINE_END.match(text, end)
            return Edit(start, line_end.end() if line_end else end, "")
        return Edit(start, end, "")

    def _ends(self, idle: list[Code]) -> Iterator[Edit]:
        """The removal of what ends nothing but the `idle` codes of an `off`."""
        for each in dict.fromkeys(ender for code in idle for ender in self._enders[code]):
            ended = {code: self._ranges.ended[code] for code in each.codes or ()}
            if only := [code for code, ends in ended.items() if ends and all(one in idle for one in ends)]:
                yield self._removal(each, only)

    @cached_property
    def _small(self) -> str:
        """The text in small letters: comments may have any."""
        return self._source.text.lower()

    @cached_property
    def layout(self) -> Layout:
        """The comments and statements of the file."""
        return layout(self._source.text)

    @cached_property
    def directives(self) -> list[Directive]:
        """What the file's comments say, in its order."""
        return list(directives(self._source, self.layout)) if hinted(self._source.text) else []

    @cached_property
    def _holding(self) -> dict[int, list[Directive]]:
        """What silences a statement, by its first row, or the file."""
        found: dict[int, list[Directive]] = defaultdict(list)
        for each in self.directives:
            if each.kind not in _SWITCHES:
                found[_FILE if each.kind == "ignore-file" else each.rows.start].append(each)
        return found

    @cached_property
    def _switches(self) -> list[Directive]:
        return [each for each in self.directives if each.kind in _SWITCHES and each.alone]

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges(self._source, self.layout, self._switches)

    @cached_property
    def _parts(self) -> dict[str, list[Range]]:
        """What is off, by the code or prefix."""
        found: dict[str, list[Range]] = defaultdict(list)
        for each in self._ranges.found:
            found[each.code.text].append(each)
        return found

    @cached_property
    def _enders(self) -> dict[Code, list[Directive]]:
        """What ends each code of an `off`."""
        found: dict[Code, list[Directive]] = defaultdict(list)
        for each in self._switches:
            for code in each.codes or () if each.kind == "on" else ():
                for ended in self._ranges.ended[code]:
                    found[ended].append(each)
        return found


def _related(code: str) -> tuple[str, ...]:
    """The rules whose lines a fix of a rule may change."""
    return _RENAMES if code in _RENAMES else (code,)


def _names(code: str, found: str) -> bool:
    """Whether a code or prefix silences findings of the rule `found`."""
    # Only its own full code, or all of them, silence AMP002: the prefix AMP would hide that it does nothing itself.
    return found.startswith(code) and (found != UNUSED or code in (UNUSED, ""))


def _listed(words: list[str]) -> str:
    return f"the name{'s' * (len(words) > 1)} {' and '.join(words)}"


def _message(idle: list[Code]) -> str:
    known = [code.text for code in idle if any(map(code.covers, all_rules()))]
    unknown = [code.text for code in idle if code.text not in known]
    parts = []
    if known:
        parts.append(f"nothing here is reported as {' or '.join(known)}" if known[0] else "nothing here is reported")
    if unknown:
        parts.append(f"there is no rule {' or '.join(unknown)}")
    return ", and ".join(parts)
