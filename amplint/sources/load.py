"""A file's bytes as a `Source`: of a notebook by its name, else of a text."""

from __future__ import annotations

import re

from amplint.base.paths import NOTEBOOK, is_document
from amplint.sources.source import Source

# A line that may be a command of a notebook; an expression that goes on can start its line with `%`, too.
_COMMAND = re.compile(r"^[ \t]*[!%?]|=[ \t]*[!%](?!=)|^[^#\r\n'\"?]*\?{1,2}[ \t]*$", re.MULTILINE)


def load(data: bytes, filename: str) -> Source:
    """The source that a file's bytes are: decoded as Python would, or, by its name, as Jupyter would.

    Raises:
        SourceError: the bytes are not in the encoding they declare, or hold a NUL, or are no notebook.
    """
    if filename.endswith(NOTEBOOK):
        from amplint.sources.notebook import Notebook  # noqa: PLC0415 - few files are notebooks

        return Notebook.from_bytes(data, filename)
    return with_commands(Source.from_bytes(data, filename))


def with_commands(source: Source) -> Source:
    """A program as it is read: if it has commands of a notebook, with what Python understands in their place."""
    if is_document(source.filename) or not _COMMAND.search(source.text):
        return source
    from amplint.sources.exported import Exported  # noqa: PLC0415 - few files have commands

    return Exported.of(source)
