"""The findings of a run while it goes on: each is kept once, with how often it was seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from amplint.doctor.findings import Cause, Finding

# What explains the others comes first: use of the scaler, then numbers, then what the scale makes of both.
_ORDER = {
    Cause.SCALER_OFF: 0,
    Cause.PROTOCOL: 0,
    Cause.NO_GRADIENTS: 0,
    Cause.CASTS_NOTHING: 1,
    Cause.HIDDEN: 2,
    Cause.DATA: 3,
    Cause.WEIGHTS: 4,
    Cause.OVERFLOW: 4,
    Cause.UNDERFLOW: 4,
    Cause.MASK: 4,
    Cause.MATH: 4,
    Cause.DIVERGENCE: 4,
    None: 5,
    Cause.SCALE: 6,
}
_FIRST = -1


class Collector:
    """The findings so far, and the number of the step that runs."""

    def __init__(self) -> None:
        self.step = 1  # the number of the step that is being made
        self.told: Callable[[Finding], None] = lambda finding: None  # called with a finding that is new
        self._findings: dict[tuple[object, ...], Finding] = {}
        self._raising: set[tuple[object, ...]] = set()
        self._roots: set[tuple[object, ...]] = set()
        self._undecided: list[tuple[Finding, Callable[[], bool]]] = []

    def add(self, finding: Finding, *, raises: bool = False, is_root: bool = False) -> None:
        """Keep a finding, or count it once more. What `raises` comes before others of its step, and what `is_root`
        before all: what follows from it is not said.
        """
        if finding.step is None:
            finding = dataclasses.replace(finding, step=self.step)
        key = _key(finding)
        known = self._findings.get(key)
        if known is not None:
            self._findings[key] = dataclasses.replace(known, times=known.times + 1)
            return
        self._findings[key] = finding
        if raises:
            self._raising.add(key)
        if is_root:
            self._roots.add(key)
        self.told(finding)

    def add_unless(self, finding: Finding, is_harmless: Callable[[], bool]) -> None:
        """Keep a finding that counts only if `is_harmless` says at the end that what it is about has done harm."""
        self._undecided.append((dataclasses.replace(finding, step=finding.step or self.step), is_harmless))

    def decide(self) -> None:
        """The run is over: keep those of the undecided findings that count."""
        undecided, self._undecided = self._undecided, []
        for finding, is_harmless in undecided:
            if not is_harmless():
                self.add(finding)

    def _rank(self, finding: Finding) -> tuple[int, int, bool]:
        key = _key(finding)
        order = _FIRST if key in self._roots else _ORDER[finding.cause]
        return order, finding.step or 0, key not in self._raising

    def sorted(self) -> list[Finding]:
        """All findings, the root cause first; what is only a consequence of another one is dropped."""
        kept: list[Finding] = []
        for finding in sorted(self._findings.values(), key=self._rank):
            if _key(finding) in self._roots or not self._is_consequence(finding, kept):
                kept.append(finding)
        return kept

    def _is_consequence(self, finding: Finding, kept: list[Finding]) -> bool:
        """Whether one of the findings that are kept, of the same step or before, explains one that only says that
        something happened.
        """
        if finding.cause not in {None, Cause.SCALE, Cause.WEIGHTS}:
            return False
        says_why = [
            each
            for each in kept
            if _key(each) in self._roots
            or (each.cause is not Cause.SCALE and (each.cause is not None or finding.cause is Cause.SCALE))
        ]
        return any((each.step or 0) <= (finding.step or 0) for each in says_why)


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.cause, finding.code, finding.place and finding.place.is_at
