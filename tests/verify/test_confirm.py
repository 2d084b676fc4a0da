"""What "confirmed" and "clean" promise: nothing that was compared is wrong; and which fixes `--fix --verify` writes."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from amplint import check, fix
from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.engine import analysis
from amplint.model import Module
from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG, Fault, Judged
from amplint.verify.steps.verdict import CLEAN, CONFIRMED, compared, decide, ends_only, seen_as
from tests import some
from tests.conftest import Ran
from tests.differential.compare import SETTINGS
from tests.differential.generate import generate
from tests.differential.ledger import UnsuitableError
from tests.differential.observe import observe
from tests.differential.program import FILENAME, Program
from tests.interpreting import interpret

Amplint = Callable[..., Ran]

HEAD = """\
import torch
from torch import nn


"""
ACCUMULATED = (
    HEAD
    + """\
def train(model, criterion, loader, optimizer, accumulate=4):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y) / accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if (i + 1) % accumulate == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
)
STEP = (
    HEAD
    + """\
def train(model, criterion, loader, optimizer, args):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        UNSCALE
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
)
BAD = STEP.replace("        UNSCALE\n", "")
GOOD = STEP.replace("UNSCALE", "scaler.unscale_(optimizer)")


def state(text: str) -> tuple[str, str]:
    """The state of the one step of a text, and the reason for it or what is wrong."""
    (ran,) = interpret(text)
    return ran.judged.state, ran.judged.reason or "; ".join(each.text for each in ran.judged.faults)


# --- confirmed


def test_a_step_in_which_something_is_left_is_not_confirmed(amplint: Amplint, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(ACCUMULATED)
    ran = amplint("verify", "--isolated", path)
    assert ran.code == 1
    assert "train.py:5 train: misbehaves (cuda, simulated)" in ran.out
    said = "gone after the fix: a backward or step that runs inside an autocast region; left: an exception"
    assert said in " ".join(ran.out.split())  # in a narrow terminal it takes two lines
    assert "1 misbehaves;" in ran.out
    ran = amplint("verify", "--isolated", "--output-format", "json", path)
    (row,) = json.loads(ran.out)
    assert (ran.code, row["verdict"], row["after"]["state"]) == (1, "misbehaves", "wrong")
    assert row["after"]["paths"]["accumulate = 2"] == [
        "exception: RuntimeError: unscale_() has already been called on this optimizer since the last update()."
    ]
    assert {each["code"]: each["fixed"] for each in row["findings"]} == {"AMP301": True, "AMP405": False}
    assert amplint("--fix", "--verify", "--isolated", path).code == 1
    assert path.read_text() == ACCUMULATED


def test_of_findings_with_one_code_that_is_fixed_which_is(amplint: Amplint, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = BAD.replace("    for x", "    extra = torch.amp.GradScaler('cuda')\n    for x")
    text += "\n\n" + BAD.removeprefix(HEAD).replace("def train", "def other").replace("1.0)", "1e4)")
    path.write_text(text)
    ran = amplint("verify", "--isolated", "--output-format", "json", path)
    rows = {row["step"]: [(each["code"], each["fixed"]) for each in row["findings"]] for row in json.loads(ran.out)}
    assert rows["train"] == [("AMP401", True)]
    assert ("AMP401", True) not in rows["other"]


@pytest.mark.parametrize("seed", some(range(20), 4))
def test_what_is_confirmed_or_clean_does_nothing_wrong_executed(seed: int) -> None:
    program = generate(seed, "")
    before = _Interpreted(program.text)
    for text in dict.fromkeys(
        [program.text, *(fix(program.text, FILENAME, SETTINGS, unsafe=each) for each in (False, True))]
    ):
        said = _said(before, before if text == program.text else _Interpreted(text))
        if said and said <= {CONFIRMED, CLEAN}:
            assert _observed(program._replace(text=text)) == []


class _Interpreted:
    """What the steps of a text do, and the codes of what is found in it."""

    def __init__(self, text: str) -> None:
        self.steps = {ran.step.name: ran.judged for ran in interpret(text)}
        self.codes = [finding.code for finding in check(text, FILENAME, SETTINGS)]


def _said(before: _Interpreted, after: _Interpreted) -> set[str]:
    gone = {code for code in before.codes if after.codes.count(code) < before.codes.count(code)}
    return {
        decide(judged, after.steps.get(name) if after is not before else None, gone, after.codes).verdict
        for name, judged in before.steps.items()
    }


def _observed(program: Program) -> list[str]:
    try:
        return [str(each) for each in observe(program).observed if not each.secondary]
    except UnsuitableError:
        return []


# --- what makes a step right


TWO = """\
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    one = torch.optim.SGD(first.parameters(), lr=0.1)
    other = torch.optim.SGD(second.parameters(), lr=0.1)
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("old", "new", "found", "said"),
    [
        ("", "", RIGHT, ""),
        # One of the conditions can't be followed.
        (
            "        scaler.scale(loss)",
            "        if args.own:\n            fused_step(loss, optimizer)\n            continue\n"
            "        scaler.scale(loss)",
            UNKNOWN,
            "amplint can't see what fused_step(loss, optimizer) does",
        ),
        # The program catches what the scaler raises, under one condition.
        (
            "        scaler.step(optimizer)\n",
            "        try:\n            if args.log:\n                scaler.unscale_(optimizer)\n"
            "            scaler.step(optimizer)\n        except RuntimeError:\n            pass\n",
            WRONG,
            "unscale_() has already been called on this optimizer since the last update()., which the program catches",
        ),
        # Nothing is trained under one condition.
        (
            "        scaler.step(optimizer)",
            "        if args.clear:\n            optimizer.zero_grad()\n        scaler.step(optimizer)",
            UNKNOWN,
            "no gradient reaches an optimizer's step where args.clear",
        ),
        # A clip after the step, with a bound that the gradients of the bench may keep to.
        (
            "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        scaler.step(optimizer)",
            "        scaler.step(optimizer)\n        nn.utils.clip_grad_value_(model.parameters(), 1.0)",
            WRONG,
            "gradients are clipped or changed after the step that used them",
        ),
        # It only measures.
        (
            "        scaler.update()",
            "        nn.utils.clip_grad_value_(model.parameters(), 1e4)\n        scaler.update()",
            RIGHT,
            "",
        ),
        # It raises before there is a backward, with AMP switched off as well.
        (
            "        optimizer.zero_grad()\n",
            "        if args.early:\n            nn.utils.clip_grad_value_(model.parameters(), 1.0)\n"
            "        optimizer.zero_grad()\n",
            UNKNOWN,
            "with verify's stand-ins the step also fails without AMP",
        ),
        # A step that only AMP leaves out.
        (
            "        scaler.step(optimizer)",
            "        if args.once and scaler.get_scale() > 2:\n            scaler.update()\n            continue\n"
            "        scaler.step(optimizer)",
            WRONG,
            "0 steps are requested, 4 without AMP",
        ),
    ],
)  # fmt: skip
def test_right_is_what_is_right_under_all_conditions(old: str, new: str, found: str, said: str) -> None:
    assert old in GOOD
    right, why = state(GOOD.replace(old, new) if old else GOOD)
    assert (right, said in why) == (found, True), why


