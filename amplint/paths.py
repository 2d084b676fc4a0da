"""Paths as the program and as the user see them: strings, as pathlib takes longer to import than a file to lint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
_forget: list[Callable[[], None]] = []


def remembered(look: Callable[P, T]) -> Callable[P, T]:
    """A function of the disk whose answers hold until `look_again`."""
    known = cache(look)
    _forget.append(known.cache_clear)
    return cast(Callable[P, T], known)  # its arguments are hashable


def look_again() -> None:
    """Files have come, gone or changed: nothing that was seen of the disk is taken for granted any more."""
    for forget in _forget:
        forget()


def absolute(path: str) -> str:
    """A path from the root, without `..`; symbolic links stay what the user wrote."""
    return os.path.abspath(path)


def parents(directory: str) -> Iterator[str]:
    """The directories above an absolute one, the nearest first."""
    while (parent := os.path.dirname(directory)) != directory:
        yield parent
        directory = parent


def shown(path: str) -> str:
    """An absolute path as it is reported: relative to the current directory where it is below it."""
    below = os.getcwd().rstrip(os.sep) + os.sep
    return path[len(below) :] if path.startswith(below) else path


def version(path: str) -> tuple[int, int, int]:
    """What changes when a file's bytes do.

    Raises:
        OSError: it can't be read.
    """
    known = os.stat(path)
    return known.st_mtime_ns, known.st_size, known.st_ino


def seen_from(path: str, other: str) -> str:
    """A path relative to the folder of another file."""
    return os.path.relpath(path, os.path.dirname(absolute(other)))
