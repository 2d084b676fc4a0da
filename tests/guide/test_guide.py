"""The guide: its programs print what stands behind them, its commands run, its rules and messages exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.explain.search import find
from amplint.guide import GUIDE, guide
from amplint.registry import all_rules
from tests.conftest import LEGACY, Ran
from tests.shown import install, ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

TEXT = GUIDE.read_text("utf-8")
_BLOCK = re.compile(r"^```(python|text|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = _BLOCK.findall(TEXT)
_ROW = re.compile(r"^\| (.+?) \| ((?:AMP\d+(?:, )?)+) \|$", re.MULTILINE)


def test_the_programs_print_what_is_shown() -> None:
    """All in one process, in their order, as one who reads would run them."""
    programs = [text for kind, text in BLOCKS if kind == "python"]
    shown = [text for kind, text in BLOCKS if kind == "text"]
    assert len(programs) == len(shown) >= 9
    mark = "\n----\n"
    code = f"\nprint({mark!r}, end='')\n".join(programs)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split(mark) == shown


TRAINED = (
    LEGACY
    + """

def train(model, optimizer, batches):
    for x, y in batches:
        loss = (run(model, x).float() - y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
)


def test_the_commands_run(project: Write, amplint: Callable[..., Ran]) -> None:
    root = project({"train.py": TRAINED})
    install(root)
    lines = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    lines += [
        each.replace("amplint check -", "amplint check train.py -") for each in re.findall(r"`(amplint [^`]+)`", TEXT)
    ]
    assert len(lines) > 5
    for line in lines:
        done = ran(line, root, amplint)
        # Nothing is printed by that program, so there is nothing to explain; no run shows what AMP207 says of it.
        refused = "the text is empty" in done.err or "not checkable" in done.out
        assert done.code in (0, 1) or refused, (line, done.err)


def test_its_rules_exist_and_the_off_ones_are_told_so() -> None:
    codes = set(re.findall(r"AMP\d{3}", TEXT))
    assert codes <= all_rules().keys()
    assert len(codes) > 40


@pytest.mark.parametrize(("message", "codes"), _ROW.findall(TEXT))
def test_its_messages_lead_to_its_rules(message: str, codes: str) -> None:
    (hit,) = find(message).hits
    assert set(codes.split(", ")) <= set(hit.message.codes)


def test_the_table_of_messages_is_read() -> None:
    assert len(_ROW.findall(TEXT)) >= 15


def test_its_links_lead_somewhere() -> None:
    headings = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in re.findall(r"^## (.+)$", TEXT, re.M)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= headings


def test_the_command_shows_it(project: Write, amplint: Run) -> None:
    project({})
    ran = amplint("explain", "--guide")
    assert (ran.code, ran.out, ran.err) == (0, guide(), "")
    assert amplint("explain", "--guide", "--list").code == 2
    assert amplint("explain", "--guide", "text").code == 2
