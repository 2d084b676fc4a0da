"""What tells a finding from others while lines move around it: for baselines, and for services that track findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from amplint.base.findings import Finding
from amplint.sources.source import Source


def fingerprints(source: Source, findings: Sequence[Finding], path: str) -> list[str]:
    """One for each of a file's `findings`, all different: 32 hexadecimal digits.

    They hang on the code, on the lines that the finding stands in but for white space, and on `path`, which should be
    the same on all machines. Of findings that agree in all this the first is told from the second by their order.
    Messages don't count: they name the numbers of other lines.
    """
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for each in findings:
        last = source.row(max(each.end - 1, each.start))
        lines = (source.line(row) for row in range(source.row(each.start), last + 1))
        key = each.code, " ".join(" ".join(lines).split())
        seen[key] += 1
        parts = path.replace("\\", "/"), *key, str(seen[key])
        found.append(sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32])
    return found
