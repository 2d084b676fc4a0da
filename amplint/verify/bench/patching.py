"""Attributes of torch's that are something else for a while."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

_OWN = __file__.removesuffix(os.path.join("verify", "bench", "patching.py"))  # the package's folder


def at_callers_line(call: Callable[[], Any]) -> tuple[Any, bool]:
    """What `call` returns, and whether it has warned; the warnings are those of the line that called the stand-in."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    for warning in caught:
        frame: FrameType | None = sys._getframe(1)
        if not warning.filename.startswith(_OWN):
            frame = None
        while frame is not None and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        registry = frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else None
        where = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else (warning.filename, warning.lineno)
        warnings.warn_explicit(warning.message, warning.category, *where, registry=registry, source=warning.source)
    return result, bool(caught)


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
