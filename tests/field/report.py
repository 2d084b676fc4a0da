"""What a run prints: findings and verdicts without a counterpart, and a table per package."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.field.fixing import MODES, FixResult
from tests.field.lint import FieldFinding, LintRun
from tests.field.verdicts import VERDICTS, Comparison, Key, show

WORDS = (b"autocast", b"GradScaler", b"unscale_")
WORDS_TOGETHER = (b"clip_grad", b"scaler")


class PackageResult(NamedTuple):
    """All that was learnt about one package."""

    files: int
    files_with_amp: int
    run: LintRun
    fixes: dict[str, FixResult]


def count_files(folder: Path) -> tuple[int, int]:
    """How many .py files there are, and how many of them have a word that AMP code has."""
    files = [file.read_bytes() for file in folder.rglob("*.py")]
    return len(files), sum(map(has_amp_words, files))


def has_amp_words(content: bytes) -> bool:
    """Whether a file is likely to be about AMP at all; a scaler may also be scikit-learn's."""
    return any(word in content for word in WORDS) or all(word in content for word in WORDS_TOGETHER)


def row_to_judge(package: str, finding: FieldFinding, folder: Path) -> str:
    """A finding without a verdict: a row for the verdicts' file with both last fields open, then what it is about."""
    row = show(Key(package, finding.path, finding.line, finding.code))
    lines = Path(folder, finding.path).read_bytes().decode("utf-8", "replace").splitlines()
    source = lines[finding.line - 1].strip() if 0 < finding.line <= len(lines) else ""
    return f"{row},,\n    {finding.message}\n    | {source}"


def tables(results: dict[str, PackageResult], comparison: Comparison) -> str:
    """The findings' table and the fixes' table, each with a last line of totals."""
    found = [["package", "files", "AMP files", "findings", *VERDICTS, "open", "crashes", "codes"]]
    fixed = [["package", *(f"{mode}: {what}" for mode in MODES for what in ("changed", "left", "problems"))]]
    for package, result in results.items():
        judged = comparison.judged[package]
        findings = result.run.findings
        numbers = [result.files, result.files_with_amp, len(findings), *(judged[verdict] for verdict in VERDICTS)]
        numbers += [len(findings) - sum(judged.values()), len(result.run.crashes)]
        codes = Counter(finding.code for finding in findings)
        found.append([package, *map(str, numbers), " ".join(f"{code}:{codes[code]}" for code in sorted(codes))])
        counts = [(fix.changed, fix.remaining, len(fix.problems)) for fix in result.fixes.values()]
        fixed.append([package, *(str(number) for triple in counts for number in triple)])
    all_codes = Counter(finding.code for result in results.values() for finding in result.run.findings)
    codes_in_total = " ".join(f"{code}:{count}" for code, count in sorted(all_codes.items()))
    return f"{_table(found, codes_in_total)}\n\n{_table(fixed)}"


def _table(rows: list[list[str]], *last: str) -> str:
    """Aligned columns. Every column of numbers gets a sum; `last` are the cells of the total after the numbers."""
    columns = len(rows[0])
    sums = [str(sum(int(row[column]) for row in rows[1:])) for column in range(1, columns - len(last))]
    rows = [*rows, ["total", *sums, *last]]
    widths = [max(len(row[column]) for row in rows) for column in range(columns)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [row[n].rjust(widths[n]) if n < columns - len(last) else row[n] for n in range(1, columns)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
