"""The findings of a run while it goes on: each is kept once, with how often it was seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from amplint.doctor.findings import Cause, Evidence, Finding

# What explains the others comes first: use of the scaler, then numbers, then what the scale makes of both.
_ORDER = {
    Cause.SCALER_OFF: 0,
    Cause.PROTOCOL: 0,
    Cause.NO_GRADIENTS: 0,
    Cause.CASTS_NOTHING: 1,
    Cause.DATA: 1,
    Cause.WEIGHTS: 2,
    Cause.OVERFLOW: 2,
    Cause.UNDERFLOW: 2,
    Cause.MASK: 2,
    Cause.MATH: 2,
    Cause.DIVERGENCE: 2,
    Cause.HIDDEN: 3,
    Cause.SCALE: 4,
    None: 5,
}


class Collector:
    """The findings so far, and the number of the step that runs."""

    def __init__(self) -> None:
        self.step = 1  # the number of the step that is being made
        self.told: Callable[[Finding], None] = lambda finding: None  # called with a finding that is new
        self._findings: dict[tuple[object, ...], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it once more."""
        if finding.step is None:
            finding = dataclasses.replace(finding, step=self.step)
        key = (finding.cause, finding.code, finding.place)
        known = self._findings.get(key)
        if known is not None:
            self._findings[key] = dataclasses.replace(known, times=known.times + 1)
            return
        self._findings[key] = finding
        self.told(finding)

    @property
    def found(self) -> list[Finding]:
        """All findings, in the order in which they were first seen."""
        return list(self._findings.values())

    def sorted(self) -> list[Finding]:
        """All findings, the root cause first; what is only a consequence of another one is dropped."""
        ordered = sorted(self._findings.values(), key=lambda each: (_ORDER[each.cause], each.step or 0))
        explained = [
            each for each in ordered if each.evidence is not Evidence.NOT_SHOWN and each.cause is not Cause.SCALE
        ]
        return [each for each in ordered if not (explained and _is_consequence(each, explained))]


def _is_consequence(finding: Finding, explained: list[Finding]) -> bool:
    """Whether another finding, of the same step or before, explains one that only says that something happened."""
    says_little = finding.evidence is Evidence.NOT_SHOWN or finding.cause in {Cause.SCALE, Cause.WEIGHTS}
    others = (each for each in explained if each is not finding)
    return says_little and any((each.step or 0) <= (finding.step or 0) for each in others)
