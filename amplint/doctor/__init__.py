"""The run-time doctor: `amplint run` and `observe` watch a program that trains, and name what went wrong in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.doctor.findings import Finding, Report
    from amplint.doctor.start import Voice, Watch

__all__ = ["Seen", "observe"]
_WIDEST = 120


class Seen:
    """What `observe` has seen; all of it is there when its block has ended."""

    def __init__(self) -> None:
        self.report: Report | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What went wrong, the root cause first."""
        return self.report.findings if self.report else ()

    @property
    def verdict(self) -> str:
        """`watching` until the block has ended, then `healthy`, `problems`, or `off`: a bug ended the watch early."""
        return "watching" if self.report is None else self.report.verdict.value

    def __repr__(self) -> str:
        return f"Seen({self.verdict}, {list(self.findings)!r})"


class _Watched(ContextDecorator):
    """What `observe` returns. Entered again while the doctor itself repeats the statement, it does nothing."""

    def __init__(self, stop: bool, careful: bool, replay: bool, quiet: bool) -> None:
        self._how = stop, careful, replay
        self._is_quiet = quiet
        self._end: Callable[[BaseException | None], None] = lambda error: None

    def __enter__(self) -> Seen:
        from amplint.doctor.options import Options  # noqa: PLC0415 - who only imports this needs none of it
        from amplint.doctor.start import Voice, Watch, need_torch  # noqa: PLC0415

        if Watch.is_repeating():
            return Seen()
        need_torch()
        import torch  # noqa: F401, PLC0415

        seen, voice, folder = Seen(), Voice(is_quiet=self._is_quiet), os.getcwd()
        watch = Watch(Options(*self._how), voice)
        watch.begin()
        self._end = lambda error: _end(seen, watch, voice, folder, error)
        return seen

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        from amplint.doctor.start import Watch  # noqa: PLC0415

        if not Watch.is_repeating():
            self._end(error)


def _end(seen: Seen, watch: Watch, voice: Voice, folder: str, error: BaseException | None) -> None:
    """Stop watching, put the report into `seen` and print it; in a fork nothing is done."""
    from amplint.doctor.output import as_text  # noqa: PLC0415

    if voice.is_here:
        seen.report = report = watch.end(error)
        width = min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)
        voice.tell(lambda: as_text(report, width, folder, name="amplint"))


def observe(
    *, stop: bool = False, careful: bool = False, replay: bool = True, quiet: bool = False
) -> AbstractContextManager[Seen]:
    """Watch what trains in a block, as `amplint run` watches a program, and print a report on stderr at its end.

    With `stop` the block ends with `SystemExit` after the first diagnosis. `careful` looks for causes in loss code
    while it runs, which costs more; without `replay` no failing step is run again. With `quiet` nothing is printed.

    >>> import amplint.doctor
    >>> with amplint.doctor.observe(quiet=True) as seen:
    ...     pass  # train
    >>> seen.verdict, seen.findings
    ('healthy', ())

    Raises:
        CannotWatch: a RuntimeError: torch is missing or too old, or the doctor watches already.
    """
    return _Watched(stop, careful, replay, quiet)
