"""What the README and the pages in docs/ show of the commands: programs, and what amplint prints about them.

A block that starts with ```` ```console ```` and `$ amplint` is a command with its output. A block of code with
`title="train.py"` is a file: the commands of that document run in a folder that holds such files. In a document without
one they run in the root of the repository. `python -m tests.generate --shown` writes the outputs anew.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from amplint.base.paths import look_again
from amplint.cli import main
from tests import ROOT
from tests.conftest import Ran

README = ROOT / "README.md"
DOCS = ROOT / "docs"
CONSOLE = re.compile(r"^```console\n\$ (amplint[^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "160"}
# The last digits of what was measured depend on the machine.
_MEASURED = re.compile(r"\d+\.\d+|[\d,]+ per second")
# What `amplint run` prints first, and the numbers after it, but for those of lines.
_RUN, _NUMBER = "amplint run executes", re.compile(r"(?<![\w:.,])\d[\d,]*(?:\.\d+)?(?!\w)")


def documents() -> list[Path]:
    """The README and all pages."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def blocks(path: Path) -> list[tuple[str, str]]:
    """The commands of a document, each with the output that is shown."""
    return CONSOLE.findall(path.read_text("utf-8"))


def files(path: Path) -> dict[str, str]:
    """The files that a document shows, by name."""
    return dict(_FILE.findall(path.read_text("utf-8")))


def printed(path: Path, command: str) -> str:
    """What a command of a document prints."""
    amplint, *arguments = shlex.split(command)
    assert amplint == "amplint"
    if arguments[0] == "run":
        return _reported(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        shown = files(path)
        for name, text in shown.items():
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        return _written(arguments, Path(folder) if shown else ROOT)


def _written(arguments: list[str], folder: Path) -> str:
    """What a command, run in this process, writes to stdout."""
    written = io.BytesIO()
    out, err = (io.TextIOWrapper(each, "utf-8", newline="") for each in (written, io.BytesIO()))
    with pytest.MonkeyPatch.context() as changed, redirect_stdout(out), redirect_stderr(err):
        for name, value in _ENVIRONMENT.items():
            changed.setenv(name, value)
        changed.chdir(folder)
        look_again()
        main(arguments)
    out.flush()
    return written.getvalue().decode()


def install(root: Path) -> None:
    """Put an `amplint` into a folder, for shells that are started in it."""
    script = root / "amplint"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amplint "$@"\n', "utf-8")
    script.chmod(0o755)


def ran(line: str, root: Path, amplint: Callable[..., Ran]) -> Ran:
    """Run a line of a shell in a folder with an `amplint`; in this process, where it is that and runs no program."""
    words = shlex.split(line)
    if words[0] == "amplint" and words[1:2] != ["run"] and not {"|", ">", "&&"} & {*words}:
        look_again()
        return amplint(*words[1:])
    path = os.pathsep.join([str(root), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    done = subprocess.run(line, shell=True, cwd=root, env=env, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


@cache
def _reported(*arguments: str) -> str:
    """What `amplint run` writes to stdout and stderr; its scripts are files of the repository."""
    done = subprocess.run(
        [sys.executable, "-m", "amplint", *arguments],
        cwd=ROOT,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default::UserWarning"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return re.sub(r'File "(?:[^"]*)/site-packages/', 'File ".../site-packages/', done.stdout).replace(f"{ROOT}/", "")


def without_measures(text: str) -> str:
    """A text that is the same on all machines.

    What a training comes to in float16 is not: after some steps another processor's rounding leads elsewhere.
    """
    text = _MEASURED.sub("#", text)
    return _NUMBER.sub("#", text) if text.startswith(_RUN) else text


def current(path: Path) -> str:
    """A document with what the commands print now."""

    def output(found: re.Match[str]) -> str:
        command, shown = found.groups()
        now = printed(path, command)
        same = without_measures(now) == without_measures(shown)
        return found.group() if same else f"```console\n$ {command}\n{now}```"

    return CONSOLE.sub(output, path.read_text("utf-8"))
