"""What the doctor says of a run: findings with their causes, places and evidence, and the report they stand in."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from types import CodeType
from typing import NamedTuple

from amplint.base.paths import shown


class Cause(str, Enum):
    """What went wrong, in one word."""

    OVERFLOW = "overflow"  # too large for the dtype, finite in float32
    UNDERFLOW = "underflow"  # flushed to 0 in the dtype, not in float32
    MASK = "mask"  # a row that is masked completely
    MATH = "math"  # float32 fails as well
    DATA = "data"  # the batch was not finite
    WEIGHTS = "weights"  # parameters or buffers were not finite before the step
    DIVERGENCE = "divergence"  # finite numbers that grow until they are not
    PROTOCOL = "protocol"  # the scaler or autocast is used wrongly
    NO_GRADIENTS = "no-gradients"  # an optimizer steps and none of its parameters has a gradient
    SCALER_OFF = "scaler-off"  # a scaler is disabled though the program asked for it, or gradients are 0 for want of it
    HIDDEN = "hidden"  # values that are not finite were replaced or passed over
    CASTS_NOTHING = "casts-nothing"  # a region in which no operation ran in half precision
    SCALE = "scale"  # the loss scale itself goes wrong

    def __str__(self) -> str:
        return self.value


class Evidence(str, Enum):
    """How a finding is known. Of a finding that is `NOT_SHOWN` no cause is claimed."""

    SEEN = "seen"  # an event that happened
    COMPUTED = "computed"  # from tensors at that moment
    REPRODUCED = "reproduced"  # the replay was not finite in the same way
    NOT_SHOWN = "not shown"


class Verdict(str, Enum):
    """What a run came to, in one word."""

    HEALTHY = "healthy"  # nothing went wrong
    PROBLEMS = "problems"  # something did
    OFF = "off"  # nothing was found, and not all was watched: a bug of the doctor's has switched it off

    def __str__(self) -> str:
        return self.value


class Span(NamedTuple):
    """A part of a file. Rows count from 1, columns from 0 in bytes of UTF-8, as in Python's syntax trees."""

    row: int
    column: int
    end_row: int
    end_column: int


class Place(NamedTuple):
    """A line of the user's code. `path` is as Python has it in the code object, `line` counts from 1.

    `code` and `instruction` say which part of the line ran, where a frame was seen.
    """

    path: str
    line: int
    function: str = ""
    code: CodeType | None = None
    instruction: int = -1

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}"

    def __repr__(self) -> str:
        return f"Place(path={self.path!r}, line={self.line}, function={self.function!r})"

    def __reduce__(self) -> tuple[type[Place], tuple[str, int, str]]:
        return Place, self.is_at  # code can't be pickled

    @property
    def is_at(self) -> tuple[str, int, str]:
        """The line alone: all that is seen in a line goes together."""
        return self[:3]

    @property
    def span(self) -> Span | None:
        """The expression that ran, None where Python (before 3.11) doesn't say."""
        return span_of(self.code, self.instruction) if self.code is not None else None


def span_of(code: CodeType, instruction: int) -> Span | None:
    """The expression or statement that an instruction of some code is of, None where Python doesn't say."""
    if sys.version_info < (3, 11) or instruction < 0:
        return None
    row, end_row, column, end_column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if row is None or end_row is None or column is None or end_column is None:
        return None
    return Span(row, column, end_row, end_column)


@dataclass(frozen=True)
class Related:
    """What the linter says of a finding's line: its message, the fix's text, and the command that makes the fix.

    `is_missed` is set where the linter has nothing to say of the line, which is a gap of the linter. `code` is the rule
    that speaks, where that is one of those `alike`.
    """

    message: str = ""
    fix: str = ""
    command: str = ""
    is_missed: bool = False
    code: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that went wrong in a run.

    Attributes:
        cause: What went wrong; None where it could not be shown.
        evidence: How it is known.
        message: One sentence: what is wrong and what happens by it.
        place: The line of the user's code, None where no line of it is concerned.
        code: The rule of the linter that is about it, such as "AMP401".
        alike: Other rules that find causes of the same exception: what the linter says of the place decides.
        step: The number of the step, from 1, at which it was first seen.
        times: How often it was seen.
        details: Further lines: what was measured.
        advice: What to do.
        related: What the linter says of the place.
    """

    cause: Cause | None
    evidence: Evidence
    message: str
    place: Place | None = None
    code: str | None = None
    step: int | None = None
    times: int = 1
    details: tuple[str, ...] = ()
    advice: str = ""
    related: Related | None = None
    alike: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What a run came to. The root cause is the first of the findings.

    Attributes:
        findings: What went wrong.
        steps: Steps of optimizers that were asked for.
        skipped: How many of them the scaler skipped.
        scale: One sentence on the loss scale, in numbers; empty without a scaler.
        forwards: How often the doctor ran a forward pass (or a loss) again.
        backwards: How often it ran a backward pass again.
        statements: How often it ran a statement again that had raised.
        seconds: How long that took.
        notes: What the doctor could not look at, and why.
        is_off: A bug of its own has switched the doctor off before the program ended; a note says which.
    """

    findings: tuple[Finding, ...] = ()
    steps: int = 0
    skipped: int = 0
    scale: str = ""
    forwards: int = 0
    backwards: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    is_off: bool = False
    statements: int = 0

    @property
    def verdict(self) -> Verdict:
        """Whether something went wrong; `off` where nothing was found because the doctor didn't watch to the end."""
        if self.findings:
            return Verdict.PROBLEMS
        return Verdict.OFF if self.is_off else Verdict.HEALTHY
