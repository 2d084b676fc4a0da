"""What torch may raise in training though the bench never does: a call for which there is not enough memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import Raised, Site

# What changes the state of a scaler: what raises before one of these and after it leaves it in different ones.
_CHANGES = {"unscale_", "step", "optimizer_step", "update"}
_COMPUTES = {"backward", "clip", "optimizer_step"}
_NO_MEMORY = "CUDA out of memory"


def no_memory(where: str) -> Raised:
    """What a call raises for want of memory."""
    return Raised(_NO_MEMORY, where, torch.cuda.OutOfMemoryError(_NO_MEMORY))


@dataclass(eq=False)
class Failures:
    """Lets calls raise in runs that assume so, where the program catches it and goes on.

    One call is enough for each state that the scaler is in meanwhile.
    """

    _state: RunState
    _facts: Facts
    _is_new: bool = True  # the scaler's state, since a call that may raise was met

    def event(self, kind: str, site: Site) -> None:
        """Raise, if an AMP event is to."""
        if kind in _COMPUTES:
            self.computes(site)

    def computes(self, site: Site) -> None:
        """Raise, if a call that computes with tensors is to."""
        if self._state.catching and self._is_new:
            if self._facts.fails(site.text):
                self._state.record.fails = True
                raise no_memory(site.where)
            self._is_new = False

    def happened(self, kind: str) -> None:
        """An event has been run."""
        self._is_new = self._is_new or kind in _CHANGES

    @contextmanager
    def inside_step(self, optimizer: torch.optim.Optimizer, site: Site, *, unscaled: bool) -> Iterator[None]:
        """Let the step of an optimizer raise that a scaler makes; it unscales the gradients before, if nobody has."""
        asked = self._state.catching and (self._is_new or not unscaled)
        if not asked or not self._facts.fails(site.text):
            yield
            return

        def fail(*_: Any) -> None:
            self._state.record.fails = True
            raise no_memory(site.where)

        hook = optimizer.register_step_pre_hook(fail)
        try:
            yield
        finally:
            hook.remove()