@pytest.mark.parametrize(("step", "found"), [("scaler.step(other)", RIGHT), ("other.step()", WRONG)])
def test_each_optimizer_s_gradients_overflow_once(step: str, found: str) -> None:
    text = HEAD + "def train(criterion, loader):\n" + TWO + """\
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        one.zero_grad()
        other.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(first(x), y) + criterion(second(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(one)
        scaler.unscale_(other)
        scaler.step(one)
        STEP
        scaler.update()
""".replace("STEP", step)  # fmt: skip
    assert state(text)[0] == found


def test_a_name_that_nothing_binds_is_one_object() -> None:
    """As those of a notebook are, whose first cells are in another one."""
    body = GOOD.partition("args):\n")[2]
    assert state(HEAD + textwrap.dedent(body)) == (RIGHT, "")


# --- what is written


# The fix of AMP407 is unsafe.
CLEARED = (
    HEAD
    + """\
def train(model, criterion, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        optimizer.zero_grad()
        scaler.step(optimizer)
        scaler.update()
"""
)
RENAMED = BAD.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
CRITERION = "nn.functional.binary_cross_entropy(torch.sigmoid(model(x)), y)"


@pytest.mark.parametrize("unsafe", [(), ("--unsafe-fixes",)])
def test_only_fixes_are_written_without_which_a_run_is_wrong(
    amplint: Amplint, tmp_path: Path, unsafe: tuple[str]
) -> None:
    path = tmp_path / "train.py"
    text = BAD.replace("criterion(model(x), y)", CRITERION)
    outside = "\n\ndef evaluate(model, x):\n    with torch.cuda.amp.autocast():\n        return model(x)\n"
    path.write_text(text + outside)
    ran = amplint("--fix", "--verify", *unsafe, "--isolated", path)
    wanted = text.replace("        nn.utils.clip", "        scaler.unscale_(optimizer)\n        nn.utils.clip")
    assert path.read_text() == wanted + outside
    assert "Found 2 errors, 1 warning (1 fixed, 2 remaining)." in ran.out
    assert ran.out.count("fix not applied: no training step that can be run contains this code") == 1
    assert ran.out.count("fix not applied: no run can show what it repairs (verify replaces the criterion") == len(
        unsafe
    )
    said = (
        "2 fixable findings were not fixed, as no run confirms the fix; the same command without `--verify` fixes them."
    )
    assert (said in ran.out) == bool(unsafe)
    assert "amplint verify FILE" not in ran.out


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Offer, wherever a text is found, an unsafe fix that puts another one in its place, as AMP101."""

    def offer(old: str, new: str) -> None:
        run = analysis.run

        def more(rules: Any, module: Module) -> tuple[list[Finding], set[str]]:
            found, failed = run(rules, module)
            at = module.source.text.find(old)
            while at >= 0:
                fix = Fix(Applicability.UNSAFE, "Replace", (Edit(at, at + len(old), new),))
                found.append(Finding(at, at + len(old), "AMP101", "fake", Severity.ERROR, f"{old} is wrong", fix))
                at = module.source.text.find(old, at + 1)
            return found, failed

        monkeypatch.setattr(analysis, "run", more)

    return offer


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("in loader:", "in iter(loader):", "the run shows nothing that this fix repairs"),
        ("scaler.update()", "pass", "the fix introduces a new fault: line 1"),
    ],
)
def test_an_unsafe_fix_is_not_written_with_those_of_its_step_that_are_confirmed(
    amplint: Amplint, tmp_path: Path, offered: Callable[[str, str], None], old: str, new: str, said: str
) -> None:
    path = tmp_path / "train.py"
    path.write_text(BAD)
    offered(old, new)
    ran = amplint("--fix", "--verify", "--unsafe-fixes", "--isolated", path)
    assert path.read_text() == BAD.replace(
        "        nn.utils.clip", "        scaler.unscale_(optimizer)\n        nn.utils.clip"
    )
    assert f"help: fix not applied: {said}" in ran.out
    assert "Found 2 errors (1 fixed, 1 remaining)." in ran.out


def test_of_two_fixes_that_look_the_same_one_is_written(
    amplint: Amplint, tmp_path: Path, offered: Callable[[str, str], None]
) -> None:
    path = tmp_path / "train.py"
    text = STEP.replace("UNSCALE", "print()").replace("        scaler.step", "        print()\n        scaler.step")
    path.write_text(text)
    offered("print()", "scaler.unscale_(optimizer)")
    assert amplint("--fix", "--verify", "--unsafe-fixes", "--isolated", "--ignore", "AMP401", path).code == 1
    assert path.read_text() == text.replace("print()", "scaler.unscale_(optimizer)", 1)


def test_fixes_that_need_each_other_are_written_together(amplint: Amplint, tmp_path: Path) -> None:
    """Neither is enough: the step is right with both."""
    path = tmp_path / "train.py"
    lines = "        scaler.scale(loss).backward()\n"
    path.write_text(RENAMED.replace(lines, "    " + lines))
    ran = amplint("--fix", "--verify", "--isolated", path)
    assert (ran.code, ran.out) == (0, "Found 1 error, 2 warnings (3 fixed, 0 remaining).\n")
    assert amplint("verify", "--isolated", path).out.startswith(f"{path}:5 train: clean")


def test_a_step_that_stays_wrong_is_not_written(amplint: Amplint, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    two = BAD.removeprefix(HEAD).replace("def train", "def other")
    path.write_text(ACCUMULATED + "\n\n" + two)
    ran = amplint("--fix", "--verify", "--isolated", path)
    assert ran.code == 1
    assert path.read_text().startswith(ACCUMULATED)
    assert "scaler.unscale_(optimizer)" in path.read_text().removeprefix(ACCUMULATED)
    said = "the step still raises with the fix, and what comes after that could not be compared: line "
    assert f"help: fix not applied: {said}" in ran.out


ONE_A_STEP = """

