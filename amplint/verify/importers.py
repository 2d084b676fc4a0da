"""Which files of a project import which, read from their bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from amplint.model.imports import module_file
from amplint.model.project import python_files, root_of
from amplint.paths import contents, remembered

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\r\n#;]*)|import[ \t]+([^\r\n#;]+))", re.MULTILINE
)
_NAME = re.compile(r"[.\w]+")
_INIT = "__init__.py"
# Of a tree with more files not all are read; a larger file was written by no person.
_MOST_FILES, _LARGEST = 5_000, 1 << 18
_DEPTH = 6


@remembered
def imports(path: str) -> frozenset[str]:
    """The files of the same project that a file imports."""
    return frozenset(filter(None, (module_file(path, each) for each in _modules(path))))


def reaches(path: str, wanted: Callable[[bytes], object]) -> bool:
    """Whether a file has the `wanted` bytes, or one of its project that it imports, or that those import."""
    seen = {path}
    todo = [path]
    for _ in range(_DEPTH):
        if any(wanted(_data(each)) for each in todo):
            return True
        todo = [each for one in todo for each in imports(one) if each not in seen]
        seen.update(todo)
    return False


def importers(path: str) -> Iterator[str]:
    """The files of the same project that import a file, by its own name or through the package that passes it on."""
    files = python_files(root_of(os.path.dirname(path)))
    seen = {path}
    todo = [path]
    while todo:
        wanted = todo.pop()
        folder, name = os.path.split(wanted)
        stem = os.path.basename(folder) if name == _INIT else name.removesuffix(".py")
        for each in files if len(files) <= _MOST_FILES else ():
            if each in seen or not any(module.rpartition(".")[2] == stem for module in _modules(each)):
                continue
            if wanted in imports(each):
                seen.add(each)
                if os.path.basename(each) == _INIT:
                    todo.append(each)
                else:
                    yield each


@remembered
def _modules(path: str) -> frozenset[str]:
    """The modules that a file may import, as it writes them: of `from a import b` both `a` and `a.b`."""
    found: set[str] = set()
    for module, names, plain in _IMPORT.findall(_data(path)):
        given = [each.split()[:1] for each in (names or plain).decode("utf-8", "replace").strip("()\\ ").split(",")]
        known = [word for each in given for word in each if _NAME.fullmatch(word)]
        if module:
            base = module.decode("utf-8", "replace")
            found.add(base)
            found.update(f"{base}{'' if base.endswith('.') else '.'}{each}" for each in known)
        else:
            found.update(known)
    return frozenset(found)


def _data(path: str) -> bytes:
    try:
        return contents(path, _LARGEST)
    except OSError:
        return b""
