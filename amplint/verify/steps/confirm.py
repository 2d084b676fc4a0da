"""Which fixes of a file its runs confirm: what is wrong in a step is gone with it, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from amplint.base.findings import Finding
from amplint.config.settings import Settings
from amplint.engine.file import Wanted, fix_bytes
from amplint.engine.result import FixResult
from amplint.registry import shows_of
from amplint.sources.source import Source
from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from amplint.verify.steps.verdict import REFUTED, ends_only, exception_left, is_no_worse, shown_by
from amplint.verify.steps.verify import MODULE, StepRow, Verifier, name_at

_Group = tuple[str, str, str]


class Unit(NamedTuple):
    """A finding whose fix is on trial, as it is known again after other fixes: lines move."""

    code: str
    function: str
    line: str
    number: int  # among those of which all this is the same

    @property
    def group(self) -> _Group:
        """What other findings can have in common with it."""
        return self[:3]


class Confirmation:
    """The fixes of one file that its runs confirm, in `fixed`, and why others are not made.

    A fix is confirmed if a step misbehaves without it, and with it, and with the others that are made, what it is for
    is gone from each step that they touch. Such a step is right then, or only what no fix is for is left wrong, just as
    it was. Other fixes are not made, not even the safe ones, and neither are those that are not `wanted`.
    """

    def __init__(
        self, verifier: Verifier, path: str, data: bytes, settings: Settings, wanted: Wanted | None = None
    ) -> None:
        self._verifier = verifier
        self._path = path
        self._data = data
        self._settings = settings
        self._wanted = wanted
        self._allowed: dict[Unit, None] | None = None  # None: all, which are noted
        self._known: dict[Unit, None] = {}
        self._sizes: Counter[_Group] = Counter()
        self._why: dict[Unit, str] = {}
        self._rows: list[StepRow] = []
        with verifier.remembering():
            self.fixed = self._confirmed()

    def why(self, finding: Finding) -> str | None:
        """Why the fix of one of the findings that are left is not made; None where nobody has asked for such a fix.

        It is the end of a sentence that starts with "not applied".
        """
        source = self.fixed.result.source
        if source is None or not self._is_offered(finding):
            return None
        unit = next(unit for each, unit in self._units(source, self.fixed.result.findings) if each is finding)
        shows = shows_of(finding.code)
        if shows is None or not shows.observables:
            return f"no run can show what it repairs ({shows.why if shows else 'the rule does not say how'})"
        if not any(unit.function in row.functions for row in self._rows):
            return "no training step that can be run contains this code"
        return self._why.get(unit, "the run shows nothing that this fix repairs")

    def _confirmed(self) -> FixResult:
        fixed, rows = self._tried(None)
        self._rows = rows
        if fixed.data == self._data:
            return fixed
        allowed = self._known
        while bad := [row for row in rows if not _is_mended(row)]:
            allowed = self._without_spoilers(allowed, bad[0])
            fixed, rows = self._tried(allowed)
        healed = {(row.name, row.row) for row in rows if row.before.state == WRONG and row.after is not None}
        for some in self._in_turn(allowed):
            fewer = _without(allowed, some)
            without, others = self._tried(fewer)
            if without.data == fixed.data:
                continue  # the same fix has another finding's name
            if _are_as_good(others, rows, healed):
                allowed, fixed, rows = fewer, without, others
        return fixed

    def _without_spoilers(self, allowed: dict[Unit, None], row: StepRow) -> dict[Unit, None]:
        """Those of the fixes without the one that keeps a step from being mended, or without all that do.

        A step that was right, or could be run, is left to its fixes' authors all the same.
        """
        said = _why_not(row)
        own = [each for each in allowed if each.function in row.functions or row.name == MODULE] or [*allowed]
        for each in own if len(own) > 1 else ():
            fewer = _without(allowed, [each])
            then = self._with(fewer, row)
            if then is not None and then.after is not None and _is_mended(then):
                self._why[each] = said
                return fewer
        kept = _without(allowed, own)
        for each in own:
            then = self._with({**kept, each: None}, row)
            if then is not None and _is_mended(then):
                kept[each] = None
            else:
                self._why[each] = said if then is None else _why_not(then)
        return {each: None for each in allowed if each in kept}

    def _with(self, allowed: dict[Unit, None], row: StepRow) -> StepRow | None:
        """The row of the same step with the fixes that are allowed."""
        _, rows = self._tried(allowed)
        return next((other for other in rows if (other.name, other.row) == (row.name, row.row)), None)

    @staticmethod
    def _in_turn(allowed: dict[Unit, None]) -> Iterator[list[Unit]]:
        """What is tried to be left out: first all that no run can show, then each fix by itself, the last first."""
        unshown = [each for each in allowed if not shown_by([each.code])]
        if len(unshown) > 1:
            yield unshown
        yield from ([each] for each in [*unshown, *reversed([each for each in allowed if each not in unshown])])

    def _tried(self, allowed: dict[Unit, None] | None) -> tuple[FixResult, list[StepRow]]:
        self._allowed = allowed
        fixed = fix_bytes(self._data, self._path, self._settings, wanted=self._chosen)
        rows = self._verifier.compare(self._path, self._data, self._settings, fixed) if fixed.data != self._data else []
        return fixed, rows

    def _chosen(self, source: Source, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Those of the findings of a round whose fixes are allowed: for each that the same fix is for."""
        findings = self._wanted(source, findings) if self._wanted else findings
        units = [(each, unit) for each, unit in self._units(source, findings) if self._is_offered(each)]
        if self._allowed is None:
            self._known |= {unit: None for _, unit in units}
            for each, count in Counter(unit.group for _, unit in self._units(source, findings)).items():
                self._sizes[each] = max(self._sizes[each], count)
            return findings
        counts = Counter(unit.group for _, unit in self._units(source, findings))
        refused = {
            each.fix.edits for each, unit in units if each.fix and not self._is_allowed(unit, counts[unit.group])
        }
        return [each for each in findings if not each.fix or each.fix.edits not in refused]

    def _is_allowed(self, unit: Unit, count: int) -> bool:
        allowed = self._allowed or {}
        if count == self._sizes[unit.group]:
            return unit in allowed
        # Some of those that look the same have been fixed: which these are is not known.
        return all(each in allowed for each in self._known if each.group == unit.group) and unit.group in self._sizes

    def _is_offered(self, finding: Finding) -> bool:
        return finding.is_fixable(unsafe=self._settings.unsafe_fixes)

    @staticmethod
    def _units(source: Source, findings: Sequence[Finding]) -> list[tuple[Finding, Unit]]:
        seen: Counter[_Group] = Counter()
        found = []
        for each in findings:
            group = each.code, name_at(source, each.start), source.line(source.row(each.start)).strip()
            seen[group] += 1
            found.append((each, Unit(*group, seen[group])))
        return found


