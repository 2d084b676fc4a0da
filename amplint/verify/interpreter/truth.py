"""Whether a value counts as true."""

from __future__ import annotations

from typing import Any

import torch

from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.standins import Unknown
from amplint.verify.interpreter.unseen_training import UnseenTraining


class Truth:
    """Says whether values count as true; where that is out of sight, by a choice."""

    def __init__(self, facts: Facts, training: UnseenTraining) -> None:
        self._facts = facts
        self._training = training

    def of(self, value: Any, *, matters: bool) -> bool:
        """Whether a value counts as true; a choice is varied where it `matters`."""
        holds = self._of(value, matters=matters)
        if holds and matters:
            self._training.decides(value)
        return holds

    def _of(self, value: Any, *, matters: bool) -> bool:
        if isinstance(value, Unknown):
            return self._facts.truth(value, matters=matters)
        if isinstance(value, torch.Tensor):
            return bool(value.any()) if value.numel() > 1 else bool(value)
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
            return bool(value)
        return True
