"""What is asked of the disk on the way to a result is asked where it is noted, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

PACKAGE = ROOT / "amplint"
# What a result is made by. Of `config` only the requirements: settings are a part of what is kept under.
FOLDERS = ("model", "rules", "fixes", "suppression", "sources", "engine")
FILES = (
    "base/project_root.py",
    *(f"config/{name}.py" for name in ("declared_target", "requirements", "requirement_lists")),
)
ASKS = {
    "os": {"listdir", "scandir", "walk", "stat", "lstat", "open", "access", "readlink", "getcwd"},
    "path": {"isfile", "isdir", "exists", "lexists", "islink", "realpath", "getmtime", "getsize", "samefile"},
    "": {"open"},
}
METHODS = {"is_file", "is_dir", "exists", "is_symlink", "resolve", "iterdir", "glob", "rglob", "read_text"}
PATHS = {"path", "Path", "folder", "directory"}


def asked(path: Path) -> Iterator[str]:
    """The calls in a module that ask the disk past the functions that note it."""
    tree = ast.parse(path.read_text("utf-8"))
    noted = {alias.name for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) for alias in each.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in ASKS[""] - noted:
            yield f"{path.name}:{node.lineno} {node.func.id}"
        if isinstance(node.func, ast.Attribute):
            of, name = node.func.value, node.func.attr
            last = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else "?"
            if name in ASKS.get(last, ()) or (name in METHODS and last in PATHS):
                yield f"{path.name}:{node.lineno} {last}.{name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_is_noted(folder: str) -> None:
    assert [each for path in sorted((PACKAGE / folder).rglob("*.py")) for each in asked(path)] == []


@pytest.mark.parametrize("file", FILES)
def test_all_is_noted_of_projects(file: str) -> None:
    assert [each for each in asked(PACKAGE / file) if "getcwd" not in each] == []


def test_what_asks_is_seen(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import os\nos.path.isfile('x')\nopen('x')\nos.stat('x')\npath.exists()\n")
    assert len(list(asked(tmp_path / "module.py"))) == 4
