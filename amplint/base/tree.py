"""Python's files below a folder, and what tells whether something has changed there that imports depend on."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from amplint.base import reads
from amplint.base.paths import is_settled, remembered
from amplint.base.project_root import MARKS, SETUP
from amplint.base.reads import Kind, Read

_SKIPPED = {"node_modules", "site-packages", "venv", "build", "dist", "__pycache__"}
# A tree larger than this is no project, but a disk: Python's files, and all that there is.
_MOST_FILES, _MOST = 20_000, 200_000
_MARKS = {*MARKS, SETUP}
# What is asked of a path, and follows from the names and the states of the files in a tree.
_OF_FILES = (Kind.CONTENTS, Kind.SIZE, Kind.FILE, Kind.PRESENT, Kind.FOLDER, Kind.LINK, Kind.REAL)
_OF_MARKS = (Kind.FILE, Kind.PRESENT, Kind.FOLDER)


class Tree(NamedTuple):
    """What is below a folder: Python's files, what marks projects, and links to folders, which aren't followed.

    Without any of it where there is too much for a project.
    """

    files: tuple[str, ...]
    marks: tuple[str, ...]
    links: frozenset[str]
    is_whole: bool


@remembered
def tree(root: str) -> Tree:
    """What is below a folder (absolute)."""
    reads.note_tree(root)
    return _walked(root)


def _walked(root: str) -> Tree:
    files: list[str] = []
    marks: list[str] = []
    links: set[str] = set()
    seen = 0
    for folder, folders, names in os.walk(root):
        seen += len(folders) + len(names)
        if seen > _MOST:
            return Tree((), (), frozenset(), is_whole=False)
        marks += (os.path.join(folder, each) for each in sorted((*folders, *names)) if each in _MARKS)
        folders[:] = sorted(each for each in folders if not _is_skipped(each))
        links.update(filter(os.path.islink, (os.path.join(folder, each) for each in folders)))
        files += (os.path.join(folder, file) for file in sorted(names) if file.endswith(".py"))
        if len(files) > _MOST_FILES:
            return Tree((), (), frozenset(), is_whole=False)
    return Tree(tuple(files), tuple(marks), frozenset(links), is_whole=True)


def _is_skipped(name: str) -> bool:
    return name in _SKIPPED or name.startswith(".")


@remembered
def state(root: str) -> str:
    """What changes when a file of a tree comes, goes or changes; empty where that is not certain."""
    known = tree(root)
    said: list[str] = []
    settled = known.is_whole
    for path in known.files:
        try:
            of = os.lstat(path)
            if stat.S_ISLNK(of.st_mode):
                said.append(os.path.realpath(path))
                of = os.stat(path)
        except OSError as error:
            said.append(f"{path}\0{reads.failed(error)}")
            continue
        settled = settled and is_settled(of)
        said.append(f"{path}\0{of.st_mtime_ns} {of.st_ctime_ns} {of.st_size} {of.st_ino} {of.st_mode}")
    for path in known.marks:
        with suppress(OSError):
            said.append(f"{path}\0{os.stat(path).st_mode}")
    if not settled:
        return ""
    return reads.digest("\n".join((*said, "", *sorted(known.links))).encode("utf-8", "surrogateescape"))


def of_project(root: str) -> None:
    """Have it recorded, if anything is, that a question is about the files of a tree: the state of these answers it."""
    if reads.is_recording():
        tree(root)


class View:
    """What follows from the `state` of a tree."""

    def __init__(self, root: str) -> None:
        self._above = root.rstrip(os.sep) + os.sep
        self._root = root
        self._tree = tree(root)
        self._files = frozenset(self._tree.files)
        self._walked: dict[str, bool] = {}  # folders that are, or would be, walked

    def tells(self, read: Read) -> bool:
        """Whether what was found at a path follows from the state."""
        if not self._tree.is_whole or not read.path.startswith(self._above):
            return False
        folder, _, name = read.path.rpartition(os.sep)
        if read.kind not in (_OF_FILES if name.endswith(".py") else _OF_MARKS if name in _MARKS else ()):
            return False
        if folder not in self._walked:
            self._walked[folder] = self._is_walked(folder)
        return self._walked[folder]

    def contradicts(self, read: Read) -> bool:
        """Whether a file has come or gone between the look at it and the walk of the tree."""
        of_file = read.kind is Kind.FILE and read.path.endswith(".py")
        return of_file and (read.path in self._files) is not (read.found == "yes")

    def _is_walked(self, folder: str) -> bool:
        parts = [each for each in folder[len(self._above) :].split(os.sep) if each]
        above = (os.path.join(self._root, *parts[:end]) for end in range(1, len(parts) + 1))
        return not any(map(_is_skipped, parts)) and self._tree.links.isdisjoint(above)


@remembered
def view(root: str) -> View:
    """What follows from the state of a tree as it was walked."""
    return View(root)
