"""A generated program, and what it takes to run it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

FILENAME = "program.py"


class Program(NamedTuple):
    text: str
    flags: Mapping[str, tuple[Any, ...]] = MappingProxyType(
        {}
    )  # the values of each flag, every combination of which is run
    entry: str = "train"  # the function that is called with a loader and the flags; "": the text itself, as a script
    overflow: bool = False  # one batch overflows, in runs of their own
    family: str = ""
    seed: int = 0
    chosen: bool = False  # the family was asked for: the same seed gives another program where it is not
    mutations: tuple[str, ...] = ()
    shapes: frozenset[str] = frozenset()  # what coverage counts

    def runs(self) -> Iterator[tuple[dict[str, Any], bool]]:
        """The flags' values and whether a batch overflows, for each run."""
        for values in itertools.product(*self.flags.values()):
            for overflow in (False, True) if self.overflow else (False,):
                yield dict(zip(self.flags, values, strict=True)), overflow

    def numbered(self) -> str:
        """The text with its line numbers."""
        return "\n".join(f"{number:3} {line}" for number, line in enumerate(self.text.splitlines(), 1))


def kept() -> list[Program]:
    """The programs on which the verdicts differed once; the first line names the flags, `# flags: {"k": (1, 2)}`."""
    found = []
    for path in sorted((Path(__file__).parent / "kept").glob("*.py")):
        text = path.read_text()
        flags = ast.literal_eval(text.partition("\n")[0].removeprefix("# flags: "))
        entry = "main" if "def main(loader" in text else "train"
        found.append(Program(text, flags, entry, family=path.stem, chosen=True))
    return found
