"""One finding for one cause: of those that one change puts right, the gravest, which names the places of the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.sources.source import lines

if TYPE_CHECKING:
    from amplint.sources.source import Source

_GRAVE = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
_SURE = (Confidence.CERTAIN, Confidence.LIKELY, Confidence.SUSPICION)


def one_per_cause(source: Source, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of those with the same cause the gravest one only, or the first of several such."""
    findings = list(findings)
    together: dict[str, list[Finding]] = {}
    for each in findings:
        if each.cause:
            together.setdefault(each.cause, []).append(each)
    kept = {cause: min(group, key=_order) for cause, group in together.items()}
    return [
        _with_others(source, each, together[each.cause]) if each.cause else each
        for each in findings
        if not each.cause or kept[each.cause] is each
    ]


def _order(finding: Finding) -> tuple[bool, int, int, int]:
    grave, sure = _GRAVE.index(finding.severity), _SURE.index(finding.confidence)
    return finding.is_suspicion, grave, sure, finding.start


def _with_others(source: Source, finding: Finding, group: list[Finding]) -> Finding:
    codes: dict[str, list[int]] = {}
    own = (finding.code, source.named(finding.start))
    for each in sorted(group):
        is_as_sure = _SURE.index(each.confidence) <= _SURE.index(finding.confidence)
        if (each.code, source.named(each.start)) != own and is_as_sure:
            codes.setdefault(each.code, []).append(each.start)
    said = [f"{code} on {lines(source, starts)}" for code, starts in codes.items()]
    message = f"{finding.message} (which also fixes {' and '.join(said)})" if said else finding.message
    return finding._replace(message=message, cause="")
