"""Attributes of torch's that are something else for a while."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TextIO

_OWN = __file__.removesuffix(os.path.join("verify", "bench", "patching.py"))  # the package's folder


def at_callers_line(call: Callable[[], Any]) -> tuple[Any, bool]:
    """What `call` returns, and whether it has warned; the warnings are those of the line that called the stand-in."""
    with undisturbed(), _recorded() as caught:
        result = call()
    for warning in caught:
        frame: FrameType | None = sys._getframe(1)
        if not warning.filename.startswith(_OWN):
            frame = None
        while frame is not None and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        registry = frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else None
        where = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else (warning.filename, warning.lineno)
        warnings.warn_explicit(warning.message, warning.category, *where, registry=registry)
    return result, bool(caught)


@contextmanager
def _recorded() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings of a block, also those that a line has given before, in place of showing them.

    Unlike `warnings.catch_warnings` it leaves the version of the filters as it is, so that Python forgets nothing.
    """
    caught: list[warnings.WarningMessage] = []

    def record(  # noqa: PLR0917 - as Python calls it
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        caught.append(warnings.WarningMessage(message, category, filename, lineno))

    show = warnings.showwarning
    with _filtered("always"):
        warnings.showwarning = record
        try:
            yield caught
        finally:
            warnings.showwarning = show


@contextmanager
def _filtered(action: str) -> Iterator[None]:
    """One filter for all warnings, without a new version of the filters."""
    filters, kept = warnings.filters, list(warnings.filters)
    filters[:] = [(action, None, Warning, None, 0)]  # type: ignore[index]
    try:
        yield
    finally:
        filters[:] = kept  # type: ignore[index]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Around what may use `warnings.catch_warnings`: a warning that a line has given before is not shown once more.

    A change of the filters makes Python forget, by a version number, which warnings it has shown.
    """
    before = _version()
    yield
    after = _version()
    if before == after:
        return
    shown = [each.get("__warningregistry__") for each in _namespaces(len(sys.modules), next(reversed(sys.modules)))]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:  # of what runs as `__main__` without being that module
        shown.append(frame.f_globals.get("__warningregistry__"))
        frame = frame.f_back
    for registry in shown:
        if type(registry) is dict and registry.get("version") == before:
            registry["version"] = after


@functools.lru_cache(maxsize=1)
def _namespaces(_number: int, _last: str) -> list[dict[str, Any]]:
    """The namespaces of all modules. There are thousands, and this is asked often: anew only after an import."""
    return [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]


def _version() -> Any:
    """The version of the filters. Python doesn't tell it, it is written where a warning is asked about."""
    registry: dict[Any, Any] = {}
    with _filtered("ignore"):
        warnings.warn_explicit("", Warning, "", 0, registry=registry)
    return registry.get("version")


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
