"""A session of the doctor: what is watched while a program runs, and the report at its end."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from amplint.doctor.findings import Finding, Report
from amplint.doctor.options import Options, Stopped

if TYPE_CHECKING:
    from amplint.doctor.watch import Watching


class Session:
    """Watches a program from `install` to `finish`."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say  # a line for the user at once, on stderr
        self._undo = ExitStack()
        self._watching: Watching | None = None
        self._bug = ""

    def install(self) -> None:
        """Begin to watch. torch is imported already."""
        from amplint.doctor.watch import Watching  # noqa: PLC0415 - it needs torch

        try:
            self._watching = Watching(self._options, self._undo, self._failed, self._told)
        except Exception as error:
            self._undo.close()
            self._failed(error)

    def finish(self, error: BaseException | None = None) -> Report:
        """Stop watching, and return what the run came to. `error` is what ended the program, if anything did."""
        try:
            if self._watching is None:
                return Report(notes=(self._bug,) if self._bug else ())
            report = self._watching.report(error)
            if self._bug:
                report = Report(**{**vars(report), "notes": (*report.notes, self._bug)})
            return report
        finally:
            self._undo.close()

    def _told(self, finding: Finding) -> None:
        if self._options.stop:
            raise Stopped(3)

    def _failed(self, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1:] if error.__traceback__ else []
        place = f" ({where[0].filename.rpartition('amplint')[2].lstrip('/')}:{where[0].lineno})" if where else ""
        text = f"{type(error).__name__}: {str(error)[:200]}{place}"
        self._bug = f"amplint failed and stopped watching: {text}; please report this"
        self._say(f"amplint: {self._bug}")
