"""A session of the doctor: what is watched while a program runs, and the report at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint.base.about import REPORT
from amplint.doctor.findings import Finding, Report
from amplint.doctor.options import Options, Stopped

if TYPE_CHECKING:
    from amplint.doctor.watch import Watching

_LONGEST = 200  # characters of an exception


class Session:
    """Watches a program from `install` to `finish`."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say  # a line for the user at once, on stderr
        self._undo = ExitStack()
        self._watching: Watching | None = None
        self._bug = ""

    def install(self) -> None:
        """Begin to watch. torch is imported already. Where it raises, nothing is watched."""
        from amplint.doctor.watch import Watching  # noqa: PLC0415 - it needs torch

        try:
            self._watching = Watching(self._options, self._undo, self._failed, self._told)
        except Exception:
            self._undo.close()
            raise

    @property
    def is_repeating(self) -> bool:
        """Whether a part of the program is being repeated."""
        return self._watching is not None and self._watching.is_repeating

    def finish(self, error: BaseException | None = None) -> Report:
        """Stop watching, and return what the run came to. `error` is what ended the program, if anything did."""
        try:
            if self._watching is None:
                return Report()
            report = self._watching.report(error)
            if self._bug:
                report = replace(report, notes=(*report.notes, self._bug), is_off=True)
            return report
        finally:
            self._undo.close()

    def _told(self, finding: Finding) -> None:
        if self._options.stop:
            raise Stopped(3)

    def _failed(self, error: Exception) -> None:
        self._bug = stopped_by(error)
        self._say(f"amplint: {self._bug}")


def stopped_by(bug: Exception) -> str:
    """What is said of a bug of the doctor's that has ended the watch: what it is, and where to report it."""
    text = " ".join(f"{type(bug).__name__}: {str(bug)[:_LONGEST]}".split())
    at = bug.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""
    return f"amplint stopped watching because of a bug of its own: {text}{where}; {REPORT}"
