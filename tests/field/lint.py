"""amplint as a user runs it: the real command, in a process of its own, its output read back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.field.packages import FieldError

REPOSITORY = Path(__file__).parents[2]
TIME_LIMIT = 1800
INTERNAL_ERROR = "AMP000"
QUOTED_LINES = 5


class FieldFinding(NamedTuple):
    """One finding, its path relative to the package's folder and with forward slashes."""

    path: str
    line: int
    column: int
    code: str
    message: str


class LintRun(NamedTuple):
    """What one run said. `crashes` has a line for each thing that went wrong with amplint itself."""

    findings: list[FieldFinding]
    crashes: list[str]


def installed_version() -> str:
    """The version of the amplint that is tested.

    Raises:
        FieldError: it doesn't even start, so nothing can be said about packages.
    """
    command = [sys.executable, "-m", "amplint", "--version"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FieldError(f"amplint does not run: {_tail(done.stderr)}")
    return done.stdout.strip().removeprefix("amplint ")


def lint(folder: Path, *options: str) -> LintRun:
    """Run amplint on a folder.

    The working directory is this repository: `python -m` puts it on the import path, so it must never be a folder of
    downloaded code.
    """
    command = [sys.executable, "-m", "amplint", "--isolated", "--no-cache", "--output-format", "json", "--exit-zero"]
    try:
        done = subprocess.run(
            [*command, *options, str(folder.resolve())],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return LintRun([], [f"not done after {TIME_LIMIT} s"])
    return read_run(folder, done.returncode, done.stdout, done.stderr)


def read_run(folder: Path, status: int, stdout: str, stderr: str) -> LintRun:
    """Judge a finished process: its findings, and whatever shows that it didn't work properly."""
    crashes: list[str] = []
    if status != 0:
        crashes.append(f"exit status {status}: {_tail(stderr)}")
    elif "Traceback (most recent call last)" in stderr:
        crashes.append(f"traceback: {_tail(stderr)}")
    try:
        findings = [_finding(folder, item) for item in json.loads(stdout)]
    except (ValueError, KeyError, TypeError) as error:
        return LintRun([], crashes or [f"unreadable output: {error}"])
    crashes += [f"{f.path}:{f.line}: {f.code} {f.message}" for f in findings if f.code == INTERNAL_ERROR]
    return LintRun(sorted(findings), crashes)


def _finding(folder: Path, item: dict[str, Any]) -> FieldFinding:
    path = Path(REPOSITORY, item["filename"]).resolve().relative_to(folder.resolve())
    location = item["location"]
    return FieldFinding(path.as_posix(), location["row"], location["column"], item["code"], item["message"])


def _tail(stderr: str) -> str:
    return " / ".join(stderr.strip().splitlines()[-QUOTED_LINES:]) or "nothing on stderr"
