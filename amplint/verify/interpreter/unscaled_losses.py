"""Losses of float16 that no scaler scales, in a program that has a scaler: their small gradients become 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.rules.shared.scale_reports import uses_scale
from amplint.verify.bench.instrument import open_regions
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import Site
from amplint.verify.interpreter.world import upstream


@dataclass(eq=False)
class UnscaledLosses:
    """Follows what models compute in float16, and what scalers make of losses, to what gradients are asked of.

    The bench's gradients are too large to become 0. So no run shows it.
    """

    _record: RunRecord
    _halves: set[Any] = field(default_factory=set)  # what has made the results of models in float16 in the graph
    _scaled: set[Any] = field(default_factory=set)  # the same of what scalers have scaled

    def ran(self, made: torch.Tensor) -> None:
        """A model has been run, or something that has one and returns a loss."""
        half = made.dtype is torch.float16 or any(each.dtype == "float16" for each in open_regions())
        if half and made.grad_fn is not None:
            self._halves.add(made.grad_fn)

    def scaled(self, made: Any) -> None:
        """A scaler that is on has scaled losses."""
        for each in made if isinstance(made, (list, tuple)) else [made]:
            self._scaled.add(each.grad_fn)

    def differentiated(self, roots: list[torch.Tensor], site: Site) -> None:
        """Gradients of losses are about to be computed: remember the line, where one is float16 and has no scale.

        A function that uses the scale itself may have scaled it by hand.
        """
        wanted = self._halves | self._scaled
        if any(node not in self._scaled for root in roots for node in upstream(root, wanted)):
            if not uses_scale(site.code.module, site.call):
                self._record.unscaled = self._record.unscaled or site.where

    def penalized(self, roots: list[torch.Tensor], site: Site, *, again: bool) -> None:
        """`torch.autograd.grad` is called. `again`: its result has a graph, as that of a gradient penalty.

        A penalty's outputs are most often not a loss: where they aren't one number, or are a sum, their gradients start
        from ones.
        """
        losses = [each for each in roots if each.numel() == 1 and not (again and _is_sum(each))]
        self.differentiated(losses, site)


def _is_sum(root: torch.Tensor) -> bool:
    return root.grad_fn is not None and root.grad_fn.name().startswith("SumBackward")
