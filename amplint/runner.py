"""The files of one run: each read, linted, fixed where asked; a failure in one leaves the others alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from amplint.base.about import REPORT
from amplint.base.paths import TEMPORARY, begin, contents, look_again
from amplint.base.reads import recorded
from amplint.config.selection import SettingsError
from amplint.config.settings import Resolver, Settings
from amplint.engine import prefilter
from amplint.engine.result import Outcome

if TYPE_CHECKING:
    from amplint.adoption.baseline import Baseline, Known
    from amplint.cache.clean import CleanFiles
    from amplint.cache.folder import Folder
    from amplint.cache.results import Results
    from amplint.engine.result import Result


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
    outside: bool = False  # it is a link to what the user hasn't named
    noqa: str | None = None  # comments are added, and not fixes made: the reason that they give
    known: Known | None = None  # findings that are held back, and not fixed
    cache: Results | None = None  # what is known from runs before


def run(
    files: Sequence[str],
    resolver: Resolver,
    mode: Mode,
    processes: int = 1,
    *,
    outside: Collection[str] = (),
    noqa: str | None = None,
    baseline: Baseline | None = None,
    cache: Callable[[], str | None] | None = None,
) -> Iterator[Outcome]:
    """Lint `files`; many that have to be parsed are shared out among as many `processes`.

    `cache` says in which folder is kept what is known from runs before, if in any.
    Those of them that are `outside` of what the user named are not written. With `noqa`, a reason or nothing, what is
    written is comments that silence what is found. What the `baseline` holds is not fixed.
    """

    def job(path: str) -> Job:
        known = baseline.known(path) if baseline else None
        return Job(path, resolver.for_file(path), mode, path in outside, noqa, known)

    if mode is Mode.FIX:
        tidy(files)
    # Most files are done with when their bytes are searched, faster than they would be sent to another process.
    known = _Cache(cache if noqa is None else None, len(files))
    first = list(_one_by_one(lambda path: _first_look(path, job, known), files))
    known.close()
    if _UNFINISHED in first:
        yield from (_UNFINISHED if isinstance(each, Job) else each for each in first)
        return
    jobs = [each for each in first if isinstance(each, Job)]
    if processes > 1 and len(jobs) >= MANY:
        from amplint.files.pool import in_processes  # noqa: PLC0415 - takes longer to import than a few files to lint

        done = in_processes(work, jobs, processes, _lost, lambda _: _UNFINISHED)
    else:
        done = _one_by_one(work, jobs)
    for each in first:
        yield next(done) if isinstance(each, Job) else each


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not the machine's, of which a container has only some
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# What becomes of a file when the user has ended the run before its turn.
_UNFINISHED = Outcome(unfinished=True)
_Given = TypeVar("_Given")
_Done = TypeVar("_Done")


def _one_by_one(work: Callable[[_Given], _Done], given: Iterable[_Given]) -> Iterator[_Done | Outcome]:
    """`work` done on each, until the user ends it: the rest is unfinished."""
    ended = False
    for each in given:
        done: _Done | Outcome = _UNFINISHED
        if not ended:
            try:
                done = work(each)
            except KeyboardInterrupt:
                ended = True
        yield done


class _Cache:
    """What is known from runs before, opened when something asks for it."""

    def __init__(self, where: Callable[[], str | None] | None, number: int) -> None:
        self._where = where
        self._number = number
        if where is not None:
            begin()

    @cached_property
    def _folder(self) -> Folder | None:
        path = self._where() if self._where is not None else None
        if path is None:
            return None
        from amplint.cache.folder import Folder  # noqa: PLC0415 - a clean file is read before this is imported

        return Folder(path)

    @cached_property
    def clean(self) -> CleanFiles | None:
        """The files in whose bytes there is nothing to find; None where they are soon read."""
        if self._number < MANY or self._folder is None:
            return None
        from amplint.cache.clean import clean_files  # noqa: PLC0415 - see above

        return clean_files(self._folder, self._number)

    @cached_property
    def results(self) -> Results | None:
        """What was found in others."""
        if self._folder is None:
            return None
        from amplint.cache.results import Results  # noqa: PLC0415 - see above

        return Results(self._folder)

    def look(self, data: bytes, job: Job) -> Outcome | Job:
        """What becomes of a file with AMP, where that is known; where others are written, it is asked in its turn."""
        if self.results is None:
            return job
        known = self.results.find(data, job.path, job.settings, ask=False) if job.mode is not Mode.FIX else None
        if known is None or (job.mode is Mode.DIFF and any(each.fix for each in known.findings)):
            return job._replace(cache=self.results)
        return _checked_outcome(known)

    def close(self) -> None:
        """Keep what is known of files now."""
        if self.clean is not None:
            self.clean.close()


def _first_look(path: str, make: Callable[[str], Job], cache: _Cache) -> Outcome | Job:
    """The job that a file is, or what became of it where that is clear from its bytes, or known."""
    try:
        job = make(path)
        state = cache.clean.state(path, job.settings.codes) if cache.clean is not None else None
        if cache.clean is not None and state is not None and cache.clean.has(state):
            return Outcome()
        data = contents(path)
        if prefilter.opens(prefilter.seen(data, path, job.settings.codes), job.settings.codes):
            return cache.look(data, job)
        if cache.clean is not None and state is not None:
            cache.clean.add(state)
        return Outcome()
    except SettingsError as error:
        return Outcome(error=str(error))
    except Exception as error:  # neither must a bug of ours cost the user the other files
        return Outcome(error=f"{path}: {reason(error)}")


def tidy(files: Iterable[str]) -> None:
    """Remove what runs that were killed while they wrote have left beside `files`."""
    for directory in {os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path) for path in files}:
        with suppress(OSError):
            left = [name for name in os.listdir(directory or ".") if name.startswith(TEMPORARY)]
            if left:
                from amplint.files.atomic_write import remove_stale  # noqa: PLC0415 - hardly ever is there one

                remove_stale(directory, left)


def work(job: Job) -> Outcome:
    """Lint, and in the modes for it fix, one file."""
    try:
        data = contents(job.path)
    except (OSError, MemoryError) as error:
        return Outcome(error=f"{job.path}: {reason(error)}")
    outcome = process(data, job)
    if job.mode is not Mode.FIX or outcome.error:
        return outcome
    try:
        if outcome.output != data:
            outcome = outcome._replace(warning=write(job, data, outcome.output))
    except OSError as error:
        # What stays in the file is still to be told.
        return process(data, job._replace(mode=Mode.CHECK))._replace(error=f"{job.path}: {reason(error)}")
    return outcome._replace(output=b"")


def _lost(job: Job) -> Outcome:
    return Outcome(error=f"{job.path}: the process that read this file died")


def write(job: Job, old: bytes, new: bytes) -> str | None:
    """Write a fixed file; what is returned, if anything, the user has to know.

    Raises:
        OSError: it isn't written.
    """
    if job.outside:
        raise OSError(f"is a link to {os.path.realpath(job.path)}, outside the given paths; name that file to fix it")
    from amplint.files.atomic_write import replace  # noqa: PLC0415 - what is not fixed is not written

    said = replace(job.path, old, new)
    look_again()
    return f"{job.path}: {said}" if said else None


def reason(error: Exception) -> str:
    """What to tell of an exception: of the system's what it says, of others that they are a bug of ours."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "not enough memory" if isinstance(error, MemoryError) else describe(error)


