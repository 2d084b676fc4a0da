"""Which files of a project a file takes something from, told by its imports: for who has to know what to lint again.

What is not certain counts: an import in a text or an arm that never runs is one too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from amplint.base.paths import contents, version
from amplint.model.project.resolve_import import module_file
from amplint.sources.load import load
from amplint.sources.source import SourceError

_STATEMENT = re.compile(
    r"(?:^|[;:])[ \t]*(?:from[ \t]*([.\w \t]+?)[ \t]*\bimport\b[ \t]*(\([^)]*\)|(?:[^\r\n#;\\]|\\\r?\n)*)"
    r"|import[ \t]+((?:[^\r\n#;\\]|\\\r?\n)*))",
    re.MULTILINE,
)
_NAME = re.compile(r"[^\W\d][\w.]*")
_AS = re.compile(r"\bas\s+\w+|#[^\r\n]*")


class Dependencies:
    """What files import; each is read again only when it has changed."""

    def __init__(self) -> None:
        self._modules: dict[str, tuple[tuple[int, int, int], frozenset[str]]] = {}

    def of(self, path: str) -> set[str]:
        """A file and all that it imports, and what those import: absolute paths."""
        found, todo = {path}, [path]
        while todo:
            each = todo.pop()
            new = {file for module in self._imports(each) if (file := module_file(each, module))} - found
            found |= new
            todo += new
        return found

    def named(self, path: str) -> set[str]:
        """The last names of all modules that a file may import, whether or not there are any."""
        return {module.rpartition(".")[2] for module in self._imports(path)}

    def _imports(self, path: str) -> frozenset[str]:
        with suppress(OSError):
            now = version(path)
            if path not in self._modules or self._modules[path][0] != now:
                self._modules[path] = now, frozenset(modules(_text(path)))
            return self._modules[path][1]
        return frozenset()


def _text(path: str) -> str:
    data = contents(path)
    with suppress(SourceError):
        return load(data, path).text  # of a notebook its code
    return data.decode("utf-8", "replace")


def modules(text: str) -> Iterable[str]:
    """The dotted names of all that may be a module in a program's imports."""
    for origin, names, plain in _STATEMENT.findall(text):
        given = _NAME.findall(_AS.sub(" ", names or plain))
        if origin:
            module = "".join(origin.split())
            yield module
            yield from (f"{module}{'' if module.endswith('.') else '.'}{name}" for name in given)
        else:
            parts = (name.split(".") for name in given)
            yield from (".".join(each[:end]) for each in parts for end in range(1, len(each) + 1))
