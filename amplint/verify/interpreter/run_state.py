"""The world that the parts of an interpreter share."""

from __future__ import annotations

from dataclasses import dataclass, field

from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import Frame
from amplint.verify.interpreter.world import Stage

BUDGET = 400_000  # expressions that a run may evaluate


@dataclass
class RunState:
    """One run: its bench and device, what it takes for granted, what it has shown, and how far it is."""

    stage: Stage
    facts: Facts
    record: RunRecord
    iterations: int  # of a loop over batches, and calls of a step that has no loop
    tick: int = 0  # the iteration of the step, from 0
    budget: int = BUDGET  # what is left of it
    running: list[Frame] = field(default_factory=list)  # of the functions that have been called, the innermost last
