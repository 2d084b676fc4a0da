"""Finding fixtures: programs that say in their first line that they are there to be run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from amplint.verify.proof import SHOWS

_MARKER = re.compile(r"# amplint-fixture:((?: \w+=[\w-]+)+)\r?\n")
_RULE = re.compile(r"[A-Z]{3}\d{3}(?!\d)")
DEVICES = ("cuda", "xpu", "mps")
CPU = "cpu"  # as a fixture's device: its point is that the others are missing


class NotAFixture(ValueError):
    """A path holds something else than fixtures; the message says what and where."""


class Fixture(NamedTuple):
    """One variant of a rule: the programs before and after the fix, and what the first is to show."""

    rule: str  # its code; empty if the folder's name has none
    name: str
    bad: Path  # the file that is run
    fixed: Path
    shows: str
    device: str | None

    @property
    def folder(self) -> str:
        """The name of the rule's folder."""
        folder = self.bad.parents[1] if self.bad.name == "bad.py" else self.bad.parents[2]
        return folder.name


def has_fixtures(path: str) -> bool:
    """Whether a path is one of fixtures, and not of other code: what looks like a bad half says what it shows."""
    return any(_marker(_first(bad)) for bad in _halves(Path(path)))


def _first(bad: Path) -> Path:
    """The file of a bad half that has the marker."""
    return min(bad.glob("*.py"), default=bad / "main.py") if bad.is_dir() else bad


def _marker(first: Path) -> re.Match[str] | None:
    if not first.is_file():  # a pipe would be waited for
        return None
    try:
        with first.open(encoding="utf-8", errors="replace", newline="") as file:
            return _MARKER.match(file.readline(400))
    except OSError:
        return None


def find_fixtures(paths: Sequence[str]) -> list[Fixture]:
    """All fixtures of `paths`: folders of rules, of variants, a folder of such folders, or a file bad.py.

    Raises:
        NotAFixture: a path has none, or what looks like one lacks its marker or its fixed half. Nothing is executed.
    """
    found: dict[Path, Fixture] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise NotAFixture(f"{path}: no such file or directory")
        before = len(found)
        for bad in _halves(path):
            found[bad.resolve()] = _fixture(bad)
        if len(found) == before and not any(each.resolve() in found for each in _halves(path)):
            raise NotAFixture(f"{path}: no fixture there")
    return list(found.values())


def _halves(path: Path) -> Iterator[Path]:
    """The bad halves at most two folders down: bad.py, or the folder bad."""
    if path.name in ("bad.py", "bad") and path.exists():
        yield path
        return
    if not path.is_dir():
        return
    for folder in (path, *_folders(path), *(below for each in _folders(path) for below in _folders(each))):
        for half in (folder / "bad.py", folder / "bad"):
            if half.exists():
                yield half


def _folders(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith((".", "_")))


def _fixture(bad: Path) -> Fixture:
    bad = Path(os.path.abspath(bad))  # without `..`, and links as they are: folders give the names
    fixed = bad.with_name("fixed.py" if bad.suffix else "fixed")
    first = _first(bad)
    if bad.is_dir():
        bad, fixed = bad / "main.py", fixed / "main.py"
    for half in (bad, fixed):
        if not half.is_file():
            raise NotAFixture(f"{half}: there is no such file, so this is no fixture")
    marker = _marker(first)
    if not marker:
        raise NotAFixture(f"{first}: the first line is no fixture's marker")
    says = dict(each.split("=") for each in marker[1].split())
    if says.get("shows") not in SHOWS or says.get("device") not in (None, CPU, *DEVICES):
        raise NotAFixture(f"{first}: the marker's shows= or device= is unknown")
    variant = first.parent if first is bad else first.parents[1]
    rule = _RULE.match(variant.parent.name)
    return Fixture(rule[0] if rule else "", variant.name, bad, fixed, says["shows"], says.get("device"))
