"""The state of random numbers: torch's, of each device in use, Python's and numpy's."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch


@dataclass(frozen=True)
class RandomState:
    """What the next random numbers hang on."""

    cpu: torch.Tensor
    devices: tuple[tuple[str, torch.Tensor], ...]
    python: Any
    numpy: Any

    @classmethod
    def now(cls, *, of_torch_alone: bool = False) -> RandomState:
        """The state as it is, or that of torch alone, which costs a twentieth. It draws nothing."""
        devices = []
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            devices.append(("cuda", torch.cuda.get_rng_state()))
        if of_torch_alone:
            return cls(torch.get_rng_state(), tuple(devices), None, None)
        numpy = sys.modules.get("numpy")
        drawn = numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None
        return cls(torch.get_rng_state(), tuple(devices), random.getstate(), drawn)

    def is_moved(self) -> bool:
        """Whether Python's or numpy's random numbers were drawn since."""
        now = RandomState.now()
        is_numpy = (self.numpy is None) != (now.numpy is None) or (
            self.numpy is not None and (self.numpy[2] != now.numpy[2] or bool((self.numpy[1] != now.numpy[1]).any()))
        )
        return is_numpy or self.python != now.python

    def set(self) -> None:
        """Make this the state."""
        torch.set_rng_state(self.cpu)
        for device, state in self.devices:
            getattr(torch, device).set_rng_state(state)
        if self.python is not None:
            random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


@contextmanager
def restored() -> Iterator[None]:
    """After the block the state is as before it."""
    before = RandomState.now()
    try:
        yield
    finally:
        before.set()


@contextmanager
def generators_restored(generators: Iterable[Any]) -> Iterator[None]:
    """After the block the states of generators that a program has made are as before it."""
    put_back = moment_of(generators)
    try:
        yield
    finally:
        put_back()


def moment_of(generators: Iterable[Any]) -> Callable[[], None]:
    """What sets generators of torch, numpy and Python to what they are now."""
    undo: list[Callable[[], object]] = []
    for each in generators:
        if isinstance(each, random.Random):
            undo.append(partial(each.setstate, each.getstate()))
        elif hasattr(each, "bit_generator"):
            undo.append(partial(setattr, each.bit_generator, "state", each.bit_generator.state))
        else:
            undo.append(partial(each.set_state, each.get_state()))

    def put_back() -> None:
        for each in undo:
            each()

    return put_back
