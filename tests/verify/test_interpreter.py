"""The interpreter: the fixtures through it, and what it makes of the hard cases."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from amplint import check
from amplint.registry import all_rules
from amplint.testing import expected_in
from amplint.verify.steps.judge import RIGHT, WRONG
from amplint.verify.steps.verdict import CONFIRMED, MISBEHAVES, REFUTED, shown_by
from tests import ROOT, interpreting, some
from tests.differential.generate import generate
from tests.differential.interpreted import Interpreted, interpreted
from tests.differential.program import kept
from tests.interpreting import Ran

FIXTURES = ROOT / "fixtures"
VARIANTS = sorted(path.parent for path in FIXTURES.glob("AMP*/*/bad.py"))


def verdicts(variant: Path) -> list[tuple[Ran, str]]:
    """Each step of a fixture, with the verdict on what its fix does to it."""
    bad, fixed = ((variant / name).read_text("utf-8") for name in ("bad.py", "fixed.py"))
    # Those of the bad half are written in it, and tests of fixtures see that it is so.
    codes = Counter(code for *_, code in expected_in(variant / "bad.py").elements())
    left = [each.code for each in check(fixed)]
    gone = {variant.parent.name[:6], *(codes - Counter(left))}
    return [(ran, each.verdict) for ran, each in interpreting.verdicts(bad, fixed, gone, left)]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("code", all_rules())
def test_no_fix_of_a_fixture_is_refuted_and_what_a_run_can_show_is_shown_by_one(code: str) -> None:
    variants = [each for each in VARIANTS if each.parent.name.startswith(code)]
    looked_at = some(variants, 1)
    found = [(each.name, *one) for each in looked_at for one in verdicts(each)]
    assert [(name, ran.step.name) for name, ran, verdict in found if verdict == REFUTED] == []
    if shown := shown_by([code]):
        # The fix of AMP309 is about what autocast keeps: backward and step stay in the region.
        wanted = MISBEHAVES if code == "AMP309" else CONFIRMED
        others = (one for each in variants if each not in looked_at for one in verdicts(each))
        all_found = chain((one[1:] for one in found), others)
        assert any(verdict == wanted and ran.shown & shown for ran, verdict in all_found)


@pytest.fixture(scope="module")
def programs() -> list[Interpreted]:
    """Of random ones a sample; thousands are tried by `python -m tests.differential.interpreted`."""
    return [interpreted(generate(seed, "")) for seed in range(10)] + [
        interpreted(each, executes=False) for each in some(kept(), 6)
    ]


def test_no_fix_of_a_random_program_is_refuted(programs: list[Interpreted]) -> None:
    assert [(str(each.program), each.reasons) for each in programs if each.reasons] == []


def test_random_programs_do_interpreted_what_they_do_executed(programs: list[Interpreted]) -> None:
    random = [each for each in programs if each.program.seed or not each.program.chosen]
    assert [str(each.program) for each in random if each.accuses] == []
    executed = [each for each in random if each.observed and each.state in (RIGHT, WRONG)]
    assert sum(each.state == WRONG for each in executed) >= 0.9 * len(executed) > 3
