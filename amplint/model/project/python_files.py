"""Other files of the project, read from disk on demand.

One question: does another file import a name from this one (a rename here would break it there)? Which files import
which is told by `amplint.model.project.importers`.
"""

from __future__ import annotations

import os
import re

from amplint.base.paths import contents, question, remembered
from amplint.base.project_root import Start, project_of
from amplint.base.reads import is_file
from amplint.base.tree import of_project, tree

# What a file can be asked for by others; a file that has none of these words imports none of them.
NAMES = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
_WORD = re.compile("|".join(NAMES).encode())
_FROM = re.compile(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|(?:[^\r\n#\\]|\\\r?\n)*)", re.MULTILINE)
_AS = re.compile(rb"\b(\w+)[ \t]+as[ \t]+(\w+)")
_ATTRIBUTE = re.compile(rb"\b(\w+)[ \t]*\.[ \t]*(autocast|GradScaler|custom_fwd|custom_bwd)\b")
# Where amplint was started.
_start: list[Start] = [Start()]


def importer_of(filename: str, name: str) -> str | None:
    """A file of the same project that takes `name` from the file `filename`; None: there is none in sight.

    Files are told by their last name only (`from .compat import autocast` may mean any `compat.py`), so the answer errs
    on the side of finding one.
    """
    return _importer_of(os.path.abspath(filename), name)


@question
def _importer_of(path: str, name: str) -> str | None:
    of_project(root_of(os.path.dirname(path)))
    if not is_file(path):
        return None
    stem = os.path.splitext(os.path.basename(path))[0]
    found = _index(root_of(os.path.dirname(path))).get((stem, name), ())
    return next((each for each in found if each != path), None)


def look_from(start: Start) -> bool:
    """Take what was given for a project from now on where nothing marks one; whether that is something else."""
    changed = start != _start[0]
    _start[0] = start
    return changed


def looked_from() -> Start:
    """What is taken for a project now where nothing marks one."""
    return _start[0]


def root_of(folder: str) -> str:
    """The folder of the project that a folder (absolute) is in: see `amplint.base.project_root`."""
    return project_of(folder, _start[0]).folder


def _text(path: str) -> bytes:
    try:
        return contents(path)
    except OSError:
        return b""


def python_files(root: str) -> tuple[str, ...]:
    """Python's files in a project; none where there are too many for one."""
    return tree(root).files


@remembered
def _index(root: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """For (file's last name, name): the files that import it, or read it as an attribute."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in python_files(root):
        for key in taken(path):
            found.setdefault(key, []).append(path)
    return {key: tuple(paths) for key, paths in found.items()}


def taken(path: str) -> set[tuple[str, str]]:
    """What a file takes of the names that a fix may rename, each with the last name of the module that has it."""
    data = _text(path)
    if not _WORD.search(data):
        return set()
    taken = {(owner.decode(), name.decode()) for owner, name in _ATTRIBUTE.findall(data)}
    aliases = [(alias.decode(), module.decode()) for module, alias in _AS.findall(data)]
    taken |= {(module, name) for alias, module in aliases for owner, name in taken if owner == alias}
    for module, names in _FROM.findall(data):
        last = module.rpartition(b".")[2].decode("utf-8", "replace")
        where = data if names.strip(b" \t()") == b"*" else names
        taken |= {(last, word) for word in NAMES if re.search(rb"\b%s\b" % word.encode(), where)}
    return taken
