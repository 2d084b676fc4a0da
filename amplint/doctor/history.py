"""How large losses and weights have been: whether numbers grow until they are not finite."""

from __future__ import annotations

import math
import weakref
from statistics import median
from typing import Any

import torch

from amplint.doctor.curve import Curve
from amplint.doctor.findings import Place
from amplint.doctor.gradients import Models
from amplint.doctor.readings import can_wait_for, norm

_OVER = 1.05  # times the rate that an optimizer was given
_RISEN = 3.0  # times the first learning rate, or the first losses
_FIRST, _LAST = 8, 3  # losses that are compared
_EXPLODED = 1e3  # times the first losses
_GROWN, _GROWN_TOO = 20.0, 1.5  # times the first norm of the weights: alone, and where the loss has exploded


class History:
    """Finite losses so far, and the size of the weights at the start."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._first: list[float] = []
        self._last: list[float] = []
        self._norms: dict[int, tuple[weakref.ref[torch.nn.Module], float]] = {}
        self._stepped_at: Place | None = None
        self.steps = 0  # of all optimizers
        self._made: dict[int, Place | None] = {}  # optimizers
        self._given: dict[int, float] = {}  # the rates of optimizers before anything has changed them
        # By the ids of optimizers: their schedulers, the first one first, with where each was made.
        self._schedulers: dict[int, list[tuple[weakref.ref[Any], Place | None]]] = {}
        # Of optimizers with a rate above the one that they were given, where the scheduler was made that raised it.
        self._raised_by: dict[int, Place | None] = {}
        self._rates: dict[int, tuple[float, float]] = {}  # learning rates, the first and the last, by optimizer
        self._rises: dict[int, float] = {}  # by optimizer: how many times the rate that it was given the last one is
        self._curve = Curve()
        self.bad_weights: int | None = None  # the step that has made weights not finite

    def loss(self, value: float) -> None:
        """A finite loss."""
        if len(self._first) < _FIRST:
            self._first.append(abs(value))
        self._last = [*self._last[-_LAST + 1 :], abs(value)]
        self._curve.add(value, max(self._rises.values(), default=1.0))

    def group_added(self, optimizer: Any) -> None:
        """An optimizer has got parameters: the rate of the first of them is what it was given."""
        self._given.setdefault(id(optimizer), float(optimizer.param_groups[0]["lr"]))

    def optimizer_made(self, optimizer: Any, place: Place | None) -> None:
        """An optimizer is about to be made. It may have the address of one that is gone."""
        key = id(optimizer)
        self._made[key] = place
        self._given.pop(key, None)
        self._schedulers.pop(key, None)
        self._raised_by.pop(key, None)
        self._rates.pop(key, None)
        self._rises.pop(key, None)

    @property
    def has_optimizer(self) -> bool:
        """Whether the program has made one."""
        return bool(self._made)

    def scheduler_made(self, scheduler: Any, optimizer: Any, place: Place | None) -> None:
        """A scheduler of the learning rate was made."""
        known = self._schedulers.setdefault(id(optimizer), [])
        known[:] = [each for each in known if each[0]() not in (None, scheduler)]
        known.append((weakref.ref(scheduler), place))

    def _scheduled_at(self, optimizer: Any) -> Place | None:
        """Where the scheduler was made that has set the learning rate of an optimizer: of several, as in a
        `SequentialLR`, the first one that has set it to what it is; else the last one that was made.
        """
        known, rate = self._schedulers.get(id(optimizer), []), optimizer.param_groups[0]["lr"]
        for reference, place in known:
            last = getattr(reference(), "_last_lr", None)
            if last and last[0] == rate:
                return place
        return known[-1][1] if known else None

    def stepped(self, optimizer: Any, place: Place | None) -> None:
        """An optimizer has stepped."""
        self._stepped_at = place or self._stepped_at
        self.steps += 1
        group = optimizer.param_groups[0]
        rate = float(group["lr"])
        first, _ = self._rates.get(id(optimizer), (rate, rate))
        self._rates[id(optimizer)] = first or rate, rate
        given = self._given.get(id(optimizer), rate)  # a wrapper may have none
        base = float(group.get("initial_lr", given))
        self._rises[id(optimizer)] = rate / base if base > 0 else 1.0
        if rate > _OVER * base and id(optimizer) not in self._raised_by:
            self._raised_by[id(optimizer)] = self._scheduled_at(optimizer)

    def rate(self) -> tuple[Place | None, str]:
        """Where the learning rate is set, and how far it has risen in words, "" if it has not.

        That is where its scheduler was made, if the rate rises above the one that the optimizer was given; else where
        the optimizer was made, with the largest rate if there are several; else where it is stepped.
        """
        for key, (first, last) in self._rates.items():
            if last > _RISEN * first > 0:
                place = self._raised_by[key] if key in self._raised_by else self._made.get(key)
                return place or self._stepped_at, f"the learning rate rose from {first:.3g} to {last:.3g}, "
        largest = max(self._rates, key=lambda key: self._rates[key][1], default=0)
        return self._made.get(largest) or self._stepped_at, ""

    def begin(self) -> None:
        """Remember how large the weights of models are that are new."""
        for model in self._models.alive():
            if self._first_norm(model) is None:
                self._norms[id(model)] = (weakref.ref(model), _norm(model))

    def _first_norm(self, model: torch.nn.Module) -> float | None:
        """The norm that the weights of a model had at first: 0 where they can't be read, None for a new model."""
        reference, first = self._norms.get(id(model), (None, 0.0))
        return first if reference is not None and reference() is model else None

    def made_at(self, optimizer: Any) -> Place | None:
        """Where an optimizer was made."""
        return self._made.get(id(optimizer))

    @property
    def stepped_at(self) -> Place | None:
        """Where an optimizer has stepped last."""
        return self._stepped_at

    def was_finite(self, model: torch.nn.Module) -> bool:
        """Whether the weights of a model are known to have been finite at first."""
        first = self._first_norm(model)
        return first is not None and 0 < first < math.inf

    def explosion(self) -> str:
        """How the loss and the weights have exploded while they stay finite, in words; "" if they have not."""
        start = self._start
        if start <= 0 or len(self._last) < _LAST or min(self._last) <= _EXPLODED * start:
            return ""
        for model in self._models.alive():
            first, now = self._first_norm(model) or 0.0, _norm(model)
            if first > 0 and now > _GROWN * first:
                weights = f"the norm of the weights from {first:.4g} to {now:.4g}"
                return f"the loss grew from {start:.4g} to {max(self._last):.4g}, {weights}"
        return ""

    def worse(self) -> str:
        """How the loss has become worse since the learning rate rose, and has stayed so, in words; "" if it has not."""
        if (found := self._curve.worse()) is None:
            return ""
        return f"the loss grew from {found[0]:.4g} to {found[1]:.4g} and doesn't fall again"

    @property
    def _start(self) -> float:
        """The loss at first, 0 where too few were seen."""
        return median(self._first[:3]) if len(self._first) >= _LAST else 0.0

    def growth(self, *, is_beyond: bool = False) -> str:
        """How the weights have exploded, alone or with the loss, in words; "" if they have not.

        A loss that grows while the weights stay says something of the data, not of the learning rate.

        Args:
            is_beyond: Whether the loss is now beyond what float32 holds.
        """
        start = self._start
        has_risen = start > 0 and is_beyond and max(self._last) > _RISEN * start
        has_exploded = has_risen or (start > 0 and max(self._last) > _EXPLODED * start)
        for model in self._models.alive():
            first, now = self._first_norm(model) or 0.0, _norm(model)
            if first > 0 and math.isfinite(now) and now > (_GROWN_TOO if has_exploded else _GROWN) * first:
                loss = f"the loss grew from {start:.4g} to {max(self._last):.4g}, " if has_exploded else ""
                return f"{loss}the norm of the weights from {first:.4g} to {now:.4g}"
        return ""


def _norm(model: torch.nn.Module) -> float:
    """The norm of a model's weights, which waits for their device; 0 where they can't be read."""
    weights = [each.detach() for each in model.parameters() if each.is_floating_point()]
    if not weights or not all(map(can_wait_for, weights)):
        return 0.0
    return norm(weights)
