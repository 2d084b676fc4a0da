"""The hooks, installed and run by the real pre-commit from a repository, as a user's configuration has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.conftest import LEGACY, MODERN


def notebook(text: str) -> str:
    cell = {"cell_type": "code", "id": "a", "execution_count": None, "metadata": {}, "outputs": [], "source": text}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A user's repository, configured to take the hooks from a repository of amplint's, and its environment."""
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    top = tmp_path_factory.mktemp("pre-commit")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHONPATH"))}
    environment["PRE_COMMIT_HOME"] = str(top / "home")

    def git(directory: Path, *arguments: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *name, *arguments], cwd=directory, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    ours, theirs = top / "amplint", top / "project"
    shutil.copytree(ROOT / "amplint", ours / "amplint", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, ours / name)
    theirs.mkdir()
    (theirs / "old.py").write_text(LEGACY)
    (theirs / "new.pyi").write_text(MODERN)
    (theirs / "notes.txt").write_text(LEGACY)
    (theirs / "third_party").mkdir()
    (theirs / "third_party" / "old.py").write_text(LEGACY)
    (theirs / "amplint.toml").write_text('extend-exclude = ["third_party/"]\n')
    (theirs / "nb.ipynb").write_text(notebook(LEGACY))
    for directory in (ours, theirs):
        git(directory, "init", "-q")
        git(directory, "add", ".")
        git(directory, "commit", "-qm", "all")
    (theirs / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {ours}\n  rev: {git(ours, 'rev-parse', 'HEAD')}\n  hooks:\n"
        "  - id: amplint\n    args: [--output-format=concise]\n  - id: amplint-fix\n"
    )
    return theirs, environment


def run(users: tuple[Path, dict[str, str]], hook: str, *arguments: str) -> tuple[int, str]:
    directory, environment = users
    command = [sys.executable, "-m", "pre_commit", "run", hook, "--color=never", *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_check(users: tuple[Path, dict[str, str]]) -> None:
    code, output = run(users, "amplint", "--all-files")
    assert code == 1, output
    assert "\nold.py:5:10: AMP101 [*] " in output
    assert "\nnb.ipynb:cell 1:5:10: AMP101 [*] " in output
    assert "notes.txt" not in output
    assert "third_party" not in output
    assert (users[0] / "old.py").read_text() == LEGACY
    code, output = run(users, "amplint", "--files", "new.pyi")
    assert code == 0, output
    assert "Passed" in output


def test_fix(users: tuple[Path, dict[str, str]]) -> None:
    (users[0] / "old.py").write_text(LEGACY)
    code, output = run(users, "amplint-fix", "--all-files")
    assert code == 1, output
    assert "files were modified by this hook" in output
    assert (users[0] / "old.py").read_text() == MODERN
    assert (users[0] / "notes.txt").read_text() == LEGACY
    assert (users[0] / "third_party" / "old.py").read_text() == LEGACY
    assert (users[0] / "nb.ipynb").read_text() == notebook(MODERN)
    code, output = run(users, "amplint-fix", "--all-files")
    assert code == 0, output
