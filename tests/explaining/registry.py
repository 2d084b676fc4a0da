"""What the programs that raise messages are made with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

PROGRAMS: list[tuple[str, Callable[[], object]]] = []


def prints(message: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Say which message a program prints."""

    def register(program: Callable[[], object]) -> Callable[[], object]:
        PROGRAMS.append((message, program))
        return program

    return register


@contextmanager
def unwarned() -> Iterator[None]:
    """Without the warnings that come beside a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Step:
    """A model, an optimizer and a scaler on the CPU."""

    def __init__(self, **options: object) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, **options)
        self.scaler = torch.amp.GradScaler("cpu")

    def backward(self) -> None:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.model(torch.ones(3, 4)).float().square().mean()
        self.scaler.scale(loss).backward()
