"""The README: its length, its commands, its picture. What the documents show of the commands is in test_shown.py."""

from __future__ import annotations

import re

from tests import ROOT
from tests.picture import COMMANDS, PICTURE, printed, words
from tests.shown import README
from tests.shown import printed as output

_SHELL = re.compile(r"<!-- ([\w-]+) -->\n```sh\n([^\n]+)\n```")


def test_it_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 200


def test_ci_runs_the_two_commands() -> None:
    shown = dict(_SHELL.findall(README.read_text("utf-8")))
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert set(shown) == {"install-and-run", "install-and-test"}
    for name in shown:
        assert f"readme {name}" in script
    commands = [each.strip() for each in shown["install-and-run"].split("&&")]
    assert commands[0] == "pip install ."
    for each in commands[1:]:
        said = output(ROOT / "docs" / "linting.md", each)  # a page without files of its own: in the root
        assert "AMP401" in said or "+            self.scaler.unscale_(self.optimizer)" in said


def test_the_picture_shows_what_is_printed() -> None:
    shown = words(PICTURE.read_text("utf-8"))
    for command in COMMANDS:
        said = _words(f"$ {command}\n{printed(command, colour=False)}")
        assert said in _words(" ".join(shown)), "draw it with: python -m tests.picture"


def _words(text: str) -> str:
    """A text without its blanks, which colours and pictures set otherwise."""
    return "".join(text.split())
