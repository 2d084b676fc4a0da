"""The files of a traceback that are here, and what the rules find in them. Nothing is run."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from amplint.base.paths import contents, shown
from amplint.config.selection import ALWAYS, SettingsError
from amplint.config.settings import Overrides, Resolver
from amplint.engine.file import check_bytes
from amplint.engine.result import Result
from amplint.explain.log_reader import Frame
from amplint.registry import all_rules

# Files of one text that are linted.
_MOST = 20


class Linted(NamedTuple):
    """A file that a traceback goes through: what was found of `codes`, or why it could not be looked at."""

    path: str
    result: Result | None
    codes: tuple[str, ...]
    problem: str | None = None

    @property
    def found(self) -> list[str]:
        """The codes that were found."""
        return list(dict.fromkeys(each.code for each in self.result.findings)) if self.result else []


def lint(frames: Iterable[tuple[Frame, Collection[str]]]) -> list[Linted]:
    """What the rules of `codes` find in the files of frames, of those files that are here."""
    wanted: dict[str, list[str]] = {}
    for frame, codes in frames:
        if not frame.is_theirs and (path := here(frame)):
            wanted.setdefault(path, []).extend(codes)
    resolver = Resolver(Overrides())
    order = list(all_rules())
    return [
        _lint(path, tuple(sorted(set(codes), key=order.index)), resolver)
        for path, codes in list(wanted.items())[:_MOST]
    ]


def here(frame: Frame) -> str | None:
    """The path under which the file of a frame can be read: its own, or, for a log of another machine, its end.

    The end of a path counts only where the line in the file is the one that the traceback shows.
    """
    path = os.path.expanduser(frame.path)
    # A share of the network would be asked for this user's name.
    if path.startswith(("\\\\", "//")) or not path.endswith((".py", ".pyw")):
        return None
    if os.path.isfile(path):
        return shown(os.path.normpath(path))
    return next((each for each in _ends(path) if os.path.isfile(each) and _has(each, frame)), None)


def _ends(path: str) -> Iterator[str]:
    parts = [each for each in path.replace("\\", "/").split("/")[1:] if each not in ("", ".")]
    if ".." not in parts:
        yield from (os.path.join(*parts[at:]) for at in range(len(parts)))


def _has(path: str, frame: Frame) -> bool:
    """Whether a file has the line that a traceback shows, where it says."""
    try:
        lines = contents(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return False
    return bool(frame.source) and frame.row <= len(lines) and lines[frame.row - 1].strip() == frame.source


def _lint(path: str, codes: tuple[str, ...], resolver: Resolver) -> Linted:
    try:
        # A file that can't be read as Python is not one in which nothing was found.
        settings = resolver.for_file(path)._replace(codes=ALWAYS.union(codes))
        return Linted(path, check_bytes(contents(path), path, settings), codes)
    except OSError as error:
        return Linted(path, None, codes, error.strerror or str(error))
    except SettingsError as error:
        return Linted(path, None, codes, str(error))
