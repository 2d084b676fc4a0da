"""Paths as the program and as the user see them: strings, as pathlib takes longer to import than a file to lint."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import ParamSpec, TypeVar, cast

from amplint.base import reads
from amplint.base.reads import Kind, Look, Question

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

# Nanoseconds that the clock of a file system may be late.
_COARSE = 2_000_000_000

_forget: list[Callable[[], None]] = []
_since = [time.time_ns()]  # when the first of what is remembered may have been seen
_held: dict[str, bytes] = {}
_digests: dict[str, tuple[tuple[int, int, int], str]] = {}  # of files that were read while something was recorded
# The functions whose answers alone count, whatever they are made of, by their names.
QUESTIONS: dict[str, Callable[..., object]] = {}


class TooLargeError(OSError):
    """A text is too large to be linted."""


def remembered(look: Callable[P, T]) -> Callable[P, T]:
    """A function of the disk whose answers hold until `look_again`."""
    return _remembered(look, None)


def question(look: Callable[P, T]) -> Callable[P, T]:
    """As `remembered`, of a function that looks at many files: what was read for its answer is of no interest, as long
    as it gives the same answer. Its arguments are absolute paths, and plain values.
    """
    asked = _remembered(look, look.__name__)
    QUESTIONS[look.__name__] = asked
    return asked


def _remembered(look: Callable[P, T], name: str | None) -> Callable[P, T]:
    known = cast(Callable[P, T], cache(look))  # its arguments are hashable
    kept: dict[tuple[object, ...], tuple[T, Look]] = {}  # what was asked while something was recorded
    _forget.extend((known.cache_clear, kept.clear))  # type: ignore[attr-defined]

    @wraps(look)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        if not reads.is_recording():
            return known(*args, **kwargs)
        key = (*args, *kwargs.items())
        if key in kept:
            answer, seen = kept[key]
            reads.again(seen)
            return answer
        seen = Look()
        with reads.part(seen):
            answer = look(*args, **kwargs)
        if name is not None:
            seen.question = Question(name, args, answer)
        kept[key] = answer, seen
        return answer

    return ask


def look_again() -> None:
    """Files have come, gone or changed: nothing that was seen of the disk is taken for granted any more."""
    for forget in _forget:
        forget()
    _digests.clear()


def begin() -> None:
    """Remember nothing from before: what is seen of the disk from now on holds for a run."""
    look_again()
    _since[0] = time.time_ns()


def is_settled(known: os.stat_result) -> bool:
    """Whether a file that looks the same has not changed since its contents were seen.

    The clocks of file systems are coarse: what has just changed may change once more and look the same.
    """
    return max(known.st_mtime_ns, known.st_ctime_ns) < _since[0] - _COARSE


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
    return _noted(path, most) if reads.is_recording() else _contents(path, most)[0]


def _contents(path: str, most: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a file, and what was known of it before they were read."""
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
        return file.read(), known


def _noted(path: str, most: int) -> bytes:
    """The bytes of a file, which are recorded."""
    place = absolute(path)
    try:
        data, known = _contents(path, most)
    except TooLargeError:
        reads.note(Kind.SIZE, place, size(place))
        raise
    except OSError as error:
        reads.note(Kind.CONTENTS, place, reads.failed(error))
        raise
    found = reads.digest(data)
    _digests[place] = _of(known), found
    reads.note(Kind.CONTENTS, place, found)
    return data


def size(path: str) -> str:
    """How large a file is, as it is recorded."""
    try:
        return str(os.stat(path).st_size)
    except OSError as error:
        return reads.failed(error)


def fingerprint(path: str) -> str:
    """What tells a file's bytes from others, or why they can't be read; as it is recorded."""
    try:
        return reads.digest(_contents(path, LARGEST)[0])
    except TooLargeError:
        return size(path)
    except OSError as error:
        return reads.failed(error)


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
    try:
        known = _of(os.stat(path))
    except OSError as error:
        if reads.is_recording():
            reads.note(Kind.CONTENTS, absolute(path), reads.failed(error))
        raise
    if reads.is_recording():
        place = absolute(path)
        before, found = _digests.get(place, (None, ""))
        reads.note(Kind.CONTENTS, place, found if before == known else fingerprint(path))
    return known


def _of(known: os.stat_result) -> tuple[int, int, int]:
    return known.st_mtime_ns, known.st_size, known.st_ino


def seen_from(path: str, other: str) -> str:
    """A path relative to the folder of another file."""
    return os.path.relpath(path, os.path.dirname(absolute(other)))