def process(data: bytes, job: Job) -> Outcome:
    """Lint, and in the modes for it fix, the bytes of a file."""
    try:
        if not prefilter.opens(prefilter.seen(data, job.path, job.settings.codes), job.settings.codes):
            return Outcome(output=data if job.mode is Mode.FIX else b"")
        from amplint.engine.file import fix_bytes  # noqa: PLC0415 - for most files the gate is all there is

        if job.mode is Mode.CHECK:
            return _checked_outcome(_checked(data, job))
        if job.noqa is not None:
            from amplint.adoption.add_noqa import silence  # noqa: PLC0415 - once in a project's life

            done = silence(data, job.path, job.settings, job.noqa)
            output = _diff(data, done.data, job.path) if job.mode is Mode.DIFF else done.data
            silenced = tuple(sorted(done.findings.items()))
            return Outcome(_findings(done.result), None, output, silenced, comments=done.comments)
        before = _checked(data, job)
        fixed = fix_bytes(data, job.path, job.settings, wanted=job.known and job.known.new, before=before)
        output = _diff(data, fixed.data, job.path) if job.mode is Mode.DIFF else fixed.data
        result = fixed.result
        return Outcome(
            _findings(result),
            None,
            output,
            tuple(sorted(fixed.applied.items())),
            result.given_up,
            renamed=result.renamed,
            too_long=result.too_long,
        )
    except SettingsError as error:
        return Outcome(error=str(error))
    except Exception as error:  # a bug of ours in one file must not cost the user the others
        if isinstance(error.__cause__, KeyboardInterrupt):  # what Python before 3.12 makes of it in a class's body
            raise KeyboardInterrupt from error
        return Outcome(error=f"{job.path}: {reason(error)}")


def _checked_outcome(result: Result) -> Outcome:
    """What became of a file that was only checked, now or in a run before."""
    return Outcome(_findings(result), given_up=result.given_up, renamed=result.renamed, too_long=result.too_long)


def _checked(data: bytes, job: Job) -> Result:
    """What is found in a file, or was found before."""
    from amplint.engine.file import check_bytes  # noqa: PLC0415 - see above

    if job.cache is None:
        return check_bytes(data, job.path, job.settings)
    if (found := job.cache.find(data, job.path, job.settings)) is not None:
        return found
    with recorded() as look:
        result = check_bytes(data, job.path, job.settings)
    job.cache.keep(data, job.path, job.settings, result, look)
    return result


def _diff(old: bytes, new: bytes, path: str) -> bytes:
    """The diff of a file, or of the cells of a notebook."""
    if old == new:
        return b""
    from amplint.base.edits import unified_diff  # noqa: PLC0415 - only --diff makes one
    from amplint.sources.load import load  # noqa: PLC0415

    pairs = zip(load(old, path).files(), load(new, path).files(), strict=True)
    return b"".join(unified_diff(before, after, name) for (name, before), (_, after) in pairs)


def _findings(result: Result) -> Result | None:
    """The result where it says something: a clean file's text isn't kept."""
    return result if result.findings else None


def describe(error: BaseException) -> str:
    """One line about an exception that should not have happened, with the place that a report of it needs."""
    from traceback import extract_tb  # noqa: PLC0415 - as rare as what is described

    frames = extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    first = next(iter(str(error).splitlines()), "")
    return f"internal error: {type(error).__name__}: {first}{place} ({REPORT})"
