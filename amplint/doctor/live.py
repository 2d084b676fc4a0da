"""Looks at each operation of a step while the program itself makes it: after a step that could not be run again."""

from __future__ import annotations

from collections.abc import Callable

import torch

from amplint.doctor.births import Birth
from amplint.doctor.casts import Casts
from amplint.doctor.detail import Detail
from amplint.doctor.gradients import Models, named

_TRIES = 2  # steps that are looked at


class Live:
    """From the end of a step to the next backward pass.

    Args:
        models: Whose names births are said to be in.
        afterwards: Functions in it are called when all have heard what is heard now: then modes can be entered.
        can_enter: Whether a mode disturbs nobody.
        casts: What tensors were before they were cast to half precision.
    """

    def __init__(
        self,
        models: Models,
        afterwards: list[Callable[[], object]],
        can_enter: Callable[[], bool],
        casts: Casts,
    ) -> None:
        self._casts = casts
        self._models = models
        self._afterwards = afterwards
        self._can_enter = can_enter
        self._left = 0
        self._detail: Detail | None = None
        self._is_used = False

    def arm(self) -> None:
        """Look at the next steps. Once in a run: it costs several steps' time."""
        if not self._is_used:
            self._is_used = True
            self._left = _TRIES

    def begin(self) -> None:
        """A step is over: look at the operations from here on, if that was asked for."""
        if self._left and self._detail is None and self._can_enter() and not torch._C._len_torch_dispatch_stack():
            self._left -= 1
            self._detail = Detail(named(self._models.alive()), is_live=True, casts=self._casts)
            self._afterwards.append(self._detail.__enter__)

    def end(self, loss: torch.Tensor) -> list[Birth]:
        """A backward pass begins: stop looking, and return the births that reach the loss."""
        detail, self._detail = self._detail, None
        if detail is None:
            return []
        self._afterwards.append(lambda: _leave(detail))
        births = detail.reaching(loss)
        if births:
            self._left = 0
        return births

    def close(self) -> None:
        """Look at nothing any more."""
        if self._detail is not None:
            _leave(self._detail)


def _leave(detail: Detail) -> None:
    """Leave a mode; one that was entered inside it and not left keeps it until the end of the program."""
    stack = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    if stack and stack[-1] is detail:
        detail.__exit__(None, None, None)
    else:
        detail.close()
