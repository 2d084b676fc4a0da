"""What the README gives for CI: it is valid for the service, and its commands do what it says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.conftest import LEGACY, MODERN

yaml = pytest.importorskip("yaml", reason="PyYAML comes with pre-commit")

Write = Callable[[dict[str, str | bytes]], Path]

README = ROOT / "README.md"
_SECTION = README.read_text("utf-8").partition("\n### In CI\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", _SECTION, re.DOTALL | re.MULTILINE)
WORKFLOWS = [block for block in BLOCKS if "runs-on" in block]
(GITLAB,) = (block for block in BLOCKS if "codequality" in block)
# The newest that are known to exist; what is older is told to be old by GitHub.
ACTIONS = {"actions/checkout": 5, "actions/setup-python": 6, "github/codeql-action/upload-sarif": 4}


def steps(block: str) -> list[dict[str, Any]]:
    """The steps of a workflow's one job."""
    (job,) = yaml.safe_load(block)["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def run(command: str) -> subprocess.CompletedProcess[str]:
    arguments = shlex.split(command)
    assert arguments[0] == "amplint"
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)


def test_there_are_three() -> None:
    assert (len(BLOCKS), len(WORKFLOWS)) == (3, 2)


@pytest.mark.parametrize(
    ("block", "schema"), [*((block, "github-workflows") for block in WORKFLOWS), (GITLAB, "gitlab-ci")]
)
def test_a_block_is_valid(tmp_path: Path, block: str, schema: str) -> None:
    pytest.importorskip("check_jsonschema")
    (tmp_path / "ci.yml").write_text(block)
    command = ["check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(tmp_path / "ci.yml")]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "ci.yml").write_text(block.replace("runs-on", "run-on").replace("script:", "skript:"))
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("block", WORKFLOWS)
def test_actions_are_pinned(block: str) -> None:
    for step in steps(block):
        if "uses" in step:
            name, version = step["uses"].split("@")
            assert version == f"v{ACTIONS[name]}"


def test_annotations(project: Write) -> None:
    project({"old.py": LEGACY})
    done = run(steps(WORKFLOWS[0])[-1]["run"])
    assert done.returncode == 1
    assert re.fullmatch(r"::warning title=amplint \(AMP101\),file=.*/old\.py,line=5,[^\n]*\n", done.stdout)
    project({"old.py": MODERN})
    assert run(steps(WORKFLOWS[0])[-1]["run"]).returncode == 0


def test_sarif(project: Write) -> None:
    root = project({"old.py": LEGACY})
    *_, lint, upload = steps(WORKFLOWS[1])
    assert run(lint["run"]).returncode == 0
    log = json.loads((root / upload["with"]["sarif_file"]).read_text())
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["AMP101"]
    project({"amplint.toml": "no = 1\n"})
    assert run(lint["run"]).returncode == 2


def test_gitlab(project: Write) -> None:
    root = project({"old.py": LEGACY})
    job = yaml.safe_load(GITLAB)["amplint"]
    assert run(job["script"][-1]).returncode == 1
    assert job["artifacts"]["when"] == "always"  # where something is found the job fails
    report = json.loads((root / job["artifacts"]["reports"]["codequality"]).read_text())
    assert [(each["check_name"], each["location"]["path"]) for each in report] == [("AMP101", "old.py")]