def step(model, criterion, optimizer, x, y):
    scaler = torch.cuda.amp.GradScaler()
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def train(model, criterion, optimizer, loader):
    for x, y in loader:
        step(model, criterion, optimizer, x, y)
"""


def test_a_fix_that_ends_a_warning_and_changes_nothing_else_is_written_next_to_what_is_left(
    amplint: Amplint, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(HEAD.rstrip() + "\n" + ONE_A_STEP)
    ran = amplint("--fix", "--verify", "--isolated", path)
    assert "AMP408" in ran.out
    renamed = ONE_A_STEP.replace("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")')
    renamed = renamed.replace("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")')
    assert path.read_text() == HEAD.rstrip() + "\n" + renamed
    assert "Found 1 error, 2 warnings (2 fixed, 1 remaining).\n" in ran.out


def test_two_fixes_that_each_do_harm_do_not_keep_others_from_being_written(
    amplint: Amplint, tmp_path: Path, offered: Callable[[str, str], None]
) -> None:
    path = tmp_path / "train.py"
    step = ONE_A_STEP.replace("    scaler.step", "    print()\n    print()\n    scaler.step")
    path.write_text(HEAD.rstrip() + "\n" + step)
    offered("print()", "scaler.unscale_(None)")
    ran = amplint("--fix", "--unsafe-fixes", "--verify", "--isolated", path)
    assert path.read_text().count("    print()\n") == 2
    assert 'torch.amp.autocast("cuda")' in path.read_text()
    assert ran.out.count("help: fix not applied: ") == 2


def test_what_is_left_wrong_has_to_be_as_it_was() -> None:
    scale, warning = Fault("scale", "a new scaler is created 4 times", ""), Fault("warning", "FutureWarning: old", "")
    before = Judged(WRONG, [warning, scale], paths={"": [warning.what, "scale"]}, warned={"FutureWarning: old": [3, 4]})
    left = Judged(WRONG, [scale], paths={"": ["scale"]})
    assert ends_only(before, left)
    for other in (
        replace(left, faults=[scale._replace(text="a new scaler is created 2 times")]),
        replace(left, paths={"": ["scale", "update"]}, faults=[scale, Fault("update", "off", "")]),
        replace(left, paths={"flag": ["scale"]}),
        replace(left, unfollowed="line 3: amplint can't see what f() does"),
        replace(left, faults=[scale, Fault("exception", "line 3: ValueError: no", "")]),
        before,
    ):
        assert not ends_only(before, other), other
    assert ends_only(before, replace(before, warned={"FutureWarning: old": [3]}))


def test_conditions_under_which_a_method_of_none_is_called_are_not_run() -> None:
    text = """
