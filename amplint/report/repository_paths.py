"""Files and findings as services know them: by paths in the repository, the same on all machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePath
from urllib.parse import quote

from amplint.adoption.fingerprint import fingerprints
from amplint.base.paths import absolute, remembered
from amplint.report import Place, Report

HOME = "https://github.com/amplint/amplint"


def tracked(report: Report) -> Iterator[tuple[Place, str, str]]:
    """All findings with their places, the paths of their files in the repository, and their fingerprints."""
    for filename, group in groupby(report.places(), lambda place: place.filename):
        places = list(group)
        path = relative(filename)
        found = fingerprints(places[0].source, [place.finding for place in places], path)
        for place, fingerprint in zip(places, found, strict=True):
            yield place, path, fingerprint


def relative(filename: str) -> str:
    """A file's path from the repository's root, with slashes; of one that lies elsewhere the absolute path."""
    if filename == "-":
        return filename
    path = PurePath(absolute(filename))
    return (path.relative_to(root()) if path.is_relative_to(root()) else path).as_posix()


@remembered
def root() -> PurePath:
    """The folder of the repository that the current directory is in; where there is none, that directory."""
    return root_of(Path.cwd())


def root_of(folder: Path) -> PurePath:
    """The folder of the repository that a folder is in; where there is none, that folder."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def uri(path: PurePath, base: PurePath) -> tuple[str, bool]:
    """The URI of a file, and whether it is one from `base`: of other files it is absolute."""
    if path.is_relative_to(base):
        return quote(os.fsencode(path.relative_to(base).as_posix())), True
    text = path.as_posix()
    host = "" if text.startswith("//") else "//" if text.startswith("/") else "///"
    return f"file:{host}{quote(os.fsencode(text), safe='/:')}", False
