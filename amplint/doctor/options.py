"""How a run is watched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How a run is watched.

    Attributes:
        stop: End the program after the first diagnosis, with exit code 3.
        careful: Look at losses in every step while they are computed, which costs more.
        replay: Run failing steps again to find the first bad operation.
    """

    stop: bool = False
    careful: bool = False
    replay: bool = True


class Stopped(SystemExit):
    """The program is ended after a diagnosis, as `--stop` asks for."""
