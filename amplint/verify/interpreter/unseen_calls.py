"""What calls return that can't be seen."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.allowed_calls import SAME_METHODS, library
from amplint.verify.interpreter.failures import Failures
from amplint.verify.interpreter.half_losses import HalfLosses
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import Closure, Site, Unknown, made_in, tensors_in, text_of
from amplint.verify.interpreter.unscaled_losses import UnscaledLosses
from amplint.verify.interpreter.unseen_training import UnseenTraining
from amplint.verify.interpreter.world import Birth, Stage

# Methods of an unseen object that say the same in another shape or place.
SHAPES = SAME_METHODS | {
    "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "expand", "get", "size", "long",
    "item", "detach", "clone", "values", "items", "keys", "pop", "type", "repeat", "next", "split", "chunk",
}  # fmt: skip


@dataclass(eq=False)
class UnseenCalls:
    """Makes of calls out of sight values out of sight, with a loss or output of the bench behind them where it is known
    that they have one.
    """

    _stage: Stage
    _record: RunRecord
    _roles: Roles
    _training: UnseenTraining
    _failures: Failures
    _halves: HalfLosses
    _unscaled: UnscaledLosses

    def value(
        self,
        site: Site,
        inputs: list[Any],
        net: str | None,
        *,
        forward: bool = False,
        trains: bool = True,
        runs: Closure | None = None,
    ) -> Unknown:
        """What a call returns; `net` is what it is a method of, `forward`: it can be a model's.

        `trains`: whether it can train at all; `runs`: the function of the program that it calls, where that is known.
        """
        if trains:
            self._training.unseen(site, inputs)
        if runs is None:
            self._stage.changed_by(ir.last_name(site.call.func), inputs)
        for each in inputs:
            if isinstance(each, Unknown) and each.tensor is None and each.identity in self._stage.knowledge.leaves:
                each.tensor = self._stage.leaf()
        nets = self._stage.knowledge.nets
        if net is None or net not in nets:
            net = next((each for each in map(text_of, inputs) if each in nets), net)
        with self._halves.region(site, runs) if forward else nullcontext():
            if forward and net is not None:
                self._failures.computes(site)
                self._stage.called_in_region(net, site.where)
            made = self._tensor(site, inputs, net, runs, forward=forward)
        found = Unknown(site.text, origin=site.call, forward=forward, net=net, inputs=tuple(inputs), tensor=made)
        target = named_after(site.call)
        if isinstance(target, (ir.Name, ir.Attribute)) and not site.frame.lazy:  # it may be cast before it is assigned
            text = site.code.text(target)
            found.rename(text, text + made_in(site.frame))
        return found

    def _tensor(
        self, site: Site, inputs: list[Any], net: str | None, runs: Closure | None, *, forward: bool
    ) -> torch.Tensor | None:
        """The tensor behind what a call returns, where it has one."""
        tensors = [each for each in tensors_in(inputs) if each.requires_grad]
        born = self._stage.knowledge.born.get(site.call)
        if born is None:
            shapes = tensors and not forward and _shapes(site)
            return self._stage.output(None, tensors) if shapes else None
        if born is Birth.LOSS:
            if not tensors:  # it can be given something else than when it was known for one
                self._roles.outputs(inputs)
            made = self._stage.returned(site.call, self._stage.loss(net, tensors))
            self._record.note(site.code, site.call, "a stand-in loss")
            self._halves.loss(site, runs, inputs, made)
            if not tensors:
                self._unscaled.ran(made)
        else:
            made = self._stage.output(net, tensors)
            self._halves.output(site, runs, made)
            self._unscaled.ran(made)
            is_model = forward and net is not None and self._stage.may_be_net(net)
            self._record.note(site.code, site.call, "a stand-in model" if is_model else "a stand-in")
            if not is_model:
                self._halves.part(site, runs, inputs)
        if net not in self._stage.knowledge.nets and not tensors:
            self._stage.computed(site.call, made)
        return made


def _shapes(site: Site) -> bool:
    """Whether an unseen call makes of tensors something that hangs on them: in another shape, or by an op."""
    return ir.last_name(site.call.func) in SHAPES or library(site.code, site.call.func) is not None


def named_after(call: ir.Call) -> ir.Value | None:
    """What the object is assigned to that a call makes, through methods that hand it back; None: to nothing."""
    value: ir.Value = call
    while isinstance(method := value.parent, ir.Attribute) and method.attr in SAME_METHODS:
        if not isinstance(method.parent, ir.Call) or method.parent.func is not method:
            return None
        value = method.parent
    parent = value.parent
    if isinstance(parent, ir.Assign):
        return parent.targets[0] if parent.targets else None
    assigned = parent.parent if isinstance(parent, ir.Sequence) else None
    targets = assigned.targets[0] if isinstance(assigned, ir.Assign) and assigned.targets else None
    if isinstance(parent, ir.Sequence) and isinstance(targets, ir.Sequence) and len(targets.items) == len(parent.items):
        return targets.items[parent.items.index(value)]
    return None
