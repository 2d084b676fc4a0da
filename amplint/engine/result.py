"""What a run gives back: of a file, of its fixes, of all files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections import Counter

    from amplint.base.findings import Finding, Kind
    from amplint.sources.source import Source


class Result(NamedTuple):
    """What was found in a file. `source` is None where the bytes alone said that there is nothing to find."""

    filename: str
    source: Source | None
    findings: tuple[Finding, ...]
    given_up: tuple[str, ...] = ()  # functions in which nothing could be found, a line each
    unsafe: bool = False  # the file's settings ask for unsafe fixes
    renamed: tuple[tuple[str, str], ...] = ()  # see `Outcome`
    too_long: bool = False  # it took so long that not all of it was done: `given_up` says what


class FixResult(NamedTuple):
    """A file's new bytes, how many findings of each kind were fixed, what is left to find, and what was `before`."""

    data: bytes
    applied: Counter[Kind]
    result: Result
    before: Result


class Outcome(NamedTuple):
    """What became of a file. `result` is None where nothing is left to find; `error` is one line about what failed.

    `output` is the fixed text, or the diff; `applied` counts the findings that went with it, by their kinds, and
    `comments` the comments that were added to silence them. `given_up` are the functions in which nothing could be
    found, a line each; `warning` is one about a file that was written. `renamed` are the codes and names in comments
    that rules had before, with the row of the first of each.
    `too_long`: it took so long that not all of it was done; `unfinished`: the run was interrupted before this file was
    done.
    """

    result: Result | None = None
    error: str | None = None
    output: bytes = b""
    applied: tuple[tuple[Kind, int], ...] = ()
    given_up: tuple[str, ...] = ()
    warning: str | None = None
    comments: int = 0
    renamed: tuple[tuple[str, str], ...] = ()
    too_long: bool = False
    unfinished: bool = False

    @property
    def fixed(self) -> int:
        """How many findings went."""
        return sum(times for _, times in self.applied)


class Linted(NamedTuple):
    """The files of a run, what became of each, and what kept it from others."""

    names: list[str]
    outcomes: list[Outcome]
    errors: list[str]
    held: HeldBack | None = None


class HeldBack(NamedTuple):
    """What a baseline file has done: how many findings it holds back, and how many of its entries no longer occur.

    `written` is where it was made anew: how many findings it holds, of how many files, how many are new, and gone.
    """

    path: str
    held: int
    stale: int
    written: tuple[int, int, int, int] | None
