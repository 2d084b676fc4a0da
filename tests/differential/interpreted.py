"""Runs `amplint verify`'s interpreter over random programs, beside what is observed when they are executed.

python -m tests.differential.interpreted --programs 1000 --seed 0
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import torch

from amplint.engine.file import fix_bytes
from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from amplint.verify.steps.verdict import REFUTED
from tests.differential.compare import SETTINGS
from tests.differential.generate import generate
from tests.differential.ledger import UnsuitableError
from tests.differential.observe import observe
from tests.differential.program import FILENAME, Program
from tests.interpreting import verdicts


class Interpreted(NamedTuple):
    """A program: the verdicts on its fixes, what its runs say as it stands, and what was observed of it."""

    program: Program
    verdicts: list[str]
    reasons: list[str]  # of the refuted
    state: str  # right, wrong, not checkable, or no step
    found: bool  # by the static analysis
    observed: bool | None  # None: the program is unsuitable, or was not executed

    @property
    def accuses(self) -> bool:
        """Whether only the interpreter says that the program is wrong."""
        return self.state == WRONG and self.observed is False and not self.found


def interpreted(program: Program, *, executes: bool = True) -> Interpreted:
    """Interpret a program and what its fixes make of it, and execute it, unless nobody asks what is observed then."""
    made = fix_bytes(program.text.encode(), FILENAME, SETTINGS, unsafe=True)
    codes, left = ([each.code for each in result.findings] for result in (made.before, made.result))
    decided = verdicts(program.text, made.data.decode(), Counter(codes) - Counter(left), left)
    states = {each.judged.state for each, _ in decided}
    observed: bool | None = None
    if executes:
        with suppress(UnsuitableError):
            observed = any(not each.secondary for each in observe(program).observed)
    return Interpreted(
        program,
        [each.verdict for _, each in decided],
        [each.reason for _, each in decided if each.verdict == REFUTED],
        next((state for state in (WRONG, UNKNOWN, RIGHT) if state in states), "no step"),
        bool(codes),
        observed,
    )


def main() -> None:
    """Print how often the interpreter and the executed program agree, and the verdicts on fixes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: Counter[str] = Counter()
    agreement: Counter[tuple[str, str]] = Counter()
    started = time.monotonic()
    for seed in range(options.seed, options.seed + options.programs):
        each = interpreted(generate(seed, ""))
        found.update(each.verdicts)
        if each.observed is not None:
            agreement["misbehaves" if each.observed else "does not", each.state] += 1
        for reason in each.reasons:
            print(f"--- seed {seed}: refuted: {reason}")
        if each.accuses:
            print(f"--- seed {seed}: only the interpreter finds something")
    for (executed, state), count in sorted(agreement.items()):
        print(f"executed: {executed:10}  interpreted: {state:13}  {count}")
    said = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
    print(f"{said}; {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
