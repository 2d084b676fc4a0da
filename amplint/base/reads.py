"""What an answer was made of: the files that were read or looked for on the way to it, and what was found there.

All that amplint asks the disk about a project is asked by the functions here and by `amplint.base.paths.contents`.
While something is recorded, they note it; functions that remember their answers note what the answer was made of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

# How the names of lists of requirements start and end; in a folder of that name all may be some.
_LISTS, _ENDS = ("requirements", "env", "conda"), (".txt", ".yml", ".yaml")


class Kind(str, Enum):
    """What is asked of a path."""

    CONTENTS = "contents"
    SIZE = "size"
    FILE = "file"
    FOLDER = "folder"
    PRESENT = "present"
    LINK = "link"
    REAL = "real"
    NAMES = "names of lists"
    START = "start"


class Read(NamedTuple):
    """Something that was asked of a path (absolute), and what was found."""

    kind: Kind
    path: str
    found: str


class Question(NamedTuple):
    """A function of many files that was asked, by its name, with what, and what it answered: only the answer counts."""

    name: str
    given: tuple[object, ...]
    answer: object


class Look:
    """What was read for an answer: by itself, and by others that were asked for it."""

    __slots__ = ("others", "question", "reads", "rest", "roots", "trees")

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self.trees: list[str] = []  # folders of which all files were looked at
        self.others: dict[int, Look] = {}  # by their ids
        self.question: Question | None = None
        # What `amplint.cache.made_of` knows of it: what doesn't follow from the states of the trees in some folders.
        self.roots: frozenset[str] | None = None
        self.rest: frozenset[Read] | None = None


_open: list[Look] = []  # what is recorded now, the innermost at the end


def is_recording() -> bool:
    """Whether what is read is noted."""
    return bool(_open)


@contextmanager
def recorded() -> Iterator[Look]:
    """Note what is read inside of the block, by itself."""
    look = Look()
    _open.append(look)
    try:
        yield look
    finally:
        _open.pop()


@contextmanager
def part(look: Look) -> Iterator[None]:
    """Note what is read inside of the block in a look that is kept, and this as a part of what is recorded outside."""
    look.roots = None
    _open.append(look)
    try:
        yield
    finally:
        _open.pop()
        again(look)


def note(kind: Kind, path: str, found: str) -> None:
    """Note what was found, if something is recorded."""
    if _open:
        _open[-1].reads.append(Read(kind, path, found))


def note_tree(root: str) -> None:
    """Note that all files of a tree were looked at, if something is recorded."""
    if _open:
        _open[-1].trees.append(root)


def again(look: Look) -> None:
    """Note what an answer was made of that is used once more."""
    if _open:
        _open[-1].others[id(look)] = look


def digest(data: bytes) -> str:
    """What tells some bytes from all others."""
    from hashlib import blake2b  # noqa: PLC0415 - takes as long to import as a small file to lint

    return blake2b(data, digest_size=16).hexdigest()


def is_file(path: str) -> bool:
    """Whether there is a file, or a link to one."""
    return _whether(Kind.FILE, path, os.path.isfile)


def is_folder(path: str) -> bool:
    """Whether there is a folder, or a link to one."""
    return _whether(Kind.FOLDER, path, os.path.isdir)


def is_present(path: str) -> bool:
    """Whether there is anything at a path."""
    return _whether(Kind.PRESENT, path, os.path.exists)


def is_link(path: str) -> bool:
    """Whether a path is one of a symbolic link."""
    return _whether(Kind.LINK, path, os.path.islink)


def _whether(kind: Kind, path: str, ask: Callable[[str], bool]) -> bool:
    found = ask(path)
    if _open:
        note(kind, path, "yes" if found else "no")
    return found


def real(path: str) -> str:
    """Where a path leads, its links followed."""
    found = os.path.realpath(path)
    note(Kind.REAL, path, found)
    return found


def lists_in(folder: str) -> list[str]:
    """The sorted names in a folder of what may be lists of requirements, or a folder with some.

    Raises:
        OSError: it can't be read.
    """
    try:
        inside = _LISTS[0] == os.path.basename(folder)
        found = sorted(each for each in os.listdir(folder) if _may_be_list(each, inside))
    except OSError as error:
        note(Kind.NAMES, folder, failed(error))
        raise
    if _open:
        note(Kind.NAMES, folder, digest("\0".join(found).encode("utf-8", "surrogateescape")))
    return found


def _may_be_list(name: str, inside: bool) -> bool:
    return (inside or name.startswith(_LISTS)) and (name.endswith(_ENDS) or name == _LISTS[0])


def failed(error: OSError) -> str:
    """What is noted in place of what could not be read."""
    return f"failed {error.errno}"
