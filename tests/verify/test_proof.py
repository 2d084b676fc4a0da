"""The judgement: each observable on both sides of what decides it. No program runs here."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import pytest

from amplint.verify.fixtures.proof import LEARNING, SHOWS, TOLERANCE, Compared, Observed, Shown, prove, show
from tests import ROOT

RIGHT = Observed()


def compared(error: float, *, factor: float = 1.0, least: float = 0.0, count: int = 4) -> Compared:
    return Compared(count, error, factor, least)


def misbehaves(shows: str, half: Observed, other: Observed = RIGHT) -> bool | None:
    return show(shows, half, other).misbehaves


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize(("shows", "field"), [("gradient", "clip"), ("gradient", "read"), ("gradient", "gradient")])
def test_gradients_just_inside_and_just_outside(dtype: str, shows: str, field: str) -> None:
    for kind, limit in TOLERANCE[dtype]._asdict().items():
        for value, expected in ((limit * 0.99, False), (limit * 1.01, True)):
            found = compared(value) if kind == "worst" else compared(limit, least=value)
            assert misbehaves(shows, dataclasses.replace(Observed(dtypes=[dtype]), **{field: found})) is expected


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_updates_just_inside_and_just_outside(dtype: str) -> None:
    limit = TOLERANCE[dtype].worst
    for value, expected in ((limit * 0.99, False), (limit * 1.01, True), (math.inf, True), (math.nan, True)):
        assert misbehaves("update", Observed(dtypes=[dtype], update=compared(value))) is expected


def test_the_best_step_counts_from_three_on() -> None:
    limit = TOLERANCE["float16"]
    error = (limit.worst + limit.least) / 2
    for count, expected in ((2, False), (3, True)):
        found = compared(error, least=error, count=count)
        assert misbehaves("update", Observed(dtypes=["float16"], update=found)) is expected


def test_the_widest_dtype_of_the_regions_decides() -> None:
    between = (TOLERANCE["float16"].worst + TOLERANCE["bfloat16"].worst) / 2
    for dtypes, expected in ((["float16"], True), (["float16", "bfloat16"], False), ([], True), (["float64"], True)):
        assert misbehaves("update", Observed(dtypes=dtypes, update=compared(between))) is expected


def test_comparisons_keep_the_worst_and_the_best() -> None:
    found = Compared()
    for error, factor in ((0.2, 1.1), (0.5, 1.5), (0.1, 0.9)):
        found.add(error, factor)
    assert found == Compared(3, 0.5, 1.5, 0.1)


@pytest.mark.parametrize("shows", ["gradient", "update"])
def test_a_clip_behind_the_step(shows: str) -> None:
    fine = Observed(dtypes=["float16"], gradient=compared(0.0), update=compared(0.0))
    limit = 1 + TOLERANCE["float16"].worst
    for value, expected in ((limit * 0.99, False), (limit * 1.01, True)):
        assert misbehaves(shows, dataclasses.replace(fine, beyond_bound=value)) is expected
    assert "5.57 x the norm" in show(shows, dataclasses.replace(fine, beyond_bound=5.57), RIGHT).text


def test_gradients_used_twice_are_an_update_too_many() -> None:
    fine = Observed(steps=4, update=compared(0.0))
    assert misbehaves("update", fine) is False
    shown = show("update", dataclasses.replace(fine, reused=2), RIGHT)
    assert shown == Shown(True, "2 of 4 steps used gradients that a step had used, update off by 0%")


def test_texts_of_numbers() -> None:
    half = Observed(clip=compared(65521.0, factor=65522.0), update=compared(1.0, factor=1.5e-5), dtypes=["float16"])
    assert show("gradient", half, RIGHT).text == "clip saw 65,522 x the true norm, update 1.50e-05 x the right size"
    half = Observed(clip=compared(0.0017), update=compared(0.0017), dtypes=["float16"])
    assert show("gradient", half, RIGHT).text == "clip saw 1.00 x the true norm, update off by 0.17%"
    half = Observed(read=compared(0.5, factor=1.02), gradient=compared(0.2), dtypes=["float16"])
    assert (
        show("gradient", half, RIGHT).text == "gradients read were 1.02 x the true ones, 50% off, gradients off by 20%"
    )
    assert show("update", Observed(update=compared(0.5, factor=0.5)), RIGHT).text == "update 0.500 x the right size"
    assert show("update", Observed(update=compared(math.inf, factor=math.inf)), RIGHT).text == "update not finite"


def test_exceptions() -> None:
    raised = Observed(end="exception", detail="RuntimeError: no")
    assert show("exception", raised, RIGHT) == (True, "RuntimeError: no")
    assert prove("exception", raised, RIGHT) == ("confirmed", "RuntimeError: no", "no exception", "")
    assert prove("exception", RIGHT, RIGHT).reason == "the bad half does not misbehave"
    assert prove("exception", raised, raised).reason == "the fixed half misbehaves"
    warned = Observed(warnings=["FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated."])
    assert prove("exception", raised, warned).reason == "the fixed half misbehaves"


def test_warnings_count_if_they_are_about_amp() -> None:
    warned = Observed(warnings=["FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated."])
    other = Observed(warnings=["UserWarning: the sky is grey", "ResourceWarning: unclosed autocast"])
    assert prove("warning", warned, other).verdict == "confirmed"
    assert prove("warning", other, RIGHT).reason == "the bad half does not misbehave"
    assert prove("warning", warned, warned).reason == "the fixed half misbehaves"
    raised = dataclasses.replace(warned, end="exception", detail="E: x")
    assert prove("warning", raised, RIGHT).reason == "the bad half could not be judged"


@pytest.mark.parametrize("end", ["exited", "timed out", "out of memory", "died"])
@pytest.mark.parametrize("shows", sorted(SHOWS - {"none"}))
def test_a_half_that_did_not_run_to_its_end_proves_nothing(shows: str, end: str) -> None:
    broken = Observed(end=end, detail="why", warnings=["FutureWarning: autocast"], update=compared(9.0))
    assert prove(shows, broken, RIGHT)[:2] == ("refuted", f"{end}: why")
    raised = Observed(end="exception", detail="E: x")
    assert prove("exception", raised, broken)[::2] == ("refuted", f"{end}: why")


@pytest.mark.parametrize("shows", sorted(SHOWS - {"none", "exception", "warning"}))
def test_where_nothing_was_observed_nothing_is_confirmed(shows: str) -> None:
    bad = Observed(
        backwards=1,
        backwards_inside=1,
        losses=[1.0, 1.0],
        reference_losses=[1.0, 0.5],
        loss_dtypes=["float16"],
        gradient=compared(1.0),
        update=compared(1.0),
        overflows=1,
        overflows_applied=1,
        scales=[1.0],
        enabled=[False],
    )
    assert prove(shows, bad, RIGHT).reason == "the fixed half could not be judged"
    assert prove(shows, RIGHT, bad).reason == "the bad half could not be judged"


def test_learning() -> None:
    reference = [2.0, 1.5, 1.0]
    size = math.hypot(0.5, 1.0)
    for off, expected in ((LEARNING * 0.99, False), (LEARNING * 1.01, True), (math.nan, True)):
        half = Observed(losses=[2.0, 1.5, 1.0 + off * size], reference_losses=reference)
        assert misbehaves("learning", half) is expected
    stuck = Observed(losses=[2.0, 2.0, 2.0], reference_losses=reference)
    assert show("learning", stuck, RIGHT) == (True, "loss changed by 0 (reference: -1)")
    assert misbehaves("learning", Observed(losses=[2.0], reference_losses=[2.0])) is None
    assert misbehaves("learning", Observed(losses=[2.0, 1.5], reference_losses=reference)) is None
    assert misbehaves("learning", Observed(losses=[2.0, 2.0], reference_losses=[2.0, 2.0])) is None


def test_autocast_state() -> None:
    outside = Observed(backwards=4, steps=4, regions=["cpu bfloat16"])
    inside = dataclasses.replace(outside, backwards_inside=4, inside="cpu bfloat16")
    assert prove("autocast-state", inside, outside).verdict == "confirmed"
    assert show("autocast-state", inside, outside).text == "4 of 4 backwards with a region open (cpu bfloat16)"
    assert prove("autocast-state", inside, inside).reason == "the fixed half misbehaves"
    assert prove("autocast-state", outside, outside).reason == "the bad half does not misbehave"
    in_step = dataclasses.replace(outside, steps_inside=1)
    assert prove("autocast-state", in_step, outside).verdict == "confirmed"


def test_a_region_that_is_on_where_the_other_half_has_it_off() -> None:
    off, on = Observed(backwards=1, regions=["cuda off"]), Observed(backwards=1, regions=["cuda:0 float16"])
    assert prove("autocast-state", off, on)[:3] == ("confirmed", "regions: cuda off", "regions: cuda:0 float16")
    more = Observed(backwards=1, regions=["cuda off", "cuda float16"])
    assert prove("autocast-state", off, more).verdict == "refuted", "other regions are no other state"
    other_dtype = Observed(backwards=1, regions=["cuda bfloat16"])
    assert prove("autocast-state", on, other_dtype).verdict == "refuted"


def test_dtypes_are_those_of_the_fixed_half() -> None:
    half, full = (Observed(loss_dtypes=[each], regions=["cpu float16"]) for each in ("float16", "float32"))
    expected = "loss float16, regions: cpu float16", "loss float32, regions: cpu float16"
    assert prove("dtype", half, full)[:3] == ("confirmed", *expected)
    assert prove("dtype", full, full).reason == "the bad half does not misbehave"
    assert prove("dtype", Observed(regions=["cpu bfloat16"]), Observed(regions=["cpu float16"])).verdict == "confirmed"
    assert prove("dtype", Observed(regions=["cuda:0 float16"]), Observed(regions=["cuda float16"])).verdict == "refuted"


def test_skips() -> None:
    right = Observed(overflows=1, answered=1, backoffs=1)
    wrong = [
        dataclasses.replace(right, overflows_applied=1),
        dataclasses.replace(right, finite=False),
        dataclasses.replace(right, backoffs=0),
        dataclasses.replace(right, backoffs=2),
    ]
    for each in wrong:
        assert prove("skips", each, right).verdict == "confirmed"
        assert prove("skips", wrong[0], each).reason == "the fixed half misbehaves"
    assert prove("skips", right, right).reason == "the bad half does not misbehave"
    text = "1 of 1 steps with an overflow taken, parameters finite, scale backed off once"
    assert show("skips", wrong[0], right).text == text
    assert show("skips", wrong[2], right).text.endswith("scale backed off 0 times, not once")


def test_scales_are_those_of_the_fixed_half() -> None:
    off, on = Observed(enabled=[False], scales=[1.0]), Observed(enabled=[True], scales=[65536.0])
    expected = "scale at the end: off", "scale at the end: 65536"
    assert prove("scale", off, on)[:3] == ("confirmed", *expected)
    assert prove("scale", on, on).verdict == "refuted"
    assert prove("scale", Observed(enabled=[True], scales=[2.0]), on).verdict == "confirmed"


def test_whatever_a_fixture_shows_its_fixed_half_has_to_train_rightly() -> None:
    bad = Observed(end="exception", detail="RuntimeError: no")
    limit = TOLERANCE["float16"].worst
    for value, verdict in ((limit * 0.99, "confirmed"), (limit * 1.01, "refuted")):
        fixed = Observed(dtypes=["float16"], gradient=compared(0.0), update=compared(value))
        proof = prove("exception", bad, fixed)
        assert proof.verdict == verdict
        assert proof.after.startswith("no exception, update off by")
    untrained = prove("exception", bad, Observed())
    assert untrained[:3] == ("confirmed", "RuntimeError: no", "no exception")


def test_places_on_a_disk_are_left_out() -> None:
    shown = show("exception", Observed(end="exception", detail="ImportError: no x in 'y' (/a b/c.py)"), RIGHT)
    assert shown.text == "ImportError: no x in 'y'"
    warned = Observed(warnings=["DeprecationWarning: autocast (x) is old. (Triggered internally at /b/c.cpp:7.)"])
    assert show("warning", warned, RIGHT).text == "DeprecationWarning: autocast (x) is old."


def test_the_judgement_needs_no_torch() -> None:
    code = "import amplint.cli.verify, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
