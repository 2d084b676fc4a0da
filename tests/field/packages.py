"""The packages that are linted: names and pinned versions from `packages.txt`."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import NamedTuple

PACKAGES_FILE = Path(__file__).with_name("packages.txt")

_LINE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.+!-]+)(?P<ci>\s+ci)?\Z", re.ASCII)


class FieldError(Exception):
    """The work can't be done: bad input, or sources that can't be had. Its text is one clear line."""


class Package(NamedTuple):
    """One pinned package. `ci` marks those that are small enough to be linted on every change."""

    name: str
    version: str
    ci: bool = False

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def normalized(self) -> str:
        """The name as an index spells it."""
        return re.sub(r"[-_.]+", "-", self.name).lower()


def read_packages(path: Path = PACKAGES_FILE) -> list[Package]:
    """The packages in the file's order.

    Raises:
        FieldError: a line is not `name==version` or `name==version ci`, or a package is there twice.
    """
    packages: list[Package] = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        match = _LINE.match(line)
        if match is None:
            raise FieldError(f"{path.name}:{number}: expected name==version, or name==version ci, not {line!r}")
        package = Package(match["name"], match["version"], match["ci"] is not None)
        if any(package.normalized == other.normalized for other in packages):
            raise FieldError(f"{path.name}:{number}: {package.name} is listed twice")
        packages.append(package)
    return packages


def choose(packages: list[Package], names: list[str], *, ci: bool) -> list[Package]:
    """The packages asked for; all of them where nothing is asked for.

    Raises:
        FieldError: a name isn't in the list, or nothing is left.
    """
    by_name = {package.normalized: package for package in packages}
    wanted: set[str] = set()
    for name in names:
        normalized = Package(name, "").normalized
        if normalized not in by_name:
            near = difflib.get_close_matches(normalized, by_name, n=1)
            hint = f"; did you mean {by_name[near[0]].name}?" if near else ""
            raise FieldError(f"{name} is not in {PACKAGES_FILE.name}{hint}")
        wanted.add(normalized)
    chosen = [p for p in packages if (not wanted or p.normalized in wanted) and (p.ci or not ci)]
    if not chosen:
        raise FieldError("no package is left to lint")
    return chosen
