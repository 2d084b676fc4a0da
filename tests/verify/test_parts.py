"""The parts of the interpreter: conditions, what is decided of values, verdicts, the report, and the command."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import ROOT

pytest.importorskip("torch")

from amplint.config.settings import Settings
from amplint.registry import all_rules
from amplint.verify.fixtures.proof import SHOWS
from amplint.verify.interpreter.assumptions import FEW, MOST, Choices, Facts, explore
from amplint.verify.interpreter.standins import Unknown
from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG, Fault, Judged
from amplint.verify.steps.output import as_json, as_tables
from amplint.verify.steps.verdict import decide
from amplint.verify.steps.verify import Limits, StepRow, Verifier
from tests.conftest import Ran
from tests.interpreting import interpret

Amplint = Callable[..., Ran]

# --- conditions


@given(st.integers(0, 9), st.integers(0, 2**9))
def test_few_conditions_are_tried_in_all_combinations_and_of_many_each_pair(count: int, nested: int) -> None:
    seen: list[dict[str, Any]] = []

    def run(choices: Choices) -> None:
        for at in range(count):
            # Some questions come up only where the one before has its first answer.
            if at and nested >> at & 1 and not choices.answers.get(f"q{at - 1}"):
                continue
            choices.ask(f"q{at}", (True, False), matters=True)
        choices.ask("no matter", (True, False), matters=False)
        seen.append({key: value for key, value in choices.answers.items() if key != "no matter"})

    runs = list(explore(run, list))
    assert len(runs) == len(seen) <= MOST
    if count <= FEW:
        assert len({tuple(sorted(each.items())) for each in seen}) == len(seen)
        for values in itertools.product((True, False), repeat=count):
            wanted = {f"q{at}": value for at, value in enumerate(values)}
            assert any(all(wanted[key] == value for key, value in each.items()) for each in seen)
    elif not nested:
        for (one, a), (other, b) in itertools.combinations(
            [(f"q{at}", value) for at in range(count) for value in (True, False)], 2
        ):
            assert one == other or any(each[one] == a and each[other] == b for each in seen)


_QUESTIONS = st.sampled_from(
    [("none", None), ("truth", None), *(("order", (op, bound)) for op in (">", ">=", "<", "<=") for bound in (0, 1, 2))]
    + [("equal", value) for value in (0, 1, 2)]
)
_OPS = {">": "GreaterThan", ">=": "GreaterThanEqual", "<": "LessThan", "<=": "LessThanEqual"}


@given(st.lists(_QUESTIONS, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_what_is_said_of_a_value_holds_for_some_value(asked: list[tuple[str, Any]], wanted: list[bool]) -> None:
    answers: list[bool] = []
    it = iter(wanted)

    class Asked(Choices):
        def ask(self, question: str, options: tuple[Any, ...], *, matters: bool) -> Any:
            if question not in self.answers:
                self.answers[question] = options[0] if next(it, True) else options[-1]
            return self.answers[question]

    facts, value = Facts(Asked()), Unknown("x")
    for kind, what in asked:
        if kind == "none":
            answers.append(facts.is_none(value, matters=True))
        elif kind == "truth":
            answers.append(facts.truth(value, matters=True))
        elif kind == "order":
            answers.append(facts.compare(value, _OPS[what[0]], what[1], matters=True))
        else:
            answers.append(facts.compare(value, "Equal", what, matters=True))

    def holds(x: float | None) -> bool:
        for (kind, what), answer in zip(asked, answers, strict=True):
            if kind == "none":
                real = x is None
            elif kind == "truth":
                real = bool(x)
            elif kind == "order":  # None is in no order, and the program doesn't ask
                real = x is not None and {">": x > what[1], ">=": x >= what[1], "<": x < what[1]}.get(
                    what[0], x <= what[1]
                )
            else:
                real = x == what
            if real is not answer:
                return False
        return True

    assert any(holds(x) for x in (None, 0, 0.5, 1, 1.5, 2, 3))


def test_a_condition_that_mattered_to_nobody_is_varied_once_it_matters() -> None:
    seen: set[tuple[bool, bool]] = set()

    def run(choices: Choices) -> None:
        facts, value = Facts(choices), Unknown("flag")
        seen.add((facts.truth(value, matters=False), facts.truth(value, matters=True)))

    list(explore(run, list))
    assert seen == {(True, True), (False, False)}


@given(st.integers(0, 9), st.integers(0, 9))
def test_what_is_not_reached_is_looked_for_behind_conditions_that_seem_not_to_matter(one: int, count: int) -> None:
    reached: list[bool] = []

    def run(choices: Choices) -> None:
        answers = {at: choices.ask(f"q{at}", (True, False), matters=False) for at in range(count)}
        if not answers.get(one, True):
            answers["new"] = choices.ask("new", (True, False), matters=False)
        reached.append(not answers.get(one, True) and not answers["new"])

    paths = [each.path() for each in explore(run, lambda: [] if any(reached) else ["reached only if q"])]
    assert any(reached) is (one < count)
    if one < count:
        assert paths[-1].items() >= {f"q{one}": False, "new": False}.items()  # it says on which path that is


# --- verdicts and report


def _judged(*shown: str) -> Judged:
    return Judged(WRONG if shown else RIGHT, [Fault(each, f"{each} is off", "flag") for each in shown])


@pytest.mark.parametrize(
    ("before", "after", "fixed", "left", "verdict"),
    [
        (_judged(), None, "", "", "clean"),
        (_judged("gradient"), None, "", "", "misbehaves"),
        (_judged("gradient"), _judged(), "AMP401", "", "confirmed"),
        (_judged("gradient"), _judged("gradient"), "AMP401", "", "refuted"),
        (_judged("gradient"), _judged("skips"), "AMP401", "", "refuted"),
        (_judged(), _judged("gradient"), "AMP401", "", "refuted"),
        (_judged("warning", "gradient"), _judged("gradient"), "AMP101", "AMP401", "misbehaves"),
        (_judged("gradient"), _judged("gradient"), "AMP417", "AMP401", "misbehaves"),
        (_judged("exception"), _judged("gradient"), "AMP405", "AMP401", "misbehaves"),
        (_judged("exception"), _judged("gradient"), "AMP405", "", "refuted"),
        (_judged("exception", "gradient"), _judged("exception"), "AMP401", "AMP405", "misbehaves"),
        (_judged(), _judged(), "AMP417", "", "clean"),
        (Judged(UNKNOWN, reason="why"), _judged(), "AMP401", "", "not checkable"),
        (_judged("gradient"), Judged(UNKNOWN, reason="why"), "AMP401", "", "misbehaves"),
    ],
)
def test_verdicts(before: Judged, after: Judged | None, fixed: str, left: str, verdict: str) -> None:
    found = decide(before, after, filter(None, [fixed]), filter(None, [left]))
    assert found.verdict == verdict
    assert ("report it" in found.reason) is (verdict == "refuted")


@pytest.mark.parametrize(
    ("had", "has", "fixed", "verdict", "reason"),
    [
        ([3, 7], [7], {3}, "confirmed", "only a deprecation warning is left: what was compared is right"),
        ([3, 7], [3], {3}, "confirmed", "only a deprecation warning is left: what was compared is right"),  # lines move
        ([3, 7], [3, 7], {3}, "refuted", ""),
        ([3], [3], {3}, "refuted", ""),
        ([7], [7], {3}, "clean", "only a deprecation warning is left: what was compared is right"),
        ([3, 7], [3, 7, 9], {3}, "refuted", ""),
    ],
)
def test_a_fix_is_not_refuted_by_a_warning_of_another_line(
    had: list[int], has: list[int], fixed: set[int], verdict: str, reason: str
) -> None:
    said = "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated."
    before, after = (Judged(WRONG, [Fault("warning", said, "")], warned={said: rows}) for rows in (had, has))
    found = decide(before, after, ["AMP101"], [], fixed)
    assert found.verdict == verdict
    assert not reason or found.reason == reason


def test_what_is_mended_and_what_is_left_is_said() -> None:
    before, after = _judged("exception", "gradient", "update"), _judged("exception")
    assert (
        decide(before, after, ["AMP401"], ["AMP405"]).reason
        == "gone after the fix: wrong gradients, wrong updates; left: an exception"
    )


@pytest.mark.parametrize(
    ("where", "left", "verdict"), [("a", "AMP405", "misbehaves"), ("b", "AMP405", "refuted"), ("a", "", "misbehaves")]
)
def test_only_an_exception_on_the_same_path_can_have_hidden_what_is_left(where: str, left: str, verdict: str) -> None:
    before = Judged(
        WRONG, [Fault("exception", "line 1: RuntimeError: one", "a")], paths={"a": ["exception: one"], "b": []}
    )
    fault = Fault("exception", "line 1: RuntimeError: another", where)
    paths = {"a": [], "b": []} | {where: [fault.what]}
    assert decide(before, Judged(WRONG, [fault], paths=paths), ["AMP404"], filter(None, [left])).verdict == verdict


def test_combinations_that_are_asked_for_are_run() -> None:
    wanted = {f"q{at}": at < 3 for at in range(9)}
    seen = []

    def run(choices: Choices) -> None:
        seen.append({f"q{at}": choices.ask(f"q{at}", (True, False), matters=True) for at in range(9)})

    list(explore(run, list))
    assert wanted not in seen
    list(explore(run, list, [wanted]))
    assert seen.count(wanted) == 1


def test_every_rule_says_whether_a_run_can_show_it() -> None:
    for rule in all_rules().values():
        shows = rule.shows
        assert shows is not None, f"{rule.code}: its Rule needs `shown_by` or `not_shown`"
        assert bool(shows.observables) is (shows.how != "no") is not bool(shows.why), rule.code
        assert {*shows.observables} <= SHOWS, rule.code


def test_the_report() -> None:
    row = StepRow(
        path="train.py", name="train", row=3, verdict="confirmed", reason="", device="cuda", simulated=True,
        before=_judged("gradient"), after=_judged(), findings=[], only_run=["gradient"], functions=["train"], runs=4,
        seconds=0.5, notes=[(4, "scaler.step(optimizer)", ""), (3, "model(x)", "a stand-in model")],
    )  # fmt: skip
    text = as_tables([row], 100, explain=True)
    for part in ("train.py:3 train: confirmed (cuda, simulated)", "gradient is off", "where flag", "8 per second"):
        assert part in text
    assert "model(x)  -> a stand-in model" in text
    (found,) = json.loads(json.dumps(as_json([row])))
    assert found["before"]["faults"] == [{"shows": "gradient", "text": "gradient is off", "path": "flag"}]
    assert found["schema_version"] == 1
    assert (found["step"], found["line"], found["simulated"], found["reason"]) == ("train", 3, True, None)


# --- the hard cases

STEP = """\
import torch
from torch import nn

