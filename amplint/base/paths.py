"""Paths as the program and as the user see them: strings, as pathlib takes longer to import than a file to lint."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
# What the names of temporary files beside a fixed one start with (`amplint.files.atomic_write`).
TEMPORARY = ".amplint-"
# What the file name of a notebook ends with.
NOTEBOOK = ".ipynb"
# What the names of documents end with that may have code in them.
DOCUMENTS = (".md", ".markdown", ".mdx", ".rst")
# Bytes of a program and of a configuration file that are read: no person has written more.
LARGEST, LARGEST_CONFIG = 64 << 20, 1 << 20

_forget: list[Callable[[], None]] = []
_held: dict[str, bytes] = {}


class TooLargeError(OSError):
    """A text is too large to be linted."""


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


def is_always_utf8(path: str) -> bool:
    """Whether a file is UTF-8 whatever it says: no Python, but something that holds some."""
    return path.endswith((NOTEBOOK, *DOCUMENTS))


def is_document(path: str) -> bool:
    """Whether a file is text with code in it, and no program, going by its name."""
    return path.endswith(DOCUMENTS)


def visible(text: str) -> str:
    """A text on one line: what would act on a terminal, end the line or be no character is written as an escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def hold(path: str, data: bytes | None) -> None:
    """Let `data` be the contents of a file (by its absolute path), whatever the disk says; None: the disk's again."""
    if data is None:
        _held.pop(path, None)
    else:
        _held[path] = data


def contents(path: str, most: int = LARGEST) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: it can't be read, has more than `most` bytes (a TooLargeError), or is a pipe or a
            device, which may never end.
    """
    if _held and (held := _held.get(absolute(path))) is not None:
        return held
    with open(path, "rb", opener=_at_once) as file:
        known = os.fstat(file.fileno())
        if not stat.S_ISREG(known.st_mode):
            raise OSError("is a pipe or a device, not a file")
        if known.st_size > most:
            if most == LARGEST:
                raise TooLargeError(
                    f"not linted: too large, {known.st_size >> 20:,} MiB; the limit is {most >> 20} MiB"
                )
            raise TooLargeError(f"has more than {most >> 20} MiB" if most >> 20 else f"has more than {most >> 10} KiB")
        return file.read()


def _at_once(path: str, flags: int) -> int:
    """Open a file; a pipe's other end isn't waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def version(path: str) -> tuple[int, int, int]:
    """What changes when a file's bytes do.

    Raises:
        OSError: it can't be read.
    """
    if _held and (held := _held.get(absolute(path))) is not None:
        return hash(held), len(held), -1
    known = os.stat(path)
    return known.st_mtime_ns, known.st_size, known.st_ino


def seen_from(path: str, other: str) -> str:
    """A path relative to the folder of another file."""
    return os.path.relpath(path, os.path.dirname(absolute(other)))
