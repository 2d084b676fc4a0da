"""Every fixture, through lint, fix and torch; how they are made says `amplint.testing`."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.report.rules_doc import proofs
from amplint.testing import FixtureTests, Silent, Variant, find_silent, find_variants, kept_runner
from amplint.verify.fixtures import find_fixtures
from amplint.verify.run import MEMORY, TIMEOUT
from tests.proofs import record, without_numbers

FIXTURES = Path(__file__).parents[1] / "fixtures"
VARIANTS = find_variants(FIXTURES)
SILENT = find_silent(FIXTURES)


class TestFixtures(FixtureTests):
    folder = FIXTURES

    def test_bad_misbehaves_as_its_marker_says_and_fixed_does_not(self, variant: Variant) -> None:
        """It also shows what is written down of it; here, so that each program is run once."""
        super().test_bad_misbehaves_as_its_marker_says_and_fixed_does_not(variant)
        written = [each for each in proofs().get(variant.code, ()) if each["variant"] == variant.name]
        expected = without_numbers({variant.code: written} if written else {})
        assert without_numbers(record([variant.run()])) == expected, "python -m tests.proofs"


# They leave out a step whose gradients overflowed by a test of their own, where the reference has no overflow.
LEAVE_OUT = {
    "AMP402-compared_with_infinity",
    "AMP402-finite_norm_asked_for",
    "AMP402-found_inf_asked_for",
    "AMP404-bad_loss_continues",
}


@pytest.mark.parametrize("silent", SILENT, ids=str)
def test_what_is_silent_is_right(silent: Silent) -> None:
    pytest.importorskip("torch")
    job = {"shows": "update", "device": None, "timeout": TIMEOUT, "memory": MEMORY}
    seen = kept_runner().run({**job, "path": str(silent.path)})
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
