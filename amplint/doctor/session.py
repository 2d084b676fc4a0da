"""A session of the doctor: what is watched while a program runs, and the report at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amplint.doctor.findings import Report


@dataclass(frozen=True)
class Options:
    """How a run is watched.

    Attributes:
        stop: End the program after the first diagnosis, with exit code 3.
        careful: Look for the cause of failures in loss code too while they happen, which costs more.
        replay: Run failing steps again to find the first bad operation.
    """

    stop: bool = False
    careful: bool = False
    replay: bool = True


class Stopped(SystemExit):
    """The program is ended after a diagnosis, as `--stop` asks for."""


class Session:
    """Watches a program from `install` to `finish`."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say  # a line for the user at once, on stderr

    def install(self) -> None:
        """Begin to watch. torch is imported already."""

    def finish(self, error: BaseException | None = None) -> Report:
        """Stop watching, and return what the run came to. `error` is what ended the program, if anything did."""
        return Report()
