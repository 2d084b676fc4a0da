"""The files of one run: each read, linted, fixed where asked; a failure in one leaves the others alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from amplint import gate
from amplint.paths import look_again
from amplint.selection import SettingsError
from amplint.settings import Resolver, Settings

if TYPE_CHECKING:
    from amplint.engine import Result


# Files to parse, from which on several processes are faster than one.
MANY = 16


class Mode(Enum):
    """What is done with fixes."""

    CHECK = "check"
    FIX = "fix"
    DIFF = "diff"


class Job(NamedTuple):
    """One file and all that decides what becomes of it."""

    path: str
    settings: Settings
    mode: Mode
    unsafe: bool


class Outcome(NamedTuple):
    """What became of a file. `result` is None where nothing is left to find; `error` is one line about what failed.

    `output` is the fixed text, or the diff; `fixed` counts the findings that went with it. `given_up` are the
    functions in which nothing could be found, a line each.
    """

    result: Result | None = None
    error: str | None = None
    output: bytes = b""
    fixed: int = 0
    given_up: tuple[str, ...] = ()


def run(files: Iterable[str], resolver: Resolver, mode: Mode, unsafe: bool, processes: int = 1) -> Iterator[Outcome]:
    """Lint `files`; many that have to be parsed are shared out among as many `processes`."""
    # Most files are done with when their bytes are searched, faster than they would be sent to another process.
    first = [_first_look(path, resolver, mode, unsafe) for path in files]
    jobs = [each for each in first if isinstance(each, Job)]
    if processes > 1 and len(jobs) >= MANY:
        from amplint.pool import in_processes  # noqa: PLC0415 - takes longer to import than a few files to lint

        done = in_processes(work, jobs, processes)
    else:
        done = map(work, jobs)
    for each in first:
        yield next(done) if isinstance(each, Job) else each


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not the machine's, of which a container has only some
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_look(path: str, resolver: Resolver, mode: Mode, unsafe: bool) -> Outcome | Job:
    """The job that a file is, or what became of it where that is clear from its bytes."""
    try:
        job = Job(path, resolver.for_file(path), mode, unsafe)
    except SettingsError as error:
        return Outcome(error=str(error))
    try:
        return job if gate.opens(_read(path), job.settings.codes) else Outcome()
    except OSError as error:
        return Outcome(error=_reason(job, error))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def work(job: Job) -> Outcome:
    """Lint, and in the modes for it fix, one file."""
    try:
        data = _read(job.path)
    except OSError as error:
        return Outcome(error=_reason(job, error))
    outcome = process(data, job)
    if job.mode is not Mode.FIX or outcome.error:
        return outcome
    try:
        if outcome.output != data:
            from amplint.edits import write_atomically  # noqa: PLC0415 - what is not fixed is not written

            write_atomically(job.path, outcome.output)
            look_again()
    except OSError as error:
        # What stays in the file is still to be told.
        return process(data, job._replace(mode=Mode.CHECK))._replace(error=_reason(job, error))
    return outcome._replace(output=b"")


def _reason(job: Job, error: OSError) -> str:
    return f"{job.path}: {error.strerror or error}"


def process(data: bytes, job: Job) -> Outcome:
    """Lint, and in the modes for it fix, the bytes of a file."""
    try:
        if not gate.opens(data, job.settings.codes):
            return Outcome(output=data if job.mode is Mode.FIX else b"")
        from amplint.edits import unified_diff  # noqa: PLC0415 - for most files the gate is all there is
        from amplint.engine import check_bytes, fix_bytes  # noqa: PLC0415

        if job.mode is Mode.CHECK:
            result = check_bytes(data, job.path, job.settings)
            return Outcome(_findings(result), given_up=result.given_up)
        fixed = fix_bytes(data, job.path, job.settings, unsafe=job.unsafe)
        output = unified_diff(data, fixed.data, job.path) if job.mode is Mode.DIFF else fixed.data
        return Outcome(_findings(fixed.result), None, output, fixed.applied.total(), fixed.result.given_up)
    except Exception as error:  # a bug of ours in one file must not cost the user the others
        return Outcome(error=f"{job.path}: {describe(error)}")


def _findings(result: Result) -> Result | None:
    """The result where it says something: a clean file's text isn't kept."""
    return result if result.findings else None


def describe(error: BaseException) -> str:
    """One line about an exception that should not have happened, with the place that a report of it needs."""
    from traceback import extract_tb  # noqa: PLC0415 - as rare as what is described

    frames = extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    first = next(iter(str(error).splitlines()), "")
    return f"internal error, please report it: {type(error).__name__}: {first}{place}"
