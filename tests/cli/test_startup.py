"""What is not imported costs nothing: modules are counted, not milliseconds, which depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[dict[str, str | bytes]], Path]

CLEAN = "import torch\n\nprint(torch.ones(3).half().mean())  # ünï\n"
# What a run needs only for files with AMP, for directories, for configuration, for requirements, for reports.
UNNEEDED = {
    "torch",
    "libcst",
    "rich",
    "pathspec",
    "packaging",
    "tomllib",
    "tomli",
    "asyncio",
    "multiprocessing",
    "concurrent",
    "dataclasses",
    "inspect",
    "configparser",
    "json",
    "unicodedata",
    "ast",
    "bisect",
    "difflib",
    "email",
    "fnmatch",
    "pathlib",
    "shutil",
    "tempfile",
    "textwrap",
    "threading",
    "tokenize",
    "traceback",
    "urllib",
}
# All of amplint that a file without AMP needs.
OURS = {
    "amplint",
    "amplint.base",
    "amplint.base.about",
    "amplint.base.paths",
    "amplint.base.project_root",
    "amplint.base.reads",
    "amplint.cli",
    "amplint.cli.arguments",
    "amplint.cli.check",
    "amplint.cli.commands",
    "amplint.config",
    "amplint.config.defaults",
    "amplint.config.formats",
    "amplint.config.selection",
    "amplint.config.settings",
    "amplint.engine",
    "amplint.engine.prefilter",
    "amplint.engine.result",
    "amplint.files",
    "amplint.files.discovery",
    "amplint.registry",
    "amplint.registry.rule",
    "amplint.report",
    "amplint.report.summary",
    "amplint.runner",
    "amplint.suppression",
    "amplint.suppression.byte_scan",
}


def imported(*arguments: str) -> set[str]:
    """The modules that a run of the command imports, over those that Python itself starts with."""
    # As the console script does it: `python -m` needs modules of its own.
    start = f"import sys; from amplint.cli import main; sys.exit(main({list(arguments)}))"
    runs = [
        subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
        ).stderr
        for code in ("pass", start)
    ]
    bare, ours = ({line.rpartition("|")[2].strip() for line in err.splitlines()} for err in runs)
    return ours - bare


def test_version_imports_nothing_else(project: Write) -> None:
    project({})
    assert imported("--version") == {"amplint", "amplint.cli", "__future__"}


@pytest.mark.parametrize(
    "extra", [[], ["--output-format=concise"], ["--fix"], ["--diff"], ["--select", "AMP4"], ["--target-torch", "2.4"]]
)
def test_a_clean_file_imports_nothing_heavy(project: Write, extra: list[str]) -> None:
    project(
        {"clean.py": CLEAN, "pyproject.toml": "[project]\nname = 'x'\ndependencies = ['torch>=2']\n", ".gitignore": "x"}
    )
    modules = imported("clean.py", *extra)
    assert {name for name in modules if name.partition(".")[0] in UNNEEDED} == set()
    more = {"amplint.base.target", "amplint.config.declared_target"} if "--target-torch" in extra else set()
    assert {name for name in modules if name.partition(".")[0] == "amplint"} == OURS | more


def test_a_directory_of_clean_files_is_not_parsed_either(project: Write) -> None:
    project({"a/clean.py": CLEAN, "b.py": "x = 1  # coding without a cookie\n"})
    modules = imported(".")
    assert "amplint.files.discovery" in modules
    assert not {"libcst", "ast", "amplint.engine.file", "pathspec", "concurrent.futures"} & modules


def test_a_notebook_without_amp_is_not_read_as_json(project: Write) -> None:
    cell = '{"cell_type": "code", "source": ["import torch\\u000a", "x.half"], "outputs": ["\\u0061nd", "ü"]}'
    project({"clean.ipynb": f'{{"cells": [{cell}], "metadata": "a coding contest"}}'})
    modules = imported("clean.ipynb")
    assert {name for name in modules if name.partition(".")[0] == "amplint"} == OURS
    assert not {"json", "ast"} & modules


def test_configuration_costs_only_where_there_is_some(project: Write) -> None:
    project({"clean.py": CLEAN, "pyproject.toml": "[tool.amplint]\nignore = ['AMP101']\n"})
    modules = imported("clean.py")
    assert "amplint.config.file" in modules
    assert not {"libcst", "packaging", "pathspec"} & modules


def test_a_file_with_amp_is_parsed(project: Write) -> None:
    project({"amp.py": "from torch.amp import autocast\n\nwith autocast('cuda'):\n    pass\n"})
    modules = imported("amp.py")
    assert "libcst" in modules
    assert not {"torch", "packaging", "configparser", "difflib", "tempfile", "concurrent.futures"} & modules
