"""What git ignores below a directory: nested .gitignore files, those above it, and .git/info/exclude."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.pattern import Pattern, RegexPattern

from amplint.base.paths import LARGEST_CONFIG, contents

_STAR = "[^/]*"
_PIECE = re.compile(r"\[\^/\]\*|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_MOST_DOUBLE_STARS = 3

Layers = tuple[tuple[str, list[Pattern]], ...]


def above(directory: Path) -> Layers:
    """What the .gitignore files over `directory` say, from the repository's root down; none outside a repository."""
    chain = [directory]
    while not (chain[-1] / ".git").exists():
        if chain[-1].parent == chain[-1]:
            return ()
        chain.append(chain[-1].parent)
    chain.reverse()
    layers: Layers = ()
    for parent, child in pairwise(chain):
        layers = inside(parent, layers)
        if ignored(f"{child}{os.sep}", layers):
            # The user named what is in an ignored directory: what ignores that would ignore all of it.
            layers = ()
    return layers


def inside(directory: Path, layers: Layers) -> Layers:
    """`layers` with what `directory` itself adds; a repository of its own begins afresh."""
    if (directory / ".git").exists():
        layers = _with(directory, directory / ".git" / "info" / "exclude", ())
    return _with(directory, directory / ".gitignore", layers)


def _with(directory: Path, file: Path, layers: Layers) -> Layers:
    try:
        lines = contents(str(file), LARGEST_CONFIG).decode("utf-8-sig", "surrogateescape").split("\n")
    except OSError:
        return layers
    patterns: list[Pattern] = []
    for line in lines:
        # `a/**` ignores what is in a, not a itself, so that `!a/b` can take b back. pathspec needs that spelt out.
        meant = re.sub(r"/\*\*(/?) *\r?$", r"/**/*\1", line)
        with suppress(ValueError):  # git, too, passes over a pattern that is none
            patterns += map(_swift, GitIgnoreSpec.from_lines([meant]).patterns)
    patterns.reverse()  # the last that matches decides
    return (*layers, (str(directory), patterns))


def _swift(pattern: Pattern) -> Pattern:
    """A pattern that can't be made to try for hours where its stars may stand: these files come with what is linted.

    Of the stars between two slashes each but the last takes the first place that fits: none is better, as the next star
    can take what is between. Over several directories it takes a deep tree as well, and patterns that nobody writes.
    """
    written = pattern.regex.pattern if isinstance(pattern, RegexPattern) and pattern.regex is not None else ""
    if written.count(".+") > _MOST_DOUBLE_STARS:
        return RegexPattern(None, None)
    if written.count(_STAR) < 2:
        return pattern
    done: list[str] = []
    star = None  # where in `done` the last one of these slashes is
    for number, piece in enumerate(_PIECE.findall(written)):
        if piece in "/()|":
            star = None
        elif piece == _STAR:
            if star is not None:
                fits = f"{_STAR}?{''.join(done[star + 1 :])}"
                done[star:] = [f"(?=(?P<star{number}>{fits}))(?P=star{number})"]  # as (?>...) in Python 3.11
            star = len(done)
        done.append(piece)
    return RegexPattern(re.compile("".join(done)), pattern.include)


def ignored(path: str, layers: Layers) -> bool:
    """Whether git ignores `path` (absolute; a directory's ends with a separator): the deepest file decides."""
    for directory, patterns in reversed(layers):
        relative = path[len(directory.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
        for pattern in patterns:
            if pattern.include is not None and _names(pattern, relative):
                return pattern.include
    return False


def _names(pattern: Pattern, path: str) -> bool:
    """Whether a pattern matches `path` itself, not only a directory above it, as is enough for pathspec.

    Those directories were asked about before, and another pattern may have decided.
    """
    found = pattern.match_file(path)
    if found is None:
        return False
    # pathspec marks the slash after the directory that it has matched; a pattern like `**/` is any slash to it.
    slashes = [match.end("ps_d") for match in found.match.re.finditer(path) if match.groupdict().get("ps_d")]
    return not slashes or len(path) in slashes
