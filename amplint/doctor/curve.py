"""The losses of a run beside the learning rate: whether training became worse as the rate rose, and stayed so."""

from __future__ import annotations

from typing import NamedTuple

_MOST = 32  # stretches that are kept: then each two become one
_FEWEST = 16
_RISE = 3.0  # times the rate that an optimizer was given, from which on it may be too high
_SINCE = 2.0  # times the rate of the stretch with the best loss
_WORSE = 2.0  # times the best loss


class _Stretch(NamedTuple):
    """Losses in a row: their mean, and the mean of how far the learning rate had risen."""

    loss: float
    rise: float


class Curve:
    """The losses of a run, the means of stretches of them."""

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []
        self._size = 1  # losses of a stretch
        self._open: list[_Stretch] = []
        self._is_positive = True

    def add(self, loss: float, rise: float) -> None:
        """Take in a loss, and how many times the rate that it was given an optimizer has."""
        self._is_positive = self._is_positive and loss >= 0
        self._open.append(_Stretch(loss, rise))
        if len(self._open) < self._size:
            return
        self._stretches.append(_mean(self._open))
        self._open = []
        if len(self._stretches) == 2 * _MOST:
            self._stretches = [_mean(self._stretches[at : at + 2]) for at in range(0, 2 * _MOST, 2)]
            self._size *= 2

    def worse(self) -> tuple[float, float] | None:
        """The best loss and the last one, if all of the second half is worse since the learning rate has risen.

        A rate that is back where it was, as after a cycle, has not risen; and a test of rates ends soon after
        the loss becomes worse. A loss below 0 says nothing of what is worse.
        """
        count = len(self._stretches)
        if count < _FEWEST or not self._is_positive:
            return None
        first, second = self._stretches[: count // 2], self._stretches[count // 2 :]
        best, last = min(first, key=lambda each: each.loss), second[-1]
        has_risen = min(last.rise / _RISE, last.rise / (_SINCE * best.rise) if best.rise else last.rise) >= 1
        if has_risen and min(each.loss for each in second) > _WORSE * best.loss:
            return best.loss, last.loss
        return None


def _mean(stretches: list[_Stretch]) -> _Stretch:
    return _Stretch(*(sum(values) / len(stretches) for values in zip(*stretches, strict=True)))
