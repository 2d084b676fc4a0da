"""The programs that are mutated, and the files that are linted as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from amplint.engine import prefilter
from amplint.registry import all_rules
from amplint.sources.load import load
from amplint.sources.source import LINE_END, SourceError

FIXTURES = Path(__file__).parents[2] / "fixtures"
# Characters of a program that is mutated: what is longer has no more to show, and takes longer.
LONGEST = 30_000


class Program(NamedTuple):
    """A program as it is mutated: decoded, with `\\n` for every line end."""

    path: str
    text: str


def programs(folders: Iterable[Path] = ()) -> list[Program]:
    """The fixtures, and what in some folders has to do with AMP."""
    codes = frozenset(all_rules())
    found = []
    for path in (*python_files([FIXTURES]), *python_files(folders)):
        data = path.read_bytes()
        if len(data) > LONGEST or not prefilter.matters(data, codes):
            continue
        try:
            found.append(Program(str(path), LINE_END.sub("\n", load(data, str(path)).text)))
        except SourceError:
            continue
    return found


def python_files(folders: Iterable[Path]) -> list[Path]:
    """Every file below some folders that is called a Python program."""
    return [path for folder in folders for path in sorted(folder.rglob("*.py")) if path.is_file()]
