"""Puts what is found in a program beside what is observed of it."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import torch

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings
from tests.differential.codes import CODES, Observed
from tests.differential.generate import generate
from tests.differential.ledger import UnsuitableError
from tests.differential.observe import Seen, observe
from tests.differential.program import FILENAME, Program

CRASH = "AMP000"
ARMS = "AMP420"  # what only one arm does is not observed, but says why the other one's gradients add up
ASKED = CODES | {ARMS}
SETTINGS = Settings(ASKED, isolated=True)


_SKIPPED = "no gradients, cleared after unscale_"


class Verdict(NamedTuple):
    """Both verdicts on a program."""

    program: Program
    found: frozenset[tuple[str, int]]
    seen: Seen

    @property
    def missed(self) -> list[Observed]:
        """What was observed and not found."""
        return sorted(
            each
            for each, runs in self.seen.observed.items()
            if not each.secondary and not each.allowed() & self.found and not _of_few_batches(each, runs)
            if not self._has_told(each)
            if not (each.kind == _SKIPPED and len(runs) < self.seen.runs)  # perhaps on purpose
        )

    def _has_told(self, each: Observed) -> bool:
        """Whether another finding says the same.

        An update that comes too early leaves the right one nothing; where none comes, one finding will do.
        """
        kind, lines = each.kind, dict(each.lines)
        if any((code, line) in self.found for code in ("AMP406", "AMP407") for line in lines.get("unscaled", ())):
            # That unscale_ comes behind the step, or the clear.
            return "unscale_ again" in kind or kind == "a sum of unscaled and scaled"
        if kind == "a sum of unscaled and scaled" and any(code == ARMS for code, _ in self.found):
            return True
        if kind == "update owed at the end":
            return True  # in each iteration but the last, another update has made it good
        told = {of.kind for of in self.seen.observed if of.allowed() & self.found}
        if kind == "update with nothing checked":
            return bool(
                told & {"gradients of an old scale", "unscaled gradients divided by step", "used gradients stepped"}
            )
        if kind == "used gradients clipped":
            return any(of.startswith("called after step") for of in told)
        return "in a later iteration" in kind and any(
            "in a later iteration" in of or of == "update with nothing checked" for of in told
        )

    @property
    def wrong(self) -> list[tuple[str, int]]:
        """What was found and not observed, where that was reached at all."""
        told = {finding for each in self.seen.observed for finding in each.allowed()}
        judged = ((code, line) for code, line in self.found - told if code != ARMS)
        return sorted(each for each in judged if each[1] in self.seen.reached or each[0] == CRASH)

    @property
    def agrees(self) -> bool:
        return not self.missed and not self.wrong

    def __str__(self) -> str:
        program = self.program
        again = f"--show {program.seed}" + (f" --family '{program.family}'" if program.chosen else "")
        head = f"{again} ({program.family}); mutations: {', '.join(program.mutations) or 'none'}"
        flags = ", ".join(f"{name} in {values}" for name, values in program.flags.items())
        runs = self.seen.observed
        seen = "".join(f"\n    {each} [{_when(runs[each], self.seen.runs)}]" for each in sorted(runs))
        found = ", ".join(f"{code}@{line}" for code, line in sorted(self.found))
        missed = "".join(f"\n  MISSED {each}" for each in self.missed)
        wrong = "".join(f"\n  WRONG {code}@{line}" for code, line in self.wrong)
        return (
            f"--- {head}\n  flags: {flags or 'none'}{', overflow' if program.overflow else ''}\n{program.numbered()}\n"
            f"  found: {found or 'nothing'}\n  observed:{seen or ' nothing'}{missed}{wrong}"
        )


def _of_few_batches(each: Observed, runs: tuple[str, ...]) -> bool:
    """Whether a step before the first backward shows only where little is accumulated.

    With more micro steps the first boundary comes behind a backward, and the program works.
    """
    few = all("k=1" in run or "k=2" in run for run in runs)
    return each.kind.startswith(("no scale", "no gradients")) and few


def _when(labels: tuple[str, ...], runs: int) -> str:
    """In which runs: the first is named where it is not all."""
    return "always" if len(labels) == runs else f"{len(labels)} of {runs} runs: {labels[0]}"


def found_in(text: str) -> frozenset[tuple[str, int]]:
    """The static verdict: codes and lines."""
    findings = check(text, FILENAME, SETTINGS)
    own = {(each.code, text.count("\n", 0, each.start) + 1) for each in findings}
    return frozenset(own.union(*(map(_of_the_same_cause, findings))))


def _of_the_same_cause(finding: Finding) -> set[tuple[str, int]]:
    """The findings that are named in the message of another one, which has the same cause."""
    named = finding.message.partition("(which also fixes ")[2]
    return {
        (code, int(line))
        for code, lines in re.findall(r"(AMP\d+) on lines? ([^A)]*)", named)
        for line in re.findall(r"\d+", lines)
    }


def compare(program: Program) -> Verdict:
    """Run and lint a program; raises UnsuitableError where what it does is none of the codes'."""
    seen = observe(program)
    return Verdict(program, found_in(program.text), seen)


class Tried(NamedTuple):
    """A program of the generator, compared or refused."""

    family: str
    verdict: Verdict | None
    unsuitable: str = ""


def tried(task: tuple[int, str]) -> Tried:
    """The program of a seed, of one family or of any."""
    program = generate(*task)
    try:
        return Tried(program.family, compare(program))
    except UnsuitableError as error:
        return Tried(program.family, None, str(error))


def all_tried(tasks: list[tuple[int, str]], jobs: int) -> Iterator[Tried]:
    """Many programs, in several processes."""
    torch.set_num_threads(1)
    if jobs == 1:
        yield from map(tried, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, torch.set_num_threads, (1,)) as pool:
        yield from pool.map(tried, tasks, chunksize=20)
