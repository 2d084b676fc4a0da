"""What amplint says of a fixture, as text: findings with place, words, fix or refusal, and what the fixer makes.

The accepted texts lie in `tests/__snapshots__`, one file a rule. After a change that is meant,

    pytest tests/test_fixtures.py -k fixer_makes --snapshot-update

writes them anew, of one rule with `-k "fixer_makes and AMP401"`; read the diff before it is committed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

from syrupy.extensions.amber import AmberSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

from amplint.base.findings import Confidence, Finding
from amplint.config.settings import Settings
from amplint.testing import Variant, fixed_bytes, plain

_RULE = re.compile(r"\[([A-Z]{3}\d{3})-")


class FileOfTheRule(AmberSnapshotExtension):
    """Keeps the snapshots of a test with the parameter `AMP401-name` in a file for AMP401."""

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """A file for the rule in the folder of the test file; of a test that has no rule, the file of its own."""
        name = super().get_file_basename(test_location=test_location, index=index)
        rule = _RULE.search(test_location.snapshot_name)
        return f"{name}/{rule[1]}" if rule else name

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """Whether a file is the one of a test's rule."""
        rule = _RULE.search(test_location.nodename)
        return rule is not None and snapshot_location.endswith(f"/{rule[1]}.ambr")


def rendered_variant(variant: Variant) -> str:
    """What is said of the bad half of a fixture, file by file, and what the safe and the unsafe fixes make of it."""
    settings = variant.settings
    return "".join(
        f"== {variant.name}/{path.relative_to(variant.bad.parent).as_posix()}\n" + rendered_file(path, settings)
        for path, _ in variant.files()
    )


def rendered_file(path: Path, settings: Settings) -> str:
    """What is said of one program, without the comments that only its test reads."""
    text = plain(path.read_text("utf-8"))
    made = fixed_bytes(text.encode(), str(path), settings, False)
    safe, unsafe = made.data.decode(), fixed_bytes(text.encode(), str(path), settings, True).data.decode()
    said = rendered_findings(text, made.before.findings) + rendered_diff("--fix", text, safe)
    return said + (rendered_diff("--fix --unsafe-fixes", text, unsafe) if unsafe != safe else "")


def rendered_findings(text: str, findings: Iterable[Finding]) -> str:
    """The findings in a text, in their order: where, what, how sure, what to do."""
    return "".join(_rendered(text, each) for each in findings)


def _sure(finding: Finding) -> str:
    return "" if finding.confidence is Confidence.CERTAIN else f" {finding.confidence.value}"


def _rendered(text: str, finding: Finding) -> str:
    start, end = finding.location, finding.end_location
    place = f"{start.row}:{start.column}-{end.row}:{end.column}"
    lines = [
        f"{place} {finding.code} {finding.name} {finding.severity.value}{_sure(finding)}",
        f"    at {text[finding.start : finding.end]!r}",
        f"    {finding.message}",
    ]
    if finding.fix is not None:
        kind = f"{finding.fix.applicability.value} fix" if finding.fix.edits else "help"
        lines.append(f"    {kind}: {finding.fix.message}")
    if finding.withheld is not None:
        lines.append(f"    no fix: {finding.withheld}")
    return "\n".join(lines) + "\n"


def rendered_diff(flags: str, before: str, after: str) -> str:
    """The lines that the fixer removes and adds, each change behind its line number; nothing where it changes none."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    changed = [each for each in lines if not each.startswith(("--- ", "+++ "))]
    return "".join(f"{each}\n" for each in [flags, *changed]) if changed else ""
