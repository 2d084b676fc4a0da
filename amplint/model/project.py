"""Other files of the project, read from disk on demand.

Three questions: does another file import a name from this one (a rename here would break it there), does another file
call a method of an attribute that a class of this one keeps, and does another file load an optimizer's state?
"""

from __future__ import annotations

import os
import re

from amplint.paths import contents, remembered
from amplint.project import Start, project_of

# What a file can be asked for by others; a file that has none of these words imports none of them.
NAMES = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
_WORD = re.compile("|".join(NAMES).encode())
_FROM = re.compile(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|(?:[^\r\n#\\]|\\\r?\n)*)", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t][^\r\n]*", re.MULTILINE)
_AS = re.compile(rb"\b(\w+)[ \t]+as[ \t]+(\w+)")
_ATTRIBUTE = re.compile(rb"\b(\w+)[ \t]*\.[ \t]*(autocast|GradScaler|custom_fwd|custom_bwd)\b")
_LOADS = re.compile(rb"(?i)opt(?:im\w*|s?)(?:\[[^\]\n]*\])?\s*\.\s*load_state_dict\s*\(")
_SKIPPED = {"node_modules", "site-packages", "venv", "build", "dist", "__pycache__"}
# A tree larger than this is no project, but a disk: Python's files, and all that there is.
_MOST_FILES, _MOST = 20_000, 200_000
# Where amplint was started.
_start: list[Start] = [Start()]


def importer_of(filename: str, name: str) -> str | None:
    """A file of the same project that takes `name` from the file `filename`; None: there is none in sight.

    Files are told by their last name only (`from .compat import autocast` may mean any `compat.py`), so the answer errs
    on the side of finding one.
    """
    path = os.path.abspath(filename)
    if not os.path.isfile(path):
        return None
    stem = os.path.splitext(os.path.basename(path))[0]
    found = _index(root_of(os.path.dirname(path))).get((stem, name), ())
    return next((each for each in found if each != path), None)


def look_from(start: Start) -> bool:
    """Take what was given for a project from now on where nothing marks one; whether that is something else."""
    changed = start != _start[0]
    _start[0] = start
    return changed


def root_of(folder: str) -> str:
    """The folder of the project that a folder (absolute) is in: see `amplint.project`."""
    return project_of(folder, _start[0]).folder


def user_of(filename: str, attribute: str, method: str, classes: frozenset[str]) -> str | None:
    """Another file of the project that calls a method of such an attribute: `trainer.scaler.update()`.

    It has to import the file, or the package that it is in. `self.scaler.update()` counts where it names one of the
    `classes`, which it may extend.
    """
    path = os.path.abspath(filename)
    if not os.path.isfile(path):
        return None
    folder = os.path.dirname(path)
    modules = frozenset((os.path.splitext(os.path.basename(path))[0], os.path.basename(folder)))
    for other, owners in _users(root_of(folder), attribute, method):
        if other != path and _imports(other, modules) and (owners - {"self"} or _names(_text(other), classes)):
            return other
    return None


@remembered
def _users(root: str, attribute: str, method: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The files of a project that call a method of an attribute, and the names of what has it in each."""
    dot = rb"\s*\.\s*"
    call = re.compile(dot.join((rb"\b(\w+)", attribute.encode(), method.encode())) + rb"\s*\(")
    found = []
    for path in python_files(root):
        owners = frozenset(name.decode() for name in call.findall(_text(path)))
        if owners:
            found.append((path, owners))
    return tuple(found)


def loader_of_optimizers(filename: str) -> str | None:
    """Another file of the project that loads an optimizer's state, by the names in its text."""
    path = os.path.abspath(filename)
    if not os.path.isfile(path):
        return None
    return next((each for each in _loaders(root_of(os.path.dirname(path))) if each != path), None)


@remembered
def _loaders(root: str) -> tuple[str, ...]:
    """The files of a project in which a call of `load_state_dict` is an optimizer's by its names."""
    return tuple(path for path in python_files(root) if _LOADS.search(_text(path)))


def _imports(path: str, modules: frozenset[str]) -> bool:
    """Whether a file imports one of some modules, by their last names."""
    return any(_names(line, modules) for line in _IMPORT.findall(_text(path)))


def _names(text: bytes, words: frozenset[str]) -> bool:
    return any(re.search(rb"\b%s\b" % word.encode(), text) for word in words)


def _text(path: str) -> bytes:
    try:
        return contents(path)
    except OSError:
        return b""


@remembered
def python_files(root: str) -> tuple[str, ...]:
    """Python's files in a project; none where there are too many for one."""
    found: list[str] = []
    seen = 0
    for folder, folders, files in os.walk(root):
        seen += len(folders) + len(files)
        if seen > _MOST:
            return ()
        folders[:] = sorted(each for each in folders if each not in _SKIPPED and not each.startswith("."))
        found += (os.path.join(folder, file) for file in sorted(files) if file.endswith(".py"))
        if len(found) > _MOST_FILES:
            return ()
    return tuple(found)


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
