"""What amplint says about a file: findings, the fixes they carry, and the edits those are made of.

Offsets count characters of the file's decoded text, without a byte order mark (see `amplint.sources.source`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """What happens to the user: see the rules' documentation."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(str, Enum):
    """How sure a finding is.

    `CERTAIN`: a run shows it on each path that gets there. `LIKELY`: it holds in the evident case, and something out of
    sight could excuse it. `SUSPICION`: a pattern, for who has a model that doesn't learn; shown only where asked for.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    SUSPICION = "suspicion"


class Applicability(str, Enum):
    """How far a fix can be trusted: applied by `--fix`, by `--unsafe-fixes` too, or only shown."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Edit(NamedTuple):
    """Replace the characters from `start` up to `end` by `content`."""

    start: int
    end: int
    content: str


class Fix(NamedTuple):
    """Edits that belong together. `message` says what they do, or, where `edits` is empty, what to do by hand."""

    applicability: Applicability
    message: str
    edits: tuple[Edit, ...] = ()


class Location(NamedTuple):
    """A place as people count: row and column from 1, the column in characters; in a notebook's `cell`, from 1 too."""

    row: int
    column: int
    cell: int | None = None

    @classmethod
    def of(cls, cell: int | None, row: int, column: int) -> Location:
        """A place as `Source.place` gives it."""
        return cls(row, column, cell)


_NOWHERE = Location(0, 0)


class Finding(NamedTuple):
    """One misuse at one place. `withheld` says why a fix that the rule knows is not offered here.

    `location` and `end_location`, which is exclusive, are those of `start` and `end`; what a rule makes has none yet.
    Of the findings with the same `cause` only one is reported (`amplint.engine.causes`), where it isn't empty.
    Of a notebook `start`, `end` and the edits count characters of its cells' code, one cell behind the other.
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

    @property
    def is_suspicion(self) -> bool:
        """Whether it is shown only to who asks for suspicions, and never counts for the exit code."""
        return self.confidence is Confidence.SUSPICION

    @property
    def said(self) -> str:
        """The message, with how sure it is in front where that is less than certain."""
        return self.message if self.confidence is Confidence.CERTAIN else f"{self.confidence.value}: {self.message}"

    def is_fixable(self, *, unsafe: bool) -> bool:
        """Whether `--fix` makes the fix, or with `unsafe` `--unsafe-fixes` would."""
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
