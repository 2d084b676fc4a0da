"""Training steps of texts, interpreted in this process."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import torch

from amplint.sources.source import Source
from amplint.verify.program.files import lowered
from amplint.verify.program.program import Code, Step
from amplint.verify.steps.answers import trained_on
from amplint.verify.steps.judge import Judged
from amplint.verify.steps.trials import StepRuns, judged, run_step
from amplint.verify.steps.verdict import Verdict, decide

# A file of no project: in one, each file would be searched for what imports this one.
ALONE = "/nowhere/train.py"


class Ran(NamedTuple):
    """A step, its runs and what they say."""

    step: Step
    runs: StepRuns
    judged: Judged

    @property
    def shown(self) -> set[str]:
        """The observables that show something wrong."""
        return {each.shows for each in self.judged.faults}


def code_of(text: str, filename: str = ALONE) -> Code:
    """A text, lowered."""
    return Code(lowered(Source(filename, text)))


def project(folder: Path, **files: str) -> Path:
    """Write a project's files, `util__misc` as `util/misc.py`; its folder."""
    (folder / "pyproject.toml").write_text("", "utf-8")
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def interpret_file(path: Path) -> list[Ran]:
    """The steps of a file, which can import from others, each with all its runs."""
    return interpret(path.read_text("utf-8"), filename=str(path))


def interpret(text: str, device: str | None = None, filename: str = ALONE) -> list[Ran]:
    """The steps of a text, each with all its runs."""
    code = code_of(text, filename)
    found = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the worker: the tensors are small
    try:
        for step in code.steps:
            runs = run_step(code, step, device or trained_on(code))
            found.append(Ran(step, runs, judged(code, step, runs)))
    finally:
        torch.set_num_threads(threads)
    return found


def verdicts(bad: str, fixed: str, gone: Collection[str], left: Collection[str]) -> list[tuple[Ran, Verdict]]:
    """Each step of a text, with the verdict on what a fix makes of it: some findings are `gone`, some `left`."""
    after = {each.step.name: each.judged for each in interpret(fixed)} if fixed != bad else {}
    return [(each, decide(each.judged, after.get(each.step.name), gone, left)) for each in interpret(bad)]
