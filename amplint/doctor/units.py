"""The gradients of the parameters that one optimizer steps: what has happened to them since the last clear."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.doctor.findings import Finding, Place
from amplint.verify.bench.instrument import gradient

_SAMPLE = 6  # parameters that are asked whether a backward has reached them
_LOOKS = 16  # at all parameters, to find some that are reached


@dataclass(eq=False)  # one is only like itself: tensors can't be compared
class Unit:
    """The gradients of the parameters of one optimizer, or of several optimizers over the same parameters.

    Attributes:
        scaler: Whose scale the gradients are multiplied by; None where they are not scaled.
        scale: That scale when they were made; nan where it isn't known.
        is_scaled: A scaled loss has put something into them that nothing has unscaled since.
        has_plain: A loss that was not scaled has put something into them.
        is_unscaled: `unscale_` has divided them.
        updates: How many updates `unscaler` had made when it divided them.
        is_by_hand: The program has divided them by the scale itself.
        is_used: A step has used them since.
        has_gradients: A backward has reached them since the last clear.
        cleared: Where they were cleared while a backward had filled them and no step had used them.
        cleared_by_zero_grad: Where `zero_grad` cleared them last.
        clipped: What is to be said of a clip after the step, once the gradients are cleared without a further use.
        is_kept: What was clipped after a step was used later.
    """

    scaler: Any = None
    scale: float = float("nan")
    is_scaled: bool = False
    has_plain: bool = False
    is_unscaled: bool = False
    unscaler: Any = None
    updates: int = 0
    unscaled_at: Place | None = None
    plain_at: Place | None = None
    is_by_hand: bool = False
    is_used: bool = False
    has_gradients: bool = False
    cleared: Place | None = None
    cleared_by_zero_grad: Place | None = None
    clipped: Finding | None = None
    is_kept: bool = False
    backwards: int = 0
    parameters: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    _sampled: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    _looks: int = 0  # at all parameters
    _state: dict[int, tuple[int, int]] = field(default_factory=dict)  # by parameter: its gradient, and its version
    _used: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same when a step used them
    _used_at: int = -1

    def clear(self, place: Place | None) -> None:
        """The gradients are set to None or to zero."""
        if self.has_gradients and not self.is_used:
            self.cleared = place
        self.cleared_by_zero_grad = place
        self.scaler, self.scale, self.is_scaled, self.has_plain = None, float("nan"), False, False
        self.is_by_hand = False
        self.is_unscaled, self.unscaler, self.unscaled_at, self.plain_at = False, None, None, None
        self.is_used = self.has_gradients = False

    def alive(self) -> Iterator[torch.Tensor]:
        """The parameters that are still there."""
        for reference in self.parameters:
            parameter = reference()
            if parameter is not None:
                yield parameter

    def settle(self) -> None:
        """What the gradients are now is not news."""
        self._sample()
        self._state = _versions(self._sampled)

    def use(self, at: int) -> None:
        """A step has used the gradients; `at` is how many backward passes have run in all."""
        self.is_used, self._used_at, self._used = True, at, _versions(self._sampled)

    def keep(self) -> None:
        """The gradients are used further: more is added to them, or they are stepped with once more."""
        self.is_kept, self.clipped = self.is_kept or self.clipped is not None, None

    def is_as_used(self, at: int) -> bool:
        """Whether nothing has changed the gradients since the step has used them, as far as a few of them show.

        Args:
            at: How many backward passes have run in all: another may have reached others.
        """
        return self.is_used and self._used_at == at and self._used == _versions(self._sampled)

    def is_reached(self) -> bool:
        """Whether a backward has changed gradients since `settle` was called."""
        before = self._state
        self._sample()
        self._state = _versions(self._sampled)
        return any(before.get(key) != version for key, version in self._state.items())

    def _sample(self) -> None:
        """Choose the parameters that are asked, once some have gradients."""
        if not self._sampled and self._looks < _LOOKS:
            self._looks += 1
            state = list(_versions(self.parameters))
            spread = set(state[:: max(1, len(state) // _SAMPLE)])
            self._sampled = [each for each in self.parameters if id(each()) in spread]


def _versions(parameters: list[weakref.ref[torch.Tensor]]) -> dict[int, tuple[int, int]]:
    """The gradients that parameters have, each with its version."""
    versions = {}
    for reference in parameters:
        parameter = reference()
        found = None if parameter is None else gradient(parameter)
        if found is not None:
            versions[id(parameter)] = (id(found), found._version)
    return versions


class Units:
    """The units of all optimizers that have been seen."""

    def __init__(self) -> None:
        self._by_parameter: dict[int, tuple[weakref.ref[torch.Tensor], Unit]] = {}
        self._by_optimizer: dict[int, tuple[weakref.ref[Any], Unit, int]] = {}
        self._of_lists: dict[tuple[int, int, int], list[Unit]] = {}  # by the first and the last parameter, and how many

    def of(self, optimizer: Any) -> Unit:
        """The unit of an optimizer, made where it is new or has got further parameters."""
        known = self._by_optimizer.get(id(optimizer))
        groups = getattr(optimizer, "param_groups", [])
        count = sum(len(group["params"]) for group in groups)
        if known is not None and known[0]() is optimizer and known[2] == count:
            return known[1]
        self._of_lists.clear()
        parameters = [each for group in groups for each in group["params"] if isinstance(each, torch.Tensor)]
        unit = next((unit for each in parameters if (unit := self.of_parameter(each)) is not None), None) or Unit()
        for parameter in parameters:
            if self.of_parameter(parameter) is None:
                reference = weakref.ref(parameter)
                self._by_parameter[id(parameter)] = (reference, unit)
                unit.parameters.append(reference)
        self._by_optimizer[id(optimizer)] = (weakref.ref(optimizer), unit, count)
        return unit

    def of_parameter(self, parameter: torch.Tensor) -> Unit | None:
        """The unit that a parameter belongs to, None if no optimizer has it."""
        reference, unit = self._by_parameter.get(id(parameter), (None, None))
        return unit if reference is not None and reference() is parameter else None

    def of_parameters(self, parameters: Sequence[torch.Tensor]) -> list[Unit]:
        """The units that some of these parameters belong to."""
        if not parameters:
            return []
        key = (id(parameters[0]), id(parameters[-1]), len(parameters))
        known = self._of_lists.get(key)
        if known is None or (known and self.of_parameter(parameters[0]) not in known):
            units = {id(unit): unit for each in parameters if (unit := self.of_parameter(each)) is not None}
            known = self._of_lists[key] = list(units.values())
            if len(self._of_lists) > 64:
                self._of_lists.clear()
        return known

    def optimizers(self) -> list[tuple[Any, Unit]]:
        """The optimizers that are still there, with their units."""
        pairs = [(reference(), unit) for reference, unit, _ in self._by_optimizer.values()]
        return [(optimizer, unit) for optimizer, unit in pairs if optimizer is not None]

    def all(self) -> list[Unit]:
        """The units of these optimizers, each once."""
        return list({id(unit): unit for _, unit in self.optimizers()}.values())
