"""Running AMP events, and hearing what torch says of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import CannotFollow, Raised, Site
from amplint.verify.interpreter.unseen_training import UnseenTraining


class AmpEvents:
    """Runs AMP events: an exception of torch's is the program's, and a warning has the line of its event."""

    def __init__(self, record: RunRecord, training: UnseenTraining) -> None:
        self._record = record
        self._training = training
        self._placed = 0  # so many warnings have a line

    def run(self, site: Site, do: Callable[[], Any], *, of_amp: bool = False) -> Any:
        """Do what an AMP event does. `of_amp`: makes a region or scaler."""
        self._record.executed.add(site.call)
        self._record.note(site.code, site.call, "")
        self._training.event(site.event.kind if site.event is not None else "")
        try:
            if site.code is not site.code.files.main:  # a warning is about the file that is verified
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return do()
            return self._listening(site, do)
        except (Raised, CannotFollow):
            raise
        except Exception as error:
            raise Raised(str(error), site.where, error, of_amp=of_amp) from None

    def _listening(self, site: Site, do: Callable[[], Any]) -> Any:
        """Do what an event does, and remember its line for what torch warns of; not for what is warned of inside."""
        heard = self._record.heard
        self._placed = len(heard)
        try:
            return do()
        finally:
            for each in heard[self._placed :]:
                self._record.warned.setdefault(in_words(each), set()).add(site.row)
            self._placed = len(heard)


def in_words(warning: warnings.WarningMessage) -> str:
    """A warning of torch's, with its category."""
    return f"{warning.category.__name__}: {warning.message}"
