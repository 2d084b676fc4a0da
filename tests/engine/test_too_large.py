"""A file that is too large to be parsed: every way to lint it says that, and none that its syntax is wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import check, fix
from amplint.sources.parsing import LENGTH
from tests.conftest import LEGACY, Ran
from tests.sources.test_notebooks import as_bytes, notebook

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

LARGE = f'{LEGACY}\nx = "{"a" * LENGTH}"\n'
MESSAGE = f"not linted: too large, {len(LARGE):,} characters of code; the limit is 2,000,000"


def test_files(project: Write, amplint: Run) -> None:
    root = project({"large.py": LARGE, "old.py": LEGACY})
    for flags in ([], ["--select=AMP1"], ["--exit-zero"]):
        ran = amplint("--output-format=concise", *flags)
        assert (ran.code, ran.err) == (2, f"amplint: error: large.py: {MESSAGE}\n")
        assert ran.out.startswith("old.py:5:10: AMP101")
        assert "AMP001" not in ran.out
    for flags in (["--fix"], ["--diff"], ["--add-noqa"]):
        assert amplint("large.py", *flags) == (
            2,
            amplint("large.py", *flags).out,
            f"amplint: error: large.py: {MESSAGE}\n",
        )
    assert (root / "large.py").read_text() == LARGE


def test_what_is_not_parsed_may_be_larger(project: Write, amplint: Run) -> None:
    project({"ignored.py": f"# amplint: ignore-file\n{LARGE}", "other.py": LARGE.replace("autocast", "auto")})
    assert amplint() == (0, "All checks passed!\n", "")


def test_standard_input(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project({})
    for flags, out in (([], None), (["--fix", "-q"], LARGE)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LARGE.encode())))
        ran = amplint("-", *flags)
        assert (ran.code, ran.err) == (2, f"amplint: error: -: {MESSAGE}\n")
        assert out is None or ran.out == out
    monkeypatch.setattr("amplint.cli.check.LARGEST", 1 << 20)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LARGE.encode())))
    assert amplint("-").err == "amplint: error: standard input is not linted: too large; the limit is 1 MiB\n"


@pytest.mark.parametrize(
    "cells", [[LARGE], [LEGACY, LARGE[len(LEGACY) :]], [LEGACY, f'x = "{"a" * 1_500_000}"', f'y = "{"a" * 600_000}"']]
)
def test_notebooks(project: Write, amplint: Run, cells: list[str]) -> None:
    project({"n.ipynb": as_bytes(*cells)})
    ran = amplint("n.ipynb")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("amplint: error: n.ipynb: not linted: too large, 2,")
    # Outputs and text don't count.
    document = notebook(LEGACY)
    document["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "a" * LENGTH})
    project({"n.ipynb": json.dumps(document)})
    assert amplint("n.ipynb").code == 1


def test_from_python() -> None:
    for text in (LARGE, LARGE.encode()):
        (found,) = check(text, "large.py")
        assert (found.code, found.message) == ("AMP000", MESSAGE)
        assert fix(text, "large.py") == text


def test_verify(project: Write, amplint: Run) -> None:
    pytest.importorskip("torch")
    project({"large.py": LARGE})
    ran = amplint("verify", "large.py")
    assert (ran.code, ran.err) == (2, f"amplint: error: large.py: {MESSAGE}\n")


def test_flake8(project: Write) -> None:
    pytest.importorskip("flake8")
    project({"large.py": LARGE})
    command = [sys.executable, "-m", "flake8", "--isolated", "--select=AMP", "large.py"]
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert out == f"large.py:1:1: AMP000 {MESSAGE}\n"


def test_the_server(project: Write) -> None:
    pytest.importorskip("pygls")
    from tests.integrations.test_lsp_server import Editor, session

    async def work(editor: Editor) -> None:
        (found,) = await editor.diagnostics(editor.open("large.py", LARGE))
        assert (found.code, found.message) == ("AMP000", MESSAGE)

    session(project({}), work)
