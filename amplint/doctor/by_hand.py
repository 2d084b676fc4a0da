"""What a program does to scaled gradients by hand, between the backward pass and the step.

Clamping, clipping by a norm and weight decay written out in the loop are not heard as calls of torch.nn.utils. In the
first few steps the operations of that short stretch are looked at as they are called; nothing is changed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from amplint.doctor.findings import Place
from amplint.doctor.places import is_users, place_of
from amplint.doctor.readings import can_wait_for, norm
from amplint.verify.bench.instrument import gradient

_CLAMPS = {"clamp_", "clip_", "clamp", "clip", "clamp_max_", "clamp_min_", "_foreach_clamp_max_", "_foreach_clamp_min_"}
_FACTORS = {
    "mul_": False,
    "__imul__": False,
    "div_": True,
    "__itruediv__": True,
    "_foreach_mul_": False,
    "_foreach_div_": True,
}
_SUMS = {"add_", "__iadd__", "_foreach_add_"}
MEANT_FOR_SCALED = 100  # a bound above this part of the scale is meant for scaled gradients
NO_HOOKS = ("backward", "forward", "vjp")  # functions that autograd calls which are none
_ROWS = ("copy_", "mul_", "__imul__")  # operations that may change each row of a gradient by a factor of its own
_ROW = "row"
_SAME = 0.01  # relative difference of norms that count as one bound


class Change(NamedTuple):
    """What was done to one gradient, or to all of them at once.

    Attributes:
        name: The operation.
        place: The user's line.
        largest: The largest element before.
        norm: The norm before, of the one gradient, and of all.
        number: The bound of a clamp, or the factor of a multiplication.
        is_decay: A parameter was added.
    """

    name: str
    place: Place | None
    largest: float
    norm: float
    total: float
    number: float
    is_decay: bool


class ByHand(TorchFunctionMode):
    """Notes what is done to the gradients of some parameters while it is entered, and not yet left."""

    def __init__(self, scale: float, parameters: Callable[[], Sequence[torch.Tensor]] | None = None) -> None:
        super().__init__()
        self._of_backward = parameters  # inside a backward pass: what is called there are hooks
        self._gradients: dict[int, torch.Tensor] = {}
        self._weights: set[int] = set()
        self._total: float | None = None
        self._is_busy = self._is_over = False
        self.scale = scale
        self.changes: list[Change] = []

    def look_at(self, parameters: Sequence[torch.Tensor]) -> None:
        """Look at the gradients that parameters have now."""
        self._gradients = {g.data_ptr(): g for each in parameters if (g := gradient(each)) is not None}
        self._weights = {each.data_ptr() for each in parameters}
        self._total = None

    def _add_incoming(self, targets: Sequence[Any], frame: FrameType) -> None:
        """Look at gradients, too, that a hook gets before they are accumulated: they have the shape of a parameter."""
        assert self._of_backward is not None
        shapes = {each.shape for each in self._of_backward()}
        for each in targets:
            if isinstance(each, torch.Tensor) and each.shape in shapes and frame.f_code.co_name not in NO_HOOKS:
                self._gradients.setdefault(each.data_ptr(), each)

    def enter(self) -> None:
        """Enter the mode."""
        self.__enter__()  # type: ignore[no-untyped-call]

    def leave(self) -> bool:
        """Leave the mode, and return whether that could be done: not inside a mode that was entered later."""
        self._is_over = True
        self._gradients.clear()  # what was noted is kept for the whole run, and they are as large as the model
        if torch.overrides._get_current_function_mode() is not self:  # type: ignore[no-untyped-call]
            return False
        self.__exit__(None, None, None)
        return True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call what is called, and note it if it changes a gradient."""
        name = getattr(func, "__name__", "")
        if (
            args
            and not (self._is_busy or self._is_over)
            and (name in _CLAMPS or name in _FACTORS or name in _SUMS or name in _ROWS)
        ):
            self._is_busy = True
            try:
                self._note(name, args, kwargs or {})
            finally:
                self._is_busy = False
        return func(*args, **(kwargs or {}))

    def _note(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        targets = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
        if self._of_backward is not None:
            self.look_at(self._of_backward())
            self._add_incoming(targets, sys._getframe(2))
        frame = sys._getframe(2)
        found = [each for each in targets if isinstance(each, torch.Tensor) and each.data_ptr() in self._gradients]
        if (
            not found
            or not is_users(frame.f_code.co_filename)
            or not all(can_wait_for(each) and each.numel() for each in found)
        ):
            return
        if self._total is None:
            self._total = norm(list(self._gradients.values()))
        others = [*args[1:], *kwargs.values()]
        if name in _ROWS and (row := _clipped_row(name, found[0], others, self.scale)) is not None:
            self.changes.append(Change(_ROW, place_of(frame), row[0], row[0], self._total, row[1], False))
            return
        self.changes.append(
            Change(
                name,
                place_of(frame),
                max(float(each.detach().abs().max()) for each in found),
                norm(found),
                self._total,
                _bound_or_factor(name, others),
                any(isinstance(each, torch.Tensor) and each.data_ptr() in self._weights for each in others),
            )
        )

    # --- what it comes to

    def is_unscaled(self) -> bool:
        """Whether gradients were divided by the scale."""
        return any(
            change.name in _FACTORS and math.isclose(change.number * self.scale, 1, rel_tol=0.01)
            for change in self.changes
        )

    def clamped(self) -> Change | None:
        """A clamp of scaled gradients that has changed them, by a bound that isn't meant for scaled ones."""
        for change in self.changes:
            if change.name in _CLAMPS and change.number < min(change.largest, self.scale / MEANT_FOR_SCALED):
                return change
        return None

    def clipped_row(self) -> Change | None:
        """A row of a gradient whose norm was brought down to a bound that its own norm, without the scale, is below."""
        return next((change for change in self.changes if change.name == _ROW), None)

    def decayed(self) -> Change | None:
        """A parameter that was added to its scaled gradient."""
        return next((change for change in self.changes if change.name in _SUMS and change.is_decay), None)

    def factors(self) -> list[Change]:
        """Multiplications by a number below 1 that is not a division by the scale."""
        return [change for change in self.changes if change.name in _FACTORS and 0 < change.number < 1]


def clipped(windows: Sequence[ByHand]) -> Change | None:
    """A norm that gradients were multiplied to in several steps, or several gradients of one step.

    Clipping by a norm multiplies by what makes the norm the bound: the factor changes and the product stays.
    """
    changes = [change for window in windows if not window.is_unscaled() for change in window.factors()]
    for of_all in (True, False):
        products = [(change.number * (change.total if of_all else change.norm), change) for change in changes]
        for product, change in products:
            same = [other for other, of in products if abs(other - product) <= _SAME * product]
            unlike = {round(of.number, 12) for other, of in products if abs(other - product) <= _SAME * product}
            if len(same) >= 2 and len(unlike) >= 2 and len(same) > len(products) / 2:
                return change._replace(number=product)
    return None


def _clipped_row(name: str, before: torch.Tensor, others: Sequence[Any], scale: float) -> tuple[float, float] | None:
    """The norm of a row before, and what it was brought down to, if the row is that small without the scale.

    Adaptive clipping works like this: rows that are too long are multiplied by a factor of their own, others are left.
    """
    other = next((each for each in others if isinstance(each, torch.Tensor)), None)
    if other is None or other.numel() == 1:
        return None
    with torch.no_grad():
        after = other.expand_as(before) if name == "copy_" else before * other
        old, new = (
            each.double().reshape(len(each) if each.dim() > 1 else 1, -1).norm(dim=1) for each in (before, after)
        )
        is_cut = (new < 0.99 * old) & (old / scale < new) & (new < scale / MEANT_FOR_SCALED)
        if not bool(is_cut.any()):
            return None
        at = int((old * is_cut).argmax())
        return float(old[at]), float(new[at])


def _bound_or_factor(name: str, arguments: Sequence[Any]) -> float:
    """The bound of a clamp, or the factor of a multiplication or division; nan where there is none."""
    numbers = [value for each in arguments if (value := _number(each)) is not None]
    if name in _CLAMPS:
        return max((abs(value) for value in numbers), default=math.nan)
    number = numbers[0] if numbers else math.nan
    return 1 / number if _FACTORS.get(name) and number else number


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1 and can_wait_for(value):
        return float(value.detach().double().sum())
    return None
