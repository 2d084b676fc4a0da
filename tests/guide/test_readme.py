"""The README shows what the commands print. What is made of other files is in tests/test_generated.py."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache

import pytest

from tests import ROOT
from tests.picture import COMMANDS, PICTURE, printed, words

README = ROOT / "README.md"
_CONSOLE = re.compile(r"^```console\n\$ (amplint[^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MEASURED = re.compile(r"\d+\.\d+|[\d,]+ a second")
_SHELL = re.compile(r"<!-- ([\w-]+) -->\n```sh\n([^\n]+)\n```")


@cache
def run(command: str) -> str:
    arguments = shlex.split(command)
    assert arguments[0] == "amplint"
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize(("command", "shown"), _CONSOLE.findall(README.read_text("utf-8")))
def test_commands_print_what_is_shown(command: str, shown: str) -> None:
    # The last digit of a number that was measured hangs on the machine.
    assert _MEASURED.sub("#", run(command)) == _MEASURED.sub("#", shown)


def test_ci_runs_the_two_commands() -> None:
    shown = dict(_SHELL.findall(README.read_text("utf-8")))
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert set(shown) == {"install-and-run", "install-and-test"}
    for name in shown:
        assert f"readme {name}" in script
    commands = [each.strip() for each in shown["install-and-run"].split("&&")]
    assert commands[0] == "pip install ."
    for each in commands[1:]:
        assert "AMP401" in run(each) or "+            self.scaler.unscale_(self.optimizer)" in run(each)


def test_the_picture_shows_what_is_printed() -> None:
    shown = words(PICTURE.read_text("utf-8"))
    for command in COMMANDS:
        said = _words(f"$ {command}\n{printed(command, colour=False)}")
        assert said in _words(" ".join(shown)), "draw it with: python -m tests.picture"


def _words(text: str) -> str:
    """A text without its blanks, which colours and pictures set otherwise."""
    return "".join(text.split())