import torch


def train(model, batches, optimizer, on):
    scaler = torch.amp.GradScaler("cuda") if on else None
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    (step,) = interpret(text)
    assert step.judged.state == RIGHT
    assert list(step.judged.paths) == ["on"]


OLD_SCALER = """
import torch


def train(model, batches, optimizer):
    scaler = torch.cuda.amp.GradScaler()
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(("requirement", "verdict"), [("torch~=2.1.0", "clean"), ("torch>=2.4", "confirmed")])
def test_a_warning_that_the_project_cannot_avoid_is_no_fault(
    amplint: Callable[..., Ran], tmp_path: Path, requirement: str, verdict: str
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{requirement}\n")
    (tmp_path / "setup.cfg").write_text("")
    (tmp_path / "train.py").write_text(OLD_SCALER)
    assert f"train: {verdict}" in amplint("verify", tmp_path / "train.py").out


def test_steps_that_the_scaler_skips_while_its_scale_settles_are_no_fault() -> None:
    text = OLD_SCALER.replace("cuda.amp.GradScaler()", 'amp.GradScaler("cuda", init_scale=2.0**40)')
    assert "update" not in {fault.shows for step in interpret(text) for fault in step.judged.faults}


def test_what_raises_or_warns_on_the_line_of_one_finding_shows_no_other() -> None:
    def shown(judged: Judged, *findings: tuple[str, int]) -> list[bool | None]:
        return [each.shown for each in compared(judged, [(*each, "", True) for each in findings])]

    raised = Judged(WRONG, [Fault("exception", "line 17: AttributeError: no", "")])
    assert shown(raised, ("AMP214", 17), ("AMP214", 18)) == [True, False]
    assert shown(raised, ("AMP214", 12), ("AMP214", 13)) == [True, True]  # which of them is not known
    warned = Judged(WRONG, [Fault("warning", "FutureWarning: old", "")], warned={"FutureWarning: old": [34]})
    assert shown(warned, ("AMP102", 14), ("AMP101", 30), ("AMP102", 34)) == [False, False, True]
    elsewhere = Judged(WRONG, [Fault("exception", "line 3 of other.py: ValueError: no", "")])
    assert shown(elsewhere, ("AMP214", 3)) == [True]


def test_a_finding_is_gone_though_something_else_is_left() -> None:
    """What is seen on a finding's own line is what it is about: an exception of another line is not."""
    faults = [Fault("exception", "line 47: AssertionError: no", ""), Fault("warning", "FutureWarning: old", "")]
    judged = Judged(WRONG, faults, warned={"FutureWarning: old": [34]})
    places = [("AMP101", 34), ("AMP204", 20)]
    assert seen_as(judged, "AMP101", 34, places) == {"warning: FutureWarning: old"}
    assert seen_as(judged, "AMP204", 20, places) == {"exception: AssertionError: no"}