def train(model, loader, optimizer, scaler, clip=None, accumulate=1):
    for i, batch in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch) / accumulate
        BACKWARD
        if (i + 1) % accumulate == 0:
            UNSCALE
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
GOOD = STEP.replace("UNSCALE", "scaler.unscale_(optimizer)").replace("BACKWARD", "scaler.scale(loss).backward()")


def _state(text: str, device: str | None = None) -> tuple[str, set[str]]:
    (ran,) = interpret(text, device)
    return ran.judged.state, ran.shown


def test_a_right_step_is_right_and_its_conditions_are_tried() -> None:
    (ran,) = interpret(GOOD)
    assert ran.judged.state == RIGHT
    paths = [each.answers for each in ran.runs.paths]
    assert len(paths) == 4
    assert {each["clip is None"] for each in paths} == {True, False}
    assert {each["accumulate ="] for each in paths} == {1, 2}


OPTIONAL = """
import torch
from torch import nn

def train(model, loader, args):
    CONVERT
    optimizer = torch.optim.OPTIMIZER(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        UNSCALE
        largest = max(each.grad.abs().max() for each in model.parameters())
        if args.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("optimizer", ["SGD", "RMSprop"])
@pytest.mark.parametrize("unscale", ["scaler.unscale_(optimizer)", "pass"])
@pytest.mark.parametrize(("convert", "saves"), [("pass", True), ("model = model.half()", False)])
def test_a_run_that_has_no_amp_is_its_own_reference(
    optimizer: str, unscale: str, convert: str, saves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = OPTIONAL.replace("OPTIMIZER", optimizer).replace("UNSCALE", unscale).replace("CONVERT", convert)
    (once,) = interpret(text)
    monkeypatch.setattr("amplint.verify.steps.trials._Trial._is_bare", lambda *_: False)
    (both,) = interpret(text)
    assert once.runs.paths == both.runs.paths
    assert (once.runs.runs < both.runs.runs) is saves


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("scaler.unscale_(optimizer)", "pass", {"gradient", "update"}),
        ("scaler.scale(loss).backward()", "loss.backward()", {"exception"}),
        ("scaler.update()", "pass", {"exception"}),
        ("scaler.step(optimizer)", "optimizer.step()", {"skips"}),
        ("scaler.unscale_(optimizer)", "scaler.unscale_(optimizer); scaler.unscale_(optimizer)", {"exception"}),
    ],
)
def test_a_wrong_step_is_wrong(old: str, new: str, shown: set[str]) -> None:
    state, found = _state(GOOD.replace(old, new))
    assert state == WRONG
    assert shown <= found


@pytest.mark.parametrize("device", ["cpu", "cuda", "xpu"])
def test_devices(device: str) -> None:
    text = GOOD.replace('"cuda"', f'"{device}"')
    assert _state(text) == (RIGHT, set())
    (ran,) = interpret(text)
    assert all(each.observed.regions[0] == f"{device} float16" for each in ran.runs.paths)


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "bfloat16"), ("cuda", "float16"), ("xpu", "float16")])
def test_a_region_without_a_dtype_has_its_devices(device: str, dtype: str) -> None:
    (ran,) = interpret(GOOD.replace('"cuda", dtype=torch.float16', f'"{device}"'))
    assert {each.observed.regions[-1] for each in ran.runs.paths} == {f"{device} {dtype}"}


def test_a_scaler_for_a_device_that_is_missing_warns() -> None:
    text = GOOD.replace("    for i", "    scaler = torch.amp.GradScaler()\n    for i").replace('"cuda"', '"xpu"')
    state, shown = _state(text)
    assert (state, "warning" in shown) == (WRONG, True)


def test_what_can_t_be_seen_is_not_judged() -> None:
    (ran,) = interpret(GOOD.replace("scaler.update()", "scaler.update(); helper(optimizer)"))
    assert ran.judged == Judged(UNKNOWN, reason="line 14: amplint can't see what helper(optimizer) does")
    dead = "if False:\n                loss.backward()\n            scaler.update()"
    (ran,) = interpret(GOOD.replace("scaler.update()", dead))
    assert ran.judged.state == UNKNOWN
    assert ran.judged.reason == "line 15 is not reached: False holds in no run"


@pytest.mark.parametrize(
    "test", ['version.parse(torch.__version__) >= version.parse("2.3")', 'hasattr(torch.amp, "GradScaler")']
)
def test_releases_of_torch_are_no_choice(test: str) -> None:
    made = "torch.amp.GradScaler('cuda')\n    else:\n        scaler = torch.cuda.amp.GradScaler()\n    for i"
    text = GOOD.replace("    for i", f"    if {test}:\n        scaler = {made}")
    (ran,) = interpret(text.replace("import torch", "import torch\nfrom packaging import version", 1))
    assert (ran.judged.state, ran.shown) == (RIGHT, set())


# --- the command


BAD = GOOD.replace("scaler.unscale_(optimizer)", "pass")
ALSO = "\n\ndef other(scaler):\n    return torch.cuda.amp.autocast()\n"


def test_fix_verify_writes_what_runs_confirm(amplint: Amplint, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    fixture = ROOT / "fixtures" / "AMP401_clip_without_unscale" / "boundary" / "bad.py"
    path.write_text(fixture.read_text().partition("\n")[2] + ALSO)
    ran = amplint("--fix", "--unsafe-fixes", "--verify", "--isolated", path)
    text = path.read_text()
    assert "scaler.unscale_(optimizer)" in text
    assert "torch.cuda.amp.autocast()" in text, "no run can say anything about it"
    assert ran.code == 1
    assert "no training step that can be run contains this code" in ran.out
    again = amplint("verify", path)
    assert (again.code, "train.py:12 train: clean" in again.out) == (0, True)


def test_fix_verify_is_for_files(amplint: Amplint, tmp_path: Path) -> None:
    for arguments in (["--verify", tmp_path], ["--fix", "--verify", "--diff", tmp_path], ["--fix", "--verify", "-"]):
        ran = amplint(*arguments)
        assert (ran.code, ran.err) == (
            2,
            "amplint: error: --verify needs --fix, and works only on files and without --diff\n",
        )


def test_a_run_that_takes_too_long_is_not_checkable_and_the_next_file_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(frozenset(all_rules()), isolated=True)
    with Verifier() as verifier:
        run = verifier._run

        def hurried(file: dict[str, Any], *args: Any) -> Any:
            limits = Limits(timeout=0.001) if file["path"].endswith("a.py") else Limits()
            monkeypatch.setattr(verifier, "_limits", limits)
            try:
                return run(file, *args)
            finally:
                monkeypatch.undo()

        verifier._run = hurried  # type: ignore[method-assign]
        (late,) = verifier.verify("a.py", BAD.encode(), settings)
        (next_one,) = verifier.verify("b.py", BAD.encode(), settings)
    assert (late.verdict, late.reason) == ("not checkable", "the run failed: timed out: after 0.001 s")
    assert next_one.verdict == "confirmed"


def test_files_that_are_no_training_code(amplint: Amplint, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BAD + "def (:\n")
    (tmp_path / "bytes.py").write_bytes(b"# \xff backward step autocast\n")
    (tmp_path / "good.py").write_text(GOOD)
    ran = amplint("verify", tmp_path, "--explain")
    assert (ran.code, ran.err) == (2, "")
    assert "broken.py:16 <module>: not checkable\n  the file can't be parsed: invalid syntax" in ran.out
    assert "1 clean" in ran.out
    assert "2 not checkable" in ran.out
    assert "good.py:4 train: clean (cuda, simulated)" in ran.out
    assert "scaler is a stand-in GradScaler" in ran.out


NO_JSON = '{\n "cells": [\n ],,\n "metadata": {"accelerator": "GPU"}\n}\n'


@pytest.mark.parametrize(
    ("name", "text", "row", "said"),
    [
        ("no_json.ipynb", NO_JSON, 3, "not a notebook: not valid JSON: "),
        ("conflict.ipynb", NO_JSON.replace("GPU", "GradScaler"), 3, "not a notebook: not valid JSON: "),
        ("no_cells.ipynb", '{"accelerator": "GPU"}', 1, "not a notebook: there is no list of cells"),
        ("words.py", "import accelerate\n\ndef f(:\n", 3, "invalid syntax"),
        ("amp.py", "import torch\nfrom torch.amp import autocast\ndef f(:\n", 3, "invalid syntax"),
    ],
)
def test_what_is_no_program_and_no_notebook(
    amplint: Amplint, tmp_path: Path, name: str, text: str, row: int, said: str
) -> None:
    (tmp_path / name).write_text(text)
    ran = amplint("verify", tmp_path / name)
    assert (ran.code, ran.err) == (2, "")
    assert f"{name}:{row} <module>: not checkable\n  the file can't be parsed: {said}" in ran.out
