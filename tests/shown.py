"""What the README and the pages in docs/ show of the commands: programs, and what amplint prints about them.

A block that starts with ```` ```console ```` and `$ amplint` is a command with its output. A block of code with
`title="train.py"` is a file: the commands of that document run in a folder that holds such files. In a document without
one they run in the root of the repository. `python -m tests.generate --shown` writes the outputs anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
CONSOLE = re.compile(r"^```console\n\$ (amplint[^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# The last digits of what was measured depend on the machine.
_MEASURED = re.compile(r"\d+\.\d+|[\d,]+ per second")


def documents() -> list[Path]:
    """The README and all pages."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def blocks(path: Path) -> list[tuple[str, str]]:
    """The commands of a document, each with the output that is shown."""
    return CONSOLE.findall(path.read_text("utf-8"))


def files(path: Path) -> dict[str, str]:
    """The files that a document shows, by name."""
    return dict(_FILE.findall(path.read_text("utf-8")))


@cache
def printed(path: Path, command: str) -> str:
    """What a command of a document prints on stdout."""
    arguments = shlex.split(command)
    assert arguments[0] == "amplint"
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        shown = files(path)
        for name, text in shown.items():
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        is_run = arguments[1] == "run"  # it reports on stderr, and its scripts are files of the repository
        where = folder if shown and not is_run else ROOT
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", *arguments],
            cwd=where,
            env={**env, "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if is_run else subprocess.DEVNULL,
            text=True,
            check=False,
        )
    if not is_run:
        return done.stdout
    return re.sub(r'File "(?:[^"]*)/site-packages/', 'File ".../site-packages/', done.stdout).replace(f"{ROOT}/", "")


def without_measures(text: str) -> str:
    """A text that is the same on all machines."""
    return _MEASURED.sub("#", text)


def current(path: Path) -> str:
    """A document with what the commands print now."""

    def output(found: re.Match[str]) -> str:
        command, shown = found.groups()
        now = printed(path, command)
        same = without_measures(now) == without_measures(shown)
        return found.group() if same else f"```console\n$ {command}\n{now}```"

    return CONSOLE.sub(output, path.read_text("utf-8"))
