"""Every fixture, through lint, fix and torch; how they are made says `amplint.testing`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from amplint.testing import FixtureTests, Silent, find_silent, find_variants
from amplint.verify.fixtures import find_fixtures
from amplint.verify.proof import Observed
from amplint.verify.run import MEMORY, TIMEOUT, Runner

FIXTURES = Path(__file__).parents[1] / "fixtures"
VARIANTS = find_variants(FIXTURES)
SILENT = find_silent(FIXTURES)


class TestFixtures(FixtureTests):
    folder = FIXTURES


# They leave out a step whose gradients overflowed by a test of their own, where the reference has no overflow.
LEAVE_OUT = {
    "AMP402-compared_with_infinity",
    "AMP402-finite_norm_asked_for",
    "AMP402-found_inf_asked_for",
    "AMP404-bad_loss_continues",
}


@cache
def trained() -> dict[str, Observed]:
    """Each silent program beside its reference."""
    job = {"shows": "update", "device": None, "timeout": TIMEOUT, "memory": MEMORY}
    with TemporaryDirectory() as folder, Runner(folder) as runner:
        return {str(each): runner.run({**job, "path": str(each.path)}) for each in SILENT}


@pytest.mark.parametrize("silent", SILENT, ids=str)
def test_what_is_silent_is_right(silent: Silent) -> None:
    pytest.importorskip("torch")
    seen = trained()[str(silent)]
    if "No module named" in seen.detail:
        pytest.skip("it imports a library that is not here")
    assert seen.end == "finished", seen.detail
    assert not seen.reused
    if str(silent) not in LEAVE_OUT:
        assert not seen.update.beyond(seen.tolerance), seen.update


def test_verify_finds_what_is_here() -> None:
    found = find_fixtures([str(FIXTURES)])
    assert [f"{each.rule}-{each.name}" for each in found] == [str(each) for each in VARIANTS]
    for each, variant in zip(found, VARIANTS, strict=True):
        assert (each.shows, each.device) == (variant.marker["shows"], variant.marker.get("device"))
