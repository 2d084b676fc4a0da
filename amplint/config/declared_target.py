"""The releases that a project declares, or that a user states, of torch and of the frameworks on it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from amplint.base.paths import remembered
from amplint.base.project_root import is_repository
from amplint.base.target import Target, nothing_declared, parts

if TYPE_CHECKING:
    from pathlib import Path


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
        raise ValueError(f"{value!r} matches no release of {package}")
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
