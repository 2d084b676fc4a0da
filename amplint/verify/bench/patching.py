"""Attributes of torch's that are something else for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any


def wrap(undo: ExitStack, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Let `wrapper`, which gets the real function first, stand in for a function or method."""
    real = vars(owner)[name]

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(real, *args, **kwargs)

    patch(undo, owner, name, call)


def patch(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute until the end; one that was inherited is inherited again."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)
