"""Every fixture, through lint, fix and torch; how they are made says `amplint.testing`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from syrupy.assertion import SnapshotAssertion

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.guide.rule_pages import proofs
from amplint.testing import (
    FixtureTests,
    Silent,
    Variant,
    find_silent,
    find_variants,
    fixed_bytes,
    kept_runner,
    plain,
    settings_for,
)
from amplint.verify.fixtures.find import find_fixtures
from amplint.verify.fixtures.run import MEMORY, TIMEOUT
from tests import some
from tests.proofs import record, without_numbers
from tests.rendering import FileOfTheRule, rendered_diff, rendered_findings, rendered_variant

FIXTURES = Path(__file__).parents[1] / "fixtures"
VARIANTS = find_variants(FIXTURES)
SILENT = find_silent(FIXTURES)
Program = TypeVar("Program", Variant, Silent)


def executed(programs: list[Program]) -> list[Program]:
    """Of each rule's programs a quarter, and at least one; all with AMPLINT_TEST_ALL=1."""
    by_rule: dict[str, list[Program]] = {}
    for each in programs:
        by_rule.setdefault(each.code, []).append(each)
    return [each for those in by_rule.values() for each in some(those, -(-len(those) // 4))]


class TestFixtures(FixtureTests):
    folder = FIXTURES

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """What torch runs is a sample of the variants, all else is asked of each."""
        if metafunc.function.__name__ == "test_bad_misbehaves_as_its_marker_says_and_fixed_does_not":
            metafunc.parametrize("variant", executed(find_variants(self.folder)), ids=str, scope="class")
        else:
            super().pytest_generate_tests(metafunc)

    def test_bad_misbehaves_as_its_marker_says_and_fixed_does_not(self, variant: Variant) -> None:
        """It also shows what is written down of it; here, so that each program is run once."""
        super().test_bad_misbehaves_as_its_marker_says_and_fixed_does_not(variant)
        written = [each for each in proofs().get(variant.code, ()) if each["variant"] == variant.name]
        expected = without_numbers({variant.code: written} if written else {})
        assert without_numbers(record([variant.run()])) == expected, f"python -m tests.generate --proofs {variant.code}"

    def test_fixed_is_what_the_fixer_makes(self, variant: Variant, snapshot: SnapshotAssertion) -> None:
        """And what is said of it, and where, is what was accepted."""
        super().test_fixed_is_what_the_fixer_makes(variant)
        assert rendered_variant(variant) == snapshot.use_extension(FileOfTheRule)


def _shorter(finding: Finding) -> Finding:
    end = finding.end_location._replace(column=finding.end_location.column - 1)
    return finding._replace(end=finding.end - 1, end_location=end)


CHANGES: dict[str, Callable[[Finding], Finding]] = {
    "message": lambda finding: finding._replace(message=finding.message + "!"),
    "span": _shorter,
    "severity": lambda finding: finding._replace(severity=Severity.NOTE),
    "rule": lambda finding: finding._replace(code="AMP999"),
    "name": lambda finding: finding._replace(name="another-name"),
    "refusal": lambda finding: finding._replace(withheld="another reason"),
    "fix": lambda finding: finding._replace(fix=Fix(Applicability.DISPLAY, "another fix")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_is_said_is_noticed(change: str) -> None:
    variant = next(each for each in VARIANTS if str(each) == "AMP401-method")
    text = plain(variant.bad.read_text("utf-8"))
    settings = settings_for(variant.code, variant.bad)
    findings = fixed_bytes(text.encode(), str(variant.bad), settings, False).before.findings
    said = rendered_findings(text, findings)
    assert said
    assert said in rendered_variant(variant)
    assert rendered_findings(text, [CHANGES[change](each) for each in findings]) != said


def test_a_change_of_what_the_fixer_makes_is_noticed() -> None:
    assert rendered_diff("--fix", "a\nb\n", "a\nc\n") == "--fix\n@@ -2 +2 @@\n-b\n+c\n"
    assert rendered_diff("--fix", "a\n", "a\n") == ""


# They leave out a step whose gradients overflowed by a test of their own, where the reference has no overflow.
LEAVE_OUT = {
    "AMP402-compared_with_infinity",
    "AMP402-finite_norm_asked_for",
    "AMP402-found_inf_asked_for",
    "AMP404-bad_loss_continues",
}


@pytest.mark.parametrize("silent", executed(SILENT), ids=str)
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
