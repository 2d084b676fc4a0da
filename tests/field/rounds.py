"""The rounds in which readers who don't know amplint judged what it says of public repositories, and their figures.

    python -m tests.field.rounds

`blind/repositories.csv` has the repositories that were opened, `blind/verdicts.csv` the verdict on each finding of AMP2
to AMP6, and on what `amplint verify` said and wrote. A round is closed: what it showed was mended afterwards.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("blind")
JUDGED = ("right", "useless", "wrong", "duplicate")
FIXES = ("merge", "no", "none")
_NEAR = 6  # lines


class Verdict(NamedTuple):
    """What a reader says of one finding (`what` is its code), verdict of verify, or change that was written."""

    round: int
    repository: str
    path: str
    line: str
    what: str
    verdict: str
    safe_fix: str
    unsafe_fix: str
    why: str

    @property
    def is_finding(self) -> bool:
        """Whether it is about a finding."""
        return self.what.startswith("AMP")


def read_rounds() -> list[Verdict]:
    """All verdicts, in the order in which they were given."""
    with (_FOLDER / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        return [Verdict(**{**row, "round": int(row["round"])}) for row in csv.DictReader(file)]  # type: ignore[arg-type]


class Label(NamedTuple):
    """What a reader raises in a file before amplint is run on it: the lines, and the rules that would do."""

    round: int
    repository: str
    path: str
    lines: range
    rules: frozenset[str]

    def is_found_by(self, verdict: Verdict) -> bool:
        """Whether a finding is about it: of one of its rules, at most six lines away."""
        return (
            (self.round, self.repository, self.path) == (verdict.round, verdict.repository, verdict.path)
            and verdict.what.removeprefix("AMP") in self.rules
            and self.lines.start - _NEAR <= int(verdict.line) < self.lines.stop + _NEAR
        )


def read_labels() -> list[Label]:
    """The certain and likely misuses that the files alone show, but for deprecated names."""
    labels = []
    with (_FOLDER / "labels.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            counts = row["sure"] in ("certain", "likely") and row["local"] == row["amp"] == "yes"
            if counts and not row["rule"].startswith("1"):
                first, _, last = row["span"].partition("-")
                lines = range(int(first), int(last or first) + 1)
                rules = frozenset((row["rule"], *row["alt"].split()))
                labels.append(Label(int(row["round"]), row["repository"], row["path"], lines, rules))
    return labels


def repositories() -> dict[str, int]:
    """The repositories that were opened, each with its round."""
    with (_FOLDER / "repositories.csv").open(encoding="utf-8", newline="") as file:
        return {row["repository"]: int(row["round"]) for row in csv.DictReader(file)}


def figures(verdicts: list[Verdict]) -> str:
    """A table of the rounds: repositories, findings by verdict, fixes, verify's verdicts, labels and those found."""
    opened = Counter(repositories().values())
    head = (
        "| round | repositories | findings | right | useless | wrong | duplicate | fixes | mergeable | verify | wrong "
        "| labels | found |"
    )
    lines = [head, "|" + "---|" * 13]
    labels = read_labels()
    for number in sorted(opened):
        of_round = [each for each in verdicts if each.round == number]
        findings = [each for each in of_round if each.is_finding]
        count = Counter(each.verdict for each in findings)
        offered = [{each.safe_fix, each.unsafe_fix} - {"none"} for each in findings]
        fixes = [each for each in offered if each]
        others = [each for each in of_round if not each.is_finding]
        cells = [number, opened[number], len(findings), *(count[each] for each in JUDGED)]
        cells += [len(fixes), sum("no" not in each for each in fixes)]
        cells += [len(others), sum(each.verdict == "wrong" for each in others)]
        own = [each for each in labels if each.round == number]
        met = sum(any(each.is_found_by(finding) for finding in findings) for each in own)
        cells += [len(own) or "-", met if own else "-"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(figures(read_rounds()))
