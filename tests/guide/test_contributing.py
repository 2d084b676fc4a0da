"""CONTRIBUTING.md: the tests that its commands choose exist, and so do the modules and files that they name."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import pytest

from tests import ROOT
from tests.new_rule import family_of

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`((?:pytest|python|ruff|mypy|\.ci/run)\b[^`]*)`")


def commands() -> list[list[str]]:
    """All commands, those in sentences as well."""
    lines = [line for block in _BLOCK.findall(TEXT) for line in block.splitlines()]
    parts = [part for line in (*lines, *_INLINE.findall(TEXT)) for part in line.split(" && ")]
    return [shlex.split(part.removeprefix("AMPLINT_TEST_ALL=1 ")) for part in parts]


@pytest.mark.parametrize("command", [each for each in commands() if each[0] == "pytest"], ids=" ".join)
def test_a_command_for_tests_chooses_some(command: list[str]) -> None:
    """They run by themselves; here they are only collected, which ends with 5 where there are none."""
    chosen = [each for each in command if each not in {"--snapshot-update", "-n", "auto"}]
    if len(chosen) == 1:
        return  # all of them
    done = collected(*chosen)
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def collected(*words: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of the tests that it would run."""
    command = [sys.executable, "-m", *words, "--collect-only"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_what_a_command_names_exists(command: list[str]) -> None:
    for word in command:
        if word.startswith((".ci/", "tests/", "amplint/")):
            assert (ROOT / word).exists(), word
        if word.startswith("tests."):
            assert find_spec(word) is not None, word


def test_there_are_commands() -> None:
    assert {"pytest", "python", "ruff", "mypy", "pip", "git"} <= {command[0] for command in commands()}


def test_the_rule_of_the_example_is_of_a_family() -> None:
    (code,) = re.findall(r"tests\.new_rule (AMP\d{3})", TEXT)
    assert family_of(code).is_dir()
