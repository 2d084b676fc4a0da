"""The files in which there is nothing to find, as their bytes say: with their states, to skip them next time.

A state that may have changed since, and look the same, is not kept: that file is read again.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from amplint.base.paths import is_settled
from amplint.base.reads import digest
from amplint.cache.folder import Folder
from amplint.cache.program import identity

_NAME = "clean"
# Bytes of the list for each file that is linted, above which it takes longer to read than the files.
_WORTH = 30_000


class State(NamedTuple):
    """What the list says of a file as it is, and whether it has been that for long enough."""

    line: str
    is_settled: bool


class CleanFiles:
    """The list in a cache's folder, for the files of a run."""

    def __init__(self, folder: Folder, number: int) -> None:
        self._folder = folder
        size = folder.size(_NAME)
        # A list that is not read is not written either: it would say less.
        self.is_used = size is None or size <= number * _WORTH
        self._here = os.path.join(os.getcwd(), "")
        self._codes: dict[frozenset[str], str] = {}
        self._known = self._read() if size is not None and self.is_used else set()
        self._now: list[str] = []
        self._seen: list[str] = []

    def _read(self) -> set[str]:
        stored = (self._folder.read(_NAME) or b"").decode("utf-8", "surrogateescape")
        program, _, lines = stored.partition("\n")
        return set(lines.split("\n")) if program == identity() else set()

    def state(self, path: str, codes: frozenset[str]) -> State | None:
        """A file as it is now; None where it can't be seen."""
        try:
            of = os.stat(path)
        except OSError:
            return None
        if codes not in self._codes:
            self._codes[codes] = digest(" ".join(sorted(codes)).encode())[:8]
        place = path if os.path.isabs(path) else self._here + path
        self._seen.append(place)
        state = f"{of.st_mtime_ns} {of.st_ctime_ns} {of.st_size} {of.st_ino}"
        return State(f"{state} {self._codes[codes]} {place}", is_settled(of))

    def has(self, state: State) -> bool:
        """Whether a file is in the list as it is now: it need not be read."""
        if state.line not in self._known:
            return False
        self._now.append(state.line)
        return True

    def add(self, state: State) -> None:
        """Put a file into the list as it is now, unless it may change and look the same."""
        if state.is_settled and "\n" not in state.line:
            self._now.append(state.line)

    def close(self) -> None:
        """Write the list, if it has changed, with what it says of files that are not of this run, if there are any."""
        now, seen = set(self._now), set(self._seen)
        rest = {each for each in self._known - now if each and each.split(" ", 5)[5] not in seen}
        kept = {each for each in rest if os.path.lexists(each.split(" ", 5)[5])}
        if now | kept != self._known:
            text = "\n".join((identity(), *sorted(now | kept)))
            self._folder.write(_NAME, text.encode("utf-8", "surrogateescape"))
            self._folder.tidy()


def clean_files(folder: Folder, number: int) -> CleanFiles | None:
    """The list for a run over a number of files; None where it is so large that they are sooner read."""
    found = CleanFiles(folder, number)
    return found if found.is_used else None
