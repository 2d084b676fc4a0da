from __future__ import annotations

from collections import Counter

import pytest

import amplint
from amplint.base.findings import Applicability, Edit, Finding, Fix
from amplint.engine.trial import TRIALS, try_out
from tests.base.test_edits import finding, fix


class Analyser:
    """Counts each letter A to Z in a text as a finding of that name."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> Counter[str]:
        self.calls += 1
        return Counter(letter for letter in text if letter.isupper())


def trial(text: str, *findings: Finding) -> tuple[list[Finding], int]:
    analyse = Analyser()
    before = analyse(text)
    return try_out(text, list(findings), before, analyse), analyse.calls - 1


def test_a_fix_that_does_its_work_is_kept() -> None:
    found = finding("A", fix((0, 1, "x")))
    assert trial("A.B", found) == ([found], 1)


@pytest.mark.parametrize(
    ("content", "why"),
    [("C", "reported as C"), ("B", "reported as B"), ("A", "still be reported as A"), ("AA", "reported as A")],
)
def test_a_fix_that_does_not_is_withheld_and_says_why(content: str, why: str) -> None:
    (found,), _ = trial("A.B", finding("A", fix((0, 1, content))))
    assert found.fix is None
    assert found.withheld is not None
    assert why in found.withheld


def test_a_fix_whose_text_can_t_be_parsed_is_withheld() -> None:
    found = finding("A", fix((0, 1, "(")))
    (after,) = try_out("A", [found], Counter("A"), lambda text: Counter(["AMP001"]))
    assert after.fix is None
    assert after.withheld == "the fixed code could not be parsed"


def test_a_fix_that_findings_share_has_to_remove_them_all() -> None:
    shared = fix((0, 1, "x"))
    findings, _ = trial("A.A", finding("A", shared), finding("A", shared))
    assert [each.fix for each in findings] == [None, None]
    shared = fix((0, 1, "x"), (2, 3, "x"))
    findings, calls = trial("A.A", finding("A", shared), finding("A", shared))
    assert [each.fix for each in findings] == [shared, shared]
    assert calls == 1


def test_good_fixes_are_tried_together() -> None:
    text = "A." * 500
    findings = [finding("A", fix((2 * i, 2 * i + 1, "x"))) for i in range(500)]
    assert trial(text, *findings) == (findings, 1)


def test_one_bad_fix_does_not_cost_the_good_ones() -> None:
    text = "A." * 100
    findings = [finding("A", fix((2 * i, 2 * i + 1, "C" if i == 42 else "x"))) for i in range(100)]
    after, calls = trial(text, *findings)
    assert [i for i, each in enumerate(after) if each.fix is None] == [42]
    assert calls < 20


def test_overlapping_fixes_are_tried_apart() -> None:
    findings = [finding("A", fix((0, 1, "x"))), finding("A", fix((0, 2, "C")))]
    after, calls = trial("A.", *findings)
    assert [each.fix is None for each in after] == [False, True]
    assert calls == 2


def withheld(findings: list[Finding]) -> set[int]:
    return {i for i, each in enumerate(findings) if each.fix is None}


def test_many_bad_fixes_do_not_cost_a_trial_each() -> None:
    text = "A." * 300
    after, calls = trial(text, *(finding("A", fix((2 * i, 2 * i + 1, "C"))) for i in range(300)))
    assert calls <= TRIALS
    assert withheld(after) == set(range(300))
    assert {each.withheld for each in after} == {
        "the fixed code would be reported as C",
        "not tried: too many fixes in this file fail (the limit is 40 trials)",
    }


def test_bad_fixes_that_are_alike_do_not_use_up_the_trials_of_others() -> None:
    # One in three is bad, each time in the same way.
    text = "A." * 300
    findings = [finding("A", fix((2 * i, 2 * i + 1, "xyC"[i % 3]))) for i in range(300)]
    after, calls = trial(text, *findings)
    assert withheld(after) == set(range(2, 300, 3))
    assert calls <= TRIALS


def test_a_change_that_fails_at_its_first_place_only_is_made_at_the_others() -> None:
    findings = [finding("A", fix((2 * i, 2 * i + 1, "x"))) for i in range(20)]

    def analyse(text: str) -> Counter[str]:
        return Counter({"A": text.count("A"), "C": int(text.startswith("x"))})

    text = "A." * 20
    assert withheld(try_out(text, findings, analyse(text), analyse)) == {0}


def test_where_trials_run_out_what_was_not_tried_says_so() -> None:
    text = "A." * 64
    # All different, and every other one bad.
    findings = [finding("A", fix((2 * i, 2 * i + 1, "C" * (i + 1) if i % 2 else "x" * (i + 1)))) for i in range(64)]
    after, calls = trial(text, *findings)
    assert calls == TRIALS
    reasons = [each.withheld for each in after]
    assert all(reasons[1::2])
    assert any(str(reason).startswith("not tried") for reason in reasons[::2])


def test_advice_is_not_tried() -> None:
    found = finding("A", Fix(Applicability.DISPLAY, "Do it by hand"))
    assert trial("A", found, finding("B")) == ([found, finding("B")], 0)


def chained(text: str, found: Finding, of: dict[str, str]) -> Finding:
    """The finding after a trial in which each letter of a text is found, and has a fix if it stands in `of`."""

    def look(new: str) -> list[Finding]:
        return [_letter(at, letter, of.get(letter)) for at, letter in enumerate(new) if letter.isupper()]

    analyse = Analyser()
    (after,) = try_out(text, [found], analyse(text), analyse, look)
    return after


def _letter(at: int, letter: str, new: str | None) -> Finding:
    kind = Applicability.UNSAFE if new == "D" else Applicability.SAFE
    made = Fix(kind, f"Write {new}", (Edit(at, at + 1, new),)) if new is not None else None
    return finding(letter, made)._replace(start=at, end=at + 1)


def test_what_a_fix_brings_to_light_is_fixed_with_it() -> None:
    after = chained("A.B", _letter(0, "A", "C"), {"C": "D", "D": "x"})
    assert after.withheld is None
    assert after.fix is not None
    assert after.fix.applicability is Applicability.UNSAFE
    assert after.fix.message == "Write C; then: Write D; then: Write x"
    assert after.fix.edits == (Edit(0, 1, "x"),)


def test_what_a_fix_brings_to_light_is_told_from_others_of_its_code() -> None:
    after = chained("B.A.B", _letter(2, "A", "..B"), {"B": "x"})
    assert after.fix is not None
    assert after.fix.edits == (Edit(2, 3, "..x"),)


def test_a_fix_whose_chain_leaves_something_is_withheld_for_that() -> None:
    without = chained("A.", _letter(0, "A", "C"), {})
    round_and_round = chained("A.", _letter(0, "A", "C"), {"C": "D", "D": "C"})
    other = chained("A.E", _letter(0, "A", "C"), {"C": "E"})
    for each, left in ((without, "C"), (round_and_round, "C"), (other, "E")):
        assert each.fix is None
        assert each.withheld == f"the fixed code would be reported as {left}"


def test_what_a_fix_makes_doubtful_is_why_it_is_withheld() -> None:
    def analyse(text: str) -> Counter[str]:
        return Counter(["A"] if "A" in text else ["it may be wrong"])

    (after,) = try_out("A", [finding("A", fix((0, 1, "x")))], Counter("A"), analyse)
    assert (after.fix, after.withheld) == (None, "it may be wrong")


def test_what_only_several_fixes_make_doubtful_is_why_the_unsafe_ones_are_withheld() -> None:
    def analyse(text: str) -> Counter[str]:
        return Counter([*filter(str.isupper, text)] or ["it may be wrong"])

    unsafe = Fix(Applicability.UNSAFE, "Write y", (Edit(2, 3, "y"),))
    findings = [finding("A", fix((0, 1, "x"))), finding("B", unsafe)]
    one, other = try_out("A.B", findings, Counter("AB"), analyse)
    assert one == findings[0]
    assert (other.fix, other.withheld) == (None, "it may be wrong")


GAN = """\
import torch


def train(net, critic, batches, opt_net, opt_critic):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            fake = net(x)
            loss = critic(fake.detach()).mean() - critic(x).mean()
        opt_critic.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt_critic)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = -critic(fake).mean()
        opt_net.zero_grad()
        scaler.scale(loss).backward()
        opt_net.step()
        scaler.update()
    torch.save({"net": net.state_dict(), "optimizer": opt_net.state_dict()}, "last.pt")
"""


def test_a_suspicion_of_another_rule_is_no_reason_against_a_fix() -> None:
    """With the fix the saved optimizer is stepped by the scaler, whose state isn't saved: nobody is told of that."""
    (found,) = amplint.check(GAN)
    assert found.code == "AMP402"
    assert found.fix is not None
    fixed = amplint.fix(GAN, unsafe=True)
    assert not amplint.check(fixed)
    assert {each.code for each in amplint.check(fixed, settings=amplint.make_settings(suspicions=True))} == {"AMP413"}
