"""Python files with commands of a notebook in them (`!nvidia-smi`, `%cd data`), as Colab and Jupyter export them.

Python can't run such a file, which is said (AMP001), but people paste it back into a notebook, so the rest is read as a
cell is: each command is replaced by what Python understands, and put back when the file is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from amplint.sources.ipython import Mask, as_program, is_command, places, refused_command, restored
from amplint.sources.parsing import with_room
from amplint.sources.source import Source


class Exported(Source):
    """A file as the program that it is with its commands replaced."""

    def __init__(self, filename: str, text: str, masks: tuple[Mask, ...], encoding: str, bom: bool) -> None:
        super().__init__(filename, text, encoding, bom)
        self._masks = masks

    @classmethod
    def of(cls, source: Source) -> Source:
        """The file with its commands replaced; the same file if it has none, or if the rest is not a program either."""
        code = with_room(lambda: as_program(source.text))
        if not code.masks or code.refusal is not None:
            return source
        found = cls(source.filename, code.text, code.masks, source.encoding, source.bom)
        rows = {found.row(start) for start in found._masked[::2]}
        return found if all(is_command(source.line(row)) for row in rows) else source

    def like(self, text: str) -> Exported:
        """The same file with another text."""
        return Exported(self.filename, text, self._masks, self.encoding, self.bom)

    def encode(self, text: str) -> bytes:
        """`text` in this file's encoding, with its byte order mark and its commands.

        Raises:
            SourceError: the encoding lacks one of the characters.
        """
        whole = restored(text, self._masks)
        return super().encode(text if whole is None else whole)

    @cached_property
    def original(self) -> str:
        """The file's text with its commands; its lines are those of `text`."""
        return restored(self.text, self._masks) or self.text

    @cached_property
    def _written(self) -> Source:
        return Source(self.filename, self.original)

    @cached_property
    def _masked(self) -> list[int]:
        """Where what stands for something else starts and ends, in turn."""
        return [offset for place in places(self.text, self._masks) for offset in place]

    def replaced(self, offset: int) -> bool:
        """Whether a character stands for a command."""
        return bisect_right(self._masked, offset) % 2 == 1

    def shown(self, row: int) -> str:
        """A line as it is written."""
        return self.written(row)

    def written(self, row: int) -> str:
        """A line as it is written."""
        return self._written.line(row)

    def refused(self) -> Iterator[tuple[int, int, str]]:
        """The first command, which Python can't run."""
        start = self._masked[0]
        row = self.row(start)
        message = refused_command(self.named(start), self._written.line(row))
        yield self.offset(row, 1), self.offset(row, 1) + len(self.line(row)), message

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The file with its commands, for a diff."""
        yield self.filename, self.encode(self.text)
