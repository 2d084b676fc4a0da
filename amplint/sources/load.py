"""A file's bytes as a `Source`: of a notebook by its name, else of a text."""

from __future__ import annotations

from amplint.base.paths import NOTEBOOK
from amplint.sources.source import Source


def load(data: bytes, filename: str) -> Source:
    """The source that a file's bytes are: decoded as Python would, or, by its name, as Jupyter would.

    Raises:
        SourceError: the bytes are not in the encoding they declare, or hold a NUL, or are no notebook.
    """
    if filename.endswith(NOTEBOOK):
        from amplint.sources.notebook import Notebook  # noqa: PLC0415 - few files are notebooks

        return Notebook.from_bytes(data, filename)
    return Source.from_bytes(data, filename)
