"""What amplint misses in real code: training files drawn by a fixed rule, to be read whole by eye.

`python -m tests.field.recall` prints the files of the draw, and for each how many misuses amplint finds there (right
verdicts) and how many it misses (missed.csv). missed.csv also holds what was met elsewhere while reading.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.field.fetch import default_cache, folder_of
from tests.field.packages import FieldError, Package, read_packages
from tests.field.verdicts import Key, read_verdicts, show

MISSED_FILE = Path(__file__).with_name("missed.csv")
MISSED_COLUMNS = ("package", "path", "line", "code", "why", "built")
SEED = "amplint"
DRAWN = 20
_AMP_WORDS = (b"GradScaler", b"scaler.scale(", b"autocast")


class Drawn(NamedTuple):
    """One file to read."""

    package: Package
    path: str
    lines: int


def is_training_file(content: bytes) -> bool:
    """Whether a file trains, as far as its text shows: words of AMP, and a backward."""
    return b".backward(" in content and any(word in content for word in _AMP_WORDS)


def draw(folders: Mapping[Package, Path], count: int = DRAWN, seed: str = SEED) -> list[Drawn]:
    """The `count` training files that come first by a hash of their names.

    By a hash and not by a random generator, so that a package more or less changes few of them. A file that is a copy
    of one before is passed over.
    """
    ranked: list[tuple[str, Package, str, bytes]] = []
    for package, folder in folders.items():
        for file in folder.rglob("*.py"):
            content = file.read_bytes()
            if is_training_file(content):
                path = file.relative_to(folder).as_posix()
                rank = hashlib.sha256(f"{seed} {package.name} {path}".encode()).hexdigest()
                ranked.append((rank, package, path, content))
    drawn: list[Drawn] = []
    contents: set[bytes] = set()
    for _, package, path, content in sorted(ranked, key=lambda each: each[0]):
        if len(drawn) < count and content not in contents:
            contents.add(content)
            drawn.append(Drawn(package, path, len(content.splitlines())))
    return drawn


def read_missed(path: Path = MISSED_FILE) -> dict[Key, bool]:
    """The misuses that amplint doesn't find, each with whether its rule is built.

    Raises:
        FieldError: a row isn't complete or doesn't stand where it belongs.
    """
    missed: dict[Key, bool] = {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            header, *rows = csv.reader(file, strict=True)
        except (ValueError, csv.Error) as error:
            raise FieldError(f"{path.name}: {error}") from error
    if tuple(header) != MISSED_COLUMNS:
        raise FieldError(f"{path.name}: the first line has to be {','.join(MISSED_COLUMNS)}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(MISSED_COLUMNS) or not all(row) or not row[2].isdecimal() or row[5] not in ("yes", "no"):
            raise FieldError(f"{path.name}: row {number} is not package,path,line,code,why,yes or no")
        key = Key(row[0], row[1], int(row[2]), row[3])
        if missed and key <= max(missed):
            raise FieldError(f"{path.name}: row {number} is not sorted, or there twice: {show(key)}")
        missed[key] = row[5] == "yes"
    return missed


def table(drawn: Iterable[Drawn], verdicts: Mapping[Key, str], missed: Mapping[Key, bool]) -> str:
    """A line for each drawn file, and the sums; the misses of rules that aren't built yet are counted apart."""
    lines = ["found missed unbuilt lines file"]
    sums = [0, 0, 0]
    for package, path, length in drawn:
        place = (str(package), path)
        counts = [
            sum(verdict == "right" for key, verdict in verdicts.items() if key[:2] == place),
            sum(built for key, built in missed.items() if key[:2] == place),
            sum(not built for key, built in missed.items() if key[:2] == place),
        ]
        sums = [one + other for one, other in zip(sums, counts, strict=True)]
        lines.append("{:5} {:6} {:7} {:5} {}".format(*counts, length, f"{package} {path}"))
    return "\n".join([*lines, "{:5} {:6} {:7}       all of them".format(*sums)])


def main(arguments: list[str] | None = None) -> int:
    """Print the draw; 0, or 2 where packages are missing, since the draw is from all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.field.recall", description="list training files to read")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR", help="where the sources lie")
    cache: Path = parser.parse_args(arguments).cache.expanduser()
    try:
        folders = {package: folder_of(package, cache) for package in read_packages()}
        absent = [str(package) for package, folder in folders.items() if not folder.is_dir()]
        if absent:
            raise FieldError(f"not fetched, run `python -m tests.field` first: {', '.join(absent)}")
        print(table(draw(folders), read_verdicts(), read_missed()))
    except (FieldError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
