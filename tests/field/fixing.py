"""`--fix` on a copy of real code: everything still parses, and a second run has nothing left to do."""

from __future__ import annotations

import ast
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

from tests.field.lint import lint

MODES = {"safe": ("--fix",), "unsafe": ("--fix", "--unsafe-fixes")}


class FixResult(NamedTuple):
    """What fixing did to one package: files changed, findings that remain, and what went wrong."""

    changed: int
    remaining: int
    problems: list[str]


def fix_copy(sources: Path, mode: str) -> FixResult:
    """Fix a copy of the package twice and compare; the cached sources stay as they are."""
    options = MODES[mode]
    with tempfile.TemporaryDirectory(prefix="fix-", dir=sources.parent) as scratch:
        copy = Path(scratch, "sources")
        shutil.copytree(sources, copy)
        before = _contents(copy)
        first = lint(copy, *options)
        after = _contents(copy)
        second = lint(copy, *options)
        again = _contents(copy)
    changed = differing(before, after)
    problems = [f"does not parse after fixing: {path}: {why}" for path in changed if (why := unparsable(after, path))]
    problems += [f"changed again by a second run: {path}" for path in differing(after, again)]
    problems += [f"crash while fixing: {line}" for line in dict.fromkeys(first.crashes + second.crashes)]
    return FixResult(len(changed), len(first.findings), problems)


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The files that differ in any byte, or are in one only."""
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def unparsable(contents: dict[str, bytes], path: str) -> str:
    """Why the file can't be parsed; empty where it can."""
    if path not in contents:
        return "the file is gone"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            ast.parse(contents[path])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return str(error) or type(error).__name__
    return ""


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
