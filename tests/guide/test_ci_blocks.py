"""What the README and docs/integrations.md give for CI: it is valid, and its commands do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint.report.repository_paths import HOME
from tests import ROOT
from tests.conftest import LEGACY, MODERN
from tests.shown import DOCS, README

yaml = pytest.importorskip("yaml", reason="PyYAML comes with pre-commit")

Write = Callable[[dict[str, str | bytes]], Path]

INTEGRATIONS = DOCS / "integrations.md"


def _yaml(path: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)


BLOCKS = [*_yaml(INTEGRATIONS), *_yaml(README)]
# The action, annotations, SARIF, and the README's annotations.
WORKFLOWS = [block for block in BLOCKS if "runs-on" in block]
(GITLAB,) = (block for block in BLOCKS if "codequality" in block)
HOOKS = [block for block in BLOCKS if "hooks:" in block]
# The newest that are known to exist; what is older is told to be old by GitHub.
ACTIONS = {
    "actions/checkout": "v5",
    "actions/setup-python": "v6",
    "actions/setup-node": "v5",
    "actions/upload-artifact": "v4",
    "actions/download-artifact": "v5",
    "github/codeql-action/upload-sarif": "v4",
    "pypa/gh-action-pypi-publish": "release/v1",
    "amplint/amplint": "main",
}
# What GitHub runs here.
OWN = [*(ROOT / ".github" / "workflows").glob("*.yml"), *ROOT.glob("action.yml")]


def steps(block: str) -> list[dict[str, Any]]:
    """The steps of a workflow's one job."""
    (job,) = yaml.safe_load(block)["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def valid(path: Path, schema: str) -> bool:
    command = ["check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    return done.returncode == 0


def run(command: str) -> subprocess.CompletedProcess[str]:
    arguments = shlex.split(command)
    assert arguments[0] == "amplint"
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)


def test_all_are_known() -> None:
    assert (len(BLOCKS), len(WORKFLOWS), len(HOOKS), len(OWN)) == (7, 4, 2, 3)


@pytest.mark.parametrize(
    ("block", "schema"), [*((block, "github-workflows") for block in WORKFLOWS), (GITLAB, "gitlab-ci")]
)
def test_a_block_is_valid(tmp_path: Path, block: str, schema: str) -> None:
    pytest.importorskip("check_jsonschema")
    (tmp_path / "ci.yml").write_text(block)
    assert valid(tmp_path / "ci.yml", schema)
    (tmp_path / "ci.yml").write_text(block.replace("runs-on", "run-on").replace("script:", "skript:"))
    assert not valid(tmp_path / "ci.yml", schema)


@pytest.mark.parametrize("path", OWN, ids=lambda each: each.name)
def test_our_own_are_valid(path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    assert valid(path, "github-actions" if path.name == "action.yml" else "github-workflows")
    for name, version in re.findall(r"uses: ([\w/-]+)@(\S+)", path.read_text("utf-8")):
        assert ACTIONS[name] == version


def test_the_actions_inputs_are_in_the_docs() -> None:
    inputs = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"]
    table = re.findall(r"^\| `([\w-]+)` \|", INTEGRATIONS.read_text("utf-8"), re.MULTILINE)
    assert set(table) == inputs.keys()


def test_the_action_passes_its_inputs_on(tmp_path: Path) -> None:
    """The second step, with a stand-in for the amplint that the first one installs; `tests.distribution` runs both."""
    (_, step) = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    amplint = tmp_path / "bin" / "amplint"
    amplint.parent.mkdir()
    amplint.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\nsys.exit(3)\n")
    amplint.chmod(0o755)
    given = {"FOLDER": str(tmp_path), "ARGS": "--exclude 'a b' --exit-zero", "PATHS": "src 'my file.py' $(false)"}
    environment = {**os.environ, **{f"AMPLINT_{name}": value for name, value in given.items()}}
    assert {f"AMPLINT_{name}" for name in given} == step["env"].keys()
    command = [sys.executable, "-c", step["run"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    arguments = ["--output-format", "github", "--exclude", "a b", "--exit-zero", "--", "src", "my file.py", "$(false)"]
    assert done.stdout == f"{arguments}\n"


@pytest.mark.parametrize("block", WORKFLOWS)
def test_actions_are_pinned(block: str) -> None:
    for step in steps(block):
        if "uses" in step:
            name, version = step["uses"].split("@")
            assert version == ACTIONS[name]


@pytest.mark.parametrize("block", HOOKS)
def test_hooks_are_those_that_there_are(tmp_path: Path, block: str) -> None:
    """That they do their work is in tests/integrations/test_pre_commit.py."""
    (shown,) = yaml.safe_load(block)["repos"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {each["id"] for each in shown["hooks"]} <= {each["id"] for each in hooks}
    assert shown["repo"] == HOME
    assert shown["rev"] == "main"  # until there is a tag
    (tmp_path / "config.yaml").write_text(block)
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(tmp_path / "config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", [WORKFLOWS[1], WORKFLOWS[-1]])
def test_annotations(project: Write, workflow: str) -> None:
    project({"old.py": LEGACY})
    done = run(steps(workflow)[-1]["run"])
    assert done.returncode == 1
    assert re.fullmatch(r"::warning title=amplint \(AMP101\),file=.*/old\.py,line=5,[^\n]*\n", done.stdout)
    project({"old.py": MODERN})
    assert run(steps(workflow)[-1]["run"]).returncode == 0


def test_sarif(project: Write) -> None:
    root = project({"old.py": LEGACY})
    *_, lint, upload = steps(WORKFLOWS[2])
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
