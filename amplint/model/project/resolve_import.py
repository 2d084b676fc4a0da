"""Where the module lies that a file imports, if it is one of the same project."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from amplint.base.paths import contents, look_again, remembered
from amplint.base.project_root import Start
from amplint.base.reads import is_file, is_link, real
from amplint.model.project.python_files import look_from, looked_from, root_of

# What is installed is no part of a project; nor is what a project calls like it, by mistake or on purpose.
_ELSEWHERE = {*sys.stdlib_module_names, "torch", "accelerate", "numpy"}
# Where a file says itself in which folders its modules are, and the parts of a path that are written there.
_ADDS = re.compile(rb"\bsys\.path\.(?:append|insert|extend)\(([^\n]*)")
_ASSIGNS = rb"(?m)^[ \t\"]*%s[ \t]*=(?!=)([^\n]*)"
_WORD = re.compile(rb"[^\W\d]\w*")
_PART = re.compile(rb"""(?<![\w\\])\\?(['"])([^'"\\\n{]*)\\?\1""")
_LARGEST = 1 << 20
# Where the project of the file that is read has its modules; None: where most have them, `src` in the project's folder.
_src: list[tuple[str, ...] | None] = [None]


def look_in(src: tuple[str, ...] | None, start: Start) -> None:
    """Resolve imports in these folders (absolute) from now on, behind the importing file's own and those above it.

    `start` says what the project is where nothing marks one.
    """
    if look_from(start) or src != _src[0]:
        _src[0] = src
        look_again()  # what was seen of the project was resolved otherwise


def looked_in() -> tuple[tuple[str, ...] | None, Start]:
    """The folders in which imports are resolved now, and what the project is where nothing marks one."""
    return _src[0], looked_from()


@remembered
def module_file(filename: str, module: str) -> str | None:
    """The file of a module, as the file `filename` imports it: `module` is dotted, with dots in front if relative.

    Looked for as Python does: relative ones in the package, others in the file's folder and in those above, up to the
    project's, then in those of `look_in`; where the file is a link, then from its target's place too. None where there
    is none, and for the folder of a package without `__init__.py`.
    """
    path = os.path.abspath(filename)
    if not is_file(path):
        return None
    found = _in_added(path, module) or _seen_from(os.path.dirname(path), module)
    if found is None and is_link(path):
        found = _seen_from(os.path.dirname(real(path)), module)
    return found


def _in_added(path: str, module: str) -> str | None:
    """The file of a module for a program that adds folders to `sys.path`, by what is written there: its own folder's,
    or one of theirs.

    Of `os.path.join(ROOT, "libs")` that is `libs`, below the file's folder or one above it.
    """
    parts = module.split(".")
    if not parts[0] or parts[0] in _ELSEWHERE or not _added(path):
        return None
    folder = os.path.dirname(path)
    root = root_of(folder)
    if own := _in(folder, parts, root):
        return own
    places = (os.path.normpath(os.path.join(above, each)) for each in _added(path) for above in _up_to(root, folder))
    return next(filter(None, (_in(each, parts, root) for each in places)), None)


@remembered
def _added(path: str) -> tuple[str, ...]:
    """The folders that a file adds to `sys.path`, relative to another one, as far as they are written out."""
    try:
        text = contents(path, _LARGEST)
    except OSError:
        return ()
    found = dict[str, None]()
    for call in _ADDS.finditer(text):
        folder = _written(call[1])
        if not folder:
            bound = (re.search(_ASSIGNS % word, text) for word in _WORD.findall(call[1]))
            folder = next(filter(None, (_written(each[1]) for each in bound if each is not None)), "")
        found[folder] = None
    return tuple(filter(None, found))


def _written(code: bytes) -> str:
    """The path that the texts in some code make together."""
    parts = [found[2].decode("utf-8", "replace") for found in _PART.finditer(code)]
    folder = os.path.join("", *(each for each in parts if each.strip("/")))
    return "" if os.path.isabs(folder) else folder


def _seen_from(folder: str, module: str) -> str | None:
    """The file of a module, as a file in `folder` imports it."""
    root = root_of(folder)
    level = len(module) - len(module.lstrip("."))
    parts = [each for each in module[level:].split(".") if each]
    if level:
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return _in(folder, parts, root)
    if not parts or parts[0] in _ELSEWHERE:
        return None
    if parts[0] == os.path.basename(root) and is_file(os.path.join(root, "__init__.py")):
        return _in(os.path.dirname(root), parts, root)
    given = _src[0]
    others = [(os.path.join(root, "src"), root)] if given is None else [(each, each) for each in given]
    places = [*((each, root) for each in _up_to(root, folder)), *others]
    return next(filter(None, (_in(each, parts, within) for each, within in places)), None)


def _up_to(root: str, folder: str) -> Iterator[str]:
    """A folder, and those above it up to the project's."""
    yield folder
    while folder not in (root, os.path.dirname(folder)):
        folder = os.path.dirname(folder)
        yield folder


def _in(folder: str, parts: list[str], root: str) -> str | None:
    """The file of a module below a folder; a link can't lead out of the project, or of a folder that was given."""
    base = os.path.join(folder, *parts)
    for path in (os.path.join(base, "__init__.py"), f"{base}.py"):  # a package hides a module of its name
        if is_file(path) and _is_below(real(path), real(root)):
            return path
    return None


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
