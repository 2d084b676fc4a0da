"""amplint's command with a stand-in for a session, which does what the environment says."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

from amplint.cli import main
from amplint.doctor import start
from amplint.doctor.findings import Cause, Evidence, Finding, Report
from amplint.doctor.options import Options, Stopped
from amplint.doctor.places import place_of

DOES = os.environ["STAND_IN"]


class Session:
    """As the doctor's own has it."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self.findings: list[Finding] = []

    def install(self) -> None:
        """Begin to watch."""
        if DOES == "install fails":
            raise RuntimeError("no luck")
        self.say(f"installed: {str(self.options).partition('(')[2][:-1].replace(',', '')}")
        torch: ModuleType = sys.modules["torch"]
        step = torch.step

        def watched() -> None:
            if DOES == "stop":
                message = "nothing was updated."
                self.findings.append(
                    Finding(Cause.PROTOCOL, Evidence.SEEN, message, place_of(sys._getframe(1)), "AMP404")
                )
                raise Stopped(3)
            if DOES == "wrap":
                raise ValueError("in the hook")
            if DOES == "talk":
                self.say("a step")
            step()

        torch.step = watched  # type: ignore[attr-defined]

    def finish(self, error: BaseException | None = None) -> Report:
        """Stop watching."""
        if DOES == "finish fails":
            raise RuntimeError("no luck")
        notes = ()
        if DOES == "error":
            where = f" at line {error.__traceback__.tb_lineno}" if error and error.__traceback__ else ""
            notes = (f"ended by {type(error).__name__ if error else None}{where}",)
        return Report(tuple(self.findings), steps=3, notes=notes)


if __name__ == "__main__":
    start.Session = Session  # type: ignore[assignment,misc]
    sys.exit(main(sys.argv[1:]))
