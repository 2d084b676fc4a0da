"""`python -m tests.differential.mutants`: plants faults in flow analysis, one at a time, and counts those noticed.

A fault is noticed if a program of the differential test, whose verdicts agreed before, has verdicts that differ now:
one of the random ones, or one of those that were kept because their verdicts differed once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import amplint
from tests.differential.compare import ASKED, Verdict, all_tried, compare
from tests.differential.mutants_list import FAULTS, Fault
from tests.differential.program import FILENAME, Program, kept

PROGRAMS = 300
SECONDS = 300  # for all programs, after a fault
PACKAGE = Path(amplint.__file__).parent
# Reads texts, writes for each its findings; run beside a copy of amplint, without torch.
CHILD = f"""\
import json, sys
from amplint import check
from amplint.config.settings import Settings
codes, texts = json.load(sys.stdin)
settings = Settings(frozenset(codes), isolated=True)
found = [[(each.code, text.count("\\n", 0, each.start) + 1) for each in check(text, {FILENAME!r}, settings)]
         for text in texts]
json.dump(found, sys.stdout)
"""
Found = list[frozenset[tuple[str, int]]]


class FaultError(Exception):
    """A fault can't be planted, or the analysis fails with it."""


class Outcome(NamedTuple):
    """What became of a fault: the programs that notice it, the first one first, or what failed."""

    by: list[Program]
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return f"FAILED: {self.failure}"
        if not self.by:
            return "MISSED"
        return f"caught by {len(self.by)}, first by {self.by[0].family if self.by[0].chosen else self.by[0].seed}"


def planted(fault: Fault, text: str) -> str:
    """A file's text with the fault in it."""
    if (number := text.count(fault.old)) != 1:
        raise FaultError(f"{fault.name}: its text stands {number} times in {fault.file}: {fault.old!r}")
    return text.replace(fault.old, fault.new)


def found_by(root: Path, texts: list[str]) -> Found:
    """What the copy of amplint below a folder finds in each text."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
    given = json.dumps([sorted(ASKED), texts])
    command = [sys.executable, "-c", CHILD]
    try:
        ran = subprocess.run(
            command, input=given, capture_output=True, text=True, env=environment, cwd=root, timeout=SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        raise FaultError(f"the analysis ends with an error:\n{error.stderr}") from None
    return [frozenset((code, line) for code, line in each) for each in json.loads(ran.stdout)]


def _is_whole(found: frozenset[tuple[str, int]]) -> bool:
    """Whether no rule has failed: who notices a fault by that only hasn't noticed it."""
    return all(code in ASKED for code, _ in found)


def _agrees(verdict: Verdict, found: frozenset[tuple[str, int]]) -> bool:
    return _is_whole(found) and verdict._replace(found=found).agrees


def tried(fault: Fault, package: Path, verdicts: list[Verdict]) -> Outcome:
    """Plant one fault in a copy of a package, and see which of the programs that agreed notice."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "amplint")
        shutil.copytree(package, copy)  # with what is compiled, whose times stay
        file = copy / "model" / fault.file
        file.write_text(planted(fault, file.read_text()))
        try:
            found = found_by(Path(folder), [each.program.text for each in verdicts])
        except (FaultError, subprocess.TimeoutExpired) as error:
            return Outcome([], str(error))
    return Outcome(
        [each.program for each, new in zip(verdicts, found, strict=True) if _is_whole(new) and not _agrees(each, new)]
    )


def all_outcomes(
    faults: Sequence[Fault], programs: int, jobs: int, chosen: Sequence[Program] | None = None
) -> Iterator[Outcome]:
    """Every fault planted; the programs, random ones and the `chosen` (else all that are kept), are observed once."""
    tasks = [(seed, "") for seed in range(programs)]
    verdicts = [each.verdict for each in all_tried(tasks, jobs) if each.verdict is not None]
    verdicts += [compare(program) for program in (kept() if chosen is None else chosen)]
    with tempfile.TemporaryDirectory() as folder:
        # The files may change while this runs: all faults are planted in what they are now.
        package = Path(folder, "amplint")
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        before = found_by(Path(folder), [each.program.text for each in verdicts])
        agreed = [each for each, found in zip(verdicts, before, strict=True) if _agrees(each, found)]
        print(f"{len(agreed)} of {len(verdicts)} programs agree without a fault", flush=True)
        plant = partial(tried, package=package, verdicts=agreed)
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(plant, faults)


def main() -> int:
    """Run as the arguments say; 1 where more than two faults in fifty are missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.mutants", description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="how many programs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="plant only some faults, by their numbers")
    options = parser.parse_args()
    for fault in FAULTS:
        planted(fault, (PACKAGE / "model" / fault.file).read_text())
    numbered = list(enumerate(FAULTS, 1))
    if options.only is not None:
        numbered = [each for each in numbered if each[0] in options.only]
    outcomes = all_outcomes([fault for _, fault in numbered], options.programs, options.jobs)
    caught, by_random = 0, 0
    for (number, fault), outcome in zip(numbered, outcomes, strict=True):
        print(f"{number:3} {fault.file:16}{fault.name}: {outcome}", flush=True)
        caught += bool(outcome.by)
        by_random += not all(program.chosen for program in outcome.by)
    print(f"{caught} of {len(numbered)} caught, {by_random} of them by the {options.programs} random programs")
    return int(caught < 0.96 * len(numbered))


if __name__ == "__main__":
    sys.exit(main())
