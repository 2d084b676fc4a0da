"""What amplint says about a file: findings, their fixes, and the edits that a fix consists of.

Offsets count characters of the file's decoded text, without a byte order mark (see `amplint.sources.source`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """How bad the consequences of a misuse are: see the rules' documentation."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(str, Enum):
    """How sure a finding is.

    `CERTAIN`: a run shows the misuse on each path that gets there. `LIKELY`: it is a misuse in the evident case, but
    code that amplint can't see could make it right. `SUSPICION`: a pattern to check when a model doesn't learn; shown
    only if suspicions are enabled.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    SUSPICION = "suspicion"


class Applicability(str, Enum):
    """How far a fix can be trusted: `--fix` applies it, only `--fix --unsafe-fixes` applies it, or it is only shown."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Edit(NamedTuple):
    """Replace the characters from `start` up to `end` by `content`."""

    start: int
    end: int
    content: str


class Fix(NamedTuple):
    """Edits that belong together. `message` says what they do or, if `edits` is empty, what to do by hand."""

    applicability: Applicability
    message: str
    edits: tuple[Edit, ...] = ()

    @property
    def advice(self) -> str:
        """What the fix does; without edits what to do by hand, and that it is to be done by hand."""
        if self.edits:
            return self.message
        return f"by hand: {self.message[:1].lower()}{self.message[1:]}"


class Location(NamedTuple):
    """A place as people count: row and column from 1, the column in characters; in a notebook's `cell`, also from 1."""

    row: int
    column: int
    cell: int | None = None

    @classmethod
    def of(cls, cell: int | None, row: int, column: int) -> Location:
        """A place as `Source.place` gives it."""
        return cls(row, column, cell)


_NOWHERE = Location(0, 0)


class Kind(NamedTuple):
    """What findings that are counted together have in common."""

    code: str
    name: str
    severity: Severity


class Finding(NamedTuple):
    """One misuse at one place. `withheld` says why amplint doesn't offer a fix that the rule knows.

    `unconfirmed` says why a run of `--fix --verify` has not applied the fix, which `--fix` alone would.
    `location` and `end_location`, which is exclusive, are the places of `start` and `end`; amplint adds them to what a
    rule makes. Of several findings with the same `cause`, unless it is empty, amplint reports only one
    (`amplint.engine.causes`). In a notebook `start`, `end` and the edits count characters of the cells' code, one cell
    after the other.
    """

    start: int
    end: int
    code: str
    name: str
    severity: Severity
    message: str
    fix: Fix | None = None
    withheld: str | None = None
    location: Location = _NOWHERE
    end_location: Location = _NOWHERE
    cause: str = ""
    confidence: Confidence = Confidence.CERTAIN
    unconfirmed: str | None = None

    @property
    def kind(self) -> Kind:
        """What it is counted as."""
        return Kind(self.code, self.name, self.severity)

    @property
    def is_suspicion(self) -> bool:
        """Whether the finding is shown only if suspicions are enabled, and never affects the exit code."""
        return self.confidence is Confidence.SUSPICION

    def as_likely(self) -> Finding:
        """The same as likely, and so at most a warning; a suspicion as it is."""
        return self if self.is_suspicion else self._less_sure(Confidence.LIKELY)

    def as_suspicion(self) -> Finding:
        """The same as a suspicion, at most a warning, whose fix is only shown."""
        fix = self.fix._replace(applicability=Applicability.DISPLAY) if self.fix is not None else None
        return self._less_sure(Confidence.SUSPICION)._replace(fix=fix)

    def _less_sure(self, confidence: Confidence) -> Finding:
        severity = Severity.WARNING if self.severity is Severity.ERROR else self.severity
        return self._replace(confidence=confidence, severity=severity)

    @property
    def said(self) -> str:
        """The message; if the finding is less than certain, its confidence comes first."""
        return self.message if self.confidence is Confidence.CERTAIN else f"{self.confidence.value}: {self.message}"

    @property
    def refusal(self) -> str | None:
        """That there is no fix, and why, where the rule knows one that amplint doesn't offer."""
        return f"no fix: {self.withheld}" if self.withheld else None

    def is_fixable(self, *, unsafe: bool) -> bool:
        """Whether `--fix` makes the fix; with `unsafe`, whether `--fix --unsafe-fixes` makes it."""
        if self.fix is None or not self.fix.edits:
            return False
        return self.fix.applicability is Applicability.SAFE or (
            unsafe and self.fix.applicability is Applicability.UNSAFE
        )


def withhold(findings: Iterable[Finding], edits: Mapping[tuple[Edit, ...], str]) -> list[Finding]:
    """The findings without fixes that make any of these `edits`, which are not to be made, each for a reason.

    Findings can share a fix, as those of one imported name do: made for one of them it is made for all.
    """
    return [
        each._replace(fix=None, withheld=edits[each.fix.edits]) if each.fix and each.fix.edits in edits else each
        for each in findings
    ]
