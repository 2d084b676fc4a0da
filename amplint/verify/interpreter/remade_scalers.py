"""Which scalers a run has made anew between steps of one training, so that their scale starts anew. No torch here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from amplint.model.syntax import ir

_Place = tuple[ir.Call, str]  # the call that makes a scaler, and what the object is called that it makes it for


@dataclass(eq=False)
class _Scaler:
    """A scaler of a run, kept so that no other one gets its id."""

    scaler: Any
    place: _Place
    call: int  # of the step by who runs it, from 0
    scales: bool = False  # a loss, so that its scale is worth something
    stepped: set[Any] = field(default_factory=set)  # what says which optimizers


class Remade:
    """Remembers the scalers of a run, and what they are used for."""

    def __init__(self) -> None:
        self.call = 0  # of the step by who runs it, as many times as that has no loop
        self._scalers: dict[int, _Scaler] = {}

    def made(self, scaler: Any, place: _Place) -> None:
        """The program has made a scaler."""
        self._scalers[id(scaler)] = _Scaler(scaler, place, self.call)

    def scaled(self, scaler: Any) -> None:
        """A scaler that is switched on has scaled a loss."""
        if id(scaler) in self._scalers:
            self._scalers[id(scaler)].scales = True

    def stepped(self, scaler: Any, trained: Any) -> None:
        """A scaler steps an optimizer; `trained` is the same for as long as one training lasts."""
        if id(scaler) in self._scalers:
            self._scalers[id(scaler)].stepped.add(trained)

    def most(self, *, again: bool) -> int:
        """How many more than one of the scalers of one line have scaled for one training.

        `again`: the calls of the step, too, are of one training, as the program makes them.
        """
        found: Counter[tuple[Any, ...]] = Counter()
        for each in self._scalers.values():
            if each.scales:
                call = 0 if again else each.call
                found.update((each.place, call, trained) for trained in each.stepped or {None})
        return max(found.values(), default=1) - 1
