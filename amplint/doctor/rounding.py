"""Steps on half-precision weights: whether they change the weights, are rounded away, or divide by 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.gradients import parameters_of
from amplint.doctor.readings import HALF, can_wait_for, finite_mask, name_of
from amplint.doctor.sources import Sources
from amplint.verify.bench.instrument import gradient

_STEPS = (4, 12, 40, 400)  # of an optimizer that are looked at: a finding needs two in a row, after any warm-up
_MOST_TENSORS = 16  # of an optimizer that are looked at
_SQUARES = ("max_exp_avg_sq", "exp_avg_sq", "square_avg", "sum", "exp_inf")  # what steps divide by, the first of them
_LOST = 0.8  # of the weights with a gradient that keep their values, from which on the step is said to be lost


class Rounding:
    """Compares half-precision weights before and after a few steps."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._steps: dict[int, int] = {}  # by the optimizer's id
        self._lost: set[int] = set()  # optimizers whose last look showed it
        self._before: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []  # with their values and gradients

    def before(self, optimizer: Any) -> None:
        """An optimizer is about to use its gradients."""
        number = self._steps[id(optimizer)] = self._steps.get(id(optimizer), 0) + 1
        self._before = []
        if number not in _STEPS:
            return
        for parameter in parameters_of(optimizer):
            found = gradient(parameter)
            if parameter.dtype in HALF and found is not None and can_wait_for(parameter) and can_wait_for(found):
                self._before.append((parameter, parameter.detach().clone(), found.detach().clone()))
                if len(self._before) == _MOST_TENSORS:
                    return

    def after(self, optimizer: Any, place: Place | None) -> Finding | None:
        """The optimizer has stepped: the finding if hardly any weight has changed."""
        before, self._before = self._before, []
        moved = [(int(((now != was) & (by != 0)).sum()), int((by != 0).sum())) for now, was, by in before]
        total = sum(of for _, of in moved)
        lost = 1 - sum(changed for changed, _ in moved) / total if total else 0.0
        rate = max((float(group["lr"]) for group in optimizer.param_groups), default=0.0)
        if not total:
            return None
        was_lost = id(optimizer) in self._lost
        self._lost.discard(id(optimizer))
        if lost < _LOST or rate <= 0:
            return None
        self._lost.add(id(optimizer))
        if not was_lost:
            return None
        kind = name_of(before[0][0].dtype)
        return Finding(
            Cause.UNDERFLOW,
            Evidence.SEEN,
            f"{lost:.0%} of the weights that have a gradient are the same after the step: the update is too small for "
            f"{kind} weights and is rounded away",
            self._sources.cast_at or place,
            details=(f"the learning rate is {rate:.3g}",),
            advice="keep the weights in float32 and let autocast cast them",
        )


class ZeroDivisor(NamedTuple):
    """A step that has divided by 0: its eps, and the mean square that it is added to, are 0 in the weights' dtype.

    Attributes:
        optimizer: What has stepped.
        eps: Its eps, before it was rounded to 0.
        name: The mean square in the state of the optimizer.
        dtype: The dtype of both.
        weights: How many weights are not finite since.
    """

    optimizer: Any
    eps: float
    name: str
    dtype: str
    weights: int


def zero_divisor(optimizers: Iterable[Any]) -> ZeroDivisor | None:
    """What has made weights infinite or NaN, if it is an eps that is 0 in their dtype; None if it is not.

    Each weight that is not finite has to have a mean square of 0: others were not divided by 0.

    Args:
        optimizers: The optimizers that have stepped.
    """
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            eps = group.get("eps")
            found = [each for parameter in group["params"] if (each := _of_zero(optimizer, parameter, eps)) is not None]
            if found and all(each.weights for each in found):
                return found[0]._replace(weights=sum(each.weights for each in found))
    return None


def _of_zero(optimizer: Any, parameter: torch.Tensor, eps: Any) -> ZeroDivisor | None:
    """The same of one parameter: None where it is finite, without weights where there is another reason."""
    state = getattr(optimizer, "state", {}).get(parameter, {})
    if not isinstance(eps, float) or not parameter.is_floating_point() or not can_wait_for(parameter):
        return None
    bad = ~finite_mask(parameter.detach())
    if not bool(bad.any()):
        return None
    for name in _SQUARES:
        square = state.get(name)
        if isinstance(square, torch.Tensor) and square.shape == parameter.shape and can_wait_for(square):
            is_zero = not bool(torch.tensor(eps, dtype=square.dtype)) and not bool(square[bad].any())
            return ZeroDivisor(optimizer, eps, name, name_of(square.dtype), int(bad.sum()) if is_zero else 0)
    return ZeroDivisor(optimizer, eps, "", "", 0)
