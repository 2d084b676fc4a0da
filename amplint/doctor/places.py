"""Which line of the user's code is running: the innermost frame that belongs to no library."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

from amplint.doctor.findings import Place
from amplint.verify.bench.patching import patch

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Folders whose code is not the user's: the standard library, installed packages, amplint itself."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {os.path.realpath(sysconfig.get_path(name)) for name in names} | {_OWN}
    return tuple(folder + os.sep for folder in folders)


@functools.cache
def is_users(filename: str) -> bool:
    """Whether the code of a file is the user's own: not of a library, not compiled from a text."""
    if filename.startswith("<") and not filename.startswith("<ipython"):
        return False
    if f"{os.sep}site-packages{os.sep}" in filename or f"{os.sep}dist-packages{os.sep}" in filename:
        return False
    return not os.path.realpath(filename).startswith(_libraries())


def is_top_level(code: CodeType) -> bool:
    """Whether code is of a module or of a notebook's cell, and of no function or class."""
    return code.co_name.startswith("<") and not code.co_flags & CO_OPTIMIZED


def users_frames(frame: FrameType | None = None) -> Iterator[FrameType]:
    """The frames of the user's code that are running, the innermost first."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame of the user's code, None if there is none."""
    frame = frame or sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):  # each event asks: no generator
        frame = frame.f_back
    return frame


def place_of(frame: FrameType | None) -> Place | None:
    """Where a frame is."""
    if frame is None:
        return None
    code = frame.f_code
    return Place(code.co_filename, frame.f_lineno, code.co_name, code, frame.f_lasti)


def spoken(place: Place | None) -> str:
    """A place in a few characters, `train.py:12`; "" for none."""
    return str(place) if place is not None else ""


def number(value: float) -> str:
    """A number as people read it: `65,504`, `7.133e+06`, `0.0003`."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.4g}"


def user_place() -> Place | None:
    """The line of the user's code that is running."""
    return place_of(user_frame(sys._getframe(1)))


def hide_own_frames(undo: ExitStack) -> None:
    """Let tracebacks that a program prints itself be without the frames of amplint, until the end."""
    start = os.path.join(_OWN, "doctor", "start.py")

    def without(real: Any) -> Any:
        @functools.wraps(real)
        def walk(given: Any) -> Any:
            return real(given) if given is None else _theirs(real(given))

        return walk

    def _theirs(frames: Iterator[tuple[FrameType, Any]]) -> Iterator[tuple[FrameType, Any]]:
        for frame, where in frames:
            code = frame.f_code
            if code.co_filename == start and code.co_name == "run":
                return  # what has started the program
            if not code.co_filename.startswith(_OWN + os.sep):
                yield frame, where

    for name in ("walk_tb", "walk_stack", "_walk_tb_with_full_positions"):
        if hasattr(traceback, name):
            patch(undo, traceback, name, without(getattr(traceback, name)))
