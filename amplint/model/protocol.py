"""GradScaler's state machine, as torch/amp/grad_scaler.py (torch 2.13) has it: one table.

The stage is kept per optimizer and reset by `update()`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Stage(str, Enum):
    """What was done to an optimizer's gradients since the last `update()`."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


class Transition(NamedTuple):
    """The stage after a call, or what it raises instead."""

    stage: Stage
    error: str | None = None


TABLE: dict[tuple[str, Stage], Transition] = {
    ("unscale_", Stage.READY): Transition(Stage.UNSCALED),
    ("unscale_", Stage.UNSCALED): Transition(
        Stage.UNSCALED, "unscale_() has already been called on this optimizer since the last update()."
    ),
    ("unscale_", Stage.STEPPED): Transition(Stage.STEPPED, "unscale_() is being called after step()."),
    ("step", Stage.READY): Transition(Stage.STEPPED),
    ("step", Stage.UNSCALED): Transition(Stage.STEPPED),
    ("step", Stage.STEPPED): Transition(Stage.STEPPED, "step() has already been called since the last update()."),
    ("update", Stage.READY): Transition(Stage.READY),
    ("update", Stage.UNSCALED): Transition(Stage.READY),
    ("update", Stage.STEPPED): Transition(Stage.READY),
}
