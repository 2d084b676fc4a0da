"""Suspicions are shown to those who ask, and never fail a run; what is likely says so and is at most a warning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import amplint as package
from amplint.base.findings import Applicability, Confidence, Edit, Fix, Severity
from amplint.engine.causes import one_per_cause
from amplint.registry import all_rules
from amplint.sources.source import Source
from tests.conftest import Ran
from tests.integrations.test_flake8 import flake8

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

# Nothing in sight resumes from the checkpoint.
PATTERN = """\
import torch


def main(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(10):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{epoch}.pt")
"""
SURE = PATTERN.replace(
    "            scaler.step(", "            clip_grad_norm_(model.parameters(), 1.0)\n            scaler.step("
)
SURE = SURE.replace("import torch\n", "import torch\nfrom torch.nn.utils import clip_grad_norm_\n", 1)


def test_a_suspicion_is_shown_where_it_is_asked_for_and_fails_nothing(project: Write, amplint: Run) -> None:
    project({"train.py": PATTERN})
    assert amplint("train.py") == Ran(0, "All checks passed!\n", "")
    shown = amplint("--suspicions", "--output-format=concise", "train.py")
    assert shown.code == 0
    assert ": AMP413 note (suspicion): the checkpoint has" in shown.out
    assert "Found 1 suspicion.\n" in shown.out


def test_beside_what_is_certain_the_run_fails(project: Write, amplint: Run) -> None:
    project({"train.py": SURE, "amplint.toml": "suspicions = true\n"})
    shown = amplint("--output-format=json", "train.py")
    assert shown.code == 1
    said = {each["code"]: each["confidence"] for each in json.loads(shown.out)}
    assert said == {"AMP401": "certain", "AMP413": "suspicion"}
    assert {
        each["code"] for each in json.loads(amplint("--no-suspicions", "--output-format=json", "train.py").out)
    } == {"AMP401"}


def test_flake8_shows_suspicions_only_where_its_configuration_asks(project: Write) -> None:
    project({"train.py": PATTERN})
    assert flake8("train.py") == []
    (line,) = flake8("--amplint-suspicions", "train.py")
    assert "AMP413 suspicion: " in line


def test_a_suspicion_that_a_comment_silences_is_no_unused_suppression(project: Write, amplint: Run) -> None:
    lines = PATTERN.splitlines()
    lines[-1] += "  # noqa: AMP413"
    project({"train.py": "\n".join(lines) + "\n"})
    assert amplint("train.py").code == 0
    assert amplint("--suspicions", "train.py").out == "All checks passed!\n"


def test_sarif_says_how_sure_a_finding_is(project: Write, amplint: Run) -> None:
    project({"train.py": SURE})
    (run,) = json.loads(amplint("--suspicions", "--output-format=sarif", "train.py").out)["runs"]
    assert {each["ruleId"]: each["properties"]["confidence"] for each in run["results"]} == {
        "AMP401": "certain",
        "AMP413": "suspicion",
    }


@pytest.mark.parametrize(
    ("confidence", "severity", "applicability"),
    [
        (None, Severity.ERROR, Applicability.SAFE),
        (Confidence.LIKELY, Severity.WARNING, Applicability.SAFE),
        (Confidence.SUSPICION, Severity.WARNING, Applicability.DISPLAY),
    ],
)
def test_what_is_not_certain_is_at_most_a_warning_and_no_fix_of_a_suspicion_is_made(
    confidence: Confidence | None, severity: Severity, applicability: Applicability
) -> None:
    fix = Fix(Applicability.SAFE, "Do it", (Edit(0, 1, "x"),))
    found = all_rules()["AMP401"].finding((0, 1), "wrong", fix=fix, confidence=confidence)
    assert found.severity is severity
    assert found.fix is not None
    assert found.fix.applicability is applicability
    assert found.said == {None: "wrong"}.get(confidence, f"{found.confidence.value}: wrong")


def test_of_one_cause_a_suspicion_hides_nothing() -> None:
    rule = all_rules()["AMP401"]
    sure = rule.finding((2, 3), "sure", severity=Severity.WARNING, cause="one")
    pattern = rule.finding((0, 1), "pattern", cause="one", confidence=Confidence.SUSPICION)
    (kept,) = one_per_cause(Source("x.py", "a = b\n"), [pattern, sure])
    assert kept.message.startswith("sure")


def test_what_is_less_sure_is_not_named_beside_what_is_certain() -> None:
    rule = all_rules()["AMP401"]
    sure = rule.finding((2, 3), "sure", cause="one")
    likely = rule.finding((0, 1), "likely", cause="one", confidence=Confidence.LIKELY)
    (kept,) = one_per_cause(Source("x.py", "a = b\n"), [likely, sure])
    assert kept.message == "sure"


def test_the_api_has_both(tmp_path: Path) -> None:
    assert package.check(PATTERN, tmp_path / "x.py") == []
    (found,) = package.check(PATTERN, tmp_path / "x.py", package.make_settings(suspicions=True))
    assert found.is_suspicion
