"""What the documentation of the flow rules claims beyond its fixtures' verdicts, in numbers."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from amplint.guide.rule_pages import as_text, proofs
from amplint.registry import all_rules
from amplint.verify.fixtures.proof import Observed
from tests.test_fixtures import FIXTURES, VARIANTS

pytest.importorskip("torch")

from amplint.verify.bench.bench import reset, switched_off
from amplint.verify.bench.instrument import watched
from amplint.verify.bench.recorder import Recorder

# A bound tuned to scaled gradients clips rightly.
SAME_STEP = ("large_bound",)
# Multiplies scaled gradients by a number before it unscales, which is right.
READS_SCALED = ("rescaled_and_clipped_in_methods",)
# Clips while backward runs: what is read after that is clipped already.
CLIPS_IN_HOOKS = "hook"


def halves(rule: str) -> list[tuple[str, Observed, Observed]]:
    rows = (each.run() for each in VARIANTS if each.code == rule)
    return [(row.fixture.name, row.bad, row.fixed) for row in rows if row.bad]


def test_clipping_sees_scaled_gradients_before_and_true_ones_after() -> None:
    for name, bad, fixed in halves("AMP401"):
        for before, after in ((bad.clip, fixed.clip), (bad.read, fixed.read)):
            if after.count and name not in READS_SCALED and not name.startswith(CLIPS_IN_HOOKS):
                assert before.factor > 1000, name
                assert after.factor == pytest.approx(1, abs=fixed.tolerance.worst), name
        if bad.update.count and name not in SAME_STEP:
            assert bad.update.error > 0.9, name
            assert bad.update.factor < 0.01, name


def test_backwards_and_steps_are_all_outside_after() -> None:
    for rule in ("AMP301", "AMP302"):
        for name, bad, fixed in halves(rule):
            assert bad.backwards_inside + bad.steps_inside, name
            assert fixed.backwards, name
            assert not fixed.backwards_inside + fixed.steps_inside, name


def test_a_rule_shows_its_proofs() -> None:
    page = as_text([all_rules()["AMP401"]])
    shown = page[page.index("\n## Proof\n") : page.index("\n## References\n")]
    counts = [int(each) for each in re.findall(r"^\| (\d+) \|", shown, re.MULTILINE)]
    assert sum(counts) == len(proofs()["AMP401"]) > len(counts)
    assert "| clip saw 65," in shown
    assert as_text([all_rules()["AMP105"]]).count("\n| ") == 0  # nothing is executed
    assert "\\* this device is simulated on the CPU" in as_text([all_rules()["AMP103"]])


def compare(path: Path) -> Observed:
    """A program beside its reference, in this process."""
    reference = Recorder(leave_out=True)
    with switched_off():
        run(path, reference)
    run(path, recorder := Recorder(reference))
    return recorder.close()


def run(path: Path, recorder: Recorder) -> None:
    reset()
    with watched(recorder, lambda filename: filename == str(path)):
        runpy.run_path(str(path), run_name="__main__")


def test_gradients_of_a_float32_part_come_nearer() -> None:
    variant = FIXTURES / "AMP301_backward_in_autocast" / "float32_island"
    bad, fixed = (compare(variant / name) for name in ("bad.py", "fixed.py"))
    assert fixed.gradient.count == bad.gradient.count == 4
    # Rounding decides about units of the network, too, in both alike; the step with the fewest such shows the rest.
    assert fixed.gradient.least < bad.gradient.least


def test_a_forward_after_the_step_uses_the_old_weights() -> None:
    variant = FIXTURES / "AMP302_step_in_autocast" / "forward_after_the_step"
    losses: dict[str, Any] = {}
    for name in ("bad.py", "fixed.py"):
        losses[name] = runpy.run_path(str(variant / name), run_name="__main__")["train"]()
    assert all(before == after for before, after in losses["bad.py"])
    assert all(after < before for before, after in losses["fixed.py"])
