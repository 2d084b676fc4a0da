"""What is not imported costs nothing: modules are counted, not milliseconds, which depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[dict[str, str | bytes]], Path]

CLEAN = "import torch\n\nprint(torch.ones(3).half().mean())  # ünï\n"
# What a run needs only for AMP, for directories under git, for requirements, for several processes.
HEAVY = {
    "torch",
    "libcst",
    "rich",
    "pathspec",
    "packaging",
    "tomllib",
    "importlib.metadata",
    "asyncio",
    "multiprocessing",
    "concurrent",
    "dataclasses",
    "inspect",
    "configparser",
    "json",
    "unicodedata",
}


def imported(*arguments: str) -> set[str]:
    """The modules that a run of the command imports, over those that Python itself starts with."""
    runs = [
        subprocess.run([sys.executable, "-X", "importtime", *line], capture_output=True, text=True, check=True).stderr
        for line in (["-c", "pass"], ["-m", "amplint", *arguments])
    ]
    bare, ours = ({line.rpartition("|")[2].strip() for line in err.splitlines()} for err in runs)
    return ours - bare


def test_version_imports_nothing_else(project: Write) -> None:
    project({})
    # `python -m` finds and runs a module with runpy and what that needs.
    bare = imported_by_m()
    assert imported("--version") - bare <= {"amplint", "amplint.cli", "__future__", "typing", *typing_needs()}


def imported_by_m() -> set[str]:
    err = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "this"], capture_output=True, text=True, check=True
    ).stderr
    return {line.rpartition("|")[2].strip() for line in err.splitlines()}


def typing_needs() -> set[str]:
    code = "import sys; before = set(sys.modules); import typing; print(*(set(sys.modules) - before))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("extra", [[], ["--output-format=concise"], ["--fix"], ["--select", "AMP4"]])
def test_a_clean_file_imports_nothing_heavy(project: Write, extra: list[str]) -> None:
    project(
        {"clean.py": CLEAN, "pyproject.toml": "[project]\nname = 'x'\ndependencies = ['torch>=2']\n", ".gitignore": "x"}
    )
    modules = imported("clean.py", *extra)
    assert "amplint.engine" in modules
    assert {name for name in modules if name in HEAVY or name.partition(".")[0] in HEAVY} == set()
    assert {name for name in modules if name.startswith(("amplint.model", "amplint.report.json"))} == set()


def test_configuration_costs_only_where_there_is_some(project: Write) -> None:
    project({"clean.py": CLEAN, "pyproject.toml": "[tool.amplint]\nignore = ['AMP101']\n"})
    modules = imported("clean.py")
    assert "amplint.config" in modules
    assert not {"libcst", "packaging", "pathspec"} & modules


def test_a_file_with_amp_is_parsed(project: Write) -> None:
    project({"amp.py": "from torch.amp import autocast\n\nwith autocast('cuda'):\n    pass\n"})
    modules = imported("amp.py")
    assert "libcst" in modules
    assert "torch" not in modules
