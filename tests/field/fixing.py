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


def fix_copies(sources: Path) -> dict[str, FixResult]:
    """Fix a copy of the package in each mode, and once more in each; the cached sources stay as they are.

    Unsafe fixes come after the safe ones, and a run that allows them makes safe ones as well: where it changes nothing,
    neither mode has anything left to do, and no further run is made.
    """
    runs, results = {}, {}
    with tempfile.TemporaryDirectory(prefix="fix-", dir=sources.parent) as scratch:
        copy = Path(scratch, "sources")
        shutil.copytree(sources, copy)
        before = contents = _contents(copy)
        for mode, options in MODES.items():
            run = lint(copy, *options)
            runs[mode] = run, (contents := _contents(copy))
        stable = all(after == contents for _, after in runs.values())
        for mode, (run, after) in runs.items():
            again, crashes = after, run.crashes
            if not stable:
                _put_back(copy, after)
                crashes = crashes + lint(copy, *MODES[mode]).crashes
                again = _contents(copy)
            changed = differing(before, after)
            problems = [
                *(
                    f"does not parse after fixing: {file}: {why}"
                    for file in changed
                    if (why := unparsable(after, file))
                ),
                *(f"changed again by a second run: {file}" for file in differing(after, again)),
                *(f"crash while fixing: {line}" for line in dict.fromkeys(crashes)),
            ]
            results[mode] = FixResult(len(changed), len(run.findings), problems)
    return results


def _put_back(folder: Path, contents: dict[str, bytes]) -> None:
    """Write the files' contents; none is there that they don't have."""
    for file, content in contents.items():
        Path(folder, file).write_bytes(content)


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
