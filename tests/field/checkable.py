"""How many of the AMP training steps of real code `amplint verify` can check, and where it and the findings differ.

python -m tests.field.checkable PATH...

The steps are counted by tests.field.steps, which uses nothing of amplint. A step counts as checkable where a row of
`amplint verify` that runs its function has a verdict.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from amplint.config.settings import Settings
from amplint.registry import all_rules
from amplint.verify.steps.verdict import NOT_CHECKABLE
from amplint.verify.steps.verify import StepRow, Verifier
from tests.field.steps import Step, steps_of


def rows_for(step: Step, rows: list[StepRow]) -> list[StepRow]:
    """The rows that run a step's function."""
    return [row for row in rows if any(name.rpartition(".")[2] == step.name for name in row.functions)]


def disagreements(row: StepRow) -> list[str]:
    """What only one of the two says: findings that a run could show and doesn't, and the reverse."""
    if row.verdict == NOT_CHECKABLE:
        return []
    found = [f"{each.code} at line {each.row} isn't shown" for each in row.findings if each.shown is False]
    return found + [f"{shows} is shown, and no finding is about it" for shows in row.only_run]


def main() -> None:
    """Print the steps that can't be checked, the disagreements, and a table."""
    files = [file for name in sys.argv[1:] for file in _files(Path(name))]
    settings = Settings(frozenset(all_rules()), isolated=True)
    counts: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    runs, seconds = 0, 0.0
    with Verifier() as verifier:
        for file in files:
            steps = list(steps_of(file))
            if not steps:
                continue
            rows = verifier.verify(str(file), file.read_bytes(), settings, unsafe=True)
            verdicts.update(row.verdict for row in rows)
            runs += sum(row.runs for row in rows)
            seconds += sum(row.seconds for row in rows)
            for row in rows:
                for each in disagreements(row):
                    print(f"{file}:{row.row} {row.name}: {each}")
            for step in steps:
                of = rows_for(step, rows)
                checked = [row for row in of if row.verdict != NOT_CHECKABLE]
                counts["steps"] += 1
                counts["checkable"] += bool(checked)
                if not checked:
                    why = of[0].reason if of else "verify finds no step there"
                    print(f"{file}:{step.row} {step.name}: not checkable: {why}")
    share = 100 * counts["checkable"] / max(1, counts["steps"])
    print(f"{counts['steps']} steps, {counts['checkable']} checkable ({share:.0f} %)")
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"rows: {said}; {runs} runs in {seconds:.0f} s, {runs / max(seconds, 0.001):.0f} a second")


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    main()
