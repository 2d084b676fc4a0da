"""The faults of the mutation score can be planted, and two are noticed; all: `python -m tests.differential.mutants`."""

from __future__ import annotations

import pytest
import torch

from tests.differential.mutants import PACKAGE, FaultError, all_outcomes, planted
from tests.differential.mutants_list import FAULTS, Fault
from tests.differential.program import kept


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_leaves_a_program(fault: Fault) -> None:
    before = (PACKAGE / "model" / fault.file).read_text()
    after = planted(fault, before)
    assert after != before
    compile(after, fault.file, "exec")


def test_there_are_fifty_faults() -> None:
    assert len({fault.name for fault in FAULTS}) == len({fault[1:] for fault in FAULTS}) == 50


def test_a_text_that_is_not_there_is_told() -> None:
    with pytest.raises(FaultError, match="stands 0 times in"):
        planted(FAULTS[0], "")


def test_faults_are_noticed() -> None:
    torch.set_num_threads(1)
    names = {"a loop's body is run once", "an update with nothing checked passes"}
    chosen = [fault for fault in FAULTS if fault.name in names]
    # The same text again is no fault: nobody notices it.
    nothing = FAULTS[0]._replace(new=FAULTS[0].old)
    first, second, third = all_outcomes([*chosen, nothing], 14, jobs=1, chosen=kept()[::9])
    assert first.by
    assert second.by
    assert third == ([], "")
