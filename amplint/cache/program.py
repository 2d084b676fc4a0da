"""What tells one amplint from another: its code, the plugins and libraries that it runs with, and Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from amplint import __version__
from amplint.base.paths import contents
from amplint.base.reads import digest
from amplint.registry import INSTALLED, all_rules, known

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_LIBRARIES = ("libcst-", "packaging-")


@cache
def identity() -> str:
    """What tells this amplint, as it is installed, from all others: after a change to it nothing is known any more."""
    plugins = sorted(
        {(rule.plugin, rule.module_name.partition(".")[0]) for rule in all_rules().values() if rule.plugin}
    )
    parts = [__version__, sys.version, *_installed(_LIBRARIES), *known().errors, *_own()]
    for distribution, package in plugins:
        parts += (distribution, *_states(_folders(package)))
    return digest("\n".join(parts).encode("utf-8", "surrogateescape"))


def _own() -> Iterable[str]:
    """What this package consists of: as the installer lists it, with digests; else by the states of its files."""
    above = os.path.dirname(_PACKAGE)
    for name in _names(above):
        if name.startswith("amplint-") and name.endswith(".dist-info"):
            try:
                listed = contents(os.path.join(above, name, "RECORD")).decode("utf-8", "replace")
            except OSError:
                continue
            files = [line for line in listed.splitlines() if line.startswith("amplint/") and ".pyc," not in line]
            if files:
                return sorted(files)
    return _states([_PACKAGE])


def _installed(starts: tuple[str, ...]) -> Iterator[str]:
    """The distributions in the folders for such, by what their names start with."""
    for folder in dict.fromkeys(sys.path):
        if os.path.basename(folder) in INSTALLED:
            yield from (name for name in _names(folder) if name.lower().startswith(starts))


def _folders(package: str) -> list[str]:
    from importlib.util import find_spec  # noqa: PLC0415 - only where there are plugins

    spec = find_spec(package)
    if spec is None:
        return []
    return list(spec.submodule_search_locations or ()) or [spec.origin or ""]


def _states(paths: Iterable[str]) -> Iterator[str]:
    """The states of files, and of the files in folders."""
    todo = list(paths)
    for path in todo:  # grows
        if os.path.isdir(path):
            todo += (os.path.join(path, name) for name in _names(path) if name != "__pycache__")
        elif os.path.exists(path):
            of = os.stat(path)
            yield f"{path} {of.st_mtime_ns} {of.st_size}"


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
