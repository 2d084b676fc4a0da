"""What git ignores below a directory: nested .gitignore files, those above it, and .git/info/exclude."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.pattern import Pattern

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
        lines = file.read_text("utf-8-sig", "surrogateescape").split("\n")
    except OSError:
        return layers
    patterns: list[Pattern] = []
    for line in lines:
        # `a/**` ignores what is in a, not a itself, so that `!a/b` can take b back. pathspec needs that spelt out.
        meant = re.sub(r"/\*\*(/?) *\r?$", r"/**/*\1", line)
        with suppress(ValueError):  # git, too, passes over a pattern that is none
            patterns += GitIgnoreSpec.from_lines([meant]).patterns
    patterns.reverse()  # the last that matches decides
    return (*layers, (str(directory), patterns))


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
