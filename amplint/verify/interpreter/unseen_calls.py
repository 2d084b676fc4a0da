"""What calls return that can't be seen."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.allowed_calls import SAME_METHODS
from amplint.verify.interpreter.libraries import library
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import Site, Unknown
from amplint.verify.interpreter.unseen_training import UnseenTraining
from amplint.verify.interpreter.value_queries import tensors_in, text_of
from amplint.verify.interpreter.world import Birth, Stage

# Methods of an unseen object that say the same in another shape or place.
SHAPES = SAME_METHODS | {
    "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "expand", "get", "size", "long",
    "item", "detach", "clone", "values", "items", "keys", "pop", "type", "repeat", "next", "split", "chunk",
}  # fmt: skip


class UnseenCalls:
    """Makes of calls out of sight values out of sight, with a loss or output of the bench behind them where it is known
    that they have one.
    """

    def __init__(self, stage: Stage, record: RunRecord, training: UnseenTraining) -> None:
        self._stage = stage
        self._record = record
        self._training = training

    def value(
        self, site: Site, inputs: list[Any], net: str | None, *, forward: bool = False, trains: bool = True
    ) -> Unknown:
        """What a call returns; `net` is what it is a method of, `forward`: it can be a model's.

        `trains`: whether it can train at all.
        """
        if trains:
            self._training.unseen(site, inputs)
        for each in inputs:
            if isinstance(each, Unknown) and each.tensor is None and each.identity in self._stage.knowledge.leaves:
                each.tensor = self._stage.leaf()
        nets = self._stage.knowledge.nets
        if net is None or net not in nets:
            net = next((each for each in map(text_of, inputs) if each in nets), net)
        made = self._tensor(site, inputs, net, forward=forward)
        return Unknown(site.text, origin=site.call, forward=forward, net=net, inputs=tuple(inputs), tensor=made)

    def _tensor(self, site: Site, inputs: list[Any], net: str | None, *, forward: bool) -> torch.Tensor | None:
        """The tensor behind what a call returns, where it has one."""
        tensors = [each for each in tensors_in(inputs) if each.requires_grad]
        born = self._stage.knowledge.born.get(site.call)
        if born is None:
            shapes = tensors and not forward and _shapes(site)
            return self._stage.output(None, tensors) if shapes else None
        if born is Birth.LOSS:
            made = self._stage.returned(site.call, self._stage.loss(net, tensors))
            self._record.note(site.code, site.call, "a loss of the bench")
        else:
            made = self._stage.output(net, tensors)
            self._record.note(site.code, site.call, "a model of the bench")
        if net not in self._stage.knowledge.nets and not tensors:
            self._stage.computed(site.call, made)
        return made


def _shapes(site: Site) -> bool:
    """Whether an unseen call makes of tensors something that hangs on them: in another shape, or by an op."""
    return ir.last_name(site.call.func) in SHAPES or library(site.code, site.call.func) is not None
