"""What amplint says about a file: findings, the fixes they carry, and the edits those are made of.

Offsets count characters of the file's decoded text, without a byte order mark (see `amplint.source`).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """What happens to the user: see the rules' documentation."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


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


class Finding(NamedTuple):
    """One misuse at one place. `withheld` says why a fix that the rule knows is not offered here."""

    start: int
    end: int
    code: str
    name: str
    severity: Severity
    message: str
    fix: Fix | None = None
    withheld: str | None = None
