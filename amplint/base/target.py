"""The releases of torch, and of frameworks on it, that a project admits, as the rules ask for them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.paths import remembered
from amplint.base.project_root import is_repository

if TYPE_CHECKING:
    from pathlib import Path

# Of what rules ask for, the release from which on a project that declares nothing is taken to be.
ASSUMED = {"torch": "2.4", "lightning": "2.0", "transformers": "5.0", "accelerate": "1.0"}


class Target(NamedTuple):
    """The lowest and the highest admitted release (`highest` None: no end), and where that is said."""

    lowest: tuple[int, ...]
    highest: tuple[int, ...] | None
    origin: str

    def guarantees(self, release: str) -> bool:
        """Whether every release that the project admits is `release` or newer."""
        return self.lowest >= parts(release)

    def reaches(self, release: str) -> bool:
        """Whether some release that the project admits is `release` or newer."""
        return self.highest is None or self.highest >= parts(release)


def parts(release: str) -> tuple[int, ...]:
    """A release as numbers that compare: `2.4` is (2, 4, 0)."""
    numbers = [int(part) for part in release.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


def nothing_declared(package: str = "torch") -> Target:
    """What holds where a project says nothing about a package."""
    return Target(parts(ASSUMED[package]), None, f"nothing declared: {ASSUMED[package]} assumed")


@lru_cache(maxsize=256)
def from_option(value: str, origin: str, package: str = "torch") -> Target:
    """The target that a user states: a release, which is the lower bound, or a specifier like `>=2.0,<2.4`.

    Raises:
        ValueError: it is neither, or admits no release.
    """
    if re.fullmatch(r"\d+(\.\d+)*", value):
        return Target(parts(value), None, f"{origin} {value}")
    from amplint.config.specifiers import bounds  # noqa: PLC0415 - packaging is only needed for what isn't a plain release

    try:
        if not value.strip():  # an empty variable, most likely: no specifier at all admits each release
            raise ValueError
        found = bounds(value, package)
    except ValueError:
        raise ValueError(f"{value!r} is neither a release such as 2.4 nor a specifier such as '>=2.0,<2.4'") from None
    if found is None:
        raise ValueError(f"{value!r} admits no release of {package}")
    return Target(*found, f"{origin} {value}")


@remembered
def declared(directory: Path, package: str = "torch") -> Target:
    """The target that the files of a project declare, seen from `directory` (absolute), up to the repository's root."""
    from amplint.config.requirements import declared_in  # noqa: PLC0415 - see above

    found = declared_in(directory, package)
    if found is not None:
        return found
    if directory.parent == directory or is_repository(str(directory)):
        return nothing_declared(package)
    return declared(directory.parent, package)
