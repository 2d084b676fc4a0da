"""The releases of torch, and of frameworks on it, that a project admits, as the rules ask for them."""

from __future__ import annotations

from typing import NamedTuple

# Of what rules ask for, the release from which on a project that declares nothing is taken to be.
ASSUMED = {"torch": "2.4", "lightning": "2.0", "transformers": "5.0", "accelerate": "1.0"}
_NOTHING = "nothing declared"


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

    @property
    def is_declared(self) -> bool:
        """Whether the project, or an option, says which releases are admitted."""
        return not self.origin.startswith(_NOTHING)


def parts(release: str) -> tuple[int, ...]:
    """A release as numbers that compare: `2.4` is (2, 4, 0)."""
    numbers = [int(part) for part in release.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


def nothing_declared(package: str = "torch") -> Target:
    """What holds where a project says nothing about a package."""
    return Target(parts(ASSUMED[package]), None, f"{_NOTHING}: {ASSUMED[package]} assumed")
