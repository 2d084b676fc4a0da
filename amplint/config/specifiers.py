"""Version specifiers as lowest and highest releases. What imports packaging, which takes longer than to find none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from amplint.base.target import ASSUMED, parts

Bounds = tuple[tuple[int, ...], tuple[int, ...] | None]

# Versions that nothing has: what admits them has no lower or no upper bound.
_LOWEST, _HIGHEST = Version("0"), Version("999")
# For each major version the last minor one, or more.
_RELEASES = {
    "torch": {1: 13, 2: 30},
    "lightning": {1: 9, 2: 30},
    "transformers": {2: 11, 3: 5, 4: 57, 5: 60},
    "accelerate": {0: 34, 1: 40},
}


@lru_cache(maxsize=256)
def bounds(specifier: str, package: str = "torch") -> Bounds | None:
    """The lowest and highest release that a version specifier admits; None where it admits none.

    Where it has no lower bound, the lowest is what is assumed of a project that declares nothing.

    Raises:
        ValueError: it is no specifier.
    """
    try:
        wanted = SpecifierSet(specifier)
    except InvalidSpecifier:
        raise ValueError(f"{specifier!r} is not a version specifier") from None
    candidates = {_LOWEST, *_releases(package), *_named(wanted)}
    admitted = sorted(version for version in candidates if wanted.contains(version, prereleases=True))
    if not admitted:
        return None
    low = _release(admitted[0])
    high = None if wanted.contains(_HIGHEST) else _release(admitted[-1])
    assumed = parts(ASSUMED[package])
    if admitted[0] == _LOWEST and (high is None or high >= assumed):
        low = assumed
    return low, high


def admits(specifier: str, version: str) -> bool:
    """Whether a version specifier admits a version. A version alone is one that admits only itself.

    Raises:
        ValueError: it is not a specifier.
    """
    try:
        wanted = SpecifierSet(f"=={specifier}" if specifier[:1].isdecimal() else specifier)
    except InvalidSpecifier:
        raise ValueError(f"{specifier!r} is not a version specifier") from None
    return wanted.contains(version, prereleases=True)


@lru_cache
def _releases(package: str) -> list[Version]:
    return [
        Version(f"{major}.{minor}.{patch}")
        for major, last in _RELEASES[package].items()
        for minor in range(last + 1)
        for patch in range(3)
    ]


def _named(wanted: SpecifierSet) -> Iterator[Version]:
    """The versions that the specifiers themselves name, which may be none of the known releases."""
    for each in wanted:
        with suppress(InvalidVersion):
            yield Version(each.version.removesuffix(".*"))


def _release(version: Version) -> tuple[int, ...]:
    return parts(".".join(map(str, version.release)))


def split(requirement: str) -> tuple[str, str]:
    """The name in a requirement, as an index spells it, and its version specifier; empty where it is no requirement."""
    try:
        found = Requirement(requirement)
    except InvalidRequirement:
        return "", ""
    return found.name.lower().replace("_", "-"), str(found.specifier)