def test_what_a_fix_ends_is_gone_beside_what_is_left(
    amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = STEP.replace("UNSCALE", "scaler.unscale_(optimizer)\n        scaler.unscale_(optimizer)")
    (tmp_path / "old.py").write_text(
        old.replace('torch.autocast("cuda", dtype=torch.float16)', "torch.cuda.amp.autocast()")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    said = amplint("verify", "--isolated", "--select", "AMP101").out
    assert "RuntimeError: unscale_() has already been called" in said
    assert re.search(r"AMP101 line \d+: shown by the run, gone after the fix\n", said)


def test_the_report_says_what_is_shown_what_is_rounding_and_what_was_only_tried(
    amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(GOOD.replace("UNSCALE", "scaler.unscale_(optimizer)"))
    renamed = BAD.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    renamed = renamed.replace('torch.autocast("cuda", dtype=torch.float16)', "torch.cuda.amp.autocast()")
    (tmp_path / "old.py").write_text(renamed.replace("criterion(model(x), y)", CRITERION))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    said = amplint("verify", "--isolated", "--unsafe-fixes").out  # of the current folder
    loss = r"  line \d+: criterion\(model\(x\), y\) is in a float16 region, and is not run\n"
    numbers = r"  compared with float32: .* off by [\d.]+%; so much is rounding, and right\n"
    assert re.search(rf"train: clean .*\n{loss}{numbers}", said)
    assert len(re.findall(r"^  warning +FutureWarning: ", said, re.MULTILINE)) == 2
    assert "AMP401 line 12: shown by the run, gone after the fix\n" in said
    assert re.search(r"AMP304 line 10: no run can show it \(.+\); not reported after the fixes\n", said)


@pytest.mark.parametrize(
    ("flags", "verdict", "said"),
    [((), "misbehaves", "shown by the run; `--unsafe-fixes` tries its fix"), (("--unsafe-fixes",), "confirmed", "")],
)
def test_a_fault_that_an_unsafe_fix_corrects_says_how_that_is_tried(
    amplint: Amplint, tmp_path: Path, flags: tuple[str, ...], verdict: str, said: str
) -> None:
    (tmp_path / "train.py").write_text(CLEARED)
    ran = amplint("verify", "--isolated", *flags, tmp_path)
    assert f"train: {verdict} " in ran.out
    assert re.search(rf"AMP407 line \d+: {said or 'shown by the run, gone after the fix'}\n", ran.out), ran.out
    found = json.loads(amplint("verify", "--isolated", *flags, "--output-format", "json", tmp_path).out)
    assert [each["untried"] for each in found[0]["findings"] if each["code"] == "AMP407"] == [not flags]
