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


def repositories() -> dict[str, int]:
    """The repositories that were opened, each with its round."""
    with (_FOLDER / "repositories.csv").open(encoding="utf-8", newline="") as file:
        return {row["repository"]: int(row["round"]) for row in csv.DictReader(file)}


def figures(verdicts: list[Verdict]) -> str:
    """A table: for each round its repositories, findings by verdict, fixes by verdict, and the same for verify."""
    opened = Counter(repositories().values())
    head = (
        "| round | repositories | findings | right | useless | wrong | duplicate | fixes | mergeable | verify | wrong |"
    )
    lines = [head, "|" + "---|" * 11]
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
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(figures(read_rounds()))