def _without(allowed: dict[Unit, None], left_out: Sequence[Unit]) -> dict[Unit, None]:
    return {each: None for each in allowed if each not in left_out}


def _is_mended(row: StepRow) -> bool:
    """Whether the fixes that touch a step leave it right, or end a part of what is wrong and change nothing else."""
    return row.after is None or row.after.state == RIGHT or ends_only(row.before, row.after)


def _why_not(row: StepRow) -> str:
    """Why the fixes of a step are not confirmed, in words."""
    if row.before.state == UNKNOWN:
        return f"the step can't be checked: {row.reason}"
    if row.after is None or row.after.state == UNKNOWN:
        return f"the step can't be checked with the fix: {row.after.reason if row.after else row.reason}"
    raised = exception_left(row.after)
    if raised and row.verdict != REFUTED:
        return f"the step still raises with the fix, and what comes after that could not be compared: {raised}"
    return row.reason or "the run shows nothing that this fix repairs"


def _are_as_good(rows: Sequence[StepRow], than: Sequence[StepRow], healed: set[tuple[str, int]]) -> bool:
    """Whether steps are as good as `than`, with more fixes: those that fixes touch, and those that were `healed`."""
    best = {(row.name, row.row): row.after or row.before for row in than}
    return all(
        _is_mended(row) and is_no_worse(row.after or row.before, best.get((row.name, row.row)))
        for row in rows
        if row.after is not None or (row.name, row.row) in healed
    ) and (bool(rows) or not healed)
