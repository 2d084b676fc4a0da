"""Verdicts given by eye, and findings held against them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.field.lint import FieldFinding
from tests.field.packages import FieldError

VERDICTS_FILE = Path(__file__).with_name("verdicts.csv")
COLUMNS = ("package", "path", "line", "code", "verdict", "why")
VERDICTS = ("right", "wrong", "unsure")
MOST_WRONG = 0.02
MOST_UNSURE = 0.10


class Key(NamedTuple):
    """What a verdict is about. Columns are left out: one code twice on a line is judged once."""

    package: str
    path: str
    line: int
    code: str


class Comparison(NamedTuple):
    """Findings held against verdicts: how they were judged, and what has no counterpart.

    `judged` counts the findings of each linted package. `standing` counts all verdicts that aren't known to be stale,
    those of packages left out this time too, so that the bars don't depend on how much is linted.
    """

    judged: dict[str, Counter[str]]
    standing: Counter[str]
    without_verdict: list[tuple[str, FieldFinding]]
    without_finding: list[Key]

    def broken_bars(self) -> list[str]:
        """One line for each bar that isn't met."""
        count = sum(self.standing.values())
        bars = (("wrong", MOST_WRONG), ("unsure", MOST_UNSURE))
        return [
            f"{self.standing[verdict]} of {count} verdicts are {verdict}: more than {most:.0%}"
            for verdict, most in bars
            if self.standing[verdict] > most * count
        ]


def read_verdicts(path: Path = VERDICTS_FILE) -> dict[Key, str]:
    """The verdict for every key.

    Raises:
        FieldError: a row isn't complete, a verdict isn't one of the three, or a key is there twice.
    """
    verdicts: dict[Key, str] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            if tuple(next(reader, ())) != COLUMNS:
                raise FieldError(f"{path.name}: the first line has to be {','.join(COLUMNS)}")
            for row in reader:
                key, verdict = _read_row(row, f"{path.name}:{reader.line_num}")
                if key in verdicts:
                    raise FieldError(f"{path.name}:{reader.line_num}: a second verdict for {show(key)}")
                verdicts[key] = verdict
        except csv.Error as error:
            raise FieldError(f"{path.name}:{reader.line_num}: {error}") from error
    return verdicts


def compare(
    found: Mapping[str, Iterable[FieldFinding]], verdicts: Mapping[Key, str], known: Iterable[str]
) -> Comparison:
    """Hold the findings of each linted package against the verdicts.

    A verdict without a finding counts where its package was linted, and where no such package is `known` at all:
    then its version has moved on and the verdict was left behind.
    """
    judged: dict[str, Counter[str]] = {}
    without_verdict: list[tuple[str, FieldFinding]] = []
    met: set[Key] = set()
    for package, findings in found.items():
        judged[package] = Counter()
        for finding in findings:
            key = Key(package, finding.path, finding.line, finding.code)
            if key in verdicts:
                met.add(key)
                judged[package][verdicts[key]] += 1
            else:
                without_verdict.append((package, finding))
    not_linted = set(known) - set(found)
    left = sorted(key for key in verdicts if key not in met and key.package not in not_linted)
    standing = Counter(verdicts.values()) - Counter(verdicts[key] for key in left)
    return Comparison(judged, standing, without_verdict, left)


def show(key: Key) -> str:
    """A key as it is printed: the first four columns of its row."""
    return ",".join(map(str, key))


def _read_row(row: list[str], place: str) -> tuple[Key, str]:
    if len(row) != len(COLUMNS) or not all(row):
        raise FieldError(f"{place}: every row has {len(COLUMNS)} fields, none of them empty")
    package, path, line, code, verdict, _ = row
    if verdict not in VERDICTS:
        raise FieldError(f"{place}: the verdict is {' or '.join(VERDICTS)}, not {verdict!r}")
    if not line.isascii() or not line.isdigit():
        raise FieldError(f"{place}: the line is a number, not {line!r}")
    return Key(package, path, int(line), code), verdict
