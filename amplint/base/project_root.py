"""What the project of a file is: the folder in which its imports are followed, the same for each way to lint it.

It is the nearest folder, at or above the file, that has one of MARKS. A `setup.py` counts only where there is none of
them, and then the highest one: extensions in subfolders have their own. In a package it is a module. Without any of
these, in an archive or a container, it is the folder that was given, else the working directory if the file is below
it, else the file's own folder; a package isn't cut then. So where a mark is, the project depends on the disk alone.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple

from amplint.base.paths import parents, remembered, shown
from amplint.base.reads import Kind, digest, is_file, is_folder, is_present, is_recording, note

# What marks the folder of a project; of several in one folder the first is named.
MARKS = ("pyproject.toml", "amplint.toml", "setup.cfg", ".git", ".hg")
SETUP = "setup.py"
# The folder in a project with what is known of its files (`amplint.cache`).
CACHE = ".amplint_cache"
_REPOSITORY = (".git", ".hg")
_PACKAGE = "__init__.py"


class Start(NamedTuple):
    """Where amplint was started: the folders that were given, and the working directory; all absolute."""

    given: tuple[str, ...] = ()
    working: str | None = None


NOWHERE = Start()


class Reason(Enum):
    """Why a folder is the project."""

    MARKED = "marked"
    GIVEN = "given"
    WORKING = "working directory"
    OWN = "the file's own folder"


class Project(NamedTuple):
    """A project's folder (absolute), why it is that, and the file or folder in it that says so."""

    folder: str
    reason: Reason
    mark: str | None = None

    @property
    def why(self) -> str:
        """The reason in words."""
        if self.mark is not None:
            return f"contains {self.mark}"
        return f"{_WORDS[self.reason]}; no {', '.join((*MARKS, SETUP))} at or above the file"


_WORDS = {
    Reason.GIVEN: "the folder given",
    Reason.WORKING: "the working directory",
    Reason.OWN: "the file's own folder, or the top folder of its package",
}


@remembered
def project_of(folder: str, start: Start) -> Project:
    """The project of the files in a folder (absolute)."""
    above = (folder, *parents(folder))
    for each in above:
        for mark in MARKS:
            if _marks(os.path.join(each, mark)):
                return Project(each, Reason.MARKED, mark)
    for each in reversed(above):
        if is_file(os.path.join(each, SETUP)) and not is_present(os.path.join(each, _PACKAGE)):
            return Project(each, Reason.MARKED, SETUP)
    if is_recording():
        note(Kind.START, "", started_at(start))
    # The whole disk is nobody's project.
    given = [each for each in above[:-1] if each in start.given]
    if given:  # the highest: what else is given below it doesn't matter
        return Project(_whole_package(given[-1]), Reason.GIVEN)
    if start.working in above[:-1]:
        return Project(_whole_package(start.working), Reason.WORKING)
    return Project(_whole_package(folder), Reason.OWN)


def started_at(start: Start) -> str:
    """What tells one start from another."""
    return digest("\0".join((start.working or "", *start.given)).encode("utf-8", "surrogateescape"))


def _marks(path: str) -> bool:
    """Whether what is at a path marks a project: a file, or a repository, whose `.git` may be either."""
    return is_file(path) or (path.endswith(_REPOSITORY) and is_folder(path))


def _whole_package(folder: str) -> str:
    """A folder, or the top one of the packages that it is in: relative imports lead up to there."""
    top = folder
    for each in (folder, *parents(folder)):
        if not is_present(os.path.join(each, _PACKAGE)):
            break
        top = each
    return top


@remembered
def top_of(folder: str, start: Start) -> str:
    """The repository (absolute) that the project of a folder is in; the project's own folder where it is in none."""
    project = project_of(folder, start).folder
    return next((each for each in (project, *parents(project)) if is_repository(each)), project)


def is_repository(folder: str) -> bool:
    """Whether a folder is the root of a repository."""
    return any(is_present(os.path.join(folder, each)) for each in _REPOSITORY)


def told(project: Project) -> str:
    """The project's folder and why it is that, on one line."""
    return f"{shown(project.folder) if project.folder != os.getcwd() else os.curdir} ({project.why})"
